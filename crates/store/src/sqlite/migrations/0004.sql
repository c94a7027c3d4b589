-- Whose a shard is, and to whom it was left: ids of sessions.
ALTER TABLE shards ADD COLUMN owner INTEGER;
ALTER TABLE shards ADD COLUMN heir INTEGER;

-- Nodes that live until `until`, by the machine's clock.
CREATE TABLE sessions (
    id       INTEGER PRIMARY KEY,
    node     TEXT    NOT NULL,
    address  TEXT,
    weight   INTEGER NOT NULL,
    embedded INTEGER NOT NULL,
    load     INTEGER NOT NULL,
    since    INTEGER NOT NULL,
    until    INTEGER NOT NULL
) STRICT;

-- What the cluster agreed on once.
CREATE TABLE agreed (
    name  TEXT PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Only the hash of a token is kept.
CREATE TABLE tokens (
    name       TEXT PRIMARY KEY,
    hash       BLOB    NOT NULL,
    role       TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER
) STRICT, WITHOUT ROWID;
