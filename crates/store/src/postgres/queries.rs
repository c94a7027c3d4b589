//! The statements that only PostgreSQL has. Those that write the rows of a commit are in `writes`.

pub(super) const BEGIN: &str = "BEGIN";
pub(super) const BEGIN_READING: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY";
pub(super) const COMMIT: &str = "COMMIT";
/// Within a transaction: fail quickly on a locked row, to find out which shard is blocked.
pub(super) const WAIT_BRIEFLY: &str = "SET LOCAL lock_timeout = '100ms'";
pub(super) const ROLLBACK: &str = "ROLLBACK";

/// The columns that decide how a job is updated.
pub(super) const JOB_POSITION: &str = "SELECT revision, fired_through FROM jobs WHERE id = $1::int8";

pub(super) mod shards {
    /// The fence: unless it updates one row for every batch, one of them is outdated.
    pub(in crate::postgres) const FENCE: &str = include_str!("queries/fence.sql");
    pub(in crate::postgres) const ACQUIRE: &str = "UPDATE shards SET epoch = epoch + 1, commit_no = commit_no + 1, \
         owner = $3::int8, heir = NULL WHERE shard = $1::int2 AND epoch = coalesce($2::int8, epoch) RETURNING epoch";
    /// Terminates the connections of former owners that have written something and not committed it.
    pub(in crate::postgres) const END_FORMER_OWNERS: &str = include_str!("queries/end_former_owners.sql");
}
