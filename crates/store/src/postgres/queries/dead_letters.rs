//! Dead letters.

pub(in crate::postgres) const INSERT: &str = "INSERT INTO dead_letters (run, namespace, job, at) \
     SELECT * FROM unnest($1::int8[], $2::text[], $3::text[], $4::int8[])";
pub(in crate::postgres) const UPDATE: &str = must_hit!(
    "UPDATE dead_letters l SET namespace = u.namespace, job = u.job, at = u.at \
     FROM unnest($1::int8[], $2::text[], $3::text[], $4::int8[]) AS u (run, namespace, job, at) WHERE l.run = u.run"
);
pub(in crate::postgres) const DELETE: &str =
    must_hit!("DELETE FROM dead_letters WHERE run = ANY($1::int8[])");
pub(in crate::postgres) const LIST: &str = "SELECT run, namespace, job, at FROM dead_letters \
     WHERE run > $1::int8 AND ($2::text IS NULL OR namespace = $2::text) AND ($3::text IS NULL OR job = $3::text) \
     AND ($4::int8 IS NULL OR at >= $4::int8) ORDER BY run LIMIT $5::int8";
