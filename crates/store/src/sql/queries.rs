//! The statements that all databases share, by table, in the syntax of `dialect`.

pub(crate) mod shards {
    pub(crate) const LEASES: &str = "SELECT {clock}, shard, epoch, owner, heir FROM shards ORDER BY shard";
    pub(crate) const COMMITS: &str = "SELECT epoch, commit_no FROM shards ORDER BY shard";
    pub(crate) const RELEASE: &str =
        "UPDATE shards SET owner = NULL, heir = $3 WHERE shard = $1 AND epoch = $2";
    pub(crate) const GET: &str = "SELECT commit_no, last_id FROM shards WHERE shard = $1 AND epoch = $2";
    /// `pruned` is apart from the fence, so that pruning and commits do not wait for each other.
    pub(crate) const STATS: &str = include_str!("queries/stats.sql");
    pub(crate) const PRUNED: &str = "UPDATE pruned SET history_runs = history_runs + $2 WHERE shard = $1";
}

pub(crate) mod sessions {
    /// MySQL assigns from left to right: `since` of an expired session is set by its old `until`.
    pub(crate) const RENEW: &str = include_str!("queries/session_renew.sql");
    pub(crate) const ALL: &str = "SELECT id, node, address, weight, embedded, busy, {now} - since, until - {now} \
         FROM sessions ORDER BY id";
    pub(crate) const SWEEP: &str = "DELETE FROM sessions WHERE until <= {now} - $1 SKIP LOCKED";
    pub(crate) const LEAVE: &str = "DELETE FROM sessions WHERE id = $1";
}

pub(crate) mod mail {
    pub(crate) const DROP_OLD: &str = "DELETE FROM mail WHERE sent_at < {now} - $1 SKIP LOCKED";
    pub(crate) const SEND: &str = "INSERT INTO mail (recipient, sender, number, sent_at, body) \
         VALUES ($1, $2, $3, {now}, $4) ON CONFLICT DO NOTHING";
    pub(crate) const TAKE: &str = "DELETE FROM mail WHERE recipient = $1 AND sender = $2 AND number = $3";
    pub(crate) const RECEIVE: &str =
        "SELECT sender, number, body FROM mail WHERE recipient = $1 ORDER BY sender, number LIMIT $2";
}

pub(crate) mod tokens {
    pub(crate) const OFFER: &str = "INSERT INTO agreed (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING";
    pub(crate) const AGREED: &str = "SELECT value FROM agreed WHERE name = $1";
    pub(crate) const ALL: &str = "SELECT name, hash, role, created_at, expires_at FROM tokens ORDER BY name";
    pub(crate) const ADD: &str = "INSERT INTO tokens (name, hash, role, created_at, expires_at) \
         VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING";
    pub(crate) const REMOVE: &str = "DELETE FROM tokens WHERE name = $1";
}

/// The first namespace after `$1`, and a count up to `$2`.
pub(crate) mod namespaces {
    pub(crate) const NEXT_OF_JOBS: &str = "SELECT namespace FROM jobs /*! FORCE INDEX (jobs_name) */ \
         WHERE namespace > $1 ORDER BY namespace LIMIT 1";
    pub(crate) const NEXT_OF_QUEUES: &str = "SELECT namespace FROM queues /*! FORCE INDEX (queues_name) */ \
         WHERE namespace > $1 ORDER BY namespace LIMIT 1";
    pub(crate) const JOBS: &str = "SELECT count(*) FROM (SELECT 1 FROM jobs /*! FORCE INDEX (jobs_name) */ \
         WHERE namespace = $1 LIMIT $2) AS counted";
    pub(crate) const QUEUES: &str = "SELECT count(*) FROM (SELECT 1 FROM queues \
         /*! FORCE INDEX (queues_name) */ WHERE namespace = $1 LIMIT $2) AS counted";
}

pub(crate) mod jobs {
    pub(crate) const BY_ID: &str = "SELECT {job} FROM jobs WHERE {keys id int8}";
    pub(crate) const NAMED: &str = "SELECT {job} FROM jobs WHERE {keys namespace text, name text}";
    pub(crate) const LIST: &str = "SELECT {job} FROM jobs /*! FORCE INDEX (jobs_name) */ \
         WHERE (namespace, name) > ($1, $2) ORDER BY namespace, name LIMIT $3";
    pub(crate) const LIST_OF_NAMESPACE: &str = "SELECT {job} FROM jobs /*! FORCE INDEX (jobs_name) */ \
         WHERE namespace = $1 AND name > $2 ORDER BY name LIMIT $3";
    pub(crate) const LIST_OF_CALENDAR: &str = include_str!("queries/jobs_of_calendar.sql");
    pub(crate) const OUTDATED: &str = "SELECT {job} FROM jobs /*! FORCE INDEX (jobs_zone_data) */ \
         WHERE zone_data < $1 LIMIT $2";
    pub(crate) const DUE: &str = include_str!("queries/jobs_due.sql");
}

