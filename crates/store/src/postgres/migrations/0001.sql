-- One row for each shard: the fence of every commit, its owner and heir, and how many rows the shard has. Every commit
-- updates it, so pages are left mostly empty: the new version of a row fits beside the old one.
CREATE TABLE shards (
    shard        int2 PRIMARY KEY,
    epoch        int8 NOT NULL DEFAULT 0,
    commit_no    int8 NOT NULL DEFAULT 0,
    last_id      int8 NOT NULL DEFAULT 0,
    owner        int8,
    heir         int8,
    jobs         int8 NOT NULL DEFAULT 0,
    live_runs    int8 NOT NULL DEFAULT 0,
    history_runs int8 NOT NULL DEFAULT 0,
    dead_letters int8 NOT NULL DEFAULT 0
) WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- How much history was pruned: apart from the fence, so that pruning and commits do not wait for each other.
CREATE TABLE pruned (
    shard        int2 PRIMARY KEY,
    history_runs int8 NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

-- The row moves with every fire, so its definition stands in `revisions`; it is here only when its revision came
-- without a row there. It is JSON, because definitions gain fields; `keep_*` and `calendars` repeat what pruning
-- and calendars read of it.
CREATE TABLE jobs (
    id            int8 PRIMARY KEY,
    shard         int2 NOT NULL,
    pause         text,
    failures      int8 NOT NULL,
    watch         text,
    namespace     text COLLATE "C" NOT NULL,
    name          text COLLATE "C" NOT NULL,
    revision      int8 NOT NULL,
    created_at    int8 NOT NULL,
    updated_at    int8 NOT NULL,
    fired_through int8 NOT NULL,
    next_due      int8,
    wake_at       int8,
    fires         text NOT NULL,
    keep_runs     int8 NOT NULL,
    keep_days     int8 NOT NULL,
    definition    text,
    calendars     text,
    zone_data     text COLLATE "C",
    CONSTRAINT jobs_name UNIQUE (namespace, name)
) WITH (fillfactor = 80);
CREATE INDEX jobs_due ON jobs (shard, wake_at, id) WHERE wake_at IS NOT NULL;
CREATE INDEX jobs_zone_data ON jobs (zone_data) WHERE zone_data IS NOT NULL;
CREATE INDEX jobs_with_calendar ON jobs (namespace, name) WHERE calendars IS NOT NULL;

CREATE TABLE revisions (
    job        int8 NOT NULL,
    revision   int8 NOT NULL,
    made_at    int8 NOT NULL,
    state      text NOT NULL,
    definition text NOT NULL,
    PRIMARY KEY (job, revision)
);

-- Deleted jobs whose revisions may still be needed by a run or a skip record.
CREATE TABLE deleted_jobs (
    job       int8 PRIMARY KEY,
    namespace text COLLATE "C" NOT NULL,
    name      text COLLATE "C" NOT NULL
);
CREATE INDEX deleted_jobs_name ON deleted_jobs (namespace, name, job);

-- Runs that have not ended. `place` is the id with its shard in front, so that a shard is one span of the table.
-- `body` is the run; the columns are what queries ask. A key may be any text, and text here may not have a zero in it.
CREATE TABLE runs (
    place     int8 PRIMARY KEY,
    wake_at   int8,
    job       int8,
    shard     int2 NOT NULL,
    status    int2 NOT NULL,
    parent    int8,
    namespace text COLLATE "C" NOT NULL,
    run_key   bytea,
    body      bytea NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 5000);
CREATE INDEX runs_due ON runs (shard, wake_at, place) WHERE wake_at IS NOT NULL;
CREATE INDEX runs_key ON runs (run_key, place) WHERE run_key IS NOT NULL;
CREATE INDEX runs_of_parent ON runs (parent, place) WHERE parent IS NOT NULL;

-- Runs that have ended. `place` is the id, and for a child run the id with the sign bit set: in every index, the runs that
-- lists show are one range, and the children another. A row is in one of the first two indexes, in the third only if it
-- did not succeed, in the fourth only if it had a key, and in the last only if it has a parent.
CREATE TABLE history (
    place       int8 PRIMARY KEY,
    job         int8,
    finished_at int8 NOT NULL,
    parent      int8,
    status      int2 NOT NULL,
    namespace   text COLLATE "C" NOT NULL,
    run_key     bytea,
    body        bytea NOT NULL
);
CREATE INDEX history_of_job ON history (job, place) WHERE job IS NOT NULL;
CREATE INDEX history_ad_hoc ON history (finished_at) WHERE job IS NULL AND parent IS NULL;
CREATE INDEX history_unusual ON history (status, place) WHERE status > 3;
CREATE INDEX history_key ON history (run_key, place) WHERE run_key IS NOT NULL;
CREATE INDEX history_of_parent ON history (parent, place) WHERE parent IS NOT NULL;

CREATE TABLE dead_letters (
    run       int8 PRIMARY KEY,
    namespace text COLLATE "C" NOT NULL,
    job       text COLLATE "C",
    died_at   int8 NOT NULL
);

CREATE TABLE uniques (
    shard      int2  NOT NULL,
    unique_key bytea NOT NULL,
    run        int8  NOT NULL,
    expires_at int8  NOT NULL,
    PRIMARY KEY (shard, unique_key)
);
CREATE INDEX uniques_expiry ON uniques (expires_at);

CREATE TABLE skips (
    job      int8 NOT NULL,
    revision int8 NOT NULL,
    from_due int8 NOT NULL,
    to_due   int8 NOT NULL,
    reason   text NOT NULL,
    made_at  int8 NOT NULL,
    PRIMARY KEY (job, revision, from_due)
);
CREATE INDEX skips_by_time ON skips (made_at);

-- Ended runs, counted: of a namespace by minute (kind 0) and by hour (kind 1), of a job by hour (kind 2). A leader continues
-- only rows that it began: `commit_no` is the commit that inserted the row. `job` is empty in a row of a namespace.
CREATE TABLE statistics (
    namespace text COLLATE "C" NOT NULL,
    job       text COLLATE "C" NOT NULL,
    bucket_at int8  NOT NULL,
    commit_no int8  NOT NULL,
    kind      int2  NOT NULL,
    shard     int2  NOT NULL,
    body      bytea NOT NULL,
    PRIMARY KEY (namespace, job, kind, bucket_at, shard, commit_no)
);
CREATE INDEX statistics_by_time ON statistics (kind, bucket_at);

-- What is counted and not in `statistics` yet, in pages: a commit writes one page of each shard, whatever it counts. Pages
-- of the table are left half empty: the new version of a row fits beside the old one.
CREATE TABLE recent_counts (
    page  int8  NOT NULL,
    shard int2  NOT NULL,
    body  bytea NOT NULL,
    PRIMARY KEY (shard, page)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

-- The search index: the terms by which runs are found, as long as the run is kept.
CREATE TABLE run_terms (
    namespace text COLLATE "C" NOT NULL,
    term      bytea NOT NULL,
    run       int8  NOT NULL,
    PRIMARY KEY (namespace, term, run)
);
CREATE INDEX run_terms_of_run ON run_terms (run);

-- The steps of workflows and the parts of split runs, as long as the run is kept. `item` is 0 for the step itself, and counts the items of a `map`
-- from 1. `child` is the run that executes it.
CREATE TABLE steps (
    run     int8  NOT NULL,
    step_no int8  NOT NULL,
    item    int8  NOT NULL,
    state   int2  NOT NULL,
    child   int8,
    body    bytea NOT NULL,
    PRIMARY KEY (run, step_no, item)
);

-- Steps of workflows that wait for an approval.
CREATE TABLE approvals (
    namespace text COLLATE "C" NOT NULL,
    run       int8 NOT NULL,
    step_no   int8 NOT NULL,
    since     int8 NOT NULL,
    until     int8,
    job       text COLLATE "C",
    step      text COLLATE "C" NOT NULL,
    PRIMARY KEY (namespace, run, step_no)
);

-- A calendar is a named rule about days; `days` and `description` are JSON. `settled`: every job that names it follows
-- this version.
CREATE TABLE calendars (
    namespace   text COLLATE "C" NOT NULL,
    name        text COLLATE "C" NOT NULL,
    version     int8 NOT NULL,
    days        text NOT NULL,
    description text NOT NULL,
    updated_at  int8 NOT NULL,
    settled     int2 NOT NULL,
    PRIMARY KEY (namespace, name)
);
CREATE INDEX calendars_unsettled ON calendars (namespace, name) WHERE settled = 0;

-- A descriptor set is the schema of gRPC services; `bytes` is its size.
CREATE TABLE descriptors (
    namespace  text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    version    int8 NOT NULL,
    updated_at int8 NOT NULL,
    bytes      int8 NOT NULL,
    body       bytea NOT NULL,
    PRIMARY KEY (namespace, name)
);

-- The last version that any calendar or descriptor set was given. One row: no version is given twice, even after a
-- delete. Every change of a calendar or descriptor set locks it.
CREATE TABLE calendar_versions (
    one  int2 PRIMARY KEY CHECK (one = 1),
    last int8 NOT NULL
);
INSERT INTO calendar_versions (one, last) VALUES (1, 0);

-- Sessions of nodes, valid until `until` by the clock of this server.
CREATE TABLE sessions (
    id       int8 PRIMARY KEY,
    node     text NOT NULL,
    address  text,
    weight   int8 NOT NULL,
    embedded int2 NOT NULL,
    busy     int2 NOT NULL,
    since    int8 NOT NULL,
    until    int8 NOT NULL
) WITH (fillfactor = 50);

-- Values that the cluster has agreed on.
CREATE TABLE agreed (
    name  text PRIMARY KEY,
    value bytea NOT NULL
);

-- Only the hash of a token is kept.
CREATE TABLE tokens (
    name       text COLLATE "C" PRIMARY KEY,
    hash       bytea NOT NULL,
    role       text  NOT NULL,
    created_at int8  NOT NULL,
    expires_at int8
);

-- Output of attempts.
CREATE TABLE chunks (
    run     int8  NOT NULL,
    token   int8  NOT NULL,
    number  int8  NOT NULL,
    made_at int8  NOT NULL,
    stream  int2  NOT NULL,
    bytes   bytea NOT NULL,
    PRIMARY KEY (run, token, number)
);

-- Mail for nodes that cannot be dialled, until its recipient has taken it.
CREATE TABLE mail (
    recipient int8  NOT NULL,
    sender    int8  NOT NULL,
    number    int8  NOT NULL,
    sent_at   int8  NOT NULL,
    body      bytea NOT NULL,
    PRIMARY KEY (recipient, sender, number)
);

-- The jobs and steps that hear of the topics of a shard; `body` is JSON.
CREATE TABLE listeners (
    number int8 NOT NULL,
    shard  int2 NOT NULL,
    body   bytea NOT NULL,
    PRIMARY KEY (shard, number)
);

-- The locks that are held; `body` is JSON.
CREATE TABLE locks (
    fence     int8 NOT NULL,
    shard     int2 NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    name      text COLLATE "C" NOT NULL,
    body      bytea NOT NULL,
    PRIMARY KEY (shard, fence)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX locks_name ON locks (namespace, name);
-- Holds, a row in each shard; `body` is JSON. A row stays for a while after its hold has ended.
CREATE TABLE holds (
    number int8 NOT NULL,
    shard  int2 NOT NULL,
    body   bytea NOT NULL,
    PRIMARY KEY (shard, number)
);

-- Conditions of jobs that hold, or held until a short time ago. A shard has all of its incidents in memory.
CREATE TABLE incidents (
    number    int8 PRIMARY KEY,
    shard     int2 NOT NULL,
    namespace text NOT NULL,
    job       text,
    ended_at  int8,
    body      bytea NOT NULL
);

CREATE INDEX incidents_by_shard ON incidents (shard);

-- A queue, and how many messages it has: `queued` of them can be taken, `unacked` of them are with consumers. Its leader
-- gives it its number. Its name may be any text, and `text` here may not contain a zero. `settings` is JSON.
CREATE TABLE queues (
    number        int8 NOT NULL,
    created_at    int8 NOT NULL,
    queued        int8 NOT NULL,
    messages      int8 NOT NULL,
    unacked       int8 NOT NULL,
    shard         int2 NOT NULL,
    paused_input  int2 NOT NULL,
    paused_output int2 NOT NULL,
    namespace     text COLLATE "C" NOT NULL,
    name          bytea NOT NULL,
    settings      text,
    PRIMARY KEY (shard, number)
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX queues_name ON queues (namespace, name, shard, number);

-- Messages in the order of their queues. `head` has what is neither the body nor a column. `wake_at` is the instant at
-- which the message expires or is queued again.
CREATE TABLE messages (
    queue   int8 NOT NULL,
    number  int8 NOT NULL,
    wake_at int8 NOT NULL,
    shard   int2 NOT NULL,
    rank_no int2 NOT NULL,
    queued  int2 NOT NULL,
    head    bytea NOT NULL,
    body    bytea NOT NULL,
    PRIMARY KEY (shard, queue, rank_no, number)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 5000);
CREATE INDEX messages_due ON messages (shard, wake_at, number);
