//! Decodes rows of SQLite.

use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::change::{DeadLetter, DeletedJob, Skip};
use punctual_core::ids::{JobId, RunId, Token};
use punctual_core::job::{Cursor, Job};
use punctual_core::log::Chunk;
use punctual_core::name::Name;
use punctual_core::queue::{Message, Pause, Place, QueueKey, QueueNumber, QueueRecord};
use punctual_core::run::Run;
use rusqlite::Row;
use rusqlite::types::ValueRef;

use super::failure::Failure;
use crate::codec;
use crate::definitions::Definitions;

type Result<T, E = Failure> = std::result::Result<T, E>;

/// Reads the columns of `queries::job_columns`.
pub(super) fn job(row: &Row<'_>, definitions: &mut Definitions) -> Result<Arc<Job>> {
    let cursor = Cursor {
        fired_through: instant(row, 7)?,
        next_due: instant_or_none(row, 8)?,
        wake_at: instant_or_none(row, 9)?,
        fires: codec::from_json(text(row, 10)?)?,
        zone_data: row.get::<_, Option<String>>(12)?.map(Into::into),
    };
    Ok(Arc::new(Job {
        id: JobId(row.get(0)?),
        namespace: name(text(row, 1)?)?,
        name: name(text(row, 2)?)?,
        revision: row.get(3)?,
        definition: definitions.read(text(row, 11)?)?,
        paused: row.get(4)?,
        created_at: instant(row, 5)?,
        updated_at: instant(row, 6)?,
        cursor,
    }))
}

pub(super) fn run(row: &Row<'_>, column: usize) -> Result<Arc<Run>> {
    Ok(codec::read_run(blob(row, column)?)?)
}

pub(super) fn dead_letter(row: &Row<'_>) -> Result<DeadLetter> {
    let job = match row.get_ref(2)? {
        ValueRef::Null => None,
        _ => Some(name::<Name>(text(row, 2)?)?),
    };
    Ok(DeadLetter { run: RunId(row.get(0)?), namespace: name(text(row, 1)?)?, job, at: instant(row, 3)? })
}

pub(super) fn deleted_job(row: &Row<'_>) -> Result<DeletedJob> {
    Ok(DeletedJob { id: JobId(row.get(0)?), namespace: name(text(row, 1)?)?, name: name(text(row, 2)?)? })
}

pub(super) fn skip(row: &Row<'_>) -> Result<Skip> {
    Ok(Skip {
        job: JobId(row.get(0)?),
        revision: row.get(1)?,
        from: instant(row, 2)?,
        to: instant(row, 3)?,
        reason: codec::from_json(text(row, 4)?)?,
        at: instant(row, 5)?,
    })
}

/// Reads the columns of `queries::queue_columns`.
pub(super) fn queue(row: &Row<'_>) -> Result<QueueRecord> {
    Ok(QueueRecord {
        key: QueueKey { namespace: name(text(row, 1)?)?, name: name(text(row, 2)?)? },
        number: QueueNumber(row.get(0)?),
        created_at: instant(row, 3)?,
        pause: Pause { input: row.get(4)?, output: row.get(5)? },
        queued: row.get::<_, i64>(6)?.cast_unsigned(),
        messages: row.get::<_, i64>(7)?.cast_unsigned(),
    })
}

/// Reads a message from a row that begins with queue, rank, number, head and body.
pub(super) fn message(row: &Row<'_>) -> Result<Arc<Message>> {
    let place = Place { rank: row.get(1)?, number: row.get(2)? };
    Ok(codec::read_message(QueueNumber(row.get(0)?), place, blob(row, 3)?, blob(row, 4)?)?)
}

pub(super) fn chunk(run: RunId, row: &Row<'_>) -> Result<Chunk> {
    Ok(Chunk {
        run,
        token: Token(row.get::<_, i64>(0)?.cast_unsigned()),
        number: row.get(1)?,
        at: instant(row, 2)?,
        stream: codec::stream(row.get(3)?)?,
        bytes: blob(row, 4)?.to_vec(),
    })
}

pub(super) fn instant(row: &Row<'_>, column: usize) -> Result<Timestamp> {
    Ok(Timestamp::from_millis(row.get(column)?))
}

fn instant_or_none(row: &Row<'_>, column: usize) -> Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp::from_millis))
}

pub(super) fn text<'r>(row: &'r Row<'_>, column: usize) -> Result<&'r str> {
    row.get_ref(column)?.as_str().map_err(|error| codec::cannot_read(&error).into())
}

fn blob<'r>(row: &'r Row<'_>, column: usize) -> Result<&'r [u8]> {
    row.get_ref(column)?.as_blob().map_err(|error| codec::cannot_read(&error).into())
}

pub(super) fn name<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T> {
    text.parse().map_err(|error| codec::cannot_read(&error).into())
}
