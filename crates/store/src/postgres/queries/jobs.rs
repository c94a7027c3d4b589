//! Jobs, and their timers.

/// In the order in which `rows::job` reads them.
macro_rules! job_columns {
    () => {
        "id, namespace, name, revision, paused, created_at, updated_at, \
         fired_through, next_due, wake_at, fires, coalesce(definition, (SELECT revisions.definition \
         FROM revisions WHERE revisions.job = jobs.id AND revisions.revision = jobs.revision)), zone_data"
    };
}

pub(in crate::postgres) const INSERT: &str = "INSERT INTO jobs (id, shard, namespace, name, revision, paused, \
     created_at, updated_at, fired_through, next_due, wake_at, fires, keep_runs, keep_days, definition, calendars, \
     zone_data) SELECT * FROM unnest($1::int8[], $2::int2[], $3::text[], $4::text[], $5::int8[], $6::bool[], $7::int8[], \
     $8::int8[], $9::int8[], $10::int8[], $11::int8[], $12::text[], $13::int8[], $14::int8[], $15::text[], $16::text[], \
     $17::text[])";
/// A fire: the definition of a revision never changes, so it is not written again.
pub(in crate::postgres) const MOVE: &str = must_hit!(
    "UPDATE jobs j SET paused = u.paused, updated_at = u.updated_at, fired_through = u.fired_through, \
     next_due = u.next_due, wake_at = u.wake_at, fires = u.fires, zone_data = u.zone_data \
     FROM unnest($1::int8[], $2::int8[], $3::bool[], $4::int8[], $5::int8[], $6::int8[], $7::int8[], $8::text[], \
     $9::text[]) AS u (id, revision, paused, updated_at, fired_through, next_due, wake_at, fires, zone_data) \
     WHERE j.id = u.id AND j.revision = u.revision AND j.fired_through <= u.fired_through"
);
pub(in crate::postgres) const EDIT: &str = must_hit!(
    "UPDATE jobs j SET revision = u.revision, paused = u.paused, updated_at = u.updated_at, \
     fired_through = u.fired_through, next_due = u.next_due, wake_at = u.wake_at, fires = u.fires, zone_data = u.zone_data, \
     keep_runs = u.keep_runs, keep_days = u.keep_days, definition = u.definition, calendars = u.calendars \
     FROM unnest($1::int8[], $2::int8[], $3::bool[], $4::int8[], $5::int8[], $6::int8[], $7::int8[], $8::text[], \
     $9::text[], $10::int8[], $11::int8[], $12::text[], $13::text[]) AS u (id, revision, paused, updated_at, \
     fired_through, next_due, wake_at, fires, zone_data, keep_runs, keep_days, definition, calendars) \
     WHERE j.id = u.id AND j.fired_through <= u.fired_through"
);
pub(in crate::postgres) const DELETE: &str = must_hit!("DELETE FROM jobs WHERE id = ANY($1::int8[])");
/// The columns that decide how a job is updated.
pub(in crate::postgres) const STAND: &str = "SELECT revision, fired_through FROM jobs WHERE id = $1::int8";
pub(in crate::postgres) const BY_ID: &str =
    concat!("SELECT ", job_columns!(), " FROM jobs WHERE id = ANY($1::int8[])");
pub(in crate::postgres) const NAMED: &str = concat!(
    "SELECT ",
    job_columns!(),
    " FROM jobs WHERE (namespace, name) IN (SELECT * FROM unnest($1::text[], $2::text[]))"
);
pub(in crate::postgres) const LIST: &str = concat!(
    "SELECT ",
    job_columns!(),
    " FROM jobs WHERE (namespace, name) > ($1::text, $2::text) ORDER BY namespace, name LIMIT $3::int8"
);
pub(in crate::postgres) const LIST_OF_NAMESPACE: &str = concat!(
    "SELECT ",
    job_columns!(),
    " FROM jobs WHERE namespace = $1::text AND name > $2::text ORDER BY name LIMIT $3::int8"
);
pub(in crate::postgres) const LIST_OF_CALENDAR: &str = concat!(
    "SELECT ",
    job_columns!(),
    " FROM jobs WHERE calendars IS NOT NULL AND namespace = $1::text AND name > $2::text \
     AND strpos(calendars, $4::text) > 0 ORDER BY name LIMIT $3::int8"
);
pub(in crate::postgres) const OUTDATED: &str =
    concat!("SELECT ", job_columns!(), " FROM jobs WHERE zone_data < $1::text LIMIT $2::int8");
pub(in crate::postgres) const DUE: &str = concat!(
    "SELECT ",
    job_columns!(),
    " FROM jobs WHERE shard = $1::int2 AND wake_at IS NOT NULL AND (wake_at, id) > ($2::int8, $3::int8) \
     ORDER BY wake_at, id LIMIT $4::int8"
);
