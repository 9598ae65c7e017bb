-- What went wrong, in all workspaces and outside of them: the newest, for a while (core/error_list.py says how many).
CREATE TABLE errors (
    id        TEXT PRIMARY KEY,
    at        INTEGER NOT NULL, -- ms
    kind      TEXT NOT NULL,
    place     TEXT NOT NULL,
    sentence  TEXT NOT NULL,
    details   TEXT NOT NULL,
    workspace TEXT NOT NULL, -- '': of none
    session   TEXT NOT NULL,
    turn      INTEGER NOT NULL,
    step      INTEGER NOT NULL,
    trace     TEXT NOT NULL,
    record    INTEGER NOT NULL, -- where it stands in its session's journal; 0: in none
    call      TEXT NOT NULL,
    kin       TEXT NOT NULL -- what it is alike
) STRICT;
CREATE INDEX errors_at ON errors (at);
CREATE INDEX errors_kin ON errors (kin, at);
CREATE INDEX errors_session ON errors (workspace, session);
CREATE INDEX errors_trace ON errors (trace);
