-- A queue, with how many messages it has: `queued` are in its line. Its number is its leader's to give.
CREATE TABLE IF NOT EXISTS queues (
    shard         SMALLINT       NOT NULL,
    number        BIGINT         NOT NULL,
    namespace     VARCHAR(128)   NOT NULL,
    name          VARBINARY(512) NOT NULL,
    created_at    BIGINT         NOT NULL,
    paused_input  TINYINT        NOT NULL,
    paused_output TINYINT        NOT NULL,
    queued        BIGINT         NOT NULL,
    messages      BIGINT         NOT NULL,
    PRIMARY KEY (shard, number),
    KEY queues_name (namespace, name)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Messages in the order of their lines. `body` is what the message carries and `head` the rest of it; the columns are
-- what queries ask. Each has an instant at which something happens to it by itself.
CREATE TABLE IF NOT EXISTS messages (
    shard   SMALLINT NOT NULL,
    queue   BIGINT   NOT NULL,
    rank_no TINYINT  NOT NULL,
    number  BIGINT   NOT NULL,
    wake_at BIGINT   NOT NULL,
    queued  TINYINT  NOT NULL,
    head    BLOB     NOT NULL,
    body    LONGBLOB NOT NULL,
    PRIMARY KEY (shard, queue, rank_no, number),
    KEY messages_due (shard, wake_at, number)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
