-- How far the ledger is with each session. A session that was put away with its workspace is told from another of its
-- name by when it was begun, so that it is not counted again when it is put back.
CREATE TABLE ledger_followed (
    workspace TEXT NOT NULL,
    session   TEXT NOT NULL,
    created   INTEGER NOT NULL, -- ms; 0: not known
    position  INTEGER NOT NULL,
    hour      INTEGER NOT NULL, -- of the record at that position
    away      INTEGER NOT NULL, -- 1: its workspace was put away
    PRIMARY KEY (workspace, session, created)
) STRICT, WITHOUT ROWID;
INSERT INTO ledger_followed SELECT workspace, session, 0, position, 0, 0 FROM followed WHERE reader = 'ledger';
DELETE FROM followed WHERE reader = 'ledger';
