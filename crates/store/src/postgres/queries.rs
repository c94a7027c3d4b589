//! Every statement, by table. Values are bound, never written into the text.
//!
//! What a commit writes takes arrays, one a column: a batch is a few statements, however many rows it has. An update
//! or delete that does not hit every row it names divides by zero, and with that ends its transaction: so the `COMMIT`
//! may be sent along with the rest, and is a rollback if anything missed.

pub(super) const BEGIN: &str = "BEGIN";
pub(super) const BEGIN_READING: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY";
pub(super) const COMMIT: &str = "COMMIT";
/// Within a transaction: what somebody else holds is to be named, not waited for.
pub(super) const WAIT_BRIEFLY: &str = "SET LOCAL lock_timeout = '100ms'";
pub(super) const ROLLBACK: &str = "ROLLBACK";

/// A statement that must hit as many rows as its first array names.
macro_rules! must_hit {
    ($($sql:expr),+) => {
        concat!("WITH hit AS (", $($sql),+, " RETURNING 1) SELECT 1 / (count(*) = cardinality($1))::int FROM hit")
    };
}

/// All that a commit may send: prepared when the connection is made, so that none of it waits for an answer.
pub(super) const WRITES: [&str; 33] = [
    BEGIN,
    COMMIT,
    ROLLBACK,
    shards::FENCE,
    jobs::INSERT,
    jobs::MOVE,
    jobs::EDIT,
    jobs::DELETE,
    deleted_jobs::INSERT,
    revisions::INSERT,
    revisions::UPDATE,
    revisions::DELETE,
    runs::INSERT,
    runs::UPDATE,
    runs::DELETE,
    history::INSERT,
    history::UPDATE,
    history::DELETE,
    dead_letters::INSERT,
    dead_letters::UPDATE,
    dead_letters::DELETE,
    uniques::INSERT,
    uniques::UPDATE,
    uniques::DELETE,
    skips::INSERT,
    skips::UPDATE,
    skips::DELETE,
    queues::INSERT,
    queues::UPDATE,
    queues::DELETE,
    messages::INSERT,
    messages::UPDATE,
    messages::DELETE,
];

/// The server's clock in milliseconds.
macro_rules! clock {
    () => {
        "floor(extract(epoch FROM clock_timestamp()) * 1000)::int8"
    };
}

/// The same, as it was when the transaction began.
macro_rules! now {
    () => {
        "floor(extract(epoch FROM now()) * 1000)::int8"
    };
}

pub(super) mod shards {
    /// The fence: it must hit one row for every batch, or one of them is outdated.
    pub(in crate::postgres) const FENCE: &str = must_hit!(
        "UPDATE shards s SET commit_no = s.commit_no + 1, last_id = f.last_id, jobs = s.jobs + f.jobs, \
         live_runs = s.live_runs + f.live_runs, history_runs = s.history_runs + f.history_runs, \
         dead_letters = s.dead_letters + f.dead_letters \
         FROM unnest($1::int2[], $2::int8[], $3::int8[], $4::int8[], $5::int8[], $6::int8[], $7::int8[], $8::int8[]) \
         AS f (shard, epoch, commit_no, last_id, jobs, live_runs, history_runs, dead_letters) \
         WHERE s.shard = f.shard AND s.epoch = f.epoch AND s.commit_no = f.commit_no"
    );
    pub(in crate::postgres) const ACQUIRE: &str = "UPDATE shards SET epoch = epoch + 1, commit_no = commit_no + 1, \
         owner = $3::int8, heir = NULL WHERE shard = $1::int2 AND epoch = coalesce($2::int8, epoch) RETURNING epoch";
    /// Ends what former owners have under way: their sessions that have written something and not committed it.
    pub(in crate::postgres) const END_FORMER_OWNERS: &str = "SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a \
         WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND a.backend_xid IS NOT NULL \
         AND a.application_name IN (SELECT 'punctual/' || lpad(to_hex(s.owner), 16, '0') FROM shards s \
         JOIN unnest($1::int2[], $2::int8[]) AS c (shard, than) ON c.shard = s.shard \
         WHERE s.owner IS NOT NULL AND s.owner IS DISTINCT FROM $3::int8 AND s.epoch = coalesce(c.than, s.epoch))";
    pub(in crate::postgres) const RELEASE: &str =
        "UPDATE shards SET owner = NULL, heir = $3::int8 WHERE shard = $1::int2 AND epoch = $2::int8";
    pub(in crate::postgres) const LEASES: &str =
        concat!("SELECT ", clock!(), ", shard, epoch, owner, heir FROM shards ORDER BY shard");
    pub(in crate::postgres) const GET: &str =
        "SELECT commit_no, last_id FROM shards WHERE shard = $1::int2 AND epoch = $2::int8";
    pub(in crate::postgres) const STATS: &str = "SELECT sum(s.jobs)::int8, sum(s.live_runs)::int8, \
         (sum(s.history_runs) - sum(p.history_runs))::int8, sum(s.dead_letters)::int8 \
         FROM shards s JOIN pruned p ON p.shard = s.shard";
}

