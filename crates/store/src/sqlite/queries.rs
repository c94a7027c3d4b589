//! Every SQL statement, by table. Values are always bound as parameters.

pub(super) const BEGIN: &str = "BEGIN IMMEDIATE";
pub(super) const BEGIN_READING: &str = "BEGIN";
/// Pins the snapshot: SQLite takes it at the first read of a transaction.
pub(super) const PIN: &str = "SELECT 1 FROM shards LIMIT 1";
pub(super) const COMMIT: &str = "COMMIT";
pub(super) const ROLLBACK: &str = "ROLLBACK";

pub(super) mod shards {
    pub(in crate::sqlite) const INSERT: &str =
        "INSERT INTO shards (shard, epoch, commit_no, last_id) VALUES (?1, 0, 0, 0)";
    /// The fence: unless it updates one row, the batch is outdated.
    pub(in crate::sqlite) const FENCE: &str = "UPDATE shards SET commit_no = commit_no + 1, last_id = ?4, jobs = jobs + ?5, \
         live_runs = live_runs + ?6, history_runs = history_runs + ?7, dead_letters = dead_letters + ?8 \
         WHERE shard = ?1 AND epoch = ?2 AND commit_no = ?3";
    pub(in crate::sqlite) const PRUNED: &str =
        "UPDATE shards SET history_runs = history_runs - ?2 WHERE shard = ?1";
    pub(in crate::sqlite) const ACQUIRE: &str = "UPDATE shards SET epoch = epoch + 1, commit_no = commit_no + 1, \
         owner = ?3, heir = NULL WHERE shard = ?1 AND epoch = coalesce(?2, epoch) RETURNING epoch";
    pub(in crate::sqlite) const RELEASE: &str =
        "UPDATE shards SET owner = NULL, heir = ?3 WHERE shard = ?1 AND epoch = ?2";
    pub(in crate::sqlite) const EXISTS: &str = "SELECT 1 FROM shards WHERE shard = ?1";
    pub(in crate::sqlite) const LEASES: &str = "SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER), shard, epoch, owner, heir FROM shards ORDER BY shard";
    pub(in crate::sqlite) const GET: &str =
        "SELECT commit_no, last_id FROM shards WHERE shard = ?1 AND epoch = ?2";
    pub(in crate::sqlite) const LAST_IDS: &str = "SELECT last_id FROM shards ORDER BY shard";
    pub(in crate::sqlite) const HAVE_TABLE: &str =
        "SELECT count(*) = 1 FROM sqlite_schema WHERE type = 'table' AND name = 'shards'";
    pub(in crate::sqlite) const TOTAL: &str = "SELECT count(*), coalesce(sum(commit_no), 0) FROM shards";
    pub(in crate::sqlite) const JOBS: &str = "SELECT coalesce(sum(jobs), 0) FROM shards";
    pub(in crate::sqlite) const EPOCHS: &str = "SELECT shard, epoch FROM shards";
    /// A restored store has no leaders.
    pub(in crate::sqlite) const RESTORE: &str =
        "UPDATE shards SET epoch = ?2, owner = NULL, heir = NULL WHERE shard = ?1";
    pub(in crate::sqlite) const STATS: &str =
        "SELECT sum(jobs), sum(live_runs), sum(history_runs), sum(dead_letters) FROM shards";
}

pub(super) mod sessions {
    /// The store's clock is the machine's.
    pub(in crate::sqlite) const NOW: &str = "SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER)";
    pub(in crate::sqlite) const EXPIRE: &str = "DELETE FROM sessions WHERE until <= ?1";
    pub(in crate::sqlite) const RENEW: &str = "INSERT INTO sessions (id, node, address, weight, embedded, load, since, until) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (id) DO UPDATE SET node = ?2, address = ?3, weight = ?4, \
         embedded = ?5, load = ?6, until = ?8";
    pub(in crate::sqlite) const ALL: &str =
        "SELECT id, node, address, weight, embedded, load, since FROM sessions ORDER BY id";
    pub(in crate::sqlite) const LEAVE: &str = "DELETE FROM sessions WHERE id = ?1";
}

