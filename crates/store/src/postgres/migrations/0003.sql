-- A queue, with how many messages it has: `queued` are in its line. Its number is its leader's to give. Its row is updated
-- by every commit that touches it. Its name may be any text, and text here may not have a zero in it.
CREATE TABLE queues (
    number        int8 NOT NULL,
    created_at    int8 NOT NULL,
    queued        int8 NOT NULL,
    messages      int8 NOT NULL,
    shard         int2 NOT NULL,
    paused_input  bool NOT NULL,
    paused_output bool NOT NULL,
    namespace     text COLLATE "C" NOT NULL,
    name          bytea NOT NULL,
    PRIMARY KEY (shard, number)
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX queues_name ON queues (namespace, name, shard, number);

-- Messages, to be read in the order of their lines. `body` is what the message carries and `head` the rest of it; the
-- columns are what queries ask. Each has an instant at which something happens to it by itself.
CREATE TABLE messages (
    queue   int8 NOT NULL,
    number  int8 NOT NULL,
    wake_at int8 NOT NULL,
    shard   int2 NOT NULL,
    rank_no int2 NOT NULL,
    queued  bool NOT NULL,
    head    bytea NOT NULL,
    body    bytea NOT NULL,
    PRIMARY KEY (shard, queue, rank_no, number)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 5000);
CREATE INDEX messages_due ON messages (shard, wake_at, number);
