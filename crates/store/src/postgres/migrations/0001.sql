-- One row a shard: the fence of every commit, whose it is, and how many rows the shard has. It is updated by every
-- commit, so a page is left mostly empty and the new version of a row finds room beside the old one.
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

-- How much history pruning took: apart from the fence, so that it never waits for a commit nor a commit for it.
CREATE TABLE pruned (
    shard        int2 PRIMARY KEY,
    history_runs int8 NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

-- The row moves with every fire, so its definition stands in `revisions`; it is here only when its revision came
-- without a row there. It is JSON, because definitions grow new fields; `keep_*` and `calendars` repeat what pruning
-- and calendars read of it.
CREATE TABLE jobs (
    id            int8 PRIMARY KEY,
    shard         int2 NOT NULL,
    paused        bool NOT NULL,
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
    at         int8 NOT NULL,
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
    namespace text COLLATE "C" NOT NULL,
    key       bytea,
    body      bytea NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 5000);
CREATE INDEX runs_due ON runs (shard, wake_at, place) WHERE wake_at IS NOT NULL;
CREATE INDEX runs_key ON runs (key, place) WHERE key IS NOT NULL;

-- Runs that have ended. A row is in one of the first two indexes, in the third only if it did not succeed, and in the
-- last only if it had a key.
CREATE TABLE history (
    id          int8 PRIMARY KEY,
    job         int8,
    finished_at int8 NOT NULL,
    status      int2 NOT NULL,
    namespace   text COLLATE "C" NOT NULL,
    key         bytea,
    body        bytea NOT NULL
);
CREATE INDEX history_of_job ON history (job, id) WHERE job IS NOT NULL;
CREATE INDEX history_ad_hoc ON history (finished_at) WHERE job IS NULL;
CREATE INDEX history_unusual ON history (status, id) WHERE status > 3;
CREATE INDEX history_key ON history (key, id) WHERE key IS NOT NULL;

CREATE TABLE dead_letters (
    run       int8 PRIMARY KEY,
    namespace text COLLATE "C" NOT NULL,
    job       text COLLATE "C",
    at        int8 NOT NULL
);

CREATE TABLE uniques (
    shard      int2  NOT NULL,
    key        bytea NOT NULL,
    run        int8  NOT NULL,
    expires_at int8  NOT NULL,
    PRIMARY KEY (shard, key)
);
CREATE INDEX uniques_expiry ON uniques (expires_at);

CREATE TABLE skips (
    job      int8 NOT NULL,
    revision int8 NOT NULL,
    from_due int8 NOT NULL,
    to_due   int8 NOT NULL,
    reason   text NOT NULL,
    at       int8 NOT NULL,
    PRIMARY KEY (job, revision, from_due)
);
CREATE INDEX skips_by_time ON skips (at);

-- A calendar is a named rule about days; `days` and `description` are JSON. `settled`: every job that names it follows
-- this version.
CREATE TABLE calendars (
    namespace   text COLLATE "C" NOT NULL,
    name        text COLLATE "C" NOT NULL,
    version     int8 NOT NULL,
    days        text NOT NULL,
    description text NOT NULL,
    updated_at  int8 NOT NULL,
    settled     bool NOT NULL,
    PRIMARY KEY (namespace, name)
);
CREATE INDEX calendars_unsettled ON calendars (namespace, name) WHERE NOT settled;

-- The last version that any calendar was given. One row: no version comes twice, even after a delete. It is also what
-- those who change calendars wait for each other at.
CREATE TABLE calendar_versions (
    one  bool PRIMARY KEY CHECK (one),
    last int8 NOT NULL
);
INSERT INTO calendar_versions (one, last) VALUES (true, 0);

-- Nodes that live until `until`, by the clock of this server.
CREATE TABLE sessions (
    id       int8 PRIMARY KEY,
    node     text NOT NULL,
    address  text,
    weight   int8 NOT NULL,
    embedded bool NOT NULL,
    load     int2 NOT NULL,
    since    int8 NOT NULL,
    until    int8 NOT NULL
) WITH (fillfactor = 50);

-- What the cluster agreed on once.
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
    run    int8  NOT NULL,
    token  int8  NOT NULL,
    number int8  NOT NULL,
    at     int8  NOT NULL,
    stream int2  NOT NULL,
    bytes  bytea NOT NULL,
    PRIMARY KEY (run, token, number)
);