pub(super) mod mail {
    pub(in crate::sqlite) const DROP_OLD: &str = "DELETE FROM mail WHERE sent_at < ?1";
    pub(in crate::sqlite) const SEND: &str = "INSERT INTO mail (recipient, sender, number, sent_at, body) \
         VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING";
    pub(in crate::sqlite) const TAKE: &str =
        "DELETE FROM mail WHERE recipient = ?1 AND sender = ?2 AND number = ?3";
    pub(in crate::sqlite) const RECEIVE: &str =
        "SELECT sender, number, body FROM mail WHERE recipient = ?1 ORDER BY sender, number LIMIT ?2";
}

pub(super) mod admin {
    pub(in crate::sqlite) const OFFER: &str =
        "INSERT INTO agreed (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING";
    pub(in crate::sqlite) const AGREED: &str = "SELECT value FROM agreed WHERE name = ?1";
    pub(in crate::sqlite) const TOKENS: &str =
        "SELECT name, hash, role, created_at, expires_at FROM tokens ORDER BY name";
    pub(in crate::sqlite) const ADD_TOKEN: &str = "INSERT INTO tokens (name, hash, role, created_at, expires_at) \
         VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (name) DO NOTHING";
    pub(in crate::sqlite) const REMOVE_TOKEN: &str = "DELETE FROM tokens WHERE name = ?1";
}

/// In the order in which `rows::job` reads them.
macro_rules! job_columns {
    () => {
        "id, namespace, name, revision, paused, created_at, updated_at, \
         fired_through, next_due, wake_at, fires, coalesce(definition, (SELECT revisions.definition \
         FROM revisions WHERE revisions.job = jobs.id AND revisions.revision = jobs.revision)), zone_data"
    };
}

pub(super) mod jobs {
    pub(in crate::sqlite) const INSERT: &str = "INSERT INTO jobs (id, shard, namespace, name, revision, paused, \
         created_at, updated_at, fired_through, next_due, wake_at, fires, keep_runs, keep_days, definition, calendars, \
         zone_data) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)";
    /// A fire: the definition of a revision never changes, so it is not written again.
    pub(in crate::sqlite) const MOVE: &str = "UPDATE jobs SET paused = ?3, updated_at = ?4, fired_through = ?5, \
         next_due = ?6, wake_at = ?7, fires = ?8, zone_data = ?9 WHERE id = ?1 AND revision = ?2 AND fired_through <= ?5";
    pub(in crate::sqlite) const UPDATE: &str = "UPDATE jobs SET revision = ?2, paused = ?3, updated_at = ?4, \
         fired_through = ?5, next_due = ?6, wake_at = ?7, fires = ?8, zone_data = ?9, keep_runs = ?10, \
         keep_days = ?11, definition = ?12, calendars = ?13 WHERE id = ?1 AND fired_through <= ?5";
    pub(in crate::sqlite) const DELETE: &str = "DELETE FROM jobs WHERE id = ?1";
    pub(in crate::sqlite) const EXISTS: &str = "SELECT 1 FROM jobs WHERE id = ?1";
    pub(in crate::sqlite) const GET: &str = concat!("SELECT ", job_columns!(), " FROM jobs WHERE id = ?1");
    pub(in crate::sqlite) const NAMED: &str =
        concat!("SELECT ", job_columns!(), " FROM jobs WHERE namespace = ?1 AND name = ?2");
    pub(in crate::sqlite) const LIST: &str = concat!(
        "SELECT ",
        job_columns!(),
        " FROM jobs WHERE (namespace, name) > (?1, ?2) ORDER BY namespace, name LIMIT ?3"
    );
    pub(in crate::sqlite) const LIST_OF_NAMESPACE: &str = concat!(
        "SELECT ",
        job_columns!(),
        " FROM jobs WHERE namespace = ?1 AND name > ?2 ORDER BY name LIMIT ?3"
    );
    pub(in crate::sqlite) const LIST_OF_CALENDAR: &str = concat!(
        "SELECT ",
        job_columns!(),
        " FROM jobs WHERE calendars IS NOT NULL AND namespace = ?1 AND name > ?2 AND instr(calendars, ?4) > 0 \
         ORDER BY name LIMIT ?3"
    );
    pub(in crate::sqlite) const OUTDATED: &str =
        concat!("SELECT ", job_columns!(), " FROM jobs WHERE zone_data < ?1 LIMIT ?2");
    /// In two parts, the rest of the same instant and the later ones: a single comparison of (wake_at, id) would read
    /// all jobs that are due at one instant from the beginning for every page.
    pub(in crate::sqlite) const DUE: &str = concat!(
        "SELECT ",
        job_columns!(),
        " FROM jobs WHERE shard = ?1 AND wake_at = ?2 AND id > ?3 UNION ALL SELECT ",
        job_columns!(),
        " FROM jobs WHERE shard = ?1 AND wake_at > ?2 ORDER BY wake_at, id LIMIT ?4"
    );
    pub(in crate::sqlite) const KEEP: &str = "SELECT keep_runs, keep_days FROM jobs WHERE id = ?1";
}

