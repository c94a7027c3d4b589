//! Decodes rows.

use std::sync::Arc;

use parking_lot::Mutex;
use punctual_core::change::{DeadLetter, DeletedJob, Holder, Revision, Skip, UniqueKey};
use punctual_core::ids::{Epoch, JobId, RunId, SessionId, ShardId, Token};
use punctual_core::job::{Cursor, Job};
use punctual_core::log::Chunk;
use punctual_core::queue::{Message, MessagePosition, Pause, QueueKey, QueueNumber, QueueRecord};
use punctual_core::run::Run;
use punctual_core::schedule::calendar::{self, Calendar};
use punctual_core::statistics::RecentCounts;
use punctual_core::task::{Descriptor, StoredDescriptor};
use punctual_core::workflow::{Approval, ApprovalKey, StepKey, StepRecord};

use super::value::Row;
use crate::definitions::Definitions;
use crate::{Error, Lease, Result, codec, token};

/// Reads the columns `{job}`.
pub(crate) fn job(row: &dyn Row, definitions: &Mutex<Definitions>) -> Result<Arc<Job>> {
    let watch = row.text_or_none(14)?.map(codec::from_json::<codec::Watched>).transpose()?;
    let (watch, wake_at) = match watch {
        Some(watched) => (Some(watched.watch), watched.wake_at),
        None => (None, row.instant_or_none(9)?),
    };
    let cursor = Cursor {
        fired_through: row.instant(7)?,
        next_due: row.instant_or_none(8)?,
        wake_at,
        fires: codec::from_json(row.text(10)?)?,
        zone_data: row.text_or_none(12)?.map(|text| text.to_owned().into()),
    };
    Ok(Arc::new(Job {
        id: JobId(row.int(0)?),
        namespace: row.name(1)?,
        name: row.name(2)?,
        revision: row.number(3)?,
        definition: definitions.lock().read(row.text(11)?)?,
        pause: row.text_or_none(4)?.map(codec::from_json).transpose()?,
        failures: row.number(13)?,
        watch,
        created_at: row.instant(5)?,
        updated_at: row.instant(6)?,
        cursor,
    }))
}

/// Reads job, revision, instant, definition and state.
pub(crate) fn revision(row: &dyn Row, definitions: &Mutex<Definitions>) -> Result<Arc<Revision>> {
    Ok(Arc::new(Revision {
        job: JobId(row.int(0)?),
        revision: row.number(1)?,
        at: row.instant(2)?,
        definition: definitions.lock().read(row.text(3)?)?,
        state: codec::from_json(row.text(4)?)?,
    }))
}

pub(crate) fn run(row: &dyn Row, column: usize) -> Result<Arc<Run>> {
    codec::read_run(row.bytes(column)?)
}

pub(crate) fn dead_letter(row: &dyn Row) -> Result<DeadLetter> {
    let (namespace, job) = (row.name(1)?, row.name_or_none(2)?);
    Ok(DeadLetter { run: RunId(row.int(0)?), namespace, job, at: row.instant(3)? })
}

pub(crate) fn deleted_job(row: &dyn Row) -> Result<DeletedJob> {
    Ok(DeletedJob { id: JobId(row.int(0)?), namespace: row.name(1)?, name: row.name(2)? })
}

pub(crate) fn unique(row: &dyn Row) -> Result<UniqueKey> {
    Ok(UniqueKey {
        key: Arc::from(row.text(0)?),
        holder: Holder::from_column(row.int(1)?),
        expires_at: row.instant(2)?,
    })
}

pub(crate) fn skip(row: &dyn Row) -> Result<Skip> {
    Ok(Skip {
        job: JobId(row.int(0)?),
        revision: row.number(1)?,
        from: row.instant(2)?,
        to: row.instant(3)?,
        reason: codec::from_json(row.text(4)?)?,
        at: row.instant(5)?,
    })
}

/// Reads run, step, item, state, child and body.
pub(crate) fn step(row: &dyn Row) -> Result<Arc<StepRecord>> {
    let key = StepKey::of_columns(RunId(row.int(0)?), row.number(1)?, row.number(2)?);
    codec::read_step(key, row.int(3)?, row.int_or_none(4)?, row.bytes(5)?)
}

