//! Fixed SQL statements, by table, with bound parameters. Statements composed for many rows are in `statements`, reads
//! of many keys next to their use.

/// The server's clock in milliseconds. Not `UNIX_TIMESTAMP`, which ends in 2038 on some servers.
macro_rules! now {
    () => {
        "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(3)) DIV 1000)"
    };
}

pub(super) mod shards {
    pub(in crate::mysql) const COUNT: &str = "SELECT COUNT(*) FROM shards";
    pub(in crate::mysql) const ACQUIRE: &str = "UPDATE shards SET epoch = epoch + 1, commit_no = commit_no + 1, owner = ?, heir = NULL \
         WHERE shard = ? AND epoch = COALESCE(?, epoch)";
    pub(in crate::mysql) const RELEASE: &str =
        "UPDATE shards SET owner = NULL, heir = ? WHERE shard = ? AND epoch = ?";
    pub(in crate::mysql) const LEASES: &str =
        concat!("SELECT ", now!(), ", shard, epoch, owner, heir FROM shards ORDER BY shard");
    pub(in crate::mysql) const GET: &str =
        "SELECT commit_no, last_id FROM shards WHERE shard = ? AND epoch = ?";
    pub(in crate::mysql) const STATS: &str = "SELECT CAST(SUM(jobs) AS SIGNED), CAST(SUM(live_runs) AS SIGNED), \
         CAST(SUM(shards.history_runs - COALESCE(pruned.history_runs, 0)) AS SIGNED), CAST(SUM(dead_letters) AS SIGNED) \
         FROM shards LEFT JOIN pruned ON pruned.shard = shards.shard";
}

pub(super) mod sessions {
    /// The order matters: MySQL assigns from left to right, and `since` of an expired session is set by its old
    /// `until`.
    pub(in crate::mysql) const RENEW: &str = concat!(
        "UPDATE sessions SET node = ?, address = ?, weight = ?, embedded = ?, busy = ?, since = IF(until <= ",
        now!(),
        ", ",
        now!(),
        ", since), until = ",
        now!(),
        " + ? WHERE id = ?"
    );
    pub(in crate::mysql) const BEGIN: &str = concat!(
        "INSERT INTO sessions (id, node, address, weight, embedded, busy, since, until) VALUES (?, ?, ?, ?, ?, ?, ",
        now!(),
        ", ",
        now!(),
        " + ?)"
    );
    pub(in crate::mysql) const ALL: &str = concat!(
        "SELECT id, node, address, weight, embedded, busy, ",
        now!(),
        " - since, until - ",
        now!(),
        " FROM sessions ORDER BY id"
    );
    pub(in crate::mysql) const SWEEP: &str = concat!("DELETE FROM sessions WHERE until <= ", now!(), " - ?");
    pub(in crate::mysql) const LEAVE: &str = "DELETE FROM sessions WHERE id = ?";
}

pub(super) mod mail {
    pub(in crate::mysql) const DROP_OLD: &str = concat!("DELETE FROM mail WHERE sent_at < ", now!(), " - ?");
    pub(in crate::mysql) const SEND: &str = concat!(
        "INSERT IGNORE INTO mail (recipient, sender, number, sent_at, body) VALUES (?, ?, ?, ",
        now!(),
        ", ?)"
    );
    pub(in crate::mysql) const TAKE: &str =
        "DELETE FROM mail WHERE recipient = ? AND sender = ? AND number = ?";
    pub(in crate::mysql) const RECEIVE: &str =
        "SELECT sender, number, body FROM mail WHERE recipient = ? ORDER BY sender, number LIMIT ?";
}

pub(super) mod admin {
    pub(in crate::mysql) const OFFER: &str = "INSERT IGNORE INTO agreed (name, value) VALUES (?, ?)";
    pub(in crate::mysql) const AGREED: &str = "SELECT value FROM agreed WHERE name = ?";
    pub(in crate::mysql) const TOKENS: &str =
        "SELECT name, hash, role, created_at, expires_at FROM tokens ORDER BY name";
    pub(in crate::mysql) const ADD_TOKEN: &str =
        "INSERT IGNORE INTO tokens (name, hash, role, created_at, expires_at) VALUES (?, ?, ?, ?, ?)";
    pub(in crate::mysql) const REMOVE_TOKEN: &str = "DELETE FROM tokens WHERE name = ?";
}

