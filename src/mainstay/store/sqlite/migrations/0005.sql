-- Key-value state of each plugin, and its total size, which is stored because summing takes longer with every key and
-- plugins may write often.
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