pub(crate) mod calendars {
    /// Locks the row that every change of a calendar locks: calendars are changed one at a time.
    pub(crate) const LAST_VERSION: &str = "SELECT last FROM calendar_versions WHERE one = 1 FOR UPDATE";
    pub(crate) const SET_VERSION: &str = "UPDATE calendar_versions SET last = $1 WHERE one = 1";
    pub(crate) const INSERT: &str = "INSERT INTO calendars (version, days, description, updated_at, namespace, \
         name, settled) VALUES ($1, $2, $3, $4, $5, $6, 0)";
    pub(crate) const UPDATE: &str = "UPDATE calendars SET version = $1, days = $2, description = $3, \
         updated_at = $4, settled = 0 WHERE namespace = $5 AND name = $6";
    pub(crate) const SETTLE: &str =
        "UPDATE calendars SET settled = 1 WHERE namespace = $1 AND name = $2 AND version = $3";
    pub(crate) const DELETE: &str = "DELETE FROM calendars WHERE namespace = $1 AND name = $2";
    pub(crate) const GET: &str = "SELECT {calendar} FROM calendars WHERE namespace = $1 AND name = $2";
    pub(crate) const LIST: &str = include_str!("queries/calendars_list.sql");
    pub(crate) const UNSETTLED: &str = include_str!("queries/calendars_unsettled.sql");
}

pub(crate) mod descriptors {
    pub(crate) const INSERT: &str = "INSERT INTO descriptors (version, body, bytes, updated_at, namespace, name) \
         VALUES ($1, $2, $3, $4, $5, $6)";
    pub(crate) const UPDATE: &str = "UPDATE descriptors SET version = $1, body = $2, bytes = $3, updated_at = $4 \
         WHERE namespace = $5 AND name = $6";
    pub(crate) const DELETE: &str = "DELETE FROM descriptors WHERE namespace = $1 AND name = $2";
    pub(crate) const ABOUT: &str = "SELECT namespace, name, version, updated_at, bytes FROM descriptors \
         WHERE namespace = $1 AND name = $2";
    pub(crate) const GET: &str = "SELECT namespace, name, version, updated_at, bytes, body FROM descriptors \
         WHERE namespace = $1 AND name = $2";
    pub(crate) const LIST: &str = "SELECT namespace, name, version, updated_at, bytes FROM descriptors \
         WHERE namespace = $1 AND name > $2 ORDER BY name LIMIT $3";
}

pub(crate) mod revisions {
    pub(crate) const GET: &str = "SELECT job, revision, made_at, definition, state FROM revisions \
         WHERE {keys job int8, revision int8}";
    pub(crate) const NEWEST_FIRST: &str = "SELECT job, revision, made_at, definition, state FROM revisions \
         WHERE job = $1 AND revision < $2 ORDER BY revision DESC LIMIT $3";
    pub(crate) const OF_JOB: &str = "SELECT revision FROM revisions WHERE job = $1 LIMIT $2";
    pub(crate) const DELETE: &str = "DELETE FROM revisions WHERE job = $1 AND revision = $2 SKIP LOCKED";
}

pub(crate) mod deleted_jobs {
    pub(crate) const LIST: &str =
        "SELECT job, namespace, name FROM deleted_jobs WHERE job > $1 ORDER BY job LIMIT $2";
    pub(crate) const NAMED: &str = include_str!("queries/deleted_jobs_named.sql");
    /// Another node may be deleting the last revisions, and may fail: then they are found by this row.
    pub(crate) const DELETE: &str = "DELETE FROM deleted_jobs WHERE job = $1 \
         AND NOT EXISTS (SELECT 1 FROM revisions WHERE revisions.job = $1) SKIP LOCKED";
    /// The next deleted jobs, and whether a row still needs their revisions.
    pub(crate) const NEEDED: &str = include_str!("queries/deleted_jobs_needed.sql");
}

