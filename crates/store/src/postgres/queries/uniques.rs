//! Unique and idempotency keys.

pub(in crate::postgres) const INSERT: &str = "INSERT INTO uniques (shard, key, run, expires_at) \
     SELECT * FROM unnest($1::int2[], $2::bytea[], $3::int8[], $4::int8[])";
pub(in crate::postgres) const UPDATE: &str = must_hit!(
    "UPDATE uniques k SET run = u.run, expires_at = u.expires_at \
     FROM unnest($1::int2[], $2::bytea[], $3::int8[], $4::int8[]) AS u (shard, key, run, expires_at) \
     WHERE k.shard = u.shard AND k.key = u.key"
);
pub(in crate::postgres) const DELETE: &str = must_hit!(
    "DELETE FROM uniques k USING unnest($1::int2[], $2::bytea[]) AS d (shard, key) \
     WHERE k.shard = d.shard AND k.key = d.key"
);
pub(in crate::postgres) const GET: &str = "SELECT k.key, k.run, k.expires_at FROM uniques k \
     JOIN unnest($1::int2[], $2::bytea[]) AS w (shard, key) ON k.shard = w.shard AND k.key = w.key";
