//! Deleted jobs whose runs and skip records may still be kept.

/// Runs before the jobs are deleted.
pub(in crate::postgres) const INSERT: &str = "INSERT INTO deleted_jobs (job, namespace, name) \
     SELECT id, namespace, name FROM jobs WHERE id = ANY($1::int8[]) ON CONFLICT DO NOTHING";
pub(in crate::postgres) const LIST: &str =
    "SELECT job, namespace, name FROM deleted_jobs WHERE job > $1::int8 ORDER BY job LIMIT $2::int8";
pub(in crate::postgres) const NAMED: &str = "SELECT job, namespace, name FROM deleted_jobs \
     WHERE namespace = $3::text AND name = $4::text AND job > $1::int8 ORDER BY job LIMIT $2::int8";
