//! Due times that were skipped.

pub(in crate::postgres) const INSERT: &str = "INSERT INTO skips (job, revision, from_due, to_due, reason, at) \
     SELECT * FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::int8[], $5::text[], $6::int8[])";
pub(in crate::postgres) const UPDATE: &str = must_hit!(
    "UPDATE skips s SET to_due = u.to_due, reason = u.reason, at = u.at \
     FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::int8[], $5::text[], $6::int8[]) \
     AS u (job, revision, from_due, to_due, reason, at) \
     WHERE s.job = u.job AND s.revision = u.revision AND s.from_due = u.from_due"
);
pub(in crate::postgres) const DELETE: &str = must_hit!(
    "DELETE FROM skips s USING unnest($1::int8[], $2::int8[], $3::int8[]) AS d (job, revision, from_due) \
     WHERE s.job = d.job AND s.revision = d.revision AND s.from_due = d.from_due"
);
pub(in crate::postgres) const NEWEST_FIRST: &str = "SELECT job, revision, from_due, to_due, reason, at FROM skips \
     WHERE job = $1::int8 AND (revision, from_due) < ($2::int8, $3::int8) \
     ORDER BY revision DESC, from_due DESC LIMIT $4::int8";
