-- Spending ledger of all workspaces by hour and scope, derived from the journals. A running call counts with its whole
-- reservation, which is in `ledger_open` until the record that closes it was read.
CREATE TABLE ledger (
    scope       TEXT NOT NULL, -- person, workspace or home
    name        TEXT NOT NULL,
    hour        INTEGER NOT NULL, -- since 1970
    nanodollars INTEGER NOT NULL,
    tokens      INTEGER NOT NULL,
    calls       INTEGER NOT NULL, -- of tools
    lost        INTEGER NOT NULL, -- nanodollars of these, reserved by processes that died
    PRIMARY KEY (scope, name, hour)
) STRICT, WITHOUT ROWID;
CREATE INDEX ledger_hour ON ledger (hour);
CREATE TABLE ledger_open (
    workspace   TEXT NOT NULL,
    session     TEXT NOT NULL,
    id          TEXT NOT NULL, -- of the reservation, as in its record
    person      TEXT NOT NULL,
    hour        INTEGER NOT NULL,
    nanodollars INTEGER NOT NULL,
    tokens      INTEGER NOT NULL,
    PRIMARY KEY (workspace, session, id)
) STRICT, WITHOUT ROWID;
