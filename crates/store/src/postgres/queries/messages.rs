//! Messages: the primary key is the order of a queue.

/// A page of messages in a given order. It ends with the message at which the bodies reach `$1` bytes.
macro_rules! message_page {
    ($order:literal, $wanted:literal) => {
        concat!(
            "SELECT queue, rank_no, number, head, body, wake_at FROM (SELECT p.*, \
             sum(octet_length(body)) OVER (ORDER BY ",
            $order,
            " ROWS UNBOUNDED PRECEDING) - octet_length(body) AS weight FROM (SELECT queue, rank_no, number, head, body, \
             wake_at FROM messages WHERE ",
            $wanted,
            " ORDER BY ",
            $order,
            " LIMIT $2::int8) p) w WHERE weight < $1::int8 ORDER BY ",
            $order
        )
    };
}

pub(in crate::postgres) const INSERT: &str = "INSERT INTO messages (shard, queue, rank_no, number, wake_at, queued, \
     head, body) SELECT * FROM unnest($1::int2[], $2::int8[], $3::int2[], $4::int8[], $5::int8[], $6::bool[], \
     $7::bytea[], $8::bytea[])";
/// The body of a message never changes.
pub(in crate::postgres) const UPDATE: &str = must_hit!(
    "UPDATE messages m SET wake_at = u.wake_at, queued = u.queued, head = u.head \
     FROM unnest($1::int2[], $2::int8[], $3::int2[], $4::int8[], $5::int8[], $6::bool[], $7::bytea[]) \
     AS u (shard, queue, rank_no, number, wake_at, queued, head) WHERE m.shard = u.shard AND m.queue = u.queue \
     AND m.rank_no = u.rank_no AND m.number = u.number"
);
pub(in crate::postgres) const DELETE: &str = must_hit!(
    "DELETE FROM messages m USING unnest($1::int2[], $2::int8[], $3::int2[], $4::int8[]) \
     AS d (shard, queue, rank_no, number) WHERE m.shard = d.shard AND m.queue = d.queue \
     AND m.rank_no = d.rank_no AND m.number = d.number"
);
/// Tries every rank: an id does not contain it.
pub(in crate::postgres) const FIND: &str = "SELECT m.queue, m.rank_no, m.number, m.head, m.body \
     FROM unnest($1::int2[], $2::int8[], $3::int8[]) AS w (shard, queue, number) \
     CROSS JOIN generate_series(0, 9) AS r (rank_no) JOIN messages m ON m.shard = w.shard AND m.queue = w.queue \
     AND m.rank_no = r.rank_no AND m.number = w.number";
pub(in crate::postgres) const LIST: &str = message_page!(
    "rank_no, number",
    "shard = $3::int2 AND queue = $4::int8 AND (rank_no, number) > ($5::int2, $6::int8)"
);
pub(in crate::postgres) const BACKLOG: &str = message_page!(
    "rank_no, number",
    "shard = $3::int2 AND queue = $4::int8 AND (rank_no, number) > ($5::int2, $6::int8) AND queued"
);
/// Like `BACKLOG`, from the end.
pub(in crate::postgres) const LAST_IN_LINE: &str =
    message_page!("rank_no DESC, number DESC", "shard = $3::int2 AND queue = $4::int8 AND queued");
pub(in crate::postgres) const DUE: &str =
    message_page!("wake_at, number", "shard = $3::int2 AND (wake_at, number) > ($4::int8, $5::int8)");
