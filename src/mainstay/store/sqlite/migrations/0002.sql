-- Values that are too large for the history, in parts of equal length (the last may be shorter), so that a page is
-- found without reading those before it. The first part is written last: a value is complete if it has one.
CREATE TABLE kept (
    session INTEGER NOT NULL,
    ref     TEXT NOT NULL,
    part    INTEGER NOT NULL,
    size    INTEGER NOT NULL, -- characters in total
    body    TEXT NOT NULL,
    PRIMARY KEY (session, ref, part)
);

-- A session's instructions are in a record; its row has only that record's sequence.
UPDATE sessions
SET settings = json_set(
    json_remove(settings, '$.instructions'),
    '$.fixed',
    coalesce(
        (
            SELECT max(events.id) & 0xffffffff
            FROM events
            WHERE events.id > sessions.id << 32
                AND events.id < (sessions.id + 1) << 32
                AND events.body ->> '$.type' = 'SessionChanged'
                AND events.body ->> '$.instructions' IS NOT NULL
        ),
        0
    )
)
WHERE settings ->> '$.instructions' IS NOT NULL;
