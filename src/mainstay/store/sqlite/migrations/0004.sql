-- What is known of files: where their content comes from, and which session made them.
CREATE TABLE files (
    path    TEXT PRIMARY KEY,
    origin  TEXT NOT NULL,
    session TEXT NOT NULL, -- a key; "" if the file was there before
    mark    TEXT NOT NULL  -- the file as it was then
) WITHOUT ROWID;
