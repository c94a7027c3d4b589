//! Mail for nodes that cannot be dialled.

/// Skips rows that another transaction has locked.
pub(in crate::postgres) const DROP_OLD: &str = concat!(
    "DELETE FROM mail WHERE (recipient, sender, number) IN (SELECT recipient, sender, number FROM mail WHERE sent_at < ",
    now!(),
    " - $1::int8 FOR UPDATE SKIP LOCKED)"
);
pub(in crate::postgres) const SEND: &str = concat!(
    "INSERT INTO mail (recipient, sender, number, sent_at, body) VALUES ($1::int8, $2::int8, $3::int8, ",
    now!(),
    ", $4::bytea) ON CONFLICT DO NOTHING"
);
pub(in crate::postgres) const TAKE: &str = "DELETE FROM mail WHERE recipient = $1::int8 AND (sender, number) IN \
     (SELECT * FROM unnest($2::int8[], $3::int8[]))";
pub(in crate::postgres) const RECEIVE: &str = "SELECT sender, number, body FROM mail WHERE recipient = $1::int8 \
     ORDER BY sender, number LIMIT $2::int8";