pub(super) mod sessions {
    /// One that somebody else is at is left to them.
    pub(in crate::postgres) const EXPIRE: &str = concat!(
        "DELETE FROM sessions WHERE id IN (SELECT id FROM sessions WHERE until <= ",
        now!(),
        " FOR UPDATE SKIP LOCKED)"
    );
    pub(in crate::postgres) const RENEW: &str = concat!(
        "INSERT INTO sessions AS s (id, node, address, weight, embedded, load, since, until) \
         VALUES ($1::int8, $2::text, $3::text, $4::int8, $5::bool, $6::int2, ",
        now!(),
        ", ",
        now!(),
        " + $7::int8) ON CONFLICT (id) DO UPDATE SET node = excluded.node, address = excluded.address, \
         weight = excluded.weight, embedded = excluded.embedded, load = excluded.load, until = excluded.until, \
         since = CASE WHEN s.until <= excluded.since THEN excluded.since ELSE s.since END"
    );
    pub(in crate::postgres) const ALL: &str = concat!(
        "SELECT ",
        now!(),
        ", id, node, address, weight, embedded, load, since FROM sessions WHERE until > ",
        now!(),
        " ORDER BY id"
    );
    pub(in crate::postgres) const LEAVE: &str = "DELETE FROM sessions WHERE id = $1::int8";
}

pub(super) mod mail {
    /// What somebody else is at is left to them.
    pub(in crate::postgres) const DROP_OLD: &str = concat!(
        "DELETE FROM mail WHERE (recipient, sender, number) IN (SELECT recipient, sender, number FROM mail WHERE sent_at < ",
        now!(),
        " - $1::int8 FOR UPDATE SKIP LOCKED)"
    );
    pub(in crate::postgres) const SEND: &str = concat!(
        "INSERT INTO mail (recipient, sender, number, sent_at, body) VALUES ($1::int8, $2::int8, $3::int8, ",
        now!(),
        ", $4::bytea) ON CONFLICT DO NOTHING"
    );
    pub(in crate::postgres) const TAKE: &str = "DELETE FROM mail WHERE recipient = $1::int8 AND (sender, number) IN \
         (SELECT * FROM unnest($2::int8[], $3::int8[]))";
    pub(in crate::postgres) const RECEIVE: &str = "SELECT sender, number, body FROM mail WHERE recipient = $1::int8 \
         ORDER BY sender, number LIMIT $2::int8";
}

pub(super) mod admin {
    pub(in crate::postgres) const OFFER: &str =
        "INSERT INTO agreed (name, value) VALUES ($1::text, $2::bytea) ON CONFLICT (name) DO NOTHING";
    pub(in crate::postgres) const AGREED: &str = "SELECT value FROM agreed WHERE name = $1::text";
    pub(in crate::postgres) const TOKENS: &str =
        "SELECT name, hash, role, created_at, expires_at FROM tokens ORDER BY name";
    pub(in crate::postgres) const ADD_TOKEN: &str = "INSERT INTO tokens (name, hash, role, created_at, expires_at) \
         VALUES ($1::text, $2::bytea, $3::text, $4::int8, $5::int8) ON CONFLICT (name) DO NOTHING";
    pub(in crate::postgres) const REMOVE_TOKEN: &str = "DELETE FROM tokens WHERE name = $1::text";
}

/// In the order in which `rows::job` reads them.
macro_rules! job_columns {
    () => {
        "id, namespace, name, revision, paused, created_at, updated_at, \
         fired_through, next_due, wake_at, fires, coalesce(definition, (SELECT revisions.definition \
         FROM revisions WHERE revisions.job = jobs.id AND revisions.revision = jobs.revision))"
    };
}

