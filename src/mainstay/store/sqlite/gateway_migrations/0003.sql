-- Error reports of all workspaces and of the home itself, with retention (see core/error_reports.py).
CREATE TABLE errors (
    id        TEXT PRIMARY KEY,
    at        INTEGER NOT NULL, -- ms
    kind      TEXT NOT NULL,
    place     TEXT NOT NULL,
    sentence  TEXT NOT NULL,
    details   TEXT NOT NULL,
    workspace TEXT NOT NULL, -- '': none
    session   TEXT NOT NULL,
    turn      INTEGER NOT NULL,
    step      INTEGER NOT NULL,
    trace     TEXT NOT NULL,
    record    INTEGER NOT NULL, -- sequence in the session's journal; 0: it is in no journal
    call      TEXT NOT NULL,
    kin       TEXT NOT NULL -- id of the group of similar errors
) STRICT;
CREATE INDEX errors_at ON errors (at);
CREATE INDEX errors_kin ON errors (kin, at);
CREATE INDEX errors_session ON errors (workspace, session);
CREATE INDEX errors_trace ON errors (trace);
