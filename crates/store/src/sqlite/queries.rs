//! The statements that only SQLite has. Those that write the rows of a commit are in `changes`.

pub(super) const BEGIN: &str = "BEGIN IMMEDIATE";
pub(super) const BEGIN_READING: &str = "BEGIN";
/// Pins the snapshot: SQLite takes it at the first read of a transaction.
pub(super) const PIN: &str = "SELECT 1 FROM shards LIMIT 1";
pub(super) const COMMIT: &str = "COMMIT";
pub(super) const ROLLBACK: &str = "ROLLBACK";

pub(super) mod shards {
    pub(in crate::sqlite) const INSERT: &str =
        "INSERT INTO shards (shard, epoch, commit_no, last_id) VALUES (?1, 0, 0, 0)";
    pub(in crate::sqlite) const INSERT_PRUNED: &str = "INSERT INTO pruned (shard) VALUES (?1)";
    /// The fence: unless it updates one row, the batch is outdated.
    pub(in crate::sqlite) const FENCE: &str = include_str!("queries/fence.sql");
    pub(in crate::sqlite) const ACQUIRE: &str = include_str!("queries/acquire.sql");
    pub(in crate::sqlite) const LAST_IDS: &str = "SELECT last_id FROM shards ORDER BY shard";
    pub(in crate::sqlite) const HAVE_TABLE: &str =
        "SELECT count(*) = 1 FROM sqlite_schema WHERE type = 'table' AND name = 'shards'";
    pub(in crate::sqlite) const TOTAL: &str = "SELECT count(*), coalesce(sum(commit_no), 0) FROM shards";
    pub(in crate::sqlite) const JOBS: &str = "SELECT coalesce(sum(jobs), 0) FROM shards";
    pub(in crate::sqlite) const EPOCHS: &str = "SELECT shard, epoch FROM shards";
    /// A restored store has no leaders.
    pub(in crate::sqlite) const RESTORE: &str =
        "UPDATE shards SET epoch = ?2, owner = NULL, heir = NULL WHERE shard = ?1";
}

pub(super) mod jobs {
    pub(in crate::sqlite) const EXISTS: &str = "SELECT 1 FROM jobs WHERE id = ?1";
    /// In two parts, the rest of the same instant and the later ones: a single comparison of (wake_at, id) would read
    /// all jobs that are due at one instant from the beginning for every page.
    pub(in crate::sqlite) const DUE: &str = include_str!("queries/jobs_due.sql");
}

pub(super) mod runs {
    /// In two parts like `jobs::DUE`.
    pub(in crate::sqlite) const DUE: &str = include_str!("queries/runs_due.sql");
}

pub(super) mod messages {
    pub(in crate::sqlite) const EXISTS: &str = "SELECT 1 FROM messages \
         WHERE shard = ?1 AND queue = ?2 AND rank_no = ?3 AND number = ?4";
    /// In two parts like `jobs::DUE`.
    pub(in crate::sqlite) const DUE: &str = include_str!("queries/messages_due.sql");
}

pub(super) mod message_log {
    pub(in crate::sqlite) const ALL: &str = "SELECT entry, bytes FROM message_log ORDER BY entry";
    pub(in crate::sqlite) const INSERT: &str = "INSERT INTO message_log (entry, bytes) VALUES (?1, ?2)";
    pub(in crate::sqlite) const DELETE: &str = "DELETE FROM message_log WHERE entry <= ?1";
}
