-- Who may come in: people, the accounts on channels that are theirs, strangers who wait for somebody to let them in, and
-- the keys that programs show. Of codes and keys there are digests only.
CREATE TABLE people (
    name    TEXT PRIMARY KEY,
    called  TEXT NOT NULL,
    roles   TEXT NOT NULL, -- JSON, by workspace; the order counts
    created INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE identities (
    channel TEXT NOT NULL,
    user    TEXT NOT NULL,
    person  TEXT NOT NULL, -- who may be declared in the configuration, and not be in this file
    PRIMARY KEY (channel, user)
) STRICT, WITHOUT ROWID;
CREATE INDEX identities_of ON identities (person);
CREATE TABLE pairings (
    digest  TEXT PRIMARY KEY,
    channel TEXT NOT NULL,
    user    TEXT NOT NULL,
    called  TEXT NOT NULL,
    created INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    UNIQUE (channel, user)
) STRICT, WITHOUT ROWID;
CREATE TABLE keys (
    id           TEXT PRIMARY KEY,
    digest       TEXT NOT NULL,
    person       TEXT NOT NULL,
    workspace    TEXT NOT NULL,
    scopes       TEXT NOT NULL, -- JSON
    note         TEXT NOT NULL,
    rate_per_min INTEGER NOT NULL,
    streams_max  INTEGER NOT NULL,
    created      INTEGER NOT NULL,
    expires      INTEGER NOT NULL,
    revoked      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX keys_of ON keys (person);
CREATE INDEX keys_revoked ON keys (revoked) WHERE revoked > 0;