/// A page of a walk over runs: `$1` to `$2` is the range, `$3` the limit, `$4` is 1 if bodies are wanted.
macro_rules! walk {
    ($key:literal, $source:literal, $order:literal) => {
        [walk!($key, $source, $order, " LIMIT $3"), walk!($key, $source, $order, " DESC LIMIT $3")]
    };
    ($key:literal, $source:literal, $order:literal, $limit:literal) => {
        concat!(
            "SELECT ",
            $key,
            ", t.namespace, t.job, t.status, t.parent, CASE WHEN $4 = 1 THEN t.body END FROM ",
            $source,
            " BETWEEN $1 AND $2 ORDER BY ",
            $order,
            $limit
        )
    };
}

pub(crate) mod runs {
    pub(crate) const GET: &str = "SELECT body FROM runs /*! FORCE INDEX (PRIMARY) */ WHERE {keys place int8}";
    /// The newest live runs of a job, without children. They have no index by job, so `$1` to `$2` is the range of its
    /// shard.
    pub(crate) const LAST_OF_JOB: &str = "SELECT body FROM runs /*! FORCE INDEX (PRIMARY) */ \
         WHERE place BETWEEN $1 AND $2 AND job = $3 AND parent IS NULL ORDER BY place DESC LIMIT $4";
    /// MySQL finds them by the index of (shard, wake_at), the others by the range of places.
    pub(crate) const LOAD: &str = include_str!("queries/runs_load.sql");
    pub(crate) const DUE: &str = include_str!("queries/runs_due.sql");
    /// Oldest first, newest first.
    pub(crate) const WALK: [&str; 2] =
        walk!("t.place", "runs AS t /*! FORCE INDEX (PRIMARY) */ WHERE t.place", "t.place");
    /// The database passes over the children: a workflow may have many of them under way.
    pub(crate) const WALK_WITHOUT_CHILDREN: [&str; 2] = walk!(
        "t.place",
        "runs AS t /*! FORCE INDEX (PRIMARY) */ WHERE t.parent IS NULL AND t.place",
        "t.place"
    );
    pub(crate) const WALK_OF_PARENT: [&str; 2] = walk!(
        "t.place",
        "{mysql children AS k FORCE INDEX (children_of_parent) STRAIGHT_JOIN runs AS t ON t.place = k.place \
         WHERE k.parent = $5 AND k.place else runs AS t WHERE t.parent = $5 AND t.place}",
        "{mysql k.ended else t.place}"
    );
    pub(crate) const WALK_OF_KEY: [&str; 2] = walk!(
        "t.place",
        "{mysql keyed AS k FORCE INDEX (keyed_key) STRAIGHT_JOIN runs AS t ON t.place = k.place \
         WHERE k.run_key = $5 AND k.place else runs AS t WHERE t.run_key = $5 AND t.place}",
        "{mysql k.ended else t.place}"
    );
}

