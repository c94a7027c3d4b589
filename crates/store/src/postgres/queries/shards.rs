//! The leader of each shard, and the fence that stops an outdated leader.

/// The server's clock in milliseconds.
macro_rules! clock {
    () => {
        "floor(extract(epoch FROM clock_timestamp()) * 1000)::int8"
    };
}

/// The fence: unless it updates one row for every batch, one of them is outdated.
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
/// Terminates the connections of former owners that have written something and not committed it.
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
