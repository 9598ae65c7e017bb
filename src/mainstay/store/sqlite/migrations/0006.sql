-- Runs of triggers, in the order they were recorded; cursors of periodic triggers; and aliases: ids of webhook
-- deliveries, which are kept longer than runs.
CREATE TABLE trigger_runs (
    id      INTEGER PRIMARY KEY,
    name    TEXT NOT NULL,
    key     TEXT NOT NULL, -- identifies the run within its trigger
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
CREATE TABLE trigger_names (
    id    INTEGER PRIMARY KEY,
    hook  TEXT NOT NULL,
    name  TEXT NOT NULL,
    key   TEXT NOT NULL, -- of the run that it resolves to
    until INTEGER NOT NULL, -- when it may be deleted; 0: only when there are too many
    UNIQUE (hook, name)
);
CREATE INDEX trigger_names_of ON trigger_names (hook, id);
CREATE INDEX trigger_names_aged ON trigger_names (until) WHERE until > 0;