/// In the order in which `rows::job` reads them.
macro_rules! job_columns {
    () => {
        "id, namespace, name, revision, paused, created_at, updated_at, \
         fired_through, next_due, wake_at, fires, COALESCE(definition, (SELECT revisions.definition \
         FROM revisions WHERE revisions.job = jobs.id AND revisions.revision = jobs.revision)), zone_data"
    };
}

pub(super) mod jobs {
    pub(in crate::mysql) const SELECT: &str = concat!("SELECT ", job_columns!(), " FROM jobs WHERE ");
    pub(in crate::mysql) const NAMED: &str =
        concat!("SELECT ", job_columns!(), " FROM jobs WHERE namespace = ? AND name = ?");
    pub(in crate::mysql) const LIST_OF_NAMESPACE: &str = concat!(
        "SELECT ",
        job_columns!(),
        " FROM jobs FORCE INDEX (jobs_name) WHERE namespace = ? AND name > ? ORDER BY name LIMIT ?"
    );
    pub(in crate::mysql) const LIST_BEYOND: &str = concat!(
        "SELECT ",
        job_columns!(),
        " FROM jobs FORCE INDEX (jobs_name) WHERE namespace > ? ORDER BY namespace, name LIMIT ?"
    );
    pub(in crate::mysql) const LIST_OF_CALENDAR: &str = concat!(
        "SELECT ",
        job_columns!(),
        " FROM jobs FORCE INDEX (jobs_with_calendar) WHERE namespace = ? AND with_calendar = 1 AND name > ? \
         AND INSTR(calendars, ?) > 0 ORDER BY name LIMIT ?"
    );
    pub(in crate::mysql) const OUTDATED: &str = concat!(
        "SELECT ",
        job_columns!(),
        " FROM jobs FORCE INDEX (jobs_zone_data) WHERE zone_data < ? LIMIT ?"
    );
    /// In two parts, the rest of the same instant and the later ones: a single comparison of (wake_at, id) would read
    /// all jobs that are due at one instant from the beginning for every page.
    pub(in crate::mysql) const DUE_AT: &str = concat!(
        "SELECT ",
        job_columns!(),
        " FROM jobs FORCE INDEX (jobs_due) WHERE shard = ? AND wake_at = ? AND id > ? ORDER BY id LIMIT ?"
    );
    pub(in crate::mysql) const DUE_AFTER: &str = concat!(
        "SELECT ",
        job_columns!(),
        " FROM jobs FORCE INDEX (jobs_due) WHERE shard = ? AND wake_at > ? ORDER BY wake_at, id LIMIT ?"
    );
    pub(in crate::mysql) const KEEP: &str = "SELECT keep_runs, keep_days FROM jobs WHERE id = ?";
    pub(in crate::mysql) const EXISTS: &str = "SELECT 1 FROM jobs WHERE id = ?";
}

/// In the order in which `calendars::record` reads them.
macro_rules! calendar_columns {
    () => {
        "namespace, name, version, days, description, updated_at, settled"
    };
}

