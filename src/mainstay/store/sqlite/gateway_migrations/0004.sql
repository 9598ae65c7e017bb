-- What was spent in all workspaces, by the hour, for whom it is counted; it follows from the journals. A call that is
-- under way stands there with all that was put aside for it, and is one of `ledger_open`, until its end is read.
CREATE TABLE ledger (
    scope       TEXT NOT NULL, -- person, workspace or home
    name        TEXT NOT NULL,
    hour        INTEGER NOT NULL, -- since 1970
    nanodollars INTEGER NOT NULL,
    tokens      INTEGER NOT NULL,
    calls       INTEGER NOT NULL, -- of tools
    lost        INTEGER NOT NULL, -- nanodollars of these, put aside by processes that died
    PRIMARY KEY (scope, name, hour)
) STRICT, WITHOUT ROWID;
CREATE INDEX ledger_hour ON ledger (hour);
CREATE TABLE ledger_open (
    workspace   TEXT NOT NULL,
    session     TEXT NOT NULL,
    id          TEXT NOT NULL, -- as in the record
    person      TEXT NOT NULL,
    hour        INTEGER NOT NULL,
    nanodollars INTEGER NOT NULL,
    tokens      INTEGER NOT NULL,
    PRIMARY KEY (workspace, session, id)
) STRICT, WITHOUT ROWID;
