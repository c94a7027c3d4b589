-- Every statement may be sent again: DDL is not transactional here, so a migration that broke off is simply repeated.
-- Names are compared byte by byte, as everywhere else; free texts that are keys are bytes, because a text is padded.

-- One row for each shard: the fence of every commit, its owner and heir, and how many rows the shard has.
CREATE TABLE IF NOT EXISTS shards (
    shard        SMALLINT NOT NULL PRIMARY KEY,
    epoch        BIGINT   NOT NULL,
    commit_no    BIGINT   NOT NULL,
    last_id      BIGINT   NOT NULL,
    jobs         BIGINT   NOT NULL DEFAULT 0,
    live_runs    BIGINT   NOT NULL DEFAULT 0,
    history_runs BIGINT   NOT NULL DEFAULT 0,
    dead_letters BIGINT   NOT NULL DEFAULT 0,
    owner        BIGINT,
    heir         BIGINT
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- How much history was pruned, apart from the fence: pruning must not wait for a commit, nor a commit for it.
CREATE TABLE IF NOT EXISTS pruned (
    shard        SMALLINT NOT NULL PRIMARY KEY,
    history_runs BIGINT   NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The row moves with every fire, so its definition stands in `revisions`; it is here only when its revision came
-- without a row there. `keep_*` and `calendars` repeat what pruning and calendars read of it.
CREATE TABLE IF NOT EXISTS jobs (
    id            BIGINT       NOT NULL PRIMARY KEY,
    shard         SMALLINT     NOT NULL,
    namespace     VARCHAR(128) NOT NULL,
    name          VARCHAR(128) NOT NULL,
    revision      BIGINT       NOT NULL,
    pause         TEXT,
    failures      BIGINT       NOT NULL,
    watch         TEXT,
    created_at    BIGINT       NOT NULL,
    updated_at    BIGINT       NOT NULL,
    fired_through BIGINT       NOT NULL,
    next_due      BIGINT,
    wake_at       BIGINT,
    fires         VARCHAR(512) NOT NULL,
    zone_data     VARCHAR(32),
    keep_runs     BIGINT       NOT NULL,
    keep_days     BIGINT       NOT NULL,
    with_calendar TINYINT      GENERATED ALWAYS AS (calendars IS NOT NULL) STORED,
    calendars     TEXT,
    definition    LONGTEXT,
    UNIQUE KEY jobs_name (namespace, name),
    KEY jobs_due (shard, wake_at),
    KEY jobs_zone_data (zone_data),
    KEY jobs_with_calendar (namespace, with_calendar, name)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS revisions (
    job        BIGINT   NOT NULL,
    revision   BIGINT   NOT NULL,
    made_at    BIGINT   NOT NULL,
    state      VARCHAR(64) NOT NULL,
    definition LONGTEXT NOT NULL,
    PRIMARY KEY (job, revision)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Deleted jobs whose revisions may still be needed by a run or a skip record.
CREATE TABLE IF NOT EXISTS deleted_jobs (
    job       BIGINT       NOT NULL PRIMARY KEY,
    namespace VARCHAR(128) NOT NULL,
    name      VARCHAR(128) NOT NULL,
    KEY deleted_jobs_name (namespace, name, job)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Runs that have not ended. `place` is the id with its shard in front, so that a shard is one span of the table.
-- `body` is the run; the columns are what queries ask.
CREATE TABLE IF NOT EXISTS runs (
    place     BIGINT       NOT NULL PRIMARY KEY,
    shard     SMALLINT     NOT NULL,
    wake_at   BIGINT,
    job       BIGINT,
    status    TINYINT      NOT NULL,
    namespace VARCHAR(128) NOT NULL,
    run_key   VARBINARY(1024),
    parent    BIGINT,
    body      LONGBLOB     NOT NULL,
    KEY runs_due (shard, wake_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Runs that have ended. `place` is the id, and for a child run the id with the sign bit set: in every index, the runs that
-- lists show are one range, and the children another. `job_place` is the place of a run of a job, and the end of an
-- ad-hoc run: one index has the runs of a job in the order of their places, and the ad-hoc runs in the order in which they
-- expire.
CREATE TABLE IF NOT EXISTS history (
    place       BIGINT       NOT NULL PRIMARY KEY,
    job         BIGINT,
    job_place   BIGINT       GENERATED ALWAYS AS (IF(job IS NULL AND parent IS NULL, finished_at, place)) STORED,
    status      TINYINT      NOT NULL,
    finished_at BIGINT       NOT NULL,
    namespace   VARCHAR(128) NOT NULL,
    run_key     VARBINARY(1024),
    parent      BIGINT,
    body        LONGBLOB     NOT NULL,
    KEY history_of_job (job, job_place)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- MySQL has no partial indexes: an index has an entry for every row. So runs that did not succeed, and runs with a key or a
-- parent, live or ended, have tables of their own. `ended` is the place in `history`, `place` the one in `runs`.
CREATE TABLE IF NOT EXISTS unusual (
    ended  BIGINT  NOT NULL PRIMARY KEY,
    status TINYINT NOT NULL,
    KEY unusual_status (status, ended)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS keyed (
    ended   BIGINT          NOT NULL PRIMARY KEY,
    place   BIGINT          NOT NULL,
    run_key VARBINARY(1024) NOT NULL,
    KEY keyed_key (run_key, ended)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS children (
    ended  BIGINT NOT NULL PRIMARY KEY,
    place  BIGINT NOT NULL,
    parent BIGINT NOT NULL,
    KEY children_of_parent (parent, ended)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS dead_letters (
    run       BIGINT       NOT NULL PRIMARY KEY,
    namespace VARCHAR(128) NOT NULL,
    job       VARCHAR(128),
    died_at   BIGINT       NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS uniques (
    shard      SMALLINT        NOT NULL,
    unique_key VARBINARY(1024) NOT NULL,
    run        BIGINT          NOT NULL,
    expires_at BIGINT          NOT NULL,
    PRIMARY KEY (shard, unique_key),
    KEY uniques_expiry (expires_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS skips (
    job      BIGINT      NOT NULL,
    revision BIGINT      NOT NULL,
    from_due BIGINT      NOT NULL,
    to_due   BIGINT      NOT NULL,
    reason   VARCHAR(64) NOT NULL,
    made_at  BIGINT      NOT NULL,
    PRIMARY KEY (job, revision, from_due),
    KEY skips_by_time (made_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Ended runs, counted: of a namespace by minute (kind 0) and by hour (kind 1), of a job by hour (kind 2). A leader continues
-- only rows that it began: `commit_no` is the commit that inserted the row. `job` is empty in a row of a namespace.
CREATE TABLE IF NOT EXISTS statistics (
    namespace VARCHAR(128) NOT NULL,
    job       VARCHAR(128) NOT NULL,
    kind      TINYINT      NOT NULL,
    bucket_at BIGINT       NOT NULL,
    shard     SMALLINT     NOT NULL,
    commit_no BIGINT       NOT NULL,
    body      BLOB         NOT NULL,
    PRIMARY KEY (namespace, job, kind, bucket_at, shard, commit_no),
    KEY statistics_by_time (kind, bucket_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- What is counted and not in `statistics` yet, in pages: a commit writes one page of each shard, whatever it counts.
CREATE TABLE IF NOT EXISTS recent_counts (
    shard SMALLINT   NOT NULL,
    page  BIGINT     NOT NULL,
    body  MEDIUMBLOB NOT NULL,
    PRIMARY KEY (shard, page)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The search index: the terms by which runs are found, as long as the run is kept.
CREATE TABLE IF NOT EXISTS run_terms (
    namespace VARCHAR(128)  NOT NULL,
    term      VARBINARY(64) NOT NULL,
    run       BIGINT        NOT NULL,
    PRIMARY KEY (namespace, term, run),
    KEY run_terms_of_run (run)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The steps of workflows and the parts of split runs, as long as the run is kept. `item` is 0 for the step itself, and counts the items of a `map`
-- from 1. `child` is the run that executes it.
CREATE TABLE IF NOT EXISTS steps (
    run     BIGINT   NOT NULL,
    step_no BIGINT   NOT NULL,
    item    BIGINT   NOT NULL,
    state   TINYINT  NOT NULL,
    child   BIGINT,
    body    LONGBLOB NOT NULL,
    PRIMARY KEY (run, step_no, item)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Steps of workflows that wait for an approval.
CREATE TABLE IF NOT EXISTS approvals (
    namespace VARCHAR(128) NOT NULL,
    run       BIGINT       NOT NULL,
    step_no   BIGINT       NOT NULL,
    job       VARCHAR(128),
    step      VARCHAR(128) NOT NULL,
    since     BIGINT       NOT NULL,
    until     BIGINT,
    PRIMARY KEY (namespace, run, step_no)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- A calendar is a named rule about days; `days` and `description` are JSON. `settled`: every job that names
-- it follows this version.
CREATE TABLE IF NOT EXISTS calendars (
    namespace   VARCHAR(128) NOT NULL,
    name        VARCHAR(128) NOT NULL,
    version     BIGINT       NOT NULL,
    days        LONGTEXT     NOT NULL,
    description LONGTEXT     NOT NULL,
    updated_at  BIGINT       NOT NULL,
    settled     TINYINT      NOT NULL,
    PRIMARY KEY (namespace, name),
    KEY calendars_unsettled (settled, namespace, name)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- A descriptor set is the schema of gRPC services; `bytes` is its size.
CREATE TABLE IF NOT EXISTS descriptors (
    namespace  VARCHAR(128) NOT NULL,
    name       VARCHAR(128) NOT NULL,
    version    BIGINT       NOT NULL,
    updated_at BIGINT       NOT NULL,
    bytes      BIGINT       NOT NULL,
    body       LONGBLOB     NOT NULL,
    PRIMARY KEY (namespace, name)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The last version that any calendar or descriptor set was given. One row: no version is given twice, even after a delete.
CREATE TABLE IF NOT EXISTS calendar_versions (
    one  TINYINT NOT NULL PRIMARY KEY,
    last BIGINT  NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

INSERT IGNORE INTO calendar_versions (one, last) VALUES (1, 0);

-- Sessions of nodes, valid until `until` by the server's clock.
CREATE TABLE IF NOT EXISTS sessions (
    id       BIGINT          NOT NULL PRIMARY KEY,
    node     VARBINARY(1024) NOT NULL,
    address  VARBINARY(1024),
    weight   BIGINT          NOT NULL,
    embedded TINYINT         NOT NULL,
    busy     SMALLINT        NOT NULL,
    since    BIGINT          NOT NULL,
    until    BIGINT          NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Values that the cluster has agreed on.
CREATE TABLE IF NOT EXISTS agreed (
    name  VARBINARY(1024) NOT NULL PRIMARY KEY,
    value LONGBLOB        NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Only the hash of a token is kept.
CREATE TABLE IF NOT EXISTS tokens (
    name       VARBINARY(1024) NOT NULL PRIMARY KEY,
    hash       VARBINARY(32)   NOT NULL,
    role       VARCHAR(64)     NOT NULL,
    created_at BIGINT          NOT NULL,
    expires_at BIGINT
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Output of attempts.
CREATE TABLE IF NOT EXISTS chunks (
    run     BIGINT     NOT NULL,
    token   BIGINT     NOT NULL,
    number  BIGINT     NOT NULL,
    made_at BIGINT     NOT NULL,
    stream  TINYINT    NOT NULL,
    bytes   MEDIUMBLOB NOT NULL,
    PRIMARY KEY (run, token, number)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Mail for nodes that cannot be dialled, until its recipient has taken it.
CREATE TABLE IF NOT EXISTS mail (
    recipient BIGINT   NOT NULL,
    sender    BIGINT   NOT NULL,
    number    BIGINT   NOT NULL,
    sent_at   BIGINT   NOT NULL,
    body      LONGBLOB NOT NULL,
    PRIMARY KEY (recipient, sender, number)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The jobs and steps that hear of the topics of a shard; `body` is JSON.
CREATE TABLE IF NOT EXISTS listeners (
    shard  SMALLINT   NOT NULL,
    number BIGINT     NOT NULL,
    body   MEDIUMBLOB NOT NULL,
    PRIMARY KEY (shard, number)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The locks that are held; `body` is JSON.
CREATE TABLE IF NOT EXISTS locks (
    shard     SMALLINT     NOT NULL,
    fence     BIGINT       NOT NULL,
    namespace VARCHAR(128) NOT NULL,
    name      VARCHAR(128) NOT NULL,
    body      MEDIUMBLOB   NOT NULL,
    PRIMARY KEY (shard, fence),
    KEY locks_name (namespace, name)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Holds, a row in each shard; `body` is JSON. A row stays for a while after its hold has ended.
CREATE TABLE IF NOT EXISTS holds (
    shard  SMALLINT   NOT NULL,
    number BIGINT     NOT NULL,
    body   MEDIUMBLOB NOT NULL,
    PRIMARY KEY (shard, number)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Conditions of jobs that hold, or held until a short time ago. A shard has all of its incidents in memory.
CREATE TABLE IF NOT EXISTS incidents (
    number    BIGINT       NOT NULL PRIMARY KEY,
    shard     SMALLINT     NOT NULL,
    namespace VARCHAR(128) NOT NULL,
    job       VARCHAR(128),
    ended_at  BIGINT,
    body      MEDIUMBLOB   NOT NULL,
    KEY incidents_by_shard (shard)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- A queue, and how many messages it has: `queued` of them can be taken, `unacked` of them are with consumers. Its leader
-- gives it its number. `settings` is JSON.
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
    unacked       BIGINT         NOT NULL,
    settings      TEXT,
    PRIMARY KEY (shard, number),
    KEY queues_name (namespace, name)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Messages in the order of their queues. `head` has what is neither the body nor a column. `wake_at` is the instant at
-- which the message expires or is queued again.
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