pub(super) mod calendars {
    pub(in crate::mysql) const LAST_VERSION: &str =
        "SELECT last FROM calendar_versions WHERE one = 1 FOR UPDATE";
    pub(in crate::mysql) const SET_VERSION: &str = "UPDATE calendar_versions SET last = ? WHERE one = 1";
    pub(in crate::mysql) const INSERT: &str = "INSERT INTO calendars (namespace, name, version, days, description, updated_at, settled) \
         VALUES (?, ?, ?, ?, ?, ?, 0)";
    pub(in crate::mysql) const UPDATE: &str = "UPDATE calendars SET version = ?, days = ?, description = ?, updated_at = ?, settled = 0 \
         WHERE namespace = ? AND name = ?";
    pub(in crate::mysql) const SETTLE: &str =
        "UPDATE calendars SET settled = 1 WHERE namespace = ? AND name = ? AND version = ?";
    pub(in crate::mysql) const DELETE: &str = "DELETE FROM calendars WHERE namespace = ? AND name = ?";
    pub(in crate::mysql) const GET: &str =
        concat!("SELECT ", calendar_columns!(), " FROM calendars WHERE namespace = ? AND name = ?");
    pub(in crate::mysql) const LIST: &str = concat!(
        "SELECT ",
        calendar_columns!(),
        " FROM calendars WHERE (namespace > ? OR (namespace = ? AND name > ?)) AND (? IS NULL OR namespace = ?) \
         ORDER BY namespace, name LIMIT ?"
    );
    pub(in crate::mysql) const UNSETTLED: &str = concat!(
        "SELECT ",
        calendar_columns!(),
        " FROM calendars WHERE settled = 0 AND (namespace > ? OR (namespace = ? AND name > ?)) \
         AND (? IS NULL OR namespace = ?) ORDER BY namespace, name LIMIT ?"
    );
}

pub(super) mod revisions {
    pub(in crate::mysql) const GET: &str =
        "SELECT made_at, definition, state FROM revisions WHERE job = ? AND revision = ?";
    pub(in crate::mysql) const NEWEST_FIRST: &str = "SELECT revision, made_at, definition, state FROM revisions \
         WHERE job = ? AND revision < ? ORDER BY revision DESC LIMIT ?";
    pub(in crate::mysql) const OF_JOB: &str = "SELECT revision FROM revisions WHERE job = ? LIMIT ?";
    pub(in crate::mysql) const DELETE: &str = "DELETE FROM revisions WHERE job = ? AND revision = ?";
}

pub(super) mod deleted_jobs {
    pub(in crate::mysql) const DELETE: &str = "DELETE FROM deleted_jobs WHERE job = ?";
    pub(in crate::mysql) const AFTER: &str =
        "SELECT job FROM deleted_jobs WHERE job > ? ORDER BY job LIMIT ?";
    pub(in crate::mysql) const LIST: &str =
        "SELECT job, namespace, name FROM deleted_jobs WHERE job > ? ORDER BY job LIMIT ?";
    pub(in crate::mysql) const NAMED: &str = "SELECT job, namespace, name FROM deleted_jobs FORCE INDEX (deleted_jobs_name) \
         WHERE namespace = ? AND name = ? AND job > ? ORDER BY job LIMIT ?";
}

pub(super) mod runs {
    pub(in crate::mysql) const GET: &str = "SELECT body FROM runs WHERE place = ?";
    pub(in crate::mysql) const LOAD: &str = "SELECT body FROM runs FORCE INDEX (runs_due) \
         WHERE shard = ? AND wake_at IS NULL ORDER BY place";
    /// In two parts like `jobs::DUE_AT`.
    pub(in crate::mysql) const DUE_AT: &str = "SELECT wake_at, place, body FROM runs FORCE INDEX (runs_due) \
         WHERE shard = ? AND wake_at = ? AND place > ? ORDER BY place LIMIT ?";
    pub(in crate::mysql) const DUE_AFTER: &str = "SELECT wake_at, place, body FROM runs FORCE INDEX (runs_due) \
         WHERE shard = ? AND wake_at > ? ORDER BY wake_at, place LIMIT ?";
    pub(in crate::mysql) const ANY_OF_JOB: &str =
        "SELECT 1 FROM runs WHERE place BETWEEN ? AND ? AND job = ? LIMIT 1";
}

