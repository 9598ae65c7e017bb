-- What is derived from the journals of all workspaces: how far each reader has followed each session, and the audit,
-- in which every row holds the digest of the one before it (core/audit.py says of what).
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
    record    INTEGER NOT NULL, -- where it stands in its session's journal; 0: in none
    person    TEXT NOT NULL,
    what      TEXT NOT NULL,
    details   TEXT NOT NULL, -- JSON
    before    TEXT NOT NULL,
    digest    TEXT NOT NULL
) STRICT; -- no indexes: it is written all the time and seldom read
