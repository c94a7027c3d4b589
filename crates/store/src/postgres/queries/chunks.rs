//! Output of attempts.

/// A chunk that is stored already stays as it is.
pub(in crate::postgres) const INSERT: &str = "INSERT INTO chunks (run, token, number, at, stream, bytes) \
     SELECT * FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::int8[], $5::int2[], $6::bytea[]) \
     ON CONFLICT DO NOTHING";
pub(in crate::postgres) const LIST: &str = "SELECT token, number, at, stream, bytes FROM chunks \
     WHERE run = $1::int8 AND (token, number) > ($2::int8, $3::int8) ORDER BY token, number LIMIT $4::int8";
/// Only the output of programs: stream 3 has Punctual's own remarks.
pub(in crate::postgres) const BYTES: &str =
    "SELECT coalesce(sum(octet_length(bytes)), 0)::int8 FROM chunks WHERE run = $1::int8 AND stream <> 3";
