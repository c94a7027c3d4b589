//! Sessions of nodes.

/// Skips rows that another transaction has locked.
pub(in crate::postgres) const EXPIRE: &str = concat!(
    "DELETE FROM sessions WHERE id IN (SELECT id FROM sessions WHERE until <= ",
    now!(),
    " FOR UPDATE SKIP LOCKED)"
);
pub(in crate::postgres) const RENEW: &str = concat!(
    "INSERT INTO sessions AS s (id, node, address, weight, embedded, load, since, until) \
     VALUES ($1::int8, $2::text, $3::text, $4::int8, $5::bool, $6::int2, ",
    now!(),
    ", ",
    now!(),
    " + $7::int8) ON CONFLICT (id) DO UPDATE SET node = excluded.node, address = excluded.address, \
     weight = excluded.weight, embedded = excluded.embedded, load = excluded.load, until = excluded.until, \
     since = CASE WHEN s.until <= excluded.since THEN excluded.since ELSE s.since END"
);
pub(in crate::postgres) const ALL: &str = concat!(
    "SELECT ",
    now!(),
    ", id, node, address, weight, embedded, load, since FROM sessions WHERE until > ",
    now!(),
    " ORDER BY id"
);
pub(in crate::postgres) const LEAVE: &str = "DELETE FROM sessions WHERE id = $1::int8";
