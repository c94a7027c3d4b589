//! Calendars.

/// In the order in which `calendars::record` reads them.
macro_rules! calendar_columns {
    () => {
        "namespace, name, version, days, description, updated_at, settled"
    };
}

/// Locks the row that every change of a calendar locks until it ends.
pub(in crate::postgres) const ALONE: &str = "SELECT last FROM calendar_versions WHERE one FOR UPDATE";
pub(in crate::postgres) const NEXT_VERSION: &str =
    "UPDATE calendar_versions SET last = last + 1 WHERE one RETURNING last";
pub(in crate::postgres) const INSERT: &str = "INSERT INTO calendars (namespace, name, version, days, description, \
     updated_at, settled) VALUES ($1::text, $2::text, $3::int8, $4::text, $5::text, $6::int8, false)";
pub(in crate::postgres) const UPDATE: &str = "UPDATE calendars SET version = $3::int8, days = $4::text, \
     description = $5::text, updated_at = $6::int8, settled = false WHERE namespace = $1::text AND name = $2::text";
pub(in crate::postgres) const SETTLE: &str = "UPDATE calendars SET settled = true \
     WHERE namespace = $1::text AND name = $2::text AND version = $3::int8";
pub(in crate::postgres) const DELETE: &str =
    "DELETE FROM calendars WHERE namespace = $1::text AND name = $2::text";
pub(in crate::postgres) const GET: &str =
    concat!("SELECT ", calendar_columns!(), " FROM calendars WHERE namespace = $1::text AND name = $2::text");
pub(in crate::postgres) const LIST: &str = concat!(
    "SELECT ",
    calendar_columns!(),
    " FROM calendars WHERE (namespace, name) > ($1::text, $2::text) \
     AND ($3::text IS NULL OR namespace = $3::text) ORDER BY namespace, name LIMIT $4::int8"
);
pub(in crate::postgres) const UNSETTLED: &str = concat!(
    "SELECT ",
    calendar_columns!(),
    " FROM calendars WHERE NOT settled AND (namespace, name) > ($1::text, $2::text) \
     AND ($3::text IS NULL OR namespace = $3::text) ORDER BY namespace, name LIMIT $4::int8"
);