/// Reads the columns `{approval}`.
pub(crate) fn approval(row: &dyn Row) -> Result<Approval> {
    let key = ApprovalKey { namespace: row.name(0)?, run: RunId(row.int(1)?), step: row.number(2)? };
    Ok(Approval {
        key: Arc::new(key),
        job: row.name_or_none(3)?,
        step: row.name(4)?,
        since: row.instant(5)?,
        until: row.instant_or_none(6)?,
    })
}

/// Reads the columns `{queue}`.
pub(crate) fn queue(row: &dyn Row) -> Result<QueueRecord> {
    Ok(QueueRecord {
        key: QueueKey { namespace: row.name(1)?, name: row.name(2)? },
        number: QueueNumber(row.number(0)?),
        created_at: row.instant(3)?,
        pause: Pause { input: row.flag(4)?, output: row.flag(5)? },
        queued: row.int(6)?.cast_unsigned(),
        messages: row.int(7)?.cast_unsigned(),
        unacked: row.int(8)?.cast_unsigned(),
        settings: row.text_or_none(9)?.map(codec::from_json).transpose()?.map(Arc::new),
    })
}

pub(crate) fn recent_counts(row: &dyn Row) -> Result<RecentCounts> {
    RecentCounts::decode(row.number(0)?, row.bytes(1)?).map_err(|error| codec::cannot_read(&error))
}

/// Reads the columns `{message}`.
pub(crate) fn message(row: &dyn Row) -> Result<Arc<Message>> {
    let place = MessagePosition { rank: row.number(1)?, number: row.int(2)? };
    codec::read_message(QueueNumber(row.number(0)?), place, row.bytes(3)?, row.bytes(4)?)
}

/// Reads the columns `{calendar}`.
pub(crate) fn calendar(row: &dyn Row) -> Result<Arc<calendar::Record>> {
    let calendar =
        Calendar { name: row.name(1)?, version: row.number(2)?, days: codec::from_json(row.text(3)?)? };
    Ok(Arc::new(calendar::Record {
        namespace: row.name(0)?,
        calendar: Arc::new(calendar),
        description: codec::from_json(row.text(4)?)?,
        updated_at: row.instant(5)?,
        settled: row.flag(6)?,
    }))
}

/// Reads namespace, name, version, instant and size.
pub(crate) fn descriptor(row: &dyn Row) -> Result<Descriptor> {
    Ok(Descriptor {
        namespace: row.name(0)?,
        name: row.name(1)?,
        version: row.number(2)?,
        updated_at: row.instant(3)?,
        bytes: row.number(4)?,
    })
}

/// The same, and the set.
pub(crate) fn stored_descriptor(row: &dyn Row) -> Result<StoredDescriptor> {
    Ok(StoredDescriptor { about: descriptor(row)?, set: row.bytes(5)?.into() })
}

pub(crate) fn chunk(run: RunId, row: &dyn Row) -> Result<Chunk> {
    Ok(Chunk {
        run,
        token: Token(row.int(0)?.cast_unsigned()),
        number: row.number(1)?,
        at: row.instant(2)?,
        stream: codec::stream(row.int(3)?)?,
        bytes: row.bytes(4)?.to_vec(),
    })
}

pub(crate) fn token(row: &dyn Row) -> Result<token::Record> {
    let role = row.text(2)?;
    let hash = row.bytes(1)?.try_into();
    Ok(token::Record {
        name: row.text(0)?.to_owned(),
        hash: hash.map_err(|_| Error::Unusable("the hash of a token does not have 32 bytes".to_owned()))?,
        role: token::Role::named(role)
            .ok_or_else(|| Error::Unusable(format!("a token has the unknown role `{role}`")))?,
        created_at: row.instant(3)?,
        expires_at: row.instant_or_none(4)?,
    })
}

/// Reads the clock, then shard, epoch, owner and heir.
pub(crate) fn lease(row: &dyn Row) -> Result<Lease> {
    Ok(Lease {
        shard: ShardId(row.number(1)?),
        epoch: Epoch(row.number(2)?),
        owner: row.int_or_none(3)?.map(SessionId),
        heir: row.int_or_none(4)?.map(SessionId),
    })
}
