//! Due times that were passed over.

pub(in crate::postgres) const INSERT: &str = "INSERT INTO skips (job, from_due, to_due, revision, reason, at) \
     SELECT * FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::int8[], $5::text[], $6::int8[])";
pub(in crate::postgres) const UPDATE: &str = must_hit!(
    "UPDATE skips s SET to_due = u.to_due, revision = u.revision, reason = u.reason, at = u.at \
     FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::int8[], $5::text[], $6::int8[]) \
     AS u (job, from_due, to_due, revision, reason, at) WHERE s.job = u.job AND s.from_due = u.from_due"
);
pub(in crate::postgres) const DELETE: &str = must_hit!(
    "DELETE FROM skips s USING unnest($1::int8[], $2::int8[]) AS d (job, from_due) \
     WHERE s.job = d.job AND s.from_due = d.from_due"
);
pub(in crate::postgres) const LIST: &str = "SELECT job, from_due, to_due, revision, reason, at FROM skips \
     WHERE (job, from_due) > ($1::int8, $2::int8) ORDER BY job, from_due LIMIT $3::int8";
pub(in crate::postgres) const LIST_OF_JOB: &str = "SELECT job, from_due, to_due, revision, reason, at FROM skips \
     WHERE job = $1::int8 AND from_due > $2::int8 ORDER BY from_due LIMIT $3::int8";
