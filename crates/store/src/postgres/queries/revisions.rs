//! Revisions of jobs.

pub(in crate::postgres) const INSERT: &str = "INSERT INTO revisions (job, revision, at, definition, state) \
     SELECT * FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::text[], $5::text[])";
pub(in crate::postgres) const UPDATE: &str = must_hit!(
    "UPDATE revisions r SET at = u.at, definition = u.definition, state = u.state \
     FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::text[], $5::text[]) AS u (job, revision, at, definition, state) \
     WHERE r.job = u.job AND r.revision = u.revision"
);
pub(in crate::postgres) const DELETE: &str = must_hit!(
    "DELETE FROM revisions r USING unnest($1::int8[], $2::int8[]) AS d (job, revision) \
     WHERE r.job = d.job AND r.revision = d.revision"
);
pub(in crate::postgres) const GET: &str = "SELECT r.job, r.revision, r.at, r.definition, r.state FROM revisions r \
     JOIN unnest($1::int8[], $2::int8[]) AS w (job, revision) ON r.job = w.job AND r.revision = w.revision";
pub(in crate::postgres) const NEWEST_FIRST: &str = "SELECT job, revision, at, definition, state FROM revisions \
     WHERE job = $1::int8 AND revision < $2::int8 ORDER BY revision DESC LIMIT $3::int8";
