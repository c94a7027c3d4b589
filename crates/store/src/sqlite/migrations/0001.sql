-- One row a shard: the fence of every commit, and how many rows the shard has.
CREATE TABLE shards (
    shard        INTEGER PRIMARY KEY,
    epoch        INTEGER NOT NULL,
    commit_no    INTEGER NOT NULL,
    last_id      INTEGER NOT NULL,
    jobs         INTEGER NOT NULL DEFAULT 0,
    live_runs    INTEGER NOT NULL DEFAULT 0,
    history_runs INTEGER NOT NULL DEFAULT 0,
    dead_letters INTEGER NOT NULL DEFAULT 0,
    -- Ids of sessions: the one that leads the shard, and the one that should lead it next.
    owner        INTEGER,
    heir         INTEGER
) STRICT;

-- How much history was pruned.
CREATE TABLE pruned (
    shard        INTEGER PRIMARY KEY,
    history_runs INTEGER NOT NULL DEFAULT 0
) STRICT;

-- The row moves with every fire, so its definition stands in `revisions`; it is here only when its revision came
-- without a row there. It is JSON, because definitions gain fields; `keep_*` and `calendars`, a JSON list of names, repeat
-- what pruning and calendars read of it.
CREATE TABLE jobs (
    id            INTEGER PRIMARY KEY,
    shard         INTEGER NOT NULL,
    namespace     TEXT    NOT NULL,
    name          TEXT    NOT NULL,
    revision      INTEGER NOT NULL,
    pause         TEXT,
    failures      INTEGER NOT NULL,
    watch         TEXT,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    fired_through INTEGER NOT NULL,
    next_due      INTEGER,
    wake_at       INTEGER,
    fires         TEXT    NOT NULL,
    zone_data     TEXT,
    keep_runs     INTEGER NOT NULL,
    keep_days     INTEGER NOT NULL,
    definition    TEXT,
    calendars     TEXT,
    UNIQUE (namespace, name)
) STRICT;
CREATE INDEX jobs_due ON jobs (shard, wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX jobs_zone_data ON jobs (zone_data) WHERE zone_data IS NOT NULL;
CREATE INDEX jobs_with_calendar ON jobs (namespace, name) WHERE calendars IS NOT NULL;

CREATE TABLE revisions (
    job        INTEGER NOT NULL,
    revision   INTEGER NOT NULL,
    made_at    INTEGER NOT NULL,
    state      TEXT    NOT NULL,
    definition TEXT    NOT NULL,
    PRIMARY KEY (job, revision)
) STRICT, WITHOUT ROWID;

-- Deleted jobs whose revisions may still be needed by a run or a skip record.
CREATE TABLE deleted_jobs (
    job       INTEGER PRIMARY KEY,
    namespace TEXT    NOT NULL,
    name      TEXT    NOT NULL
) STRICT;
CREATE INDEX deleted_jobs_name ON deleted_jobs (namespace, name);

-- Runs that have not ended. `place` is the id with its shard in front, so that a shard is one span of the table and
-- yet the key is the one integer that SQLite is fastest with. `body` is the run; the columns are what queries ask.
CREATE TABLE runs (
    place     INTEGER PRIMARY KEY,
    shard     INTEGER NOT NULL,
    wake_at   INTEGER,
    job       INTEGER,
    status    INTEGER NOT NULL,
    namespace TEXT    NOT NULL,
    run_key   BLOB,
    parent    INTEGER,
    body      BLOB    NOT NULL
) STRICT;
CREATE INDEX runs_due ON runs (shard, wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX runs_key ON runs (run_key) WHERE run_key IS NOT NULL;
CREATE INDEX runs_of_parent ON runs (parent) WHERE parent IS NOT NULL;

-- Runs that have ended. `place` is the id, and for a child run the id with the sign bit set: in every index, the runs that
-- lists show are one range, and the children another. A row is in one of the first two indexes, in the third only if it
-- did not succeed, in the fourth only if it has a key, and in the last only if it has a parent.
CREATE TABLE history (
    place       INTEGER PRIMARY KEY,
    job         INTEGER,
    status      INTEGER NOT NULL,
    finished_at INTEGER NOT NULL,
    namespace   TEXT    NOT NULL,
    run_key     BLOB,
    parent      INTEGER,
    body        BLOB    NOT NULL
) STRICT;
CREATE INDEX history_of_job ON history (job) WHERE job IS NOT NULL;
CREATE INDEX history_ad_hoc ON history (finished_at) WHERE job IS NULL AND parent IS NULL;
CREATE INDEX history_unusual ON history (status) WHERE status > 3;
CREATE INDEX history_key ON history (run_key) WHERE run_key IS NOT NULL;
CREATE INDEX history_of_parent ON history (parent) WHERE parent IS NOT NULL;

CREATE TABLE dead_letters (
    run       INTEGER PRIMARY KEY,
    namespace TEXT    NOT NULL,
    job       TEXT,
    died_at   INTEGER NOT NULL
) STRICT;

CREATE TABLE uniques (
    shard      INTEGER NOT NULL,
    unique_key BLOB    NOT NULL,
    run        INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (shard, unique_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX uniques_expiry ON uniques (expires_at);

CREATE TABLE skips (
    job      INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    from_due INTEGER NOT NULL,
    to_due   INTEGER NOT NULL,
    reason   TEXT    NOT NULL,
    made_at  INTEGER NOT NULL,
    PRIMARY KEY (job, revision, from_due)
) STRICT, WITHOUT ROWID;
CREATE INDEX skips_by_time ON skips (made_at);

-- Ended runs, counted: of a namespace by minute (kind 0) and by hour (kind 1), of a job by hour (kind 2). A leader continues
-- only rows that it began: `commit_no` is the commit that inserted the row. `job` is empty in a row of a namespace.
CREATE TABLE statistics (
    namespace TEXT    NOT NULL,
    job       TEXT    NOT NULL,
    kind      INTEGER NOT NULL,
    bucket_at INTEGER NOT NULL,
    shard     INTEGER NOT NULL,
    commit_no INTEGER NOT NULL,
    body      BLOB    NOT NULL,
    PRIMARY KEY (namespace, job, kind, bucket_at, shard, commit_no)
) STRICT, WITHOUT ROWID;
CREATE INDEX statistics_by_time ON statistics (kind, bucket_at);

-- What is counted and not in `statistics` yet, in pages: a commit writes one page of each shard, whatever it counts.
CREATE TABLE recent_counts (
    shard INTEGER NOT NULL,
    page  INTEGER NOT NULL,
    body  BLOB    NOT NULL,
    PRIMARY KEY (shard, page)
) STRICT, WITHOUT ROWID;

-- The search index: the terms by which runs are found, as long as the run is kept.
CREATE TABLE run_terms (
    namespace TEXT    NOT NULL,
    term      BLOB    NOT NULL,
    run       INTEGER NOT NULL,
    PRIMARY KEY (namespace, term, run)
) STRICT, WITHOUT ROWID;
CREATE INDEX run_terms_of_run ON run_terms (run);

-- The steps of workflows and the parts of split runs, as long as the run is kept. `item` is 0 for the step itself, and counts the items of a `map`
-- from 1. `child` is the run that executes it.
CREATE TABLE steps (
    run     INTEGER NOT NULL,
    step_no INTEGER NOT NULL,
    item    INTEGER NOT NULL,
    state   INTEGER NOT NULL,
    child   INTEGER,
    body    BLOB    NOT NULL,
    PRIMARY KEY (run, step_no, item)
) STRICT, WITHOUT ROWID;

-- Steps of workflows that wait for an approval.
CREATE TABLE approvals (
    namespace TEXT    NOT NULL,
    run       INTEGER NOT NULL,
    step_no   INTEGER NOT NULL,
    job       TEXT,
    step      TEXT    NOT NULL,
    since     INTEGER NOT NULL,
    until     INTEGER,
    PRIMARY KEY (namespace, run, step_no)
) STRICT, WITHOUT ROWID;

-- A calendar is a named rule about days; `days` and `description` are JSON. `settled`: every job that names
-- it follows this version.
CREATE TABLE calendars (
    namespace   TEXT    NOT NULL,
    name        TEXT    NOT NULL,
    version     INTEGER NOT NULL,
    days        TEXT    NOT NULL,
    description TEXT    NOT NULL,
    updated_at  INTEGER NOT NULL,
    settled     INTEGER NOT NULL,
    PRIMARY KEY (namespace, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX calendars_unsettled ON calendars (namespace, name) WHERE settled = 0;

-- A descriptor set is the schema of gRPC services; `bytes` is its size.
CREATE TABLE descriptors (
    namespace  TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    version    INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    bytes      INTEGER NOT NULL,
    body       BLOB    NOT NULL,
    PRIMARY KEY (namespace, name)
) STRICT;

-- The last version that any calendar or descriptor set was given, in one row: no version is given twice, even after a delete.
CREATE TABLE calendar_versions (
    one  INTEGER PRIMARY KEY CHECK (one = 1),
    last INTEGER NOT NULL
) STRICT;
INSERT INTO calendar_versions (one, last) VALUES (1, 0);

-- Sessions of nodes, valid until `until` by the machine's clock.
CREATE TABLE sessions (
    id       INTEGER PRIMARY KEY,
    node     TEXT    NOT NULL,
    address  TEXT,
    weight   INTEGER NOT NULL,
    embedded INTEGER NOT NULL,
    busy     INTEGER NOT NULL,
    since    INTEGER NOT NULL,
    until    INTEGER NOT NULL
) STRICT;

-- Values that the cluster has agreed on.
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

-- Mail for nodes that cannot be dialled, until its recipient has taken it.
CREATE TABLE mail (
    recipient INTEGER NOT NULL,
    sender    INTEGER NOT NULL,
    number    INTEGER NOT NULL,
    sent_at   INTEGER NOT NULL,
    body      BLOB    NOT NULL,
    PRIMARY KEY (recipient, sender, number)
) STRICT, WITHOUT ROWID;

-- The jobs and steps that hear of the topics of a shard; `body` is JSON.
CREATE TABLE listeners (
    shard  INTEGER NOT NULL,
    number INTEGER NOT NULL,
    body   BLOB    NOT NULL,
    PRIMARY KEY (shard, number)
) STRICT, WITHOUT ROWID;

-- The locks that are held; `body` is JSON.
CREATE TABLE locks (
    shard     INTEGER NOT NULL,
    fence     INTEGER NOT NULL,
    namespace TEXT    NOT NULL,
    name      TEXT    NOT NULL,
    body      BLOB    NOT NULL,
    PRIMARY KEY (shard, fence)
) STRICT, WITHOUT ROWID;
CREATE INDEX locks_name ON locks (namespace, name);
-- Holds, a row in each shard; `body` is JSON. A row stays for a while after its hold has ended.
CREATE TABLE holds (
    shard  INTEGER NOT NULL,
    number INTEGER NOT NULL,
    body   BLOB    NOT NULL,
    PRIMARY KEY (shard, number)
) STRICT, WITHOUT ROWID;
-- Conditions of jobs that hold, or held until a short time ago. A shard has all of its incidents in memory.
CREATE TABLE incidents (
    number    INTEGER PRIMARY KEY,
    shard     INTEGER NOT NULL,
    namespace TEXT    NOT NULL,
    job       TEXT,
    ended_at  INTEGER,
    body      BLOB    NOT NULL
) STRICT;

CREATE INDEX incidents_by_shard ON incidents (shard);

-- A queue, and how many messages it has: `queued` of them can be taken, `unacked` of them are with consumers. Its leader
-- gives it its number. Its name may be any text. `settings` is JSON.
CREATE TABLE queues (
    shard         INTEGER NOT NULL,
    number        INTEGER NOT NULL,
    namespace     TEXT    NOT NULL,
    name          BLOB    NOT NULL,
    created_at    INTEGER NOT NULL,
    paused_input  INTEGER NOT NULL,
    paused_output INTEGER NOT NULL,
    queued        INTEGER NOT NULL,
    messages      INTEGER NOT NULL,
    unacked       INTEGER NOT NULL,
    settings      TEXT,
    PRIMARY KEY (shard, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX queues_name ON queues (namespace, name);

-- Messages in the order of their queues. `head` has what is neither the body nor a column. `wake_at` is the instant at
-- which the message expires or is queued again.
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

-- The message log: changes of messages that are not rows yet, one entry for each commit.
CREATE TABLE message_log (
    entry INTEGER PRIMARY KEY,
    bytes BLOB NOT NULL
) STRICT;
