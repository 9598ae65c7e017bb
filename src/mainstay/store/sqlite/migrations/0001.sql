-- A session's row is what is known without reading its journal. Every append rewrites it; the check of `head` in that
-- statement refuses a stale writer (optimistic concurrency).
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

-- One row per event. id = session << 32 | sequence, so that a session's events are adjacent and in reading order
-- without a second index.
CREATE TABLE events (
    id   INTEGER PRIMARY KEY,
    at   INTEGER NOT NULL,
    body TEXT NOT NULL
);

-- Idempotency keys: an input with an id is accepted once per session.
CREATE TABLE inputs (
    session INTEGER NOT NULL,
    id      TEXT NOT NULL,
    seq     INTEGER NOT NULL,
    digest  TEXT NOT NULL,
    PRIMARY KEY (session, id)
) WITHOUT ROWID;

-- For reading with any SQLite tool: SELECT * FROM journal WHERE session = '...'.
CREATE VIEW journal AS
    SELECT sessions.key AS session,
           events.id & 0xffffffff AS sequence,
           strftime('%Y-%m-%d %H:%M:%f', events.at / 1000.0, 'unixepoch') AS at,
           events.body ->> '$.type' AS type,
           events.body AS body
    FROM events JOIN sessions ON sessions.id = events.id >> 32
    ORDER BY events.id;
