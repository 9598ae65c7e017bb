-- Memory tiers. All of it is derived from the journal, except the memories that a user asked to save.
-- Tiers in their own database have the same tables, and a table `sessions` with two columns.

-- Position of each tier in each session; written in the transaction that stores what was derived up to there.
CREATE TABLE cursors (
    tier    TEXT NOT NULL,
    session INTEGER NOT NULL,
    seq     INTEGER NOT NULL,
    PRIMARY KEY (tier, session)
) WITHOUT ROWID;

-- Tombstones: erased records, so that a tier that read them just before does not ingest them.
CREATE TABLE forgotten (
    session INTEGER NOT NULL,
    first   INTEGER NOT NULL, -- sequences, inclusive
    last    INTEGER NOT NULL,
    PRIMARY KEY (session, first, last)
) WITHOUT ROWID;

-- Background work that is still to be done; stored, because the process may end before.
CREATE TABLE chores (
    name  TEXT PRIMARY KEY,
    times INTEGER NOT NULL -- number of requests
) WITHOUT ROWID;

-- Messages: id is that of the event. `text` is null if the journal is in this database: then it is read from the event.
CREATE TABLE messages (
    id      INTEGER PRIMARY KEY,
    at      INTEGER NOT NULL,
    role    TEXT NOT NULL,
    speaker TEXT NOT NULL,
    origin  TEXT NOT NULL,
    ref     TEXT NOT NULL,
    text    TEXT
);
CREATE INDEX messages_by_ref ON messages (id >> 32, ref) WHERE ref != '';

-- No automatic merging: segments are merged in small steps between other writes (store/sqlite/index_maintenance.py).
CREATE VIRTUAL TABLE messages_words USING fts5 (
    text, content = '', contentless_delete = 1, tokenize = 'porter unicode61 remove_diacritics 2'
);
INSERT INTO messages_words (messages_words, rank) VALUES ('automerge', 0);
INSERT INTO messages_words (messages_words, rank) VALUES ('crisismerge', 1000);

CREATE TABLE summaries (
    id      INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    first   INTEGER NOT NULL, -- sequences, inclusive
    last    INTEGER NOT NULL,
    start   INTEGER NOT NULL, -- ms since 1970
    "end"   INTEGER NOT NULL,
    text    TEXT NOT NULL,
    UNIQUE (session, first, last)
);
CREATE INDEX summaries_by_end ON summaries ("end");
CREATE VIRTUAL TABLE summaries_words USING fts5 (
    text, content = '', contentless_delete = 1, tokenize = 'porter unicode61 remove_diacritics 2'
);
INSERT INTO summaries_words (summaries_words, rank) VALUES ('automerge', 0);
INSERT INTO summaries_words (summaries_words, rank) VALUES ('crisismerge', 1000);

-- One row per mention of a fact; `name` is the fact's id, equal for equal facts of the same origin.
CREATE TABLE facts (
    id         INTEGER PRIMARY KEY,
    name       TEXT NOT NULL,
    topic      TEXT NOT NULL, -- subject and predicate, normalised: a newer fact with the same topic supersedes it
    about      TEXT NOT NULL, -- subject, normalised
    value      TEXT NOT NULL, -- object, normalised
    subject    TEXT NOT NULL,
    predicate  TEXT NOT NULL,
    object     TEXT NOT NULL,
    session    INTEGER NOT NULL,
    source     INTEGER NOT NULL, -- sequence of the message that states it
    at         INTEGER NOT NULL,
    confidence REAL NOT NULL,
    origin     TEXT NOT NULL,
    many       INTEGER NOT NULL,
    until      INTEGER NOT NULL, -- when it was superseded; 0: it is current
    UNIQUE (name, session, source)
);
CREATE INDEX facts_by_topic ON facts (topic);
CREATE INDEX facts_by_subject ON facts (about);
CREATE INDEX facts_by_session ON facts (session);
CREATE INDEX facts_by_time ON facts (at);
CREATE VIRTUAL TABLE facts_words USING fts5 (
    subject, predicate, object, content = '', contentless_delete = 1,
    tokenize = 'porter unicode61 remove_diacritics 2'
);
INSERT INTO facts_words (facts_words, rank) VALUES ('automerge', 0);
INSERT INTO facts_words (facts_words, rank) VALUES ('crisismerge', 1000);

CREATE TABLE memories (
    id      INTEGER PRIMARY KEY,
    name    TEXT NOT NULL UNIQUE,
    digest  TEXT UNIQUE, -- of text and tags, normalised; null for a derived workflow
    text    TEXT NOT NULL,
    tags    TEXT NOT NULL, -- a JSON list
    at      INTEGER NOT NULL,
    session TEXT NOT NULL, -- its source: a session's key, and sequences, inclusive
    first   INTEGER NOT NULL,
    last    INTEGER NOT NULL,
    source  TEXT NOT NULL,
    origin  TEXT NOT NULL,
    pinned  INTEGER NOT NULL,
    data    TEXT NOT NULL
);
CREATE INDEX memories_by_session ON memories (session);
CREATE VIRTUAL TABLE memories_words USING fts5 (
    text, tags, content = '', contentless_delete = 1, tokenize = 'porter unicode61 remove_diacritics 2'
);
INSERT INTO memories_words (memories_words, rank) VALUES ('automerge', 0);
INSERT INTO memories_words (memories_words, rank) VALUES ('crisismerge', 1000);

-- Vectors: id is the event's << 4, plus a number. `fine` has a byte per dimension; the coarse vectors, a bit per
-- dimension, are in a table that is created once the model is known (store/sqlite/vector_tier.py).
CREATE TABLE vectors (
    id    INTEGER PRIMARY KEY,
    model INTEGER NOT NULL,
    fine  BLOB NOT NULL
);
CREATE TABLE vector_models (
    id         INTEGER PRIMARY KEY,
    name       TEXT NOT NULL,
    dimensions INTEGER NOT NULL
);
