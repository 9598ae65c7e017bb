-- What plugins keep, each under its own name, and how much that is in all: summing it up would take longer with every
-- key, and a plugin may write as often as it likes.
CREATE TABLE plugin_state (
    plugin TEXT NOT NULL,
    key    TEXT NOT NULL,
    size   INTEGER NOT NULL, -- bytes of key and value
    value  TEXT NOT NULL,
    PRIMARY KEY (plugin, key)
);
CREATE TABLE plugin_held (
    plugin TEXT PRIMARY KEY,
    keys   INTEGER NOT NULL,
    bytes  INTEGER NOT NULL
) WITHOUT ROWID;