pub(super) mod jobs {
    pub(in crate::postgres) const INSERT: &str = "INSERT INTO jobs (id, shard, namespace, name, revision, paused, \
         created_at, updated_at, fired_through, next_due, wake_at, fires, keep_runs, keep_days, definition, calendars) \
         SELECT * FROM unnest($1::int8[], $2::int2[], $3::text[], $4::text[], $5::int8[], $6::bool[], $7::int8[], \
         $8::int8[], $9::int8[], $10::int8[], $11::int8[], $12::text[], $13::int8[], $14::int8[], $15::text[], $16::text[])";
    /// A fire: the definition of a revision never changes, so it is not written again.
    pub(in crate::postgres) const MOVE: &str = must_hit!(
        "UPDATE jobs j SET paused = u.paused, updated_at = u.updated_at, fired_through = u.fired_through, \
         next_due = u.next_due, wake_at = u.wake_at, fires = u.fires \
         FROM unnest($1::int8[], $2::int8[], $3::bool[], $4::int8[], $5::int8[], $6::int8[], $7::int8[], $8::text[]) \
         AS u (id, revision, paused, updated_at, fired_through, next_due, wake_at, fires) \
         WHERE j.id = u.id AND j.revision = u.revision AND j.fired_through <= u.fired_through"
    );
    pub(in crate::postgres) const EDIT: &str = must_hit!(
        "UPDATE jobs j SET revision = u.revision, paused = u.paused, updated_at = u.updated_at, \
         fired_through = u.fired_through, next_due = u.next_due, wake_at = u.wake_at, fires = u.fires, \
         keep_runs = u.keep_runs, keep_days = u.keep_days, definition = u.definition, calendars = u.calendars \
         FROM unnest($1::int8[], $2::int8[], $3::bool[], $4::int8[], $5::int8[], $6::int8[], $7::int8[], $8::text[], \
         $9::int8[], $10::int8[], $11::text[], $12::text[]) AS u (id, revision, paused, updated_at, fired_through, \
         next_due, wake_at, fires, keep_runs, keep_days, definition, calendars) \
         WHERE j.id = u.id AND j.fired_through <= u.fired_through"
    );
    pub(in crate::postgres) const DELETE: &str = must_hit!("DELETE FROM jobs WHERE id = ANY($1::int8[])");
    /// What decides how a job is updated.
    pub(in crate::postgres) const STAND: &str =
        "SELECT revision, fired_through FROM jobs WHERE id = $1::int8";
    pub(in crate::postgres) const BY_ID: &str =
        concat!("SELECT ", job_columns!(), " FROM jobs WHERE id = ANY($1::int8[])");
    pub(in crate::postgres) const NAMED: &str = concat!(
        "SELECT ",
        job_columns!(),
        " FROM jobs WHERE (namespace, name) IN (SELECT * FROM unnest($1::text[], $2::text[]))"
    );
    pub(in crate::postgres) const LIST: &str = concat!(
        "SELECT ",
        job_columns!(),
        " FROM jobs WHERE (namespace, name) > ($1::text, $2::text) ORDER BY namespace, name LIMIT $3::int8"
    );
    pub(in crate::postgres) const LIST_OF_NAMESPACE: &str = concat!(
        "SELECT ",
        job_columns!(),
        " FROM jobs WHERE namespace = $1::text AND name > $2::text ORDER BY name LIMIT $3::int8"
    );
    pub(in crate::postgres) const LIST_OF_CALENDAR: &str = concat!(
        "SELECT ",
        job_columns!(),
        " FROM jobs WHERE calendars IS NOT NULL AND namespace = $1::text AND name > $2::text \
         AND strpos(calendars, $4::text) > 0 ORDER BY name LIMIT $3::int8"
    );
    pub(in crate::postgres) const DUE: &str = concat!(
        "SELECT ",
        job_columns!(),
        " FROM jobs WHERE shard = $1::int2 AND wake_at IS NOT NULL AND (wake_at, id) > ($2::int8, $3::int8) \
         ORDER BY wake_at, id LIMIT $4::int8"
    );
}

/// In the order in which `calendars::record` reads them.
macro_rules! calendar_columns {
    () => {
        "namespace, name, version, days, description, updated_at, settled"
    };
}

pub(super) mod calendars {
    /// The one row that whoever changes a calendar holds until it has.
    pub(in crate::postgres) const ALONE: &str = "SELECT last FROM calendar_versions WHERE one FOR UPDATE";
    pub(in crate::postgres) const NEXT_VERSION: &str =
        "UPDATE calendar_versions SET last = last + 1 WHERE one RETURNING last";
    pub(in crate::postgres) const INSERT: &str = "INSERT INTO calendars (namespace, name, version, days, description, \
         updated_at, settled) VALUES ($1::text, $2::text, $3::int8, $4::text, $5::text, $6::int8, false)";
    pub(in crate::postgres) const UPDATE: &str = "UPDATE calendars SET version = $3::int8, days = $4::text, \
         description = $5::text, updated_at = $6::int8, settled = false WHERE namespace = $1::text AND name = $2::text";
    pub(in crate::postgres) const SETTLE: &str = "UPDATE calendars SET settled = true \
         WHERE namespace = $1::text AND name = $2::text AND version = $3::int8";
    pub(in crate::postgres) const DELETE: &str =
        "DELETE FROM calendars WHERE namespace = $1::text AND name = $2::text";
    pub(in crate::postgres) const GET: &str = concat!(
        "SELECT ",
        calendar_columns!(),
        " FROM calendars WHERE namespace = $1::text AND name = $2::text"
    );
    pub(in crate::postgres) const LIST: &str = concat!(
        "SELECT ",
        calendar_columns!(),
        " FROM calendars WHERE (namespace, name) > ($1::text, $2::text) \
         AND ($3::text IS NULL OR namespace = $3::text) ORDER BY namespace, name LIMIT $4::int8"
    );
    pub(in crate::postgres) const UNSETTLED: &str = concat!(
        "SELECT ",
        calendar_columns!(),
        " FROM calendars WHERE NOT settled AND (namespace, name) > ($1::text, $2::text) \
         AND ($3::text IS NULL OR namespace = $3::text) ORDER BY namespace, name LIMIT $4::int8"
    );
}

