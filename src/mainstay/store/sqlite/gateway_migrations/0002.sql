-- Projections of the journals of all workspaces: the position of each projection in each session, and the audit log, a
-- hash chain in which every row holds the digest of the one before it (see core/audit.py).
CREATE TABLE followed (
    reader    TEXT NOT NULL,
    workspace TEXT NOT NULL,
    session   TEXT NOT NULL,
    position  INTEGER NOT NULL,
    PRIMARY KEY (reader, workspace, session)
) STRICT, WITHOUT ROWID;
CREATE TABLE audit (
    seq       INTEGER PRIMARY KEY,
    at        INTEGER NOT NULL, -- ms
    kind      TEXT NOT NULL,
    workspace TEXT NOT NULL,
    session   TEXT NOT NULL,
    turn      INTEGER NOT NULL,
    record    INTEGER NOT NULL, -- sequence in the session's journal; 0: it is in no journal
    person    TEXT NOT NULL,
    what      TEXT NOT NULL,
    details   TEXT NOT NULL, -- JSON
    before    TEXT NOT NULL,
    digest    TEXT NOT NULL
) STRICT; -- no indexes: written often, read rarely