pub(crate) mod history {
    pub(crate) const GET: &str = include_str!("queries/history_get.sql");
    pub(crate) const WALK: [&str; 2] =
        walk!("t.place", "history AS t /*! FORCE INDEX (PRIMARY) */ WHERE t.place", "t.place");
    pub(crate) const WALK_OF_JOB: [&str; 2] = walk!(
        "t.place",
        "history AS t /*! FORCE INDEX (history_of_job) */ WHERE t.job = $5 AND t.{mysql job_place else place}",
        "t.{mysql job_place else place}"
    );
    pub(crate) const WALK_OF_KEY: [&str; 2] = walk!(
        "t.place",
        "{mysql keyed AS k FORCE INDEX (keyed_key) STRAIGHT_JOIN history AS t ON t.place = k.ended \
         WHERE k.run_key = $5 AND k.ended else history AS t WHERE t.run_key = $5 AND t.place}",
        "{mysql k.ended else t.place}"
    );
    pub(crate) const WALK_OF_STATUS: [&str; 2] = walk!(
        "t.place",
        "{mysql unusual AS u FORCE INDEX (unusual_status) STRAIGHT_JOIN history AS t ON t.place = u.ended \
         WHERE u.status = $5 AND u.ended else history AS t WHERE t.status > 3 AND t.status = $5 AND t.place}",
        "{mysql u.ended else t.place}"
    );
    pub(crate) const WALK_OF_PARENT: [&str; 2] = walk!(
        "t.place",
        "{mysql children AS k FORCE INDEX (children_of_parent) STRAIGHT_JOIN history AS t ON t.place = k.ended \
         WHERE k.parent = $5 AND k.ended else history AS t WHERE t.parent = $5 AND t.place}",
        "{mysql k.ended else t.place}"
    );
    /// Some children of an ended run.
    pub(crate) const CHILDREN: &str = "{mysql SELECT ended FROM children else SELECT place FROM history} \
         WHERE parent = $1 LIMIT $2";
    /// The next job that has history.
    pub(crate) const NEXT_JOB: &str = "SELECT job FROM history /*! FORCE INDEX (history_of_job) */ \
         WHERE job > $1 ORDER BY job LIMIT 1";
    /// PostgreSQL: the next jobs that have history, each found by one index lookup.
    pub(crate) const NEXT_JOBS: &str = include_str!("queries/history_next_jobs.sql");
    pub(crate) const KEEP: &str = "SELECT id, keep_runs, keep_days FROM jobs WHERE {keys id int8}";
    /// The newest run of a job that is beyond the number of runs it keeps. Children do not count: their places are below 0.
    pub(crate) const BEYOND: &str = "SELECT place FROM history /*! FORCE INDEX (history_of_job) */ \
         WHERE job = $1 AND {mysql job_place else place} >= 0 ORDER BY {mysql job_place else place} DESC \
         LIMIT 1 OFFSET $2";
    pub(crate) const EXPIRED_OF_JOB: &str = include_str!("queries/history_expired_of_job.sql");
    pub(crate) const EXPIRED_AD_HOC: &str = include_str!("queries/history_expired_ad_hoc.sql");
    pub(crate) const DELETE: &str = "DELETE FROM history WHERE place = $1 SKIP LOCKED";
    /// MySQL has tables of their own for runs with a key, for runs that did not succeed, and for children.
    pub(crate) const DELETE_FROM_SIDE_TABLES: [&str; 3] = [
        "DELETE FROM keyed WHERE ended = $1",
        "DELETE FROM unusual WHERE ended = $1",
        "DELETE FROM children WHERE ended = $1",
    ];
}

pub(crate) mod dead_letters {
    pub(crate) const LIST: &str = include_str!("queries/dead_letters_list.sql");
}

pub(crate) mod uniques {
    pub(crate) const GET: &str = "SELECT unique_key, run, expires_at FROM uniques /*! FORCE INDEX (PRIMARY) */ \
         WHERE {keys shard int2, unique_key bytea}";
    /// The keys from $2 up to, not including, $3.
    pub(crate) const LOAD: &str = "SELECT unique_key, run, expires_at FROM uniques /*! FORCE INDEX (PRIMARY) */ \
         WHERE shard = $1 AND unique_key >= $2 AND unique_key < $3 ORDER BY unique_key";
    pub(crate) const EXPIRED: &str = "SELECT shard, unique_key FROM uniques \
         /*! FORCE INDEX (uniques_expiry) */ WHERE expires_at < $1 ORDER BY expires_at LIMIT $2";
    pub(crate) const DELETE_EXPIRED: &str =
        "DELETE FROM uniques WHERE shard = $1 AND unique_key = $2 AND expires_at < $3 SKIP LOCKED";
}

pub(crate) mod skips {
    pub(crate) const NEWEST_FIRST: &str = include_str!("queries/skips_newest_first.sql");
    /// `$1` is now, `$2` how long records without a job are kept, `$3` an instant that every expired record is older
    /// than.
    pub(crate) const EXPIRED: &str = include_str!("queries/skips_expired.sql");
    pub(crate) const DELETE: &str =
        "DELETE FROM skips WHERE job = $1 AND revision = $2 AND from_due = $3 SKIP LOCKED";
}

pub(crate) mod statistics {
    /// The rows of a job, or of a namespace: `$3` is the kind, `$4` to `$5` the span of buckets, without its end. And all
    /// recent counts, which have no bucket: one statement reads both, because a commit moves counts between them.
    pub(crate) const OF_ONE: &str = "SELECT bucket_at, body FROM statistics /*! FORCE INDEX (PRIMARY) */ \
         WHERE namespace = $1 AND job = $2 AND kind = $3 AND bucket_at >= $4 AND bucket_at < $5 \
         UNION ALL SELECT NULL, body FROM recent_counts";
    /// The same for all namespaces.
    pub(crate) const OF_ALL: &str = "SELECT bucket_at, body FROM statistics /*! FORCE INDEX (statistics_by_time) */ \
         WHERE kind = $1 AND bucket_at >= $2 AND bucket_at < $3 UNION ALL SELECT NULL, body FROM recent_counts";
    /// The recent counts of a shard.
    pub(crate) const RECENT: &str = "SELECT page, body FROM recent_counts WHERE shard = $1 ORDER BY page";
    pub(crate) const EXPIRED: &str = "SELECT namespace, job, kind, bucket_at, shard, commit_no FROM statistics \
         /*! FORCE INDEX (statistics_by_time) */ WHERE kind = $1 AND bucket_at < $2 ORDER BY bucket_at LIMIT $3";
    pub(crate) const DELETE: &str = include_str!("queries/statistics_delete.sql");
}