/// In the order in which `calendars::record` reads them.
macro_rules! calendar_columns {
    () => {
        "namespace, name, version, days, description, updated_at, settled"
    };
}

pub(super) mod calendars {
    pub(in crate::sqlite) const NEXT_VERSION: &str =
        "UPDATE calendar_versions SET last = last + 1 WHERE one = 1 RETURNING last";
    pub(in crate::sqlite) const INSERT: &str = "INSERT INTO calendars (namespace, name, version, days, description, \
         updated_at, settled) VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0)";
    pub(in crate::sqlite) const UPDATE: &str = "UPDATE calendars SET version = ?3, days = ?4, description = ?5, \
         updated_at = ?6, settled = 0 WHERE namespace = ?1 AND name = ?2";
    pub(in crate::sqlite) const SETTLE: &str =
        "UPDATE calendars SET settled = 1 WHERE namespace = ?1 AND name = ?2 AND version = ?3";
    pub(in crate::sqlite) const DELETE: &str = "DELETE FROM calendars WHERE namespace = ?1 AND name = ?2";
    pub(in crate::sqlite) const GET: &str =
        concat!("SELECT ", calendar_columns!(), " FROM calendars WHERE namespace = ?1 AND name = ?2");
    pub(in crate::sqlite) const LIST: &str = concat!(
        "SELECT ",
        calendar_columns!(),
        " FROM calendars WHERE (namespace, name) > (?1, ?2) AND (?3 IS NULL OR namespace = ?3) \
         ORDER BY namespace, name LIMIT ?4"
    );
    pub(in crate::sqlite) const UNSETTLED: &str = concat!(
        "SELECT ",
        calendar_columns!(),
        " FROM calendars WHERE settled = 0 AND (namespace, name) > (?1, ?2) AND (?3 IS NULL OR namespace = ?3) \
         ORDER BY namespace, name LIMIT ?4"
    );
}

pub(super) mod revisions {
    pub(in crate::sqlite) const INSERT: &str =
        "INSERT INTO revisions (job, revision, at, definition, state) VALUES (?1, ?2, ?3, ?4, ?5)";
    pub(in crate::sqlite) const UPDATE: &str =
        "UPDATE revisions SET at = ?3, definition = ?4, state = ?5 WHERE job = ?1 AND revision = ?2";
    pub(in crate::sqlite) const DELETE: &str = "DELETE FROM revisions WHERE job = ?1 AND revision = ?2";
    pub(in crate::sqlite) const GET: &str =
        "SELECT at, definition, state FROM revisions WHERE job = ?1 AND revision = ?2";
    pub(in crate::sqlite) const NEWEST_FIRST: &str = "SELECT revision, at, definition, state FROM revisions \
         WHERE job = ?1 AND revision < ?2 ORDER BY revision DESC LIMIT ?3";
    pub(in crate::sqlite) const OF_JOB: &str = "SELECT revision FROM revisions WHERE job = ?1 LIMIT ?2";
}

