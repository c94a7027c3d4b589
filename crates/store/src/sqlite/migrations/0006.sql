-- A queue, with how many messages it has: `queued` are in its line. Its number is its leader's to give.
CREATE TABLE queues (
    shard         INTEGER NOT NULL,
    number        INTEGER NOT NULL,
    namespace     TEXT    NOT NULL,
    name          TEXT    NOT NULL,
    created_at    INTEGER NOT NULL,
    paused_input  INTEGER NOT NULL,
    paused_output INTEGER NOT NULL,
    queued        INTEGER NOT NULL,
    messages      INTEGER NOT NULL,
    PRIMARY KEY (shard, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX queues_name ON queues (namespace, name);

-- Messages in the order of their lines. `body` is what the message carries and `head` the rest of it; the columns are
-- what queries ask. Each has an instant at which something happens to it by itself.
CREATE TABLE messages (
    shard   INTEGER NOT NULL,
    queue   INTEGER NOT NULL,
    rank_no INTEGER NOT NULL,
    number  INTEGER NOT NULL,
    wake_at INTEGER NOT NULL,
    queued  INTEGER NOT NULL,
    head    BLOB    NOT NULL,
    body    BLOB    NOT NULL,
    PRIMARY KEY (shard, queue, rank_no, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX messages_due ON messages (shard, wake_at, number);