pub(super) mod revisions {
    pub(in crate::postgres) const INSERT: &str = "INSERT INTO revisions (job, revision, at, definition) \
         SELECT * FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::text[])";
    pub(in crate::postgres) const UPDATE: &str = must_hit!(
        "UPDATE revisions r SET at = u.at, definition = u.definition \
         FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::text[]) AS u (job, revision, at, definition) \
         WHERE r.job = u.job AND r.revision = u.revision"
    );
    pub(in crate::postgres) const DELETE: &str = must_hit!(
        "DELETE FROM revisions r USING unnest($1::int8[], $2::int8[]) AS d (job, revision) \
         WHERE r.job = d.job AND r.revision = d.revision"
    );
    pub(in crate::postgres) const GET: &str = "SELECT r.job, r.revision, r.at, r.definition FROM revisions r \
         JOIN unnest($1::int8[], $2::int8[]) AS w (job, revision) ON r.job = w.job AND r.revision = w.revision";
    pub(in crate::postgres) const NEWEST_FIRST: &str = "SELECT job, revision, at, definition FROM revisions \
         WHERE job = $1::int8 AND revision < $2::int8 ORDER BY revision DESC LIMIT $3::int8";
}

pub(super) mod deleted_jobs {
    pub(in crate::postgres) const INSERT: &str =
        "INSERT INTO deleted_jobs (job) SELECT * FROM unnest($1::int8[]) ON CONFLICT DO NOTHING";
}

/// A page of a walk along ids: the key of every row it passes, whether it is wanted, and its body if that is asked for.
macro_rules! walked {
    ($page:expr) => {
        concat!(
            "SELECT p.at, p.wanted, CASE WHEN p.wanted AND $8::bool THEN p.body END FROM (SELECT q.at, q.body, \
             coalesce(($4::text IS NULL OR q.namespace = $4::text) AND ($5::int8 IS NULL OR q.job = $5::int8) \
             AND q.status = ANY($6::int2[]) AND ($7::bytea IS NULL OR q.key = $7::bytea), false) AS wanted FROM ",
            $page,
            " q) p"
        )
    };
}

/// The next runs of one shard after another, `$1` to `$2` being the span of each.
macro_rules! live_page {
    ($source:literal, $direction:literal) => {
        walked!(concat!(
            "(SELECT r.* FROM unnest($1::int8[], $2::int8[]) AS span (first, last), LATERAL (SELECT place AS at, \
             namespace, job, status, key, body FROM runs WHERE ",
            $source,
            " place BETWEEN span.first AND span.last ORDER BY place ",
            $direction,
            " LIMIT $3::int8) r)"
        ))
    };
}

macro_rules! history_page {
    ($source:literal, $direction:literal) => {
        walked!(concat!(
            "(SELECT id AS at, namespace, job, status, key, body FROM history WHERE ",
            $source,
            " id BETWEEN $1::int8 AND $2::int8 ORDER BY id ",
            $direction,
            " LIMIT $3::int8)"
        ))
    };
}

pub(super) mod runs {
    pub(in crate::postgres) const INSERT: &str = "INSERT INTO runs (place, shard, wake_at, job, status, namespace, key, body) \
         SELECT * FROM unnest($1::int8[], $2::int2[], $3::int8[], $4::int8[], $5::int2[], $6::text[], $7::bytea[], $8::bytea[])";
    pub(in crate::postgres) const UPDATE: &str = must_hit!(
        "UPDATE runs r SET wake_at = u.wake_at, status = u.status, body = u.body \
         FROM unnest($1::int8[], $2::int8[], $3::int2[], $4::bytea[]) AS u (place, wake_at, status, body) \
         WHERE r.place = u.place"
    );
    pub(in crate::postgres) const DELETE: &str = must_hit!("DELETE FROM runs WHERE place = ANY($1::int8[])");
    pub(in crate::postgres) const GET: &str = "SELECT body FROM runs WHERE place = ANY($1::int8[])";
    pub(in crate::postgres) const LOAD: &str = "SELECT body FROM runs \
         WHERE place BETWEEN $1::int8 AND $2::int8 AND wake_at IS NULL ORDER BY place";
    pub(in crate::postgres) const DUE: &str = "SELECT wake_at, place, body FROM runs \
         WHERE shard = $1::int2 AND wake_at IS NOT NULL AND (wake_at, place) > ($2::int8, $3::int8) \
         ORDER BY wake_at, place LIMIT $4::int8";
    pub(in crate::postgres) const NEWEST_FIRST: &str = live_page!("", "DESC");
    pub(in crate::postgres) const OLDEST_FIRST: &str = live_page!("", "");
    pub(in crate::postgres) const OF_KEY_NEWEST_FIRST: &str = live_page!("key = $7::bytea AND", "DESC");
    pub(in crate::postgres) const OF_KEY_OLDEST_FIRST: &str = live_page!("key = $7::bytea AND", "");
}