pub(super) mod deleted_jobs {
    /// Runs before the job is deleted.
    pub(in crate::sqlite) const INSERT: &str = "INSERT INTO deleted_jobs (job, namespace, name) \
         SELECT id, namespace, name FROM jobs WHERE id = ?1 ON CONFLICT DO NOTHING";
    pub(in crate::sqlite) const LIST: &str =
        "SELECT job, namespace, name FROM deleted_jobs WHERE job > ?1 ORDER BY job LIMIT ?2";
    pub(in crate::sqlite) const NAMED: &str = "SELECT job, namespace, name FROM deleted_jobs \
         WHERE namespace = ?3 AND name = ?4 AND job > ?1 ORDER BY job LIMIT ?2";
    pub(in crate::sqlite) const DELETE: &str = "DELETE FROM deleted_jobs WHERE job = ?1";
    pub(in crate::sqlite) const AFTER: &str =
        "SELECT job FROM deleted_jobs WHERE job > ?1 ORDER BY job LIMIT ?2";
}

pub(super) mod runs {
    pub(in crate::sqlite) const INSERT: &str = "INSERT INTO runs (place, shard, wake_at, job, status, namespace, body, key) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    pub(in crate::sqlite) const UPDATE: &str =
        "UPDATE runs SET wake_at = ?2, status = ?3, body = ?4 WHERE place = ?1";
    pub(in crate::sqlite) const DELETE: &str = "DELETE FROM runs WHERE place = ?1";
    pub(in crate::sqlite) const GET: &str = "SELECT body FROM runs WHERE place = ?1";
    pub(in crate::sqlite) const LOAD: &str =
        "SELECT body FROM runs WHERE place BETWEEN ?1 AND ?2 AND wake_at IS NULL ORDER BY place";
    /// In two parts like `jobs::DUE`.
    pub(in crate::sqlite) const DUE: &str = "SELECT wake_at, place, body FROM runs \
         WHERE shard = ?1 AND wake_at = ?2 AND place > ?3 UNION ALL SELECT wake_at, place, body FROM runs \
         WHERE shard = ?1 AND wake_at > ?2 ORDER BY wake_at, place LIMIT ?4";
    pub(in crate::sqlite) const NEWEST_FIRST: &str = "SELECT place, namespace, job, status, body FROM runs \
         WHERE place BETWEEN ?1 AND ?2 ORDER BY place DESC";
    pub(in crate::sqlite) const OLDEST_FIRST: &str = "SELECT place, namespace, job, status, body FROM runs \
         WHERE place BETWEEN ?1 AND ?2 ORDER BY place";
    pub(in crate::sqlite) const OF_KEY_NEWEST_FIRST: &str = "SELECT place, namespace, job, status, body FROM runs \
         WHERE key = ?3 AND place BETWEEN ?1 AND ?2 ORDER BY place DESC";
    pub(in crate::sqlite) const OF_KEY_OLDEST_FIRST: &str = "SELECT place, namespace, job, status, body FROM runs \
         WHERE key = ?3 AND place BETWEEN ?1 AND ?2 ORDER BY place";
    pub(in crate::sqlite) const ANY_OF_JOB: &str =
        "SELECT 1 FROM runs WHERE place BETWEEN ?1 AND ?2 AND job = ?3 LIMIT 1";
}

