//! Decodes rows of PostgreSQL.

use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::change::{DeadLetter, DeletedJob, Skip};
use punctual_core::ids::{JobId, RunId, Token};
use punctual_core::job::{Cursor, Job};
use punctual_core::log::Chunk;
use punctual_core::queue::{Message, Pause, Place, QueueKey, QueueNumber, QueueRecord};
use punctual_core::run::Run;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use crate::definitions::Definitions;
use crate::{Result, codec};

pub(super) fn get<'r, T: FromSql<'r>>(row: &'r Row, column: usize) -> Result<T> {
    row.try_get(column).map_err(|error| codec::cannot_read(&error))
}

/// Reads the columns of `queries::job_columns`.
pub(super) fn job(row: &Row, definitions: &mut Definitions) -> Result<Arc<Job>> {
    let cursor = Cursor {
        fired_through: instant(row, 7)?,
        next_due: instant_or_none(row, 8)?,
        wake_at: instant_or_none(row, 9)?,
        fires: codec::from_json(get(row, 10)?)?,
        zone_data: get::<Option<String>>(row, 12)?.map(Into::into),
    };
    Ok(Arc::new(Job {
        id: JobId(get(row, 0)?),
        namespace: name(get(row, 1)?)?,
        name: name(get(row, 2)?)?,
        revision: number(row, 3)?,
        definition: definitions.read(get(row, 11)?)?,
        paused: get(row, 4)?,
        created_at: instant(row, 5)?,
        updated_at: instant(row, 6)?,
        cursor,
    }))
}

pub(super) fn run(row: &Row, column: usize) -> Result<Arc<Run>> {
    codec::read_run(get(row, column)?)
}

pub(super) fn dead_letter(row: &Row) -> Result<DeadLetter> {
    let job = get::<Option<&str>>(row, 2)?.map(name).transpose()?;
    Ok(DeadLetter { run: RunId(get(row, 0)?), namespace: name(get(row, 1)?)?, job, at: instant(row, 3)? })
}

pub(super) fn deleted_job(row: &Row) -> Result<DeletedJob> {
    Ok(DeletedJob { id: JobId(get(row, 0)?), namespace: name(get(row, 1)?)?, name: name(get(row, 2)?)? })
}

pub(super) fn skip(row: &Row) -> Result<Skip> {
    Ok(Skip {
        job: JobId(get(row, 0)?),
        revision: number(row, 1)?,
        from: instant(row, 2)?,
        to: instant(row, 3)?,
        reason: codec::from_json(get(row, 4)?)?,
        at: instant(row, 5)?,
    })
}

/// Reads the columns of `queries::queue_columns`.
pub(super) fn queue(row: &Row) -> Result<QueueRecord> {
    Ok(QueueRecord {
        key: QueueKey { namespace: name(get(row, 1)?)?, name: name(text(row, 2)?)? },
        number: QueueNumber(number(row, 0)?),
        created_at: instant(row, 3)?,
        pause: Pause { input: get(row, 4)?, output: get(row, 5)? },
        queued: number(row, 6)?,
        messages: number(row, 7)?,
    })
}

/// Reads a message from a row that begins with queue, rank, number, head and body.
pub(super) fn message(row: &Row) -> Result<Arc<Message>> {
    let rank = u8::try_from(get::<i16>(row, 1)?).map_err(|error| codec::cannot_read(&error))?;
    let place = Place { rank, number: get(row, 2)? };
    codec::read_message(QueueNumber(number(row, 0)?), place, get(row, 3)?, get(row, 4)?)
}

pub(super) fn chunk(run: RunId, row: &Row) -> Result<Chunk> {
    Ok(Chunk {
        run,
        token: Token(get::<i64>(row, 0)?.cast_unsigned()),
        number: number(row, 1)?,
        at: instant(row, 2)?,
        stream: codec::stream(get::<i16>(row, 3)?.into())?,
        bytes: get(row, 4)?,
    })
}

/// Text that may contain any character, and so is stored as bytes.
pub(super) fn text(row: &Row, column: usize) -> Result<&str> {
    std::str::from_utf8(get(row, column)?).map_err(|error| codec::cannot_read(&error))
}

pub(super) fn instant(row: &Row, column: usize) -> Result<Timestamp> {
    Ok(Timestamp::from_millis(get(row, column)?))
}

fn instant_or_none(row: &Row, column: usize) -> Result<Option<Timestamp>> {
    Ok(get::<Option<i64>>(row, column)?.map(Timestamp::from_millis))
}

/// A number that is an `int8` in the database and narrower here.
pub(super) fn number<T: TryFrom<i64, Error: std::fmt::Display>>(row: &Row, column: usize) -> Result<T> {
    T::try_from(get::<i64>(row, column)?).map_err(|error| codec::cannot_read(&error))
}

pub(super) fn name<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T> {
    text.parse().map_err(|error| codec::cannot_read(&error))
}
