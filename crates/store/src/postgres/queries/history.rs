//! Finished runs.

macro_rules! history_page {
    ($source:literal, $direction:literal) => {
        walked!(concat!(
            "(SELECT id AS at, namespace, job, status, key, body FROM history WHERE ",
            $source,
            " id BETWEEN $1::int8 AND $2::int8 ORDER BY id ",
            $direction,
            " LIMIT $3::int8)"
        ))
    };
}

pub(in crate::postgres) const INSERT: &str = "INSERT INTO history (id, job, status, finished_at, namespace, key, body) \
     SELECT * FROM unnest($1::int8[], $2::int8[], $3::int2[], $4::int8[], $5::text[], $6::bytea[], $7::bytea[])";
pub(in crate::postgres) const UPDATE: &str = must_hit!(
    "UPDATE history h SET status = u.status, finished_at = u.finished_at, body = u.body \
     FROM unnest($1::int8[], $2::int2[], $3::int8[], $4::bytea[]) AS u (id, status, finished_at, body) \
     WHERE h.id = u.id"
);
pub(in crate::postgres) const DELETE: &str = must_hit!("DELETE FROM history WHERE id = ANY($1::int8[])");
pub(in crate::postgres) const GET: &str = "SELECT body, EXISTS (SELECT 1 FROM dead_letters WHERE run = history.id) \
     FROM history WHERE id = ANY($1::int8[])";
pub(in crate::postgres) const NEWEST_FIRST: &str = history_page!("", "DESC");
pub(in crate::postgres) const OLDEST_FIRST: &str = history_page!("", "");
pub(in crate::postgres) const OF_JOB_NEWEST_FIRST: &str = history_page!("job = $5::int8 AND", "DESC");
pub(in crate::postgres) const OF_JOB_OLDEST_FIRST: &str = history_page!("job = $5::int8 AND", "");
pub(in crate::postgres) const OF_KEY_NEWEST_FIRST: &str = history_page!("key = $7::bytea AND", "DESC");
pub(in crate::postgres) const OF_KEY_OLDEST_FIRST: &str = history_page!("key = $7::bytea AND", "");
pub(in crate::postgres) const OF_STATUS_NEWEST_FIRST: &str =
    history_page!("status > 3 AND status = ($6::int2[])[1] AND", "DESC");
pub(in crate::postgres) const OF_STATUS_OLDEST_FIRST: &str =
    history_page!("status > 3 AND status = ($6::int2[])[1] AND", "");
