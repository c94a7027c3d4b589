//! Jobs that are gone, whose revisions may go after them.

pub(in crate::postgres) const INSERT: &str =
    "INSERT INTO deleted_jobs (job) SELECT * FROM unnest($1::int8[]) ON CONFLICT DO NOTHING";