pub(super) mod history {
    pub(in crate::postgres) const INSERT: &str = "INSERT INTO history (id, job, status, finished_at, namespace, key, body) \
         SELECT * FROM unnest($1::int8[], $2::int8[], $3::int2[], $4::int8[], $5::text[], $6::bytea[], $7::bytea[])";
    pub(in crate::postgres) const UPDATE: &str = must_hit!(
        "UPDATE history h SET status = u.status, finished_at = u.finished_at, body = u.body \
         FROM unnest($1::int8[], $2::int2[], $3::int8[], $4::bytea[]) AS u (id, status, finished_at, body) \
         WHERE h.id = u.id"
    );
    pub(in crate::postgres) const DELETE: &str = must_hit!("DELETE FROM history WHERE id = ANY($1::int8[])");
    pub(in crate::postgres) const GET: &str = "SELECT body, EXISTS (SELECT 1 FROM dead_letters WHERE run = history.id) \
         FROM history WHERE id = ANY($1::int8[])";
    pub(in crate::postgres) const NEWEST_FIRST: &str = history_page!("", "DESC");
    pub(in crate::postgres) const OLDEST_FIRST: &str = history_page!("", "");
    pub(in crate::postgres) const OF_JOB_NEWEST_FIRST: &str = history_page!("job = $5::int8 AND", "DESC");
    pub(in crate::postgres) const OF_JOB_OLDEST_FIRST: &str = history_page!("job = $5::int8 AND", "");
    pub(in crate::postgres) const OF_KEY_NEWEST_FIRST: &str = history_page!("key = $7::bytea AND", "DESC");
    pub(in crate::postgres) const OF_KEY_OLDEST_FIRST: &str = history_page!("key = $7::bytea AND", "");
    pub(in crate::postgres) const OF_STATUS_NEWEST_FIRST: &str =
        history_page!("status > 3 AND status = ($6::int2[])[1] AND", "DESC");
    pub(in crate::postgres) const OF_STATUS_OLDEST_FIRST: &str =
        history_page!("status > 3 AND status = ($6::int2[])[1] AND", "");
}

pub(super) mod dead_letters {
    pub(in crate::postgres) const INSERT: &str = "INSERT INTO dead_letters (run, namespace, job, at) \
         SELECT * FROM unnest($1::int8[], $2::text[], $3::text[], $4::int8[])";
    pub(in crate::postgres) const UPDATE: &str = must_hit!(
        "UPDATE dead_letters l SET namespace = u.namespace, job = u.job, at = u.at \
         FROM unnest($1::int8[], $2::text[], $3::text[], $4::int8[]) AS u (run, namespace, job, at) WHERE l.run = u.run"
    );
    pub(in crate::postgres) const DELETE: &str =
        must_hit!("DELETE FROM dead_letters WHERE run = ANY($1::int8[])");
    pub(in crate::postgres) const LIST: &str = "SELECT run, namespace, job, at FROM dead_letters \
         WHERE run > $1::int8 AND ($2::text IS NULL OR namespace = $2::text) AND ($3::text IS NULL OR job = $3::text) \
         AND ($4::int8 IS NULL OR at >= $4::int8) ORDER BY run LIMIT $5::int8";
}

pub(super) mod uniques {
    pub(in crate::postgres) const INSERT: &str = "INSERT INTO uniques (shard, key, run, expires_at) \
         SELECT * FROM unnest($1::int2[], $2::bytea[], $3::int8[], $4::int8[])";
    pub(in crate::postgres) const UPDATE: &str = must_hit!(
        "UPDATE uniques k SET run = u.run, expires_at = u.expires_at \
         FROM unnest($1::int2[], $2::bytea[], $3::int8[], $4::int8[]) AS u (shard, key, run, expires_at) \
         WHERE k.shard = u.shard AND k.key = u.key"
    );
    pub(in crate::postgres) const DELETE: &str = must_hit!(
        "DELETE FROM uniques k USING unnest($1::int2[], $2::bytea[]) AS d (shard, key) \
         WHERE k.shard = d.shard AND k.key = d.key"
    );
    pub(in crate::postgres) const GET: &str = "SELECT k.key, k.run, k.expires_at FROM uniques k \
         JOIN unnest($1::int2[], $2::bytea[]) AS w (shard, key) ON k.shard = w.shard AND k.key = w.key";
}