pub(super) mod history {
    pub(in crate::mysql) const GET: &str = "SELECT history.body, dead_letters.run FROM history \
         LEFT JOIN dead_letters ON dead_letters.run = history.id WHERE history.id = ?";
    pub(in crate::mysql) const ANY_OF_JOB: &str = "SELECT 1 FROM history WHERE job = ? LIMIT 1";
    /// The next job that has history.
    pub(in crate::mysql) const NEXT_JOB: &str =
        "SELECT job FROM history FORCE INDEX (history_of_job) WHERE job > ? ORDER BY job LIMIT 1";
    /// The newest run of a job that is beyond the number of runs it keeps.
    pub(in crate::mysql) const BEYOND: &str = "SELECT id FROM history FORCE INDEX (history_of_job) WHERE job = ? ORDER BY place DESC LIMIT 1 OFFSET ?";
    pub(in crate::mysql) const OLD_OF_JOB: &str = "SELECT id FROM history FORCE INDEX (history_of_job) \
         WHERE job = ? AND place <= ? AND (place <= ? OR finished_at < ?) \
         AND NOT EXISTS (SELECT 1 FROM dead_letters WHERE dead_letters.run = history.id) ORDER BY place LIMIT ?";
    pub(in crate::mysql) const OLD_AD_HOC: &str = "SELECT id FROM history FORCE INDEX (history_of_job) \
         WHERE job IS NULL AND place < ? \
         AND NOT EXISTS (SELECT 1 FROM dead_letters WHERE dead_letters.run = history.id) ORDER BY place LIMIT ?";
}

pub(super) mod dead_letters {
    pub(in crate::mysql) const LIST: &str = "SELECT run, namespace, job, died_at FROM dead_letters \
         WHERE run > ? AND (? IS NULL OR namespace = ?) AND (? IS NULL OR job = ?) AND (? IS NULL OR died_at >= ?) \
         ORDER BY run LIMIT ?";
}

pub(super) mod uniques {
    pub(in crate::mysql) const DELETE_EXPIRED: &str =
        "DELETE FROM uniques WHERE shard = ? AND unique_key = ? AND expires_at < ?";
    pub(in crate::mysql) const EXPIRED: &str = "SELECT shard, unique_key FROM uniques FORCE INDEX (uniques_expiry) \
         WHERE expires_at < ? ORDER BY expires_at LIMIT ?";
}

pub(super) mod skips {
    pub(in crate::mysql) const DELETE: &str =
        "DELETE FROM skips WHERE job = ? AND revision = ? AND from_due = ?";
    /// In two parts: the rest of a revision, and the revisions before it.
    pub(in crate::mysql) const OF_REVISION: &str = "SELECT job, revision, from_due, to_due, reason, made_at FROM skips \
         WHERE job = ? AND revision = ? AND from_due < ? ORDER BY from_due DESC LIMIT ?";
    pub(in crate::mysql) const OF_EARLIER: &str = "SELECT job, revision, from_due, to_due, reason, made_at FROM skips \
         WHERE job = ? AND revision < ? ORDER BY revision DESC, from_due DESC LIMIT ?";
    pub(in crate::mysql) const ANY_OF_JOB: &str = "SELECT 1 FROM skips WHERE job = ? LIMIT 1";
    /// Parameters: an instant that every old record is older than, now, how long records without a job are kept, the
    /// limit.
    pub(in crate::mysql) const OLD: &str = "SELECT skips.job, skips.revision, skips.from_due FROM skips LEFT JOIN jobs ON jobs.id = skips.job \
         WHERE skips.made_at < ? AND skips.made_at < ? - COALESCE(jobs.keep_days * 86400000, ?) LIMIT ?";
}

/// In the order in which `rows::queue` reads them.
macro_rules! queue_columns {
    () => {
        "number, namespace, name, created_at, paused_input, paused_output, queued, messages"
    };
}

