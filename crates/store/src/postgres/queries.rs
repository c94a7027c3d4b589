//! Every SQL statement, by table. Values are always bound as parameters.
//!
//! The writes of a commit take arrays, one per column: a batch is a few statements, for any number of rows. An update
//! or delete that does not hit every row it names divides by zero, which fails its transaction: so `COMMIT` can be sent
//! along with the writes, and becomes a rollback if any of them missed.

pub(super) const BEGIN: &str = "BEGIN";
pub(super) const BEGIN_READING: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY";
pub(super) const COMMIT: &str = "COMMIT";
/// Within a transaction: fail quickly on a locked row, to find out which shard is blocked.
pub(super) const WAIT_BRIEFLY: &str = "SET LOCAL lock_timeout = '100ms'";
pub(super) const ROLLBACK: &str = "ROLLBACK";

/// A statement that must hit as many rows as its first array has elements.
macro_rules! must_hit {
    ($($sql:expr),+) => {
        concat!("WITH hit AS (", $($sql),+, " RETURNING 1) SELECT 1 / (count(*) = cardinality($1))::int FROM hit")
    };
}

/// The server's clock in milliseconds, as it was when the transaction began.
macro_rules! now {
    () => {
        "floor(extract(epoch FROM now()) * 1000)::int8"
    };
}

/// A page of a walk along ids: the key of every row it passes, whether it matches, and its body if requested.
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

pub(super) mod shards;
pub(super) mod sessions;
pub(super) mod mail;
pub(super) mod admin;
pub(super) mod jobs;
pub(super) mod calendars;
pub(super) mod revisions;
pub(super) mod deleted_jobs;
pub(super) mod runs;
pub(super) mod history;
pub(super) mod dead_letters;
pub(super) mod uniques;
pub(super) mod skips;
pub(super) mod queues;
pub(super) mod messages;
pub(super) mod chunks;
pub(super) mod prune;

/// All statements that a commit may send: prepared when the connection is opened, so that a commit need not wait for
/// that.
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