pub(super) mod skips {
    pub(in crate::postgres) const INSERT: &str = "INSERT INTO skips (job, from_due, to_due, revision, reason, at) \
         SELECT * FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::int8[], $5::text[], $6::int8[])";
    pub(in crate::postgres) const UPDATE: &str = must_hit!(
        "UPDATE skips s SET to_due = u.to_due, revision = u.revision, reason = u.reason, at = u.at \
         FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::int8[], $5::text[], $6::int8[]) \
         AS u (job, from_due, to_due, revision, reason, at) WHERE s.job = u.job AND s.from_due = u.from_due"
    );
    pub(in crate::postgres) const DELETE: &str = must_hit!(
        "DELETE FROM skips s USING unnest($1::int8[], $2::int8[]) AS d (job, from_due) \
         WHERE s.job = d.job AND s.from_due = d.from_due"
    );
    pub(in crate::postgres) const LIST: &str = "SELECT job, from_due, to_due, revision, reason, at FROM skips \
         WHERE (job, from_due) > ($1::int8, $2::int8) ORDER BY job, from_due LIMIT $3::int8";
    pub(in crate::postgres) const LIST_OF_JOB: &str = "SELECT job, from_due, to_due, revision, reason, at FROM skips \
         WHERE job = $1::int8 AND from_due > $2::int8 ORDER BY from_due LIMIT $3::int8";
}

/// In the order in which `rows::queue` reads them.
macro_rules! queue_columns {
    () => {
        "number, namespace, name, created_at, paused_input, paused_output, queued, messages"
    };
}

pub(super) mod queues {
    pub(in crate::postgres) const INSERT: &str = "INSERT INTO queues (shard, number, namespace, name, created_at, \
         paused_input, paused_output, queued, messages) SELECT * FROM unnest($1::int2[], $2::int8[], $3::text[], \
         $4::bytea[], $5::int8[], $6::bool[], $7::bool[], $8::int8[], $9::int8[])";
    /// All of it: the number of a queue that went may be another's in the same batch.
    pub(in crate::postgres) const UPDATE: &str = must_hit!(
        "UPDATE queues q SET namespace = u.namespace, name = u.name, created_at = u.created_at, \
         paused_input = u.paused_input, paused_output = u.paused_output, queued = u.queued, messages = u.messages \
         FROM unnest($1::int2[], $2::int8[], $3::text[], $4::bytea[], $5::int8[], $6::bool[], $7::bool[], $8::int8[], \
         $9::int8[]) AS u (shard, number, namespace, name, created_at, paused_input, paused_output, queued, messages) \
         WHERE q.shard = u.shard AND q.number = u.number"
    );
    pub(in crate::postgres) const DELETE: &str = must_hit!(
        "DELETE FROM queues q USING unnest($1::int2[], $2::int8[]) AS d (shard, number) \
         WHERE q.shard = d.shard AND q.number = d.number"
    );
    pub(in crate::postgres) const LOAD: &str =
        concat!("SELECT ", queue_columns!(), " FROM queues WHERE shard = $1::int2 ORDER BY number");
    pub(in crate::postgres) const NAMED: &str = "SELECT shard, number FROM queues \
         WHERE namespace = $1::text AND name = $2::bytea ORDER BY shard, number LIMIT 1";
    pub(in crate::postgres) const LIST: &str = concat!(
        "SELECT ",
        queue_columns!(),
        " FROM queues WHERE (namespace, name) > ($1::text, $2::bytea) \
         ORDER BY namespace, name, shard, number LIMIT $3::int8"
    );
    pub(in crate::postgres) const LIST_OF_NAMESPACE: &str = concat!(
        "SELECT ",
        queue_columns!(),
        " FROM queues WHERE namespace = $1::text AND name > $2::bytea \
         ORDER BY name, shard, number LIMIT $3::int8"
    );
    pub(in crate::postgres) const STATS: &str =
        "SELECT count(*)::int8, coalesce(sum(messages), 0)::int8 FROM queues";
}

/// A page of messages in an order of theirs. It ends with the one whose body makes it too heavy: `$1` is the limit.
macro_rules! message_page {
    ($order:literal, $wanted:literal) => {
        concat!(
            "SELECT queue, rank_no, number, head, body, wake_at FROM (SELECT p.*, \
             sum(octet_length(body)) OVER (ORDER BY ",
            $order,
            " ROWS UNBOUNDED PRECEDING) - octet_length(body) AS weight FROM (SELECT queue, rank_no, number, head, body, \
             wake_at FROM messages WHERE ",
            $wanted,
            " ORDER BY ",
            $order,
            " LIMIT $2::int8) p) w WHERE weight < $1::int8 ORDER BY ",
            $order
        )
    };
}

