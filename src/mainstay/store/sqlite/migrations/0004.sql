-- File labels: the origin of their content, and the session that created them.
CREATE TABLE files (
    path    TEXT PRIMARY KEY,
    origin  TEXT NOT NULL,
    session TEXT NOT NULL, -- its key; "" if the file existed before
    mark    TEXT NOT NULL  -- fingerprint of the labelled version
) WITHOUT ROWID;
