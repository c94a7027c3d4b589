-- One row a shard: the fence of every commit, and how many rows the shard has.
CREATE TABLE shards (
    shard        INTEGER PRIMARY KEY,
    epoch        INTEGER NOT NULL,
    commit_no    INTEGER NOT NULL,
    last_id      INTEGER NOT NULL,
    jobs         INTEGER NOT NULL DEFAULT 0,
    live_runs    INTEGER NOT NULL DEFAULT 0,
    history_runs INTEGER NOT NULL DEFAULT 0,
    dead_letters INTEGER NOT NULL DEFAULT 0
) STRICT;

-- The row moves with every fire, so its definition stands in `revisions`; it is here only when its revision came
-- without a row there. It is JSON, because definitions grow new fields; `keep_*` repeat what pruning reads of it.
CREATE TABLE jobs (
    id            INTEGER PRIMARY KEY,
    shard         INTEGER NOT NULL,
    namespace     TEXT    NOT NULL,
    name          TEXT    NOT NULL,
    revision      INTEGER NOT NULL,
    paused        INTEGER NOT NULL,
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
    UNIQUE (namespace, name)
) STRICT;
CREATE INDEX jobs_due ON jobs (shard, wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX jobs_zone_data ON jobs (zone_data) WHERE zone_data IS NOT NULL;

CREATE TABLE revisions (
    job        INTEGER NOT NULL,
    revision   INTEGER NOT NULL,
    at         INTEGER NOT NULL,
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
    body      BLOB    NOT NULL
) STRICT;
CREATE INDEX runs_due ON runs (shard, wake_at) WHERE wake_at IS NOT NULL;

-- Runs that have ended. A row is in one of the first two indexes, and in the third only if it did not succeed.
CREATE TABLE history (
    id          INTEGER PRIMARY KEY,
    job         INTEGER,
    status      INTEGER NOT NULL,
    finished_at INTEGER NOT NULL,
    namespace   TEXT    NOT NULL,
    body        BLOB    NOT NULL
) STRICT;
CREATE INDEX history_of_job ON history (job) WHERE job IS NOT NULL;
CREATE INDEX history_ad_hoc ON history (finished_at) WHERE job IS NULL;
CREATE INDEX history_unusual ON history (status) WHERE status > 3;

CREATE TABLE dead_letters (
    run       INTEGER PRIMARY KEY,
    namespace TEXT    NOT NULL,
    job       TEXT,
    at        INTEGER NOT NULL
) STRICT;

CREATE TABLE uniques (
    shard      INTEGER NOT NULL,
    key        TEXT    NOT NULL,
    run        INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (shard, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX uniques_expiry ON uniques (expires_at);

CREATE TABLE skips (
    job      INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    from_due INTEGER NOT NULL,
    to_due   INTEGER NOT NULL,
    reason   TEXT    NOT NULL,
    at       INTEGER NOT NULL,
    PRIMARY KEY (job, revision, from_due)
) STRICT, WITHOUT ROWID;
CREATE INDEX skips_by_time ON skips (at);
