//! Rows that belong to no shard: tokens, and the values that the cluster agreed on.

pub(in crate::postgres) const OFFER: &str =
    "INSERT INTO agreed (name, value) VALUES ($1::text, $2::bytea) ON CONFLICT (name) DO NOTHING";
pub(in crate::postgres) const AGREED: &str = "SELECT value FROM agreed WHERE name = $1::text";
pub(in crate::postgres) const TOKENS: &str =
    "SELECT name, hash, role, created_at, expires_at FROM tokens ORDER BY name";
pub(in crate::postgres) const ADD_TOKEN: &str = "INSERT INTO tokens (name, hash, role, created_at, expires_at) \
     VALUES ($1::text, $2::bytea, $3::text, $4::int8, $5::int8) ON CONFLICT (name) DO NOTHING";
pub(in crate::postgres) const REMOVE_TOKEN: &str = "DELETE FROM tokens WHERE name = $1::text";
