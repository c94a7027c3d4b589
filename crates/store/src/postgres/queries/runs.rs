//! Live runs.

/// The next runs of several shards, each in its own range from `$1` to `$2`.
macro_rules! live_page {
    ($source:literal, $direction:literal) => {
        walked!(concat!(
            "(SELECT r.* FROM unnest($1::int8[], $2::int8[]) AS span (first, last), LATERAL (SELECT place AS at, \
             namespace, job, status, key, body FROM runs WHERE ",
            $source,
            " place BETWEEN span.first AND span.last ORDER BY place ",
            $direction,
            " LIMIT $3::int8) r)"
        ))
    };
}

pub(in crate::postgres) const INSERT: &str = "INSERT INTO runs (place, shard, wake_at, job, status, namespace, key, body) \
     SELECT * FROM unnest($1::int8[], $2::int2[], $3::int8[], $4::int8[], $5::int2[], $6::text[], $7::bytea[], $8::bytea[])";
pub(in crate::postgres) const UPDATE: &str = must_hit!(
    "UPDATE runs r SET wake_at = u.wake_at, status = u.status, body = u.body \
     FROM unnest($1::int8[], $2::int8[], $3::int2[], $4::bytea[]) AS u (place, wake_at, status, body) \
     WHERE r.place = u.place"
);
pub(in crate::postgres) const DELETE: &str = must_hit!("DELETE FROM runs WHERE place = ANY($1::int8[])");
pub(in crate::postgres) const GET: &str = "SELECT body FROM runs WHERE place = ANY($1::int8[])";
pub(in crate::postgres) const LOAD: &str = "SELECT body FROM runs \
     WHERE place BETWEEN $1::int8 AND $2::int8 AND wake_at IS NULL ORDER BY place";
pub(in crate::postgres) const DUE: &str = "SELECT wake_at, place, body FROM runs \
     WHERE shard = $1::int2 AND wake_at IS NOT NULL AND (wake_at, place) > ($2::int8, $3::int8) \
     ORDER BY wake_at, place LIMIT $4::int8";
pub(in crate::postgres) const NEWEST_FIRST: &str = live_page!("", "DESC");
pub(in crate::postgres) const OLDEST_FIRST: &str = live_page!("", "");
pub(in crate::postgres) const OF_KEY_NEWEST_FIRST: &str = live_page!("key = $7::bytea AND", "DESC");
pub(in crate::postgres) const OF_KEY_OLDEST_FIRST: &str = live_page!("key = $7::bytea AND", "");