pub(super) mod history {
    pub(in crate::sqlite) const INSERT: &str = "INSERT INTO history (id, job, status, finished_at, namespace, body, key) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    pub(in crate::sqlite) const UPDATE: &str =
        "UPDATE history SET status = ?2, finished_at = ?3, body = ?4 WHERE id = ?1";
    pub(in crate::sqlite) const DELETE: &str = "DELETE FROM history WHERE id = ?1";
    pub(in crate::sqlite) const GET: &str = "SELECT body FROM history WHERE id = ?1";
    pub(in crate::sqlite) const EXISTS: &str = "SELECT 1 FROM history WHERE id = ?1";
    pub(in crate::sqlite) const NEWEST_FIRST: &str = "SELECT id, namespace, job, status, body FROM history \
         WHERE id BETWEEN ?1 AND ?2 ORDER BY id DESC";
    pub(in crate::sqlite) const OLDEST_FIRST: &str = "SELECT id, namespace, job, status, body FROM history \
         WHERE id BETWEEN ?1 AND ?2 ORDER BY id";
    pub(in crate::sqlite) const OF_JOB_NEWEST_FIRST: &str = "SELECT id, namespace, job, status, body FROM history \
         WHERE job = ?3 AND id BETWEEN ?1 AND ?2 ORDER BY id DESC";
    pub(in crate::sqlite) const OF_JOB_OLDEST_FIRST: &str = "SELECT id, namespace, job, status, body FROM history \
         WHERE job = ?3 AND id BETWEEN ?1 AND ?2 ORDER BY id";
    pub(in crate::sqlite) const OF_KEY_NEWEST_FIRST: &str = "SELECT id, namespace, job, status, body FROM history \
         WHERE key = ?3 AND id BETWEEN ?1 AND ?2 ORDER BY id DESC";
    pub(in crate::sqlite) const OF_KEY_OLDEST_FIRST: &str = "SELECT id, namespace, job, status, body FROM history \
         WHERE key = ?3 AND id BETWEEN ?1 AND ?2 ORDER BY id";
    pub(in crate::sqlite) const OF_STATUS_NEWEST_FIRST: &str = "SELECT id, namespace, job, status, body FROM history \
         WHERE status > 3 AND status = ?3 AND id BETWEEN ?1 AND ?2 ORDER BY id DESC";
    pub(in crate::sqlite) const OF_STATUS_OLDEST_FIRST: &str = "SELECT id, namespace, job, status, body FROM history \
         WHERE status > 3 AND status = ?3 AND id BETWEEN ?1 AND ?2 ORDER BY id";
    pub(in crate::sqlite) const ANY_OF_JOB: &str = "SELECT 1 FROM history WHERE job = ?1 LIMIT 1";
    /// The next job that has history.
    pub(in crate::sqlite) const NEXT_JOB: &str =
        "SELECT job FROM history WHERE job > ?1 ORDER BY job LIMIT 1";
    /// The newest run of a job that is beyond the number of runs it keeps.
    pub(in crate::sqlite) const BEYOND: &str =
        "SELECT id FROM history WHERE job = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2";
    pub(in crate::sqlite) const OLD_OF_JOB: &str = "SELECT id FROM history WHERE job = ?1 AND id <= ?2 \
         AND (id <= ?3 OR finished_at < ?4) AND NOT EXISTS (SELECT 1 FROM dead_letters WHERE run = history.id) \
         ORDER BY id LIMIT ?5";
    pub(in crate::sqlite) const OLD_AD_HOC: &str = "SELECT id FROM history WHERE job IS NULL AND finished_at < ?1 \
         AND NOT EXISTS (SELECT 1 FROM dead_letters WHERE run = history.id) ORDER BY finished_at LIMIT ?2";
}

pub(super) mod dead_letters {
    pub(in crate::sqlite) const INSERT: &str =
        "INSERT INTO dead_letters (run, namespace, job, at) VALUES (?1, ?2, ?3, ?4)";
    pub(in crate::sqlite) const UPDATE: &str =
        "UPDATE dead_letters SET namespace = ?2, job = ?3, at = ?4 WHERE run = ?1";
    pub(in crate::sqlite) const DELETE: &str = "DELETE FROM dead_letters WHERE run = ?1";
    pub(in crate::sqlite) const EXISTS: &str = "SELECT 1 FROM dead_letters WHERE run = ?1";
    pub(in crate::sqlite) const LIST: &str = "SELECT run, namespace, job, at FROM dead_letters \
         WHERE run > ?1 AND (?2 IS NULL OR namespace = ?2) AND (?3 IS NULL OR job = ?3) AND (?4 IS NULL OR at >= ?4) \
         ORDER BY run LIMIT ?5";
}

