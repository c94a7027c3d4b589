//! Decodes rows of the database.

use std::sync::Arc;

use mysql_async::Row;
use mysql_async::prelude::FromValue;
use punctual_core::Timestamp;
use punctual_core::change::{DeadLetter, DeletedJob, Skip};
use punctual_core::ids::{JobId, RunId, Token};
use punctual_core::job::{Cursor, Job};
use punctual_core::log::Chunk;
use punctual_core::queue::{Message, Pause, Place, QueueKey, QueueNumber, QueueRecord};
use punctual_core::run::Run;

use super::failure::Failure;
use crate::codec;
use crate::definitions::Definitions;

type Result<T, E = Failure> = std::result::Result<T, E>;

/// Reads the columns of `queries::job_columns`.
pub(super) fn job(row: &Row, definitions: &mut Definitions) -> Result<Arc<Job>> {
    let cursor = Cursor {
        fired_through: instant(row, 7)?,
        next_due: instant_or_none(row, 8)?,
        wake_at: instant_or_none(row, 9)?,
        fires: codec::from_json(text(row, 10)?)?,
        zone_data: text_or_none(row, 12)?.map(|text| text.to_owned().into()),
    };
    Ok(Arc::new(Job {
        id: JobId(int(row, 0)?),
        namespace: name(text(row, 1)?)?,
        name: name(text(row, 2)?)?,
        revision: number(row, 3)?,
        definition: definitions.read(text(row, 11)?)?,
        paused: int(row, 4)? != 0,
        created_at: instant(row, 5)?,
        updated_at: instant(row, 6)?,
        cursor,
    }))
}

pub(super) fn run(row: &Row, column: usize) -> Result<Arc<Run>> {
    Ok(codec::read_run(bytes(row, column)?)?)
}

pub(super) fn dead_letter(row: &Row) -> Result<DeadLetter> {
    let job = text_or_none(row, 2)?.map(name).transpose()?;
    Ok(DeadLetter { run: RunId(int(row, 0)?), namespace: name(text(row, 1)?)?, job, at: instant(row, 3)? })
}

pub(super) fn deleted_job(row: &Row) -> Result<DeletedJob> {
    Ok(DeletedJob { id: JobId(int(row, 0)?), namespace: name(text(row, 1)?)?, name: name(text(row, 2)?)? })
}

pub(super) fn skip(row: &Row) -> Result<Skip> {
    Ok(Skip {
        job: JobId(int(row, 0)?),
        revision: number(row, 1)?,
        from: instant(row, 2)?,
        to: instant(row, 3)?,
        reason: codec::from_json(text(row, 4)?)?,
        at: instant(row, 5)?,
    })
}

/// Reads the columns of `queries::queue_columns`.
pub(super) fn queue(row: &Row) -> Result<QueueRecord> {
    Ok(QueueRecord {
        key: QueueKey { namespace: name(text(row, 1)?)?, name: name(text(row, 2)?)? },
        number: QueueNumber(number(row, 0)?),
        created_at: instant(row, 3)?,
        pause: Pause { input: int(row, 4)? != 0, output: int(row, 5)? != 0 },
        queued: number(row, 6)?,
        messages: number(row, 7)?,
    })
}

/// Reads a message from a row that begins with queue, rank, number, head and body.
pub(super) fn message(row: &Row) -> Result<Arc<Message>> {
    let place = Place { rank: number(row, 1)?, number: int(row, 2)? };
    Ok(codec::read_message(QueueNumber(number(row, 0)?), place, bytes(row, 3)?, bytes(row, 4)?)?)
}

pub(super) fn chunk(run: RunId, row: &Row) -> Result<Chunk> {
    Ok(Chunk {
        run,
        token: Token(int(row, 0)?.cast_unsigned()),
        number: number(row, 1)?,
        at: instant(row, 2)?,
        stream: codec::stream(int(row, 3)?)?,
        bytes: bytes(row, 4)?.to_vec(),
    })
}

pub(super) fn instant(row: &Row, column: usize) -> Result<Timestamp> {
    Ok(Timestamp::from_millis(int(row, column)?))
}

pub(super) fn instant_or_none(row: &Row, column: usize) -> Result<Option<Timestamp>> {
    Ok(int_or_none(row, column)?.map(Timestamp::from_millis))
}

pub(super) fn int(row: &Row, column: usize) -> Result<i64> {
    get(row, column)
}

pub(super) fn int_or_none(row: &Row, column: usize) -> Result<Option<i64>> {
    get(row, column)
}

/// A number that is an `i64` in the database and narrower here.
pub(super) fn number<T: TryFrom<i64, Error: std::fmt::Display>>(row: &Row, column: usize) -> Result<T> {
    int(row, column)?.try_into().map_err(|error| codec::cannot_read(&error).into())
}

pub(super) fn text(row: &Row, column: usize) -> Result<&str> {
    std::str::from_utf8(bytes(row, column)?).map_err(|error| codec::cannot_read(&error).into())
}

pub(super) fn text_or_none(row: &Row, column: usize) -> Result<Option<&str>> {
    match row.as_ref(column) {
        Some(mysql_async::Value::NULL) => Ok(None),
        _ => text(row, column).map(Some),
    }
}

pub(super) fn bytes(row: &Row, column: usize) -> Result<&[u8]> {
    match row.as_ref(column) {
        Some(mysql_async::Value::Bytes(bytes)) => Ok(bytes),
        _ => Err(codec::cannot_read(&format!("column {column} has no text")).into()),
    }
}

pub(super) fn name<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T> {
    text.parse().map_err(|error| codec::cannot_read(&error).into())
}

fn get<T: FromValue>(row: &Row, column: usize) -> Result<T> {
    match row.get_opt(column) {
        Some(Ok(value)) => Ok(value),
        _ => Err(codec::cannot_read(&format!("column {column} has no number")).into()),
    }
}
