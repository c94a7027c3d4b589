//! Reads of a shard's leader: its live set, rows by key, its next timers.

use std::sync::Arc;

use punctual_core::change::{Found, Loaded, TimerPage, TimerPlace, UniqueKey, Want};
use punctual_core::ids::{Epoch, RunId, ShardId};
use punctual_core::limits::PAGE_BYTES_MAX;
use punctual_core::queue::Message;
use tokio_postgres::Row;

use super::doors::rows_max;
use super::link::ask;
use super::snapshot::Snapshot;
use super::writes::number;
use super::{queries, queues, rows};
use crate::listing::looked_up;
use crate::weight::Weight;
use crate::{Error, Result, place};

impl Snapshot<'_> {
    pub(super) async fn load(&mut self, shard: ShardId, epoch: Epoch) -> Result<Loaded> {
        let (first, last) = place::span(shard);
        let asks = vec![
            ask!(queries::shards::GET, number(shard), i64::from(epoch.0)),
            ask!(queries::runs::LOAD, first, last),
            ask!(queries::queues::LOAD, number(shard)),
        ];
        let found = self.all(asks).await?;
        let row = found[0].first().ok_or(Error::Fenced { shard, epoch })?;
        let (commit, last_id) = (rows::get::<i64>(row, 0)?.cast_unsigned(), rows::get(row, 1)?);
        let held = found[1].iter().map(|row| Ok((rows::run(row, 0)?, false))).collect::<Result<_>>()?;
        let queues = found[2].iter().map(rows::queue).collect::<Result<_>>()?;
        let runs = self.records(held).await?;
        Ok(Loaded { shard, epoch, commit, last_id, runs, queues })
    }

    pub(super) async fn fetch(&mut self, wants: &[(ShardId, Want)]) -> Result<Found> {
        let (mut namespaces, mut names, mut ids) = (Vec::new(), Vec::new(), Vec::new());
        let (mut shards, mut keys, mut messages) = (Vec::new(), Vec::new(), Vec::new());
        for (shard, want) in wants {
            match want {
                Want::Job(namespace, name) => {
                    namespaces.push(namespace.as_str().to_owned());
                    names.push(name.as_str().to_owned());
                }
                Want::Run(run) => ids.push(*run),
                Want::Unique(key) => {
                    shards.push(number(*shard));
                    keys.push(key.as_bytes().to_vec());
                }
                Want::Message(id) => messages.push(*id),
            }
        }
        let asks = vec![
            ask!(queries::jobs::NAMED, namespaces, names),
            ask!(queries::uniques::GET, shards, keys),
            queues::find(&messages),
        ];
        let found = self.all(asks).await?;
        let jobs = self.jobs(&found[0])?;
        let uniques = found[1].iter().map(unique).collect::<Result<_>>()?;
        let messages = found[2].iter().map(rows::message).collect::<Result<_>>()?;
        let runs = self.runs(&ids).await?;
        let runs = self.records(runs).await?.into_iter().map(looked_up).collect();
        Ok(Found { jobs, runs, uniques, messages })
    }

    /// Jobs, waiting runs and messages have three indexes in the same order; a page is the first `limit` rows of all
    /// three.
    pub(super) async fn due(&mut self, shard: ShardId, after: TimerPlace, limit: usize) -> Result<TimerPage> {
        let (at, most) = (after.at.as_millis(), rows_max(limit));
        let through = place::through(shard, after.id);
        let asks = vec![
            ask!(queries::jobs::DUE, number(shard), at, after.id, most),
            ask!(queries::runs::DUE, number(shard), at, through, most),
            ask!(queries::messages::DUE, rows_max(PAGE_BYTES_MAX), most, number(shard), at, after.id),
        ];
        let found = self.all(asks).await?;
        let mut places = found[0].iter().map(job_place).collect::<Result<Vec<_>>>()?;
        places.extend(found[1].iter().map(run_place).collect::<Result<Vec<_>>>()?);
        let mut messages = found[2].iter().map(rows::message).collect::<Result<Vec<_>>>()?;
        places.extend(messages.iter().map(message_place));
        places.sort_unstable();
        if let Some(last) = messages.last()
            && Weight::of(&messages).is_full()
        {
            // The page of messages ended early: drop what comes after its last message.
            let last = message_place(last);
            places.retain(|place| *place <= last);
        }
        places.truncate(limit);
        let Some(end) = places.last().copied() else { return Ok(TimerPage::default()) };
        let mut runs = Vec::new();
        for row in &found[1] {
            if run_place(row)? > end {
                break;
            }
            runs.push((rows::run(row, 2)?, false));
        }
        let mut jobs = self.jobs(&found[0])?;
        jobs.retain(|job| job.cursor.wake_at.is_some_and(|at| TimerPlace { at, id: job.id.0 } <= end));
        messages.retain(|message| message_place(message) <= end);
        Ok(TimerPage { jobs, runs: self.records(runs).await?, messages, end: Some(end) })
    }
}

fn unique(row: &Row) -> Result<UniqueKey> {
    Ok(UniqueKey {
        key: Arc::from(rows::text(row, 0)?),
        run: RunId(rows::get(row, 1)?),
        expires_at: rows::instant(row, 2)?,
    })
}

fn message_place(message: &Arc<Message>) -> TimerPlace {
    TimerPlace { at: message.wake_at(), id: message.id.number }
}

fn job_place(row: &Row) -> Result<TimerPlace> {
    Ok(TimerPlace { at: rows::instant(row, 9)?, id: rows::get(row, 0)? })
}

fn run_place(row: &Row) -> Result<TimerPlace> {
    Ok(TimerPlace { at: rows::instant(row, 0)?, id: place::run(rows::get(row, 1)?).0 })
}