pub(super) mod uniques {
    pub(in crate::sqlite) const INSERT: &str =
        "INSERT INTO uniques (shard, key, run, expires_at) VALUES (?1, ?2, ?3, ?4)";
    pub(in crate::sqlite) const UPDATE: &str =
        "UPDATE uniques SET run = ?3, expires_at = ?4 WHERE shard = ?1 AND key = ?2";
    pub(in crate::sqlite) const DELETE: &str = "DELETE FROM uniques WHERE shard = ?1 AND key = ?2";
    pub(in crate::sqlite) const DELETE_EXPIRED: &str =
        "DELETE FROM uniques WHERE shard = ?1 AND key = ?2 AND expires_at < ?3";
    pub(in crate::sqlite) const GET: &str =
        "SELECT run, expires_at FROM uniques WHERE shard = ?1 AND key = ?2";
    pub(in crate::sqlite) const EXPIRED: &str =
        "SELECT shard, key FROM uniques WHERE expires_at < ?1 ORDER BY expires_at LIMIT ?2";
}

pub(super) mod skips {
    pub(in crate::sqlite) const INSERT: &str =
        "INSERT INTO skips (job, revision, from_due, to_due, reason, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    pub(in crate::sqlite) const UPDATE: &str = "UPDATE skips SET to_due = ?4, reason = ?5, at = ?6 WHERE job = ?1 AND revision = ?2 AND from_due = ?3";
    pub(in crate::sqlite) const DELETE: &str =
        "DELETE FROM skips WHERE job = ?1 AND revision = ?2 AND from_due = ?3";
    pub(in crate::sqlite) const NEWEST_FIRST: &str = "SELECT job, revision, from_due, to_due, reason, at FROM skips \
         WHERE job = ?1 AND (revision, from_due) < (?2, ?3) ORDER BY revision DESC, from_due DESC LIMIT ?4";
    pub(in crate::sqlite) const ANY_OF_JOB: &str = "SELECT 1 FROM skips WHERE job = ?1 LIMIT 1";
    /// Parameters: now, how long records without a job are kept, an instant that every old record is older than, the
    /// limit.
    pub(in crate::sqlite) const OLD: &str = "SELECT skips.job, skips.revision, skips.from_due FROM skips \
         LEFT JOIN jobs ON jobs.id = skips.job \
         WHERE skips.at < ?3 AND skips.at < ?1 - coalesce(jobs.keep_days * 86400000, ?2) LIMIT ?4";
}

/// In the order in which `rows::queue` reads them.
macro_rules! queue_columns {
    () => {
        "number, namespace, name, created_at, paused_input, paused_output, queued, messages"
    };
}

pub(super) mod queues {
    pub(in crate::sqlite) const INSERT: &str = "INSERT INTO queues (shard, number, namespace, name, created_at, \
         paused_input, paused_output, queued, messages) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    /// Writes all columns: the same batch may delete a queue and reuse its number for another.
    pub(in crate::sqlite) const UPDATE: &str = "UPDATE queues SET namespace = ?3, name = ?4, created_at = ?5, \
         paused_input = ?6, paused_output = ?7, queued = ?8, messages = ?9 WHERE shard = ?1 AND number = ?2";
    pub(in crate::sqlite) const DELETE: &str = "DELETE FROM queues WHERE shard = ?1 AND number = ?2";
    pub(in crate::sqlite) const LOAD: &str =
        concat!("SELECT ", queue_columns!(), " FROM queues WHERE shard = ?1 ORDER BY number");
    pub(in crate::sqlite) const NAMED: &str = "SELECT shard, number FROM queues \
         WHERE namespace = ?1 AND name = ?2 ORDER BY shard, number LIMIT 1";
    pub(in crate::sqlite) const LIST: &str = concat!(
        "SELECT ",
        queue_columns!(),
        " FROM queues WHERE (namespace, name) > (?1, ?2) ORDER BY namespace, name, shard, number LIMIT ?3"
    );
    pub(in crate::sqlite) const LIST_OF_NAMESPACE: &str = concat!(
        "SELECT ",
        queue_columns!(),
        " FROM queues WHERE namespace = ?1 AND name > ?2 ORDER BY name, shard, number LIMIT ?3"
    );
    pub(in crate::sqlite) const STATS: &str = "SELECT count(*), coalesce(sum(messages), 0) FROM queues";
}