pub(super) mod queues {
    pub(in crate::mysql) const LOAD: &str = concat!(
        "SELECT ",
        queue_columns!(),
        " FROM queues FORCE INDEX (PRIMARY) WHERE shard = ? ORDER BY number"
    );
    pub(in crate::mysql) const NAMED: &str = "SELECT shard, number FROM queues FORCE INDEX (queues_name) \
         WHERE namespace = ? AND name = ? ORDER BY shard, number LIMIT 1";
    pub(in crate::mysql) const LIST_OF_NAMESPACE: &str = concat!(
        "SELECT ",
        queue_columns!(),
        " FROM queues FORCE INDEX (queues_name) WHERE namespace = ? AND name > ? \
         ORDER BY name, shard, number LIMIT ?"
    );
    pub(in crate::mysql) const LIST_BEYOND: &str = concat!(
        "SELECT ",
        queue_columns!(),
        " FROM queues FORCE INDEX (queues_name) WHERE namespace > ? \
         ORDER BY namespace, name, shard, number LIMIT ?"
    );
    pub(in crate::mysql) const STATS: &str =
        "SELECT COUNT(*), CAST(COALESCE(SUM(messages), 0) AS SIGNED) FROM queues";
}

/// One part of a page of messages: a query for the sizes of their bodies, and one for the messages.
macro_rules! message_part {
    ($index:literal, $wanted:literal) => {
        [
            concat!("SELECT LENGTH(body) FROM messages FORCE INDEX (", $index, ") WHERE ", $wanted),
            concat!(
                "SELECT queue, rank_no, number, head, body, wake_at FROM messages FORCE INDEX (",
                $index,
                ") WHERE ",
                $wanted
            ),
        ]
    };
}

pub(super) mod messages {
    /// Pages come in two parts, as for `jobs`: the rest of a rank, and the ranks after it.
    pub(in crate::mysql) const LINE_AT: [&str; 2] = message_part!(
        "PRIMARY",
        "shard = ? AND queue = ? AND rank_no = ? AND number > ? ORDER BY number LIMIT ?"
    );
    pub(in crate::mysql) const LINE_AFTER: [&str; 2] =
        message_part!("PRIMARY", "shard = ? AND queue = ? AND rank_no > ? ORDER BY rank_no, number LIMIT ?");
    pub(in crate::mysql) const BACKLOG_AT: [&str; 2] = message_part!(
        "PRIMARY",
        "shard = ? AND queue = ? AND rank_no = ? AND number > ? AND queued = 1 ORDER BY number LIMIT ?"
    );
    pub(in crate::mysql) const BACKLOG_AFTER: [&str; 2] = message_part!(
        "PRIMARY",
        "shard = ? AND queue = ? AND rank_no > ? AND queued = 1 ORDER BY rank_no, number LIMIT ?"
    );
    /// The queued messages from the end.
    pub(in crate::mysql) const LAST_IN_LINE: [&str; 2] = message_part!(
        "PRIMARY",
        "shard = ? AND queue = ? AND queued = 1 ORDER BY rank_no DESC, number DESC LIMIT ?"
    );
    pub(in crate::mysql) const DUE_AT: [&str; 2] =
        message_part!("messages_due", "shard = ? AND wake_at = ? AND number > ? ORDER BY number LIMIT ?");
    pub(in crate::mysql) const DUE_AFTER: [&str; 2] =
        message_part!("messages_due", "shard = ? AND wake_at > ? ORDER BY wake_at, number LIMIT ?");
}

pub(super) mod pruned {
    pub(in crate::mysql) const ADD: &str =
        "UPDATE pruned SET history_runs = history_runs + ? WHERE shard = ?";
}

pub(super) mod chunks {
    pub(in crate::mysql) const LIST: &str = "SELECT token, number, made_at, stream, bytes FROM chunks \
         WHERE run = ? AND (token > ? OR (token = ? AND number > ?)) ORDER BY token, number LIMIT ?";
    /// Only the output of programs: stream 3 has Punctual's own remarks.
    pub(in crate::mysql) const BYTES: &str =
        "SELECT CAST(COALESCE(SUM(LENGTH(bytes)), 0) AS SIGNED) FROM chunks WHERE run = ? AND stream <> 3";
    pub(in crate::mysql) const NEXT_RUN: &str = "SELECT run FROM chunks WHERE run > ? ORDER BY run LIMIT 1";
    pub(in crate::mysql) const DELETE: &str = "DELETE FROM chunks WHERE run = ? LIMIT ?";
}
