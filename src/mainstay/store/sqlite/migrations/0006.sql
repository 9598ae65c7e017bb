-- What triggers did, each time once, in the order it was written down; and how far each periodic one has been dealt with.
CREATE TABLE trigger_runs (
    id      INTEGER PRIMARY KEY,
    name    TEXT NOT NULL,
    key     TEXT NOT NULL, -- which time
    due     INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    came    TEXT NOT NULL,
    session TEXT NOT NULL,
    seq     INTEGER NOT NULL,
    note    TEXT NOT NULL,
    outcome TEXT NOT NULL,
    UNIQUE (name, key)
);
CREATE INDEX trigger_runs_of ON trigger_runs (name, id);
CREATE TABLE trigger_marks (
    name   TEXT PRIMARY KEY,
    upto   INTEGER NOT NULL,
    since  INTEGER NOT NULL,
    digest TEXT NOT NULL
) WITHOUT ROWID;