pub(super) mod messages {
    pub(in crate::postgres) const INSERT: &str = "INSERT INTO messages (shard, queue, rank_no, number, wake_at, queued, \
         head, body) SELECT * FROM unnest($1::int2[], $2::int8[], $3::int2[], $4::int8[], $5::int8[], $6::bool[], \
         $7::bytea[], $8::bytea[])";
    /// What a message carries never changes.
    pub(in crate::postgres) const UPDATE: &str = must_hit!(
        "UPDATE messages m SET wake_at = u.wake_at, queued = u.queued, head = u.head \
         FROM unnest($1::int2[], $2::int8[], $3::int2[], $4::int8[], $5::int8[], $6::bool[], $7::bytea[]) \
         AS u (shard, queue, rank_no, number, wake_at, queued, head) WHERE m.shard = u.shard AND m.queue = u.queue \
         AND m.rank_no = u.rank_no AND m.number = u.number"
    );
    pub(in crate::postgres) const DELETE: &str = must_hit!(
        "DELETE FROM messages m USING unnest($1::int2[], $2::int8[], $3::int2[], $4::int8[]) \
         AS d (shard, queue, rank_no, number) WHERE m.shard = d.shard AND m.queue = d.queue \
         AND m.rank_no = d.rank_no AND m.number = d.number"
    );
    /// By every rank there is: an id does not tell it.
    pub(in crate::postgres) const FIND: &str = "SELECT m.queue, m.rank_no, m.number, m.head, m.body \
         FROM unnest($1::int2[], $2::int8[], $3::int8[]) AS w (shard, queue, number) \
         CROSS JOIN generate_series(0, 9) AS r (rank_no) JOIN messages m ON m.shard = w.shard AND m.queue = w.queue \
         AND m.rank_no = r.rank_no AND m.number = w.number";
    pub(in crate::postgres) const LIST: &str = message_page!(
        "rank_no, number",
        "shard = $3::int2 AND queue = $4::int8 AND (rank_no, number) > ($5::int2, $6::int8)"
    );
    pub(in crate::postgres) const BACKLOG: &str = message_page!(
        "rank_no, number",
        "shard = $3::int2 AND queue = $4::int8 AND (rank_no, number) > ($5::int2, $6::int8) AND queued"
    );
    /// The same line, walked from its end.
    pub(in crate::postgres) const LAST_IN_LINE: &str =
        message_page!("rank_no DESC, number DESC", "shard = $3::int2 AND queue = $4::int8 AND queued");
    pub(in crate::postgres) const DUE: &str =
        message_page!("wake_at, number", "shard = $3::int2 AND (wake_at, number) > ($4::int8, $5::int8)");
}

pub(super) mod chunks {
    /// A chunk that is there already is left as it is.
    pub(in crate::postgres) const INSERT: &str = "INSERT INTO chunks (run, token, number, at, stream, bytes) \
         SELECT * FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::int8[], $5::int2[], $6::bytea[]) \
         ON CONFLICT DO NOTHING";
    pub(in crate::postgres) const LIST: &str = "SELECT token, number, at, stream, bytes FROM chunks \
         WHERE run = $1::int8 AND (token, number) > ($2::int8, $3::int8) ORDER BY token, number LIMIT $4::int8";
    /// Of what programs printed; our own remarks (3) are not theirs.
    pub(in crate::postgres) const BYTES: &str =
        "SELECT coalesce(sum(octet_length(bytes)), 0)::int8 FROM chunks WHERE run = $1::int8 AND stream <> 3";
}

