//! Queues, and how many messages each has.

/// In the order in which `rows::queue` reads them.
macro_rules! queue_columns {
    () => {
        "number, namespace, name, created_at, paused_input, paused_output, queued, messages"
    };
}

pub(in crate::postgres) const INSERT: &str = "INSERT INTO queues (shard, number, namespace, name, created_at, \
     paused_input, paused_output, queued, messages) SELECT * FROM unnest($1::int2[], $2::int8[], $3::text[], \
     $4::bytea[], $5::int8[], $6::bool[], $7::bool[], $8::int8[], $9::int8[])";
/// Writes all columns: the same batch may delete a queue and reuse its number for another.
pub(in crate::postgres) const UPDATE: &str = must_hit!(
    "UPDATE queues q SET namespace = u.namespace, name = u.name, created_at = u.created_at, \
     paused_input = u.paused_input, paused_output = u.paused_output, queued = u.queued, messages = u.messages \
     FROM unnest($1::int2[], $2::int8[], $3::text[], $4::bytea[], $5::int8[], $6::bool[], $7::bool[], $8::int8[], \
     $9::int8[]) AS u (shard, number, namespace, name, created_at, paused_input, paused_output, queued, messages) \
     WHERE q.shard = u.shard AND q.number = u.number"
);
pub(in crate::postgres) const DELETE: &str = must_hit!(
    "DELETE FROM queues q USING unnest($1::int2[], $2::int8[]) AS d (shard, number) \
     WHERE q.shard = d.shard AND q.number = d.number"
);
pub(in crate::postgres) const LOAD: &str =
    concat!("SELECT ", queue_columns!(), " FROM queues WHERE shard = $1::int2 ORDER BY number");
pub(in crate::postgres) const NAMED: &str = "SELECT shard, number FROM queues \
     WHERE namespace = $1::text AND name = $2::bytea ORDER BY shard, number LIMIT 1";
pub(in crate::postgres) const LIST: &str = concat!(
    "SELECT ",
    queue_columns!(),
    " FROM queues WHERE (namespace, name) > ($1::text, $2::bytea) \
     ORDER BY namespace, name, shard, number LIMIT $3::int8"
);
pub(in crate::postgres) const LIST_OF_NAMESPACE: &str = concat!(
    "SELECT ",
    queue_columns!(),
    " FROM queues WHERE namespace = $1::text AND name > $2::bytea \
     ORDER BY name, shard, number LIMIT $3::int8"
);
pub(in crate::postgres) const STATS: &str =
    "SELECT count(*)::int8, coalesce(sum(messages), 0)::int8 FROM queues";
