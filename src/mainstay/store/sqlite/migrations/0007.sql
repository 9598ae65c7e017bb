-- Queues of chat channels: messages that arrived and wait for their files, and deliveries to be posted; each once.
CREATE TABLE mail_arrivals (
    number INTEGER PRIMARY KEY,
    id     TEXT NOT NULL UNIQUE,
    body   TEXT NOT NULL -- a PendingMessage as JSON
);
CREATE TABLE mail_deliveries (
    number INTEGER PRIMARY KEY,
    key    TEXT NOT NULL UNIQUE,
    state  TEXT NOT NULL,
    at     INTEGER NOT NULL,
    body   TEXT NOT NULL -- a Delivery as JSON
);
CREATE INDEX mail_due ON mail_deliveries (number) WHERE state IN ('pending', 'sending');
CREATE INDEX mail_finished ON mail_deliveries (at) WHERE state NOT IN ('pending', 'sending');