/// Rows that somebody is just changing are left for the next time: pruning never waits.
pub(super) mod prune {
    /// History by id, and how much of each shard went.
    pub(in crate::postgres) const HISTORY: &str = "WITH gone AS (DELETE FROM history WHERE id IN \
         (SELECT id FROM history WHERE id = ANY($1::int8[]) FOR UPDATE SKIP LOCKED) RETURNING id), \
         counted AS (UPDATE pruned p SET history_runs = p.history_runs + c.runs FROM \
         (SELECT ((id >> 12) & 1023)::int2 AS shard, count(*) AS runs FROM gone GROUP BY 1) c WHERE p.shard = c.shard) \
         SELECT count(*) FROM gone";
    pub(in crate::postgres) const OLD_AD_HOC: &str = "SELECT id FROM history WHERE job IS NULL AND finished_at < $1::int8 \
         AND NOT EXISTS (SELECT 1 FROM dead_letters WHERE run = history.id) ORDER BY finished_at LIMIT $2::int8";
    /// The next jobs that have history, each found by one step in the index, and what they keep.
    pub(in crate::postgres) const NEXT_JOBS: &str = "WITH RECURSIVE found AS (\
         (SELECT job FROM history WHERE job > $1::int8 ORDER BY job LIMIT 1) UNION ALL \
         SELECT (SELECT h.job FROM history h WHERE h.job > found.job ORDER BY h.job LIMIT 1) FROM found \
         WHERE found.job IS NOT NULL), page AS (SELECT job FROM found WHERE job IS NOT NULL LIMIT $2::int8) \
         SELECT page.job, jobs.keep_runs, jobs.keep_days FROM page LEFT JOIN jobs ON jobs.id = page.job ORDER BY page.job";
    /// Of every job: what is beyond the runs it keeps, or ended before the instant it keeps since. A run that was made
    /// after that instant (`newest` is the first id of it) cannot have ended before it.
    pub(in crate::postgres) const OLD_OF_JOBS: &str = "SELECT h.id FROM \
         unnest($1::int8[], $2::int8[], $3::int8[], $4::int8[]) AS k (job, runs, since, newest) \
         CROSS JOIN LATERAL (SELECT coalesce((SELECT b.id FROM history b WHERE b.job = k.job \
         ORDER BY b.id DESC OFFSET k.runs LIMIT 1), -1) AS id) AS beyond \
         CROSS JOIN LATERAL (SELECT o.id FROM history o WHERE o.job = k.job AND o.id <= greatest(beyond.id, k.newest) \
         AND (o.id <= beyond.id OR o.finished_at < k.since) \
         AND NOT EXISTS (SELECT 1 FROM dead_letters l WHERE l.run = o.id) ORDER BY o.id LIMIT $5::int8) AS h LIMIT $5::int8";
    pub(in crate::postgres) const UNIQUES: &str = "DELETE FROM uniques WHERE (shard, key) IN (SELECT shard, key FROM uniques \
         WHERE expires_at < $1::int8 ORDER BY expires_at LIMIT $2::int8 FOR UPDATE SKIP LOCKED)";
    /// `$1` is now, `$2` how long records without a job are kept, `$3` an instant that no kept record is older than.
    pub(in crate::postgres) const SKIPS: &str = "DELETE FROM skips WHERE (job, from_due) IN (SELECT s.job, s.from_due \
         FROM skips s LEFT JOIN jobs j ON j.id = s.job WHERE s.at < $3::int8 \
         AND s.at < $1::int8 - coalesce(j.keep_days * 86400000, $2::int8) LIMIT $4::int8 FOR UPDATE OF s SKIP LOCKED)";
    /// The next deleted jobs, and whether no run needs their revisions any more.
    pub(in crate::postgres) const DELETED_JOBS: &str = "SELECT d.job, NOT EXISTS (SELECT 1 FROM jobs WHERE id = d.job) \
         AND NOT EXISTS (SELECT 1 FROM history h WHERE h.job = d.job) AND NOT EXISTS (SELECT 1 FROM runs r \
         WHERE r.job = d.job AND r.place BETWEEN ((d.job >> 12) & 1023) << 53 \
         AND (((d.job >> 12) & 1023) << 53) + 9007199254740991) \
         FROM (SELECT job FROM deleted_jobs WHERE job > $1::int8 ORDER BY job LIMIT $2::int8) d ORDER BY d.job";
    pub(in crate::postgres) const REVISIONS: &str = "DELETE FROM revisions WHERE (job, revision) IN \
         (SELECT job, revision FROM revisions WHERE job = ANY($1::int8[]) LIMIT $2::int8)";
    pub(in crate::postgres) const FORGET_JOBS: &str = "DELETE FROM deleted_jobs WHERE job = ANY($1::int8[])";
    /// The next runs that have output, each found by one step in the index, and whether they are gone.
    pub(in crate::postgres) const LOGGED_RUNS: &str = "WITH RECURSIVE found AS (\
         (SELECT run FROM chunks WHERE run > $1::int8 ORDER BY run LIMIT 1) UNION ALL \
         SELECT (SELECT c.run FROM chunks c WHERE c.run > found.run ORDER BY c.run LIMIT 1) FROM found \
         WHERE found.run IS NOT NULL), page AS (SELECT run FROM found WHERE run IS NOT NULL LIMIT $2::int8) \
         SELECT page.run, NOT EXISTS (SELECT 1 FROM history WHERE id = page.run) AND NOT EXISTS (SELECT 1 FROM runs \
         WHERE place = ((((page.run >> 12) & 1023) << 53) | ((page.run >> 22) << 12) | (page.run & 4095))) \
         FROM page ORDER BY page.run";
    pub(in crate::postgres) const CHUNKS: &str = "DELETE FROM chunks WHERE (run, token, number) IN \
         (SELECT run, token, number FROM chunks WHERE run = ANY($1::int8[]) LIMIT $2::int8)";
}
