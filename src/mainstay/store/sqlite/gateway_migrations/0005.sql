-- Position of the ledger in each session. The creation time distinguishes a session of a removed workspace from a new
-- one of the same name, so that it is not counted again when the workspace is restored.
CREATE TABLE ledger_followed (
    workspace TEXT NOT NULL,
    session   TEXT NOT NULL,
    created   INTEGER NOT NULL, -- ms; 0: unknown
    position  INTEGER NOT NULL,
    hour      INTEGER NOT NULL, -- of the record at that position
    away      INTEGER NOT NULL, -- 1: its workspace was removed
    PRIMARY KEY (workspace, session, created)
) STRICT, WITHOUT ROWID;
INSERT INTO ledger_followed SELECT workspace, session, 0, position, 0, 0 FROM followed WHERE reader = 'ledger';
DELETE FROM followed WHERE reader = 'ledger';