pub(crate) mod run_terms {
    /// Runs with a term from `$2` to `$3`, without the latter. A run comes once for each such term.
    pub(crate) const RUNS: &str = "SELECT run FROM run_terms /*! FORCE INDEX (PRIMARY) */ \
         WHERE namespace = $1 AND term >= $2 AND term < $3 LIMIT $4";
    pub(crate) const OF_RUNS: &str = "SELECT run, term FROM run_terms /*! FORCE INDEX (run_terms_of_run) */ \
         WHERE {keys run int8}";
    pub(crate) const DELETE: &str = "DELETE FROM run_terms WHERE run = $1";
}

pub(crate) mod steps {
    pub(crate) const OF_RUNS: &str = "SELECT run, step_no, item, state, child, body FROM steps \
         /*! FORCE INDEX (PRIMARY) */ WHERE {keys run int8}";
    /// Without the items of steps with `map`.
    pub(crate) const WHOLE_OF_RUNS: &str = "SELECT run, step_no, item, state, child, body FROM steps \
         /*! FORCE INDEX (PRIMARY) */ WHERE {keys run int8} AND item = 0";
    pub(crate) const LIST: &str = "SELECT run, step_no, item, state, child, body FROM steps \
         /*! FORCE INDEX (PRIMARY) */ WHERE run = $1 AND (step_no, item) > ($2, $3) ORDER BY step_no, item LIMIT $4";
    pub(crate) const DELETE: &str = "DELETE FROM steps WHERE run = $1";
}

pub(crate) mod listeners {
    pub(crate) const LOAD: &str =
        "SELECT body FROM listeners /*! FORCE INDEX (PRIMARY) */ WHERE shard = $1 ORDER BY number";
}

pub(crate) mod locks {
    pub(crate) const LOAD: &str =
        "SELECT body FROM locks /*! FORCE INDEX (PRIMARY) */ WHERE shard = $1 ORDER BY fence";
    pub(crate) const LIST: &str = "SELECT body FROM locks /*! FORCE INDEX (locks_name) */ \
         WHERE namespace = $1 AND name > $2 ORDER BY name LIMIT $3";
}

pub(crate) mod holds {
    pub(crate) const LOAD: &str =
        "SELECT body FROM holds /*! FORCE INDEX (PRIMARY) */ WHERE shard = $1 ORDER BY number";
    pub(crate) const LIST: &str = "SELECT body FROM holds ORDER BY shard, number";
}

pub(crate) mod incidents {
    pub(crate) const LOAD: &str = "SELECT body FROM incidents WHERE shard = $1 ORDER BY number";
    /// Those that ended before $4 are left out.
    pub(crate) const LIST: &str = "SELECT body FROM incidents /*! FORCE INDEX (PRIMARY) */ \
         WHERE number < $1 AND namespace = coalesce($2, namespace) AND ($3::text IS NULL OR job = $3) \
         AND (ended_at IS NULL OR ended_at >= $4) ORDER BY number DESC LIMIT $5";
}

pub(crate) mod approvals {
    pub(crate) const LIST: &str = "SELECT {approval} FROM approvals /*! FORCE INDEX (PRIMARY) */ \
         WHERE namespace > $1 ORDER BY namespace, run, step_no LIMIT $2";
    pub(crate) const LIST_OF_NAMESPACE: &str = "SELECT {approval} FROM approvals /*! FORCE INDEX (PRIMARY) */ \
         WHERE namespace = $1 AND (run, step_no) > ($2, $3) ORDER BY run, step_no LIMIT $4";
}

