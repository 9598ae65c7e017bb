PRAGMA user_version = 1;
CREATE TABLE sessions (
    id                INTEGER PRIMARY KEY,
    key               TEXT NOT NULL UNIQUE,
    head              INTEGER NOT NULL,
    fold              INTEGER NOT NULL,
    floor             INTEGER NOT NULL,
    unfinished        INTEGER NOT NULL,
    status            TEXT NOT NULL,
    turns             INTEGER NOT NULL,
    messages          INTEGER NOT NULL,
    prompt_tokens     INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    cost              REAL NOT NULL,
    created           INTEGER NOT NULL,
    updated           INTEGER NOT NULL,
    settings          TEXT NOT NULL
);
CREATE TABLE events (
    id   INTEGER PRIMARY KEY,
    at   INTEGER NOT NULL,
    body TEXT NOT NULL
);
CREATE TABLE inputs (
    session INTEGER NOT NULL,
    id      TEXT NOT NULL,
    seq     INTEGER NOT NULL,
    digest  TEXT NOT NULL,
    PRIMARY KEY (session, id)
) WITHOUT ROWID;
CREATE VIEW journal AS
    SELECT sessions.key AS session,
           events.id & 0xffffffff AS sequence,
           datetime(events.at / 1000.0, 'unixepoch', 'subsec') AS at,
           events.body ->> '$.type' AS type,
           events.body AS body
    FROM events JOIN sessions ON sessions.id = events.id >> 32
    ORDER BY events.id;
