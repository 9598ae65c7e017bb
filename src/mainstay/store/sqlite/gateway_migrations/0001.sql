-- Authentication: people, their accounts on channels, unknown users who wait for approval (pairings), and API keys. Of
-- pairing codes and keys only digests are stored.
CREATE TABLE people (
    name    TEXT PRIMARY KEY,
    called  TEXT NOT NULL,
    roles   TEXT NOT NULL, -- JSON, by workspace; the first is the default workspace
    created INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE identities (
    channel TEXT NOT NULL,
    user    TEXT NOT NULL,
    person  TEXT NOT NULL, -- may be declared in the configuration instead of the table `people`
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