pub(super) mod messages {
    pub(in crate::sqlite) const INSERT: &str = "INSERT INTO messages (shard, queue, rank_no, number, wake_at, queued, \
         head, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    /// The body of a message never changes.
    pub(in crate::sqlite) const UPDATE: &str = "UPDATE messages SET wake_at = ?5, queued = ?6, head = ?7 \
         WHERE shard = ?1 AND queue = ?2 AND rank_no = ?3 AND number = ?4";
    pub(in crate::sqlite) const DELETE: &str =
        "DELETE FROM messages WHERE shard = ?1 AND queue = ?2 AND rank_no = ?3 AND number = ?4";
    pub(in crate::sqlite) const EXISTS: &str = "SELECT 1 FROM messages \
         WHERE shard = ?1 AND queue = ?2 AND rank_no = ?3 AND number = ?4";
    /// Tries every rank: an id does not contain it.
    pub(in crate::sqlite) const FIND: &str = "SELECT queue, rank_no, number, head, body FROM messages \
         WHERE shard = ?1 AND queue = ?2 AND rank_no IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9) AND number = ?3";
    pub(in crate::sqlite) const LIST: &str = "SELECT queue, rank_no, number, head, body FROM messages \
         WHERE shard = ?1 AND queue = ?2 AND (rank_no, number) > (?3, ?4) ORDER BY rank_no, number LIMIT ?5";
    pub(in crate::sqlite) const BACKLOG: &str = "SELECT queue, rank_no, number, head, body FROM messages \
         WHERE shard = ?1 AND queue = ?2 AND (rank_no, number) > (?3, ?4) AND queued = 1 \
         ORDER BY rank_no, number LIMIT ?5";
    /// Like `BACKLOG`, from the end.
    pub(in crate::sqlite) const LAST_IN_LINE: &str = "SELECT queue, rank_no, number, head, body FROM messages \
         WHERE shard = ?1 AND queue = ?2 AND queued = 1 ORDER BY rank_no DESC, number DESC LIMIT ?3";
    /// In two parts like `jobs::DUE`.
    pub(in crate::sqlite) const DUE: &str = "SELECT queue, rank_no, number, head, body, wake_at FROM messages \
         WHERE shard = ?1 AND wake_at = ?2 AND number > ?3 UNION ALL \
         SELECT queue, rank_no, number, head, body, wake_at FROM messages \
         WHERE shard = ?1 AND wake_at > ?2 ORDER BY wake_at, number LIMIT ?4";
}

pub(super) mod young {
    pub(in crate::sqlite) const ALL: &str = "SELECT entry, bytes FROM young ORDER BY entry";
    pub(in crate::sqlite) const INSERT: &str = "INSERT INTO young (entry, bytes) VALUES (?1, ?2)";
    pub(in crate::sqlite) const DELETE: &str = "DELETE FROM young WHERE entry <= ?1";
}

pub(super) mod chunks {
    /// A chunk that is stored already stays as it is.
    pub(in crate::sqlite) const INSERT: &str = "INSERT INTO chunks (run, token, number, at, stream, bytes) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING";
    pub(in crate::sqlite) const LIST: &str = "SELECT token, number, at, stream, bytes FROM chunks \
         WHERE run = ?1 AND (token, number) > (?2, ?3) ORDER BY token, number LIMIT ?4";
    /// Only the output of programs: stream 3 has Punctual's own remarks.
    pub(in crate::sqlite) const BYTES: &str =
        "SELECT coalesce(sum(length(bytes)), 0) FROM chunks WHERE run = ?1 AND stream <> 3";
    pub(in crate::sqlite) const NEXT_RUN: &str = "SELECT run FROM chunks WHERE run > ?1 ORDER BY run LIMIT 1";
    pub(in crate::sqlite) const DELETE: &str = "DELETE FROM chunks WHERE rowid IN \
         (SELECT rowid FROM chunks WHERE run = ?1 LIMIT ?2)";
}
