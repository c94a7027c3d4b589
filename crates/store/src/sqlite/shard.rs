//! Reads of a shard's leader: its live set, rows by key, its next timers.

use std::sync::Arc;

use punctual_core::change::{Found, Loaded, TimerPage, TimerPlace, UniqueKey, Want};
use punctual_core::ids::{Epoch, RunId, ShardId};
use rusqlite::fallible_streaming_iterator::FallibleStreamingIterator;
use rusqlite::{Row, Rows};

use super::failure::Failure;
use super::reader::Snapshot;
use super::young::{self, Guard};
use super::{queries, rows};
use crate::listing::looked_up;
use crate::weight::Weight;
use crate::{Error, place};

type Result<T, E = Failure> = std::result::Result<T, E>;

impl Snapshot<'_> {
    pub(super) fn load(&mut self, shard: ShardId, epoch: Epoch) -> Result<Loaded> {
        let row = self.one(queries::shards::GET, (shard.0, epoch.0), |row| {
            Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get(1)?))
        })?;
        let (commit, last_id) = row.ok_or(Error::Fenced { shard, epoch })?;
        let held = self.all(queries::runs::LOAD, place::span(shard), |row| rows::run(row, 0))?;
        let runs = held.into_iter().map(|run| self.record(run, false)).collect::<Result<_>>()?;
        let queues = self.all(queries::queues::LOAD, [shard.0], rows::queue)?;
        Ok(Loaded { shard, epoch, commit, last_id, runs, queues })
    }

    /// `young` is needed only if a message is wanted.
    pub(super) fn fetch(&mut self, young: Option<Guard<'_>>, wants: &[(ShardId, Want)]) -> Result<Found> {
        let mut found = Found::default();
        let mut others = Vec::new();
        for wanted in wants {
            let message = match (&wanted.1, &young) {
                (Want::Message(id), Some(young)) => young.find(*id),
                _ => None,
            };
            match message {
                Some(message) => found.messages.push(message),
                None => others.push(wanted),
            }
        }
        drop(young);
        for (shard, want) in others {
            match want {
                Want::Job(namespace, name) => found.jobs.extend(self.job_named(namespace, name)?),
                Want::Run(run) => found.runs.extend(self.run(*run)?.map(looked_up)),
                Want::Unique(key) => found.uniques.extend(self.unique(*shard, key)?),
                Want::Message(id) => found.messages.extend(self.message(*id)?),
            }
        }
        Ok(found)
    }

    fn unique(&self, shard: ShardId, key: &Arc<str>) -> Result<Option<UniqueKey>> {
        self.one(queries::uniques::GET, (shard.0, key.as_ref()), |row| {
            let (run, expires_at) = (RunId(row.get(0)?), rows::instant(row, 1)?);
            Ok(UniqueKey { key: Arc::clone(key), run, expires_at })
        })
    }

    /// Jobs, waiting runs and messages have three indexes in the same order; this merges them, and the young messages
    /// too.
    pub(super) fn due(
        &mut self,
        young: Guard<'_>,
        shard: ShardId,
        after: TimerPlace,
        limit: usize,
    ) -> Result<TimerPage> {
        let due = young.due(shard, after, limit);
        drop(young);
        let mut young = due.into_iter().peekable();
        let (at, most) = (after.at.as_millis(), i64::try_from(limit).unwrap_or(i64::MAX));
        let connection = self.connection;
        let mut jobs = connection.prepare_cached(queries::jobs::DUE)?;
        let mut runs = connection.prepare_cached(queries::runs::DUE)?;
        let mut messages = connection.prepare_cached(queries::messages::DUE)?;
        let mut jobs = jobs.query((shard.0, at, after.id, most))?;
        let mut runs = runs.query((shard.0, at, place::through(shard, after.id), most))?;
        let mut messages = messages.query((shard.0, at, after.id, most))?;
        let mut next_job = advance(&mut jobs, job_place)?;
        let mut next_run = advance(&mut runs, run_place)?;
        let mut next_message = advance(&mut messages, message_place)?;
        let (mut page, mut weight) = (TimerPage::default(), Weight::default());
        for _ in 0..limit {
            let next_young = young.peek().map(|message| young::timer(message));
            let next = [next_job, next_run, next_message, next_young];
            let Some(place) = next.into_iter().flatten().min() else { break };
            page.end = Some(place);
            if next_job == Some(place) {
                page.jobs.extend(jobs.get().map(|row| rows::job(row, self.definitions)).transpose()?);
                next_job = advance(&mut jobs, job_place)?;
            } else if next_run == Some(place) {
                let run = runs.get().map(|row| rows::run(row, 2)).transpose()?;
                page.runs.extend(run.map(|run| self.record(run, false)).transpose()?);
                next_run = advance(&mut runs, run_place)?;
            } else {
                let message = if next_young == Some(place) {
                    young.next()
                } else {
                    messages.get().map(rows::message).transpose()?
                };
                page.messages.extend(message.inspect(|message| weight.add(message)));
                if weight.is_full() {
                    break;
                }
                if next_young != Some(place) {
                    next_message = advance(&mut messages, message_place)?;
                }
            }
        }
        Ok(page)
    }
}

/// Goes to the next row and returns its place. `None` means there is no next row.
fn advance(rows: &mut Rows<'_>, place_of: fn(&Row<'_>) -> Result<TimerPlace>) -> Result<Option<TimerPlace>> {
    rows.advance()?;
    rows.get().map(place_of).transpose()
}

fn job_place(row: &Row<'_>) -> Result<TimerPlace> {
    Ok(TimerPlace { at: rows::instant(row, 9)?, id: row.get(0)? })
}

fn run_place(row: &Row<'_>) -> Result<TimerPlace> {
    Ok(TimerPlace { at: rows::instant(row, 0)?, id: place::run(row.get(1)?).0 })
}

fn message_place(row: &Row<'_>) -> Result<TimerPlace> {
    Ok(TimerPlace { at: rows::instant(row, 5)?, id: row.get(2)? })
}