INSERT INTO sessions VALUES (1, 'tour', 54, 50, 51, 0, 'active', 8, 28, 210, 60, 0.00075000000000000023, 1767225660000, 1767228780000, '{"title":"The tour","instructions":"Be exact.","metadata":{"kind":"golden"}}');
INSERT INTO sessions VALUES (2, 'unfinished', 11, 0, 1, 1, 'active', 1, 4, 20, 10, 0.00012, 1767228840000, 1767229440000, '{}');
INSERT INTO sessions VALUES (3, 'copy', 13, 0, 4, 0, 'active', 1, 6, 130, 20, 0.00027, 1767229500000, 1767229500000, '{"title":"The tour","parent":"tour","instructions":"Be exact.","metadata":{"kind":"golden"}}');
INSERT INTO sessions VALUES (4, 'forgotten', 4, 0, 0, 0, 'deleted', 1, 0, 10, 5, 6.0e-05, 1767229560000, 1767229800000, '{}');
INSERT INTO events VALUES (4294967297, 1767225660000, '{"type":"MessageAdded","role":"user","parts":[{"type":"text","text":"hello from elsewhere"}]}');
INSERT INTO events VALUES (4294967298, 1767225720000, '{"type":"MessageAdded","role":"assistant","parts":[{"type":"text","text":"welcome"}]}');
INSERT INTO events VALUES (4294967299, 1767225780000, '{"type":"SessionChanged","title":"The tour","model":"","instructions":"Be exact.","metadata":{"kind":"golden"}}');
INSERT INTO events VALUES (4294967300, 1767225840000, '{"type":"Received","parts":[{"type":"text","text":"what is it like in Lisbon?"}],"sender":"ada","id":"m-1"}');
INSERT INTO events VALUES (4294967301, 1767226320000, '{"type":"TurnStarted","inputs":[4],"model":"golden-1","turn":1}');
INSERT INTO events VALUES (4294967302, 1767226320000, '{"type":"MessageAdded","role":"assistant","parts":[{"type":"tool_call","id":"call_1_1_0","name":"look","input":"{\"at\":\"Lisbon\"}"},{"type":"tool_call","id":"call_1_1_1","name":"look","input":"{\"at\":\"Lisbon\"}"},{"type":"tool_call","id":"call_1_1_2","name":"Look","input":"{}"},{"type":"tool_call","id":"call_1_1_3","name":"pay","input":"{\"amount\":"},{"type":"finish","reason":"tool_calls"}],"usage":{"prompt":10,"completion":5},"cost":0.00006,"turn":1,"step":1}');
INSERT INTO events VALUES (4294967303, 1767226320000, '{"type":"ToolFinished","result":{"type":"tool_result","call_id":"call_1_1_0","name":"look","content":"Lisbon: nothing unusual, 21 °C"},"turn":1,"step":1}');
INSERT INTO events VALUES (4294967304, 1767226320000, '{"type":"ToolFinished","result":{"type":"tool_result","call_id":"call_1_1_1","name":"look","content":"Lisbon: nothing unusual, 21 °C"},"turn":1,"step":1}');
INSERT INTO events VALUES (4294967305, 1767226320000, '{"type":"ToolFinished","result":{"type":"tool_result","call_id":"call_1_1_2","name":"Look","content":"There is no tool ''Look''. Did you mean ''look''? Available: look, pay.","is_error":true},"turn":1,"step":1}');
INSERT INTO events VALUES (4294967306, 1767226320000, '{"type":"ToolFinished","result":{"type":"tool_result","call_id":"call_1_1_3","name":"pay","content":"The arguments do not fit: Input data was truncated. Expected parameters: amount. Nothing was run.","is_error":true},"turn":1,"step":1}');
INSERT INTO events VALUES (4294967307, 1767226320000, '{"type":"MessageAdded","role":"assistant","parts":[{"type":"thinking","text":"They want the weather.","signature":"c2lnbmVk"},{"type":"text","text":"Mild, 21 °C. שלום 🌊"},{"type":"finish","reason":"end"}],"usage":{"prompt":120,"completion":15,"cached":100,"reasoning":5},"cost":0.00021,"turn":1,"step":2}');
INSERT INTO events VALUES (4294967308, 1767226320000, '{"type":"TurnEnded","outcome":{"type":"Answered"},"turn":1}');
INSERT INTO events VALUES (4294967309, 1767226380000, '{"type":"Received","parts":[{"type":"text","text":"and this?"},{"type":"binary","mime":"image/png","data":"iVBORw0KGgo="},{"type":"binary","mime":"text/plain","path":"a.txt"}]}');
INSERT INTO events VALUES (4294967310, 1767226560000, '{"type":"TurnStarted","inputs":[13],"model":"golden-1","turn":2}');
INSERT INTO events VALUES (4294967311, 1767226560000, '{"type":"MessageAdded","role":"assistant","parts":[{"type":"text","text":"A pixel."},{"type":"finish","reason":"length"}],"usage":{"prompt":10,"completion":5},"cost":0.00006,"turn":2,"step":1}');
INSERT INTO events VALUES (4294967312, 1767226560000, '{"type":"TurnEnded","outcome":{"type":"Answered"},"turn":2}');
INSERT INTO events VALUES (4294967313, 1767226620000, '{"type":"Received","parts":[{"type":"text","text":"tell me a long story"}]}');
INSERT INTO events VALUES (4294967314, 1767226680000, '{"type":"TurnStarted","inputs":[17],"model":"golden-1","turn":3}');
INSERT INTO events VALUES (4294967315, 1767226740000, '{"type":"StepCheckpointed","text":"Once upon ","turn":3,"step":1}');
INSERT INTO events VALUES (4294967316, 1767226800000, '{"type":"Received","parts":[{"type":"text","text":"shorter, please"}],"kind":"steer"}');
INSERT INTO events VALUES (4294967317, 1767226980000, '{"type":"MessageAdded","role":"assistant","parts":[{"type":"text","text":"Once upon "},{"type":"finish","reason":"steered"}],"cost":0.0,"turn":3,"step":1}');
INSERT INTO events VALUES (4294967318, 1767226980000, '{"type":"Steered","inputs":[20],"turn":3,"step":1}');
INSERT INTO events VALUES (4294967319, 1767226980000, '{"type":"StepCheckpointed","text":"Once, ","turn":3,"step":2}');
INSERT INTO events VALUES (4294967320, 1767226980000, '{"type":"StepRestarted","reason":"the connection was lost","turn":3,"step":2}');
INSERT INTO events VALUES (4294967321, 1767227100000, '{"type":"MessageAdded","role":"assistant","parts":[{"type":"text","text":"The end."},{"type":"finish","reason":"end"}],"usage":{"prompt":10,"completion":5},"cost":0.00006,"turn":3,"step":2}');
INSERT INTO events VALUES (4294967322, 1767227100000, '{"type":"TurnEnded","outcome":{"type":"Answered"},"turn":3}');
INSERT INTO events VALUES (4294967323, 1767227160000, '{"type":"Received","parts":[{"type":"text","text":"pay 500"}]}');
INSERT INTO events VALUES (4294967324, 1767227340000, '{"type":"TurnStarted","inputs":[27],"model":"golden-1","turn":4}');
INSERT INTO events VALUES (4294967325, 1767227340000, '{"type":"MessageAdded","role":"assistant","parts":[{"type":"tool_call","id":"call_4_1_0","name":"pay","input":"{\"amount\":500}"},{"type":"finish","reason":"tool_calls"}],"usage":{"prompt":10,"completion":5},"cost":0.00006,"turn":4,"step":1}');
INSERT INTO events VALUES (4294967326, 1767227340000, '{"type":"ToolStarted","call_id":"call_4_1_0","turn":4,"step":1}');
INSERT INTO events VALUES (4294967327, 1767227460000, '{"type":"ToolFinished","result":{"type":"tool_result","call_id":"call_4_1_0","name":"pay","content":"Cancelled: the turn was aborted before this call finished.","is_error":true},"turn":4,"step":1}');
INSERT INTO events VALUES (4294967328, 1767227460000, '{"type":"TurnEnded","outcome":{"type":"Aborted"},"turn":4}');
INSERT INTO events VALUES (4294967329, 1767227520000, '{"type":"Received","parts":[{"type":"text","text":"look everywhere"}]}');
INSERT INTO events VALUES (4294967330, 1767228120000, '{"type":"TurnStarted","inputs":[33],"model":"golden-1","turn":5}');
INSERT INTO events VALUES (4294967331, 1767228120000, '{"type":"MessageAdded","role":"assistant","parts":[{"type":"tool_call","id":"call_5_1_0","name":"look","input":"{\"at\":\"place 0\"}"},{"type":"finish","reason":"tool_calls"}],"usage":{"prompt":10,"completion":5},"cost":0.00006,"turn":5,"step":1}');
INSERT INTO events VALUES (4294967332, 1767228120000, '{"type":"ToolFinished","result":{"type":"tool_result","call_id":"call_5_1_0","name":"look","content":"place 0: nothing unusual, 21 °C"},"turn":5,"step":1}');
INSERT INTO events VALUES (4294967333, 1767228120000, '{"type":"MessageAdded","role":"assistant","parts":[{"type":"tool_call","id":"call_5_2_0","name":"look","input":"{\"at\":\"place 1\"}"},{"type":"finish","reason":"tool_calls"}],"usage":{"prompt":10,"completion":5},"cost":0.00006,"turn":5,"step":2}');
INSERT INTO events VALUES (4294967334, 1767228120000, '{"type":"ToolFinished","result":{"type":"tool_result","call_id":"call_5_2_0","name":"look","content":"place 1: nothing unusual, 21 °C"},"turn":5,"step":2}');
INSERT INTO events VALUES (4294967335, 1767228120000, '{"type":"MessageAdded","role":"assistant","parts":[{"type":"tool_call","id":"call_5_3_0","name":"look","input":"{\"at\":\"place 2\"}"},{"type":"finish","reason":"tool_calls"}],"usage":{"prompt":10,"completion":5},"cost":0.00006,"turn":5,"step":3}');
INSERT INTO events VALUES (4294967336, 1767228120000, '{"type":"ToolFinished","result":{"type":"tool_result","call_id":"call_5_3_0","name":"look","content":"place 2: nothing unusual, 21 °C"},"turn":5,"step":3}');
INSERT INTO events VALUES (4294967337, 1767228120000, '{"type":"MessageAdded","role":"system","parts":[{"type":"text","text":"This turn has reached its limit (3 steps). No more tools can be used in it. Answer now with what you have: say what was done, and what is still missing because of the limit.","origin":"runtime"}],"turn":5,"step":3}');
INSERT INTO events VALUES (4294967338, 1767228120000, '{"type":"MessageAdded","role":"assistant","parts":[{"type":"text","text":"I looked in three places."},{"type":"finish","reason":"end"}],"usage":{"prompt":10,"completion":5},"cost":0.00006,"turn":5,"step":4}');
INSERT INTO events VALUES (4294967339, 1767228120000, '{"type":"TurnEnded","outcome":{"type":"Exhausted","bound":"3 steps"},"turn":5}');
INSERT INTO events VALUES (4294967340, 1767228180000, '{"type":"Received","parts":[{"type":"text","text":"will it work?"}]}');
INSERT INTO events VALUES (4294967341, 1767228300000, '{"type":"TurnStarted","inputs":[44],"model":"golden-1","turn":6}');
INSERT INTO events VALUES (4294967342, 1767228300000, '{"type":"TurnEnded","outcome":{"type":"Failed","sentence":"The model could not answer: the request was refused","details":"HTTP 400","turn":6,"step":1},"turn":6}');
INSERT INTO events VALUES (4294967343, 1767228360000, '{"type":"Received","parts":[{"type":"text","text":"and now?"}]}');
INSERT INTO events VALUES (4294967344, 1767228480000, '{"type":"TurnStarted","inputs":[47],"model":"golden-1","turn":7}');
INSERT INTO events VALUES (4294967345, 1767228480000, '{"type":"TurnEnded","outcome":{"type":"Failed","sentence":"The model could not answer: it was refused again","turn":7,"step":1},"turn":7}');
INSERT INTO events VALUES (4294967346, 1767228540000, '{"type":"Folded","upto":16,"summary":"Ada asked about Lisbon and showed a picture."}');
INSERT INTO events VALUES (4294967347, 1767228600000, '{"type":"Received","parts":[{"type":"text","text":"what did I ask first?"}]}');
INSERT INTO events VALUES (4294967348, 1767228780000, '{"type":"TurnStarted","inputs":[51],"model":"golden-1","turn":8}');
INSERT INTO events VALUES (4294967349, 1767228780000, '{"type":"MessageAdded","role":"assistant","parts":[{"type":"text","text":"About Lisbon."},{"type":"finish","reason":"end"}],"usage":{"prompt":10,"completion":5},"cost":0.00006,"turn":8,"step":1}');
INSERT INTO events VALUES (4294967350, 1767228780000, '{"type":"TurnEnded","outcome":{"type":"Answered"},"turn":8}');
INSERT INTO events VALUES (8589934593, 1767228840000, '{"type":"Received","parts":[{"type":"text","text":"pay 7, then 700"}],"id":"u-1"}');
INSERT INTO events VALUES (8589934594, 1767229020000, '{"type":"TurnStarted","inputs":[1],"model":"golden-1","turn":1}');
INSERT INTO events VALUES (8589934595, 1767229020000, '{"type":"MessageAdded","role":"assistant","parts":[{"type":"tool_call","id":"call_1_1_0","name":"pay","input":"{\"amount\":7}"},{"type":"finish","reason":"tool_calls"}],"usage":{"prompt":10,"completion":5},"cost":0.00006,"turn":1,"step":1}');
INSERT INTO events VALUES (8589934596, 1767229020000, '{"type":"ToolStarted","call_id":"call_1_1_0","turn":1,"step":1}');
INSERT INTO events VALUES (8589934597, 1767229080000, '{"type":"ToolFinished","result":{"type":"tool_result","call_id":"call_1_1_0","name":"pay","content":"paid 7"},"turn":1,"step":1}');
INSERT INTO events VALUES (8589934598, 1767229140000, '{"type":"StepCheckpointed","text":"Paid ","turn":1,"step":2}');
INSERT INTO events VALUES (8589934599, 1767229200000, '{"type":"TurnResumed","turn":1}');
INSERT INTO events VALUES (8589934600, 1767229380000, '{"type":"MessageAdded","role":"assistant","parts":[{"type":"tool_call","id":"call_1_2_0","name":"look","input":"{\"at\":\"the till\"}"},{"type":"tool_call","id":"call_1_2_1","name":"pay","input":"{\"amount\":700}"},{"type":"tool_call","id":"call_1_2_2","name":"pay","input":"{\"amount\":1}"},{"type":"finish","reason":"tool_calls"}],"usage":{"prompt":10,"completion":5},"cost":0.00006,"turn":1,"step":2}');
INSERT INTO events VALUES (8589934601, 1767229380000, '{"type":"ToolFinished","result":{"type":"tool_result","call_id":"call_1_2_0","name":"look","content":"the till: nothing unusual, 21 °C"},"turn":1,"step":2}');
INSERT INTO events VALUES (8589934602, 1767229380000, '{"type":"ToolStarted","call_id":"call_1_2_1","turn":1,"step":2}');
INSERT INTO events VALUES (8589934603, 1767229440000, '{"type":"Received","parts":[{"type":"text","text":"and thank you"}],"sender":"ada","id":"u-2"}');
INSERT INTO events VALUES (12884901889, 1767225660000, '{"type":"MessageAdded","role":"user","parts":[{"type":"text","text":"hello from elsewhere"}]}');
INSERT INTO events VALUES (12884901890, 1767225720000, '{"type":"MessageAdded","role":"assistant","parts":[{"type":"text","text":"welcome"}]}');
INSERT INTO events VALUES (12884901891, 1767225780000, '{"type":"SessionChanged","title":"The tour","model":"","instructions":"Be exact.","metadata":{"kind":"golden"}}');
INSERT INTO events VALUES (12884901892, 1767225840000, '{"type":"Received","parts":[{"type":"text","text":"what is it like in Lisbon?"}],"sender":"ada","id":"m-1"}');
INSERT INTO events VALUES (12884901893, 1767226320000, '{"type":"TurnStarted","inputs":[4],"model":"golden-1","turn":1}');
INSERT INTO events VALUES (12884901894, 1767226320000, '{"type":"MessageAdded","role":"assistant","parts":[{"type":"tool_call","id":"call_1_1_0","name":"look","input":"{\"at\":\"Lisbon\"}"},{"type":"tool_call","id":"call_1_1_1","name":"look","input":"{\"at\":\"Lisbon\"}"},{"type":"tool_call","id":"call_1_1_2","name":"Look","input":"{}"},{"type":"tool_call","id":"call_1_1_3","name":"pay","input":"{\"amount\":"},{"type":"finish","reason":"tool_calls"}],"usage":{"prompt":10,"completion":5},"cost":0.00006,"turn":1,"step":1}');
INSERT INTO events VALUES (12884901895, 1767226320000, '{"type":"ToolFinished","result":{"type":"tool_result","call_id":"call_1_1_0","name":"look","content":"Lisbon: nothing unusual, 21 °C"},"turn":1,"step":1}');
INSERT INTO events VALUES (12884901896, 1767226320000, '{"type":"ToolFinished","result":{"type":"tool_result","call_id":"call_1_1_1","name":"look","content":"Lisbon: nothing unusual, 21 °C"},"turn":1,"step":1}');
INSERT INTO events VALUES (12884901897, 1767226320000, '{"type":"ToolFinished","result":{"type":"tool_result","call_id":"call_1_1_2","name":"Look","content":"There is no tool ''Look''. Did you mean ''look''? Available: look, pay.","is_error":true},"turn":1,"step":1}');
INSERT INTO events VALUES (12884901898, 1767226320000, '{"type":"ToolFinished","result":{"type":"tool_result","call_id":"call_1_1_3","name":"pay","content":"The arguments do not fit: Input data was truncated. Expected parameters: amount. Nothing was run.","is_error":true},"turn":1,"step":1}');
INSERT INTO events VALUES (12884901899, 1767226320000, '{"type":"MessageAdded","role":"assistant","parts":[{"type":"thinking","text":"They want the weather.","signature":"c2lnbmVk"},{"type":"text","text":"Mild, 21 °C. שלום 🌊"},{"type":"finish","reason":"end"}],"usage":{"prompt":120,"completion":15,"cached":100,"reasoning":5},"cost":0.00021,"turn":1,"step":2}');
INSERT INTO events VALUES (12884901900, 1767226320000, '{"type":"TurnEnded","outcome":{"type":"Answered"},"turn":1}');
INSERT INTO events VALUES (12884901901, 1767229500000, '{"type":"Forked","parent":"tour","upto":12}');
INSERT INTO events VALUES (17179869185, 1767229560000, '{"type":"Blanked"}');
INSERT INTO events VALUES (17179869186, 1767229740000, '{"type":"Blanked"}');
INSERT INTO events VALUES (17179869187, 1767229740000, '{"type":"Blanked"}');
INSERT INTO events VALUES (17179869188, 1767229740000, '{"type":"Blanked"}');
INSERT INTO inputs VALUES (1, 'm-1', 4, 'e9e6f83be14a3cd38630459bf33aa762');
INSERT INTO inputs VALUES (2, 'u-1', 1, '9efa3af156cf457269488db2f8a240ec');
INSERT INTO inputs VALUES (2, 'u-2', 11, 'd1056f7e16f8b3da1fbff25826253fcf');
