-- Values that are too large for a history, in parts of equal length (the last may be shorter), so that a page of one
-- is found without reading what stands before it. The first part is written last: with it, all of it is there.
CREATE TABLE kept (
    session INTEGER NOT NULL,
    ref     TEXT NOT NULL,
    part    INTEGER NOT NULL,
    size    INTEGER NOT NULL, -- characters in all
    body    TEXT NOT NULL,
    PRIMARY KEY (session, ref, part)
);

-- A session's instructions stand in a record; its row only says in which.
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