pub(crate) mod queues {
    pub(crate) const LOAD: &str = "SELECT {queue} FROM queues /*! FORCE INDEX (PRIMARY) */ WHERE shard = $1 \
         ORDER BY number";
    pub(crate) const NAMED: &str = "SELECT shard, number FROM queues /*! FORCE INDEX (queues_name) */ \
         WHERE namespace = $1 AND name = $2 ORDER BY shard, number LIMIT 1";
    pub(crate) const LIST: &str = "SELECT {queue} FROM queues /*! FORCE INDEX (queues_name) */ \
         WHERE (namespace, name) > ($1, $2) ORDER BY namespace, name, shard, number LIMIT $3";
    pub(crate) const LIST_OF_NAMESPACE: &str = "SELECT {queue} FROM queues /*! FORCE INDEX (queues_name) */ \
         WHERE namespace = $1 AND name > $2 ORDER BY name, shard, number LIMIT $3";
    pub(crate) const STATS: &str = "SELECT count(*), coalesce(sum(messages), 0)::int8 FROM queues";
}

/// A page of messages. Its last parameter is the limit of rows.
#[derive(Debug)]
pub(crate) struct MessagePage {
    pub(crate) read: &'static str,
    /// The sizes of the bodies.
    pub(crate) sizes: &'static str,
    /// PostgreSQL: one more parameter is a number of bytes; the page ends with the message at which the bodies reach it.
    pub(crate) limited: &'static str,
}

macro_rules! select_messages {
    ($columns:literal, $index:literal, $wanted:literal, $order:literal, $limit:literal) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM messages /*! FORCE INDEX (",
            $index,
            ") */ WHERE ",
            $wanted,
            " ORDER BY ",
            $order,
            " LIMIT ",
            $limit
        )
    };
}

macro_rules! message_page {
    ($index:literal, $wanted:literal, $order:literal, $limit:literal, $bytes:literal) => {
        MessagePage {
            read: select_messages!("{message}", $index, $wanted, $order, $limit),
            sizes: select_messages!("octet_length(body)", $index, $wanted, $order, $limit),
            limited: concat!(
                "SELECT {message} FROM (SELECT p.*, sum(octet_length(body)) OVER (ORDER BY ",
                $order,
                " ROWS UNBOUNDED PRECEDING) - octet_length(body) AS bytes_before FROM (",
                select_messages!("{message}", $index, $wanted, $order, $limit),
                ") p) w WHERE bytes_before < ",
                $bytes,
                " ORDER BY ",
                $order
            ),
        }
    };
}
pub(crate) mod messages {
    use super::MessagePage;

    pub(crate) const FIND: &str = include_str!("queries/message_find.sql");
    pub(crate) const LIST: MessagePage = message_page!(
        "PRIMARY",
        "shard = $1 AND queue = $2 AND (rank_no, number) > ($3, $4)",
        "rank_no, number",
        "$5",
        "$6"
    );
    /// The queued messages from the start of the queue.
    pub(crate) const BACKLOG: MessagePage = message_page!(
        "PRIMARY",
        "shard = $1 AND queue = $2 AND (rank_no, number) > ($3, $4) AND queued = 1",
        "rank_no, number",
        "$5",
        "$6"
    );
    /// The queued messages from the end of the queue.
    pub(crate) const BACKLOG_FROM_END: MessagePage = message_page!(
        "PRIMARY",
        "shard = $1 AND queue = $2 AND queued = 1",
        "rank_no DESC, number DESC",
        "$3",
        "$4"
    );
    pub(crate) const DUE: MessagePage = message_page!(
        "messages_due",
        "shard = $1 AND (wake_at, number) > ($2, $3)",
        "wake_at, number",
        "$4",
        "$5"
    );
}

pub(crate) mod chunks {
    /// A chunk that is stored already stays as it is.
    pub(crate) const INSERT: &str = "INSERT INTO chunks (run, token, number, made_at, stream, bytes) \
         VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING";
    pub(crate) const LIST: &str = "SELECT token, number, made_at, stream, bytes FROM chunks WHERE run = $1 \
         AND (token, number) > ($2, $3) ORDER BY token, number LIMIT $4";
    /// Only the output of programs: stream 3 has Punctual's own remarks.
    pub(crate) const BYTES: &str =
        "SELECT coalesce(sum(octet_length(bytes)), 0)::int8 FROM chunks WHERE run = $1 AND stream <> 3";
    pub(crate) const NEXT_RUN: &str = "SELECT run FROM chunks WHERE run > $1 ORDER BY run LIMIT 1";
    /// PostgreSQL: like `history::NEXT_JOBS`.
    pub(crate) const NEXT_RUNS: &str = include_str!("queries/chunks_next_runs.sql");
    pub(crate) const OF_RUN: &str = "SELECT token, number FROM chunks WHERE run = $1 LIMIT $2";
    pub(crate) const DELETE: &str =
        "DELETE FROM chunks WHERE run = $1 AND token = $2 AND number = $3 SKIP LOCKED";
}
