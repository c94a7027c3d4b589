//! Reads of a shard's leader: its live set, rows by key, its next timers.

use std::collections::BTreeMap;
use std::sync::Arc;

use punctual_core::change::{Found, Loaded, RunRecord, TimerPage, TimerPlace, UniqueKey, Want};
use punctual_core::ids::{Epoch, RunId, ShardId};
use punctual_core::job::Job;
use punctual_core::name::{Name, Namespace};
use punctual_core::queue::Message;

use super::doors::rows_max;
use super::failure::{Failure, Moment};
use super::link::Held;
use super::reader::KEYS_MAX;
use super::script::{hex, int, list, name, put};
use super::{Mysql, queries, queues, rows};
use crate::listing::looked_up;
use crate::weight::Weight;
use crate::{Error, place};

type Result<T, E = Failure> = std::result::Result<T, E>;

impl Mysql {
    pub(super) async fn load_shard(&self, shard: ShardId, epoch: Epoch) -> crate::Result<Loaded> {
        let mut held = self.leader.take().await?;
        let loaded = self.live_set(&mut held, shard, epoch).await;
        held.finish(loaded, Moment::Reading).await
    }

    async fn live_set(&self, held: &mut Held<'_>, shard: ShardId, epoch: Epoch) -> Result<Loaded> {
        held.snapshot().await?;
        let row = held.row(queries::shards::GET, (shard.0, epoch.0)).await?;
        let row = row.ok_or(Error::Fenced { shard, epoch })?;
        let (commit, last_id) = (rows::int(&row, 0)?.cast_unsigned(), rows::int(&row, 1)?);
        let found = held.rows(queries::runs::LOAD, (shard.0,)).await?;
        let runs = found.iter().map(|row| Ok((rows::run(row, 0)?, false))).collect::<Result<_>>()?;
        let runs = self.records(held, runs).await?;
        let found = held.rows(queries::queues::LOAD, (shard.0,)).await?;
        let queues = found.iter().map(rows::queue).collect::<Result<_>>()?;
        Ok(Loaded { shard, epoch, commit, last_id, runs, queues })
    }

    pub(super) async fn fetch_wants(&self, wants: &[(ShardId, Want)]) -> crate::Result<Found> {
        if wants.is_empty() {
            return Ok(Found::default());
        }
        let mut held = self.leader.take().await?;
        let found = self.by_keys(&mut held, wants).await;
        held.finish(found, Moment::Reading).await
    }

    async fn by_keys(&self, held: &mut Held<'_>, wants: &[(ShardId, Want)]) -> Result<Found> {
        let (mut jobs, mut runs) = (Vec::new(), Vec::new());
        let (mut uniques, mut messages) = (Vec::new(), Vec::new());
        for (shard, want) in wants {
            match want {
                Want::Job(namespace, name) => jobs.push((namespace, name)),
                Want::Run(run) => runs.push(*run),
                Want::Unique(key) => uniques.push((*shard, key)),
                Want::Message(id) => messages.push(*id),
            }
        }
        let jobs = self.jobs_named(held, &jobs).await?;
        let uniques = uniques_of(held, &uniques).await?;
        let messages = queues::find(held, &messages).await?;
        let runs = if runs.is_empty() { Vec::new() } else { self.runs_by_id(held, &runs).await? };
        let runs = self.records(held, runs).await?.into_iter().map(looked_up).collect();
        Ok(Found { jobs, runs, uniques, messages })
    }

    async fn jobs_named(&self, held: &mut Held<'_>, names: &[(&Namespace, &Name)]) -> Result<Vec<Arc<Job>>> {
        let mut jobs = Vec::new();
        for names in names.chunks(KEYS_MAX) {
            let mut by_namespace: BTreeMap<&Namespace, Vec<&Name>> = BTreeMap::new();
            names.iter().for_each(|(namespace, name)| by_namespace.entry(namespace).or_default().push(name));
            let mut sql = queries::jobs::SELECT.as_bytes().to_vec();
            for (index, (namespace, names)) in by_namespace.into_iter().enumerate() {
                put(&mut sql, if index == 0 { "(namespace = " } else { " OR (namespace = " });
                name(&mut sql, namespace.as_str());
                put(&mut sql, " AND name IN (");
                list(&mut sql, names, |sql, text| name(sql, text.as_str()));
                put(&mut sql, "))");
            }
            let found = held.text(sql).await?;
            jobs.extend(self.read_jobs(&found)?);
        }
        Ok(jobs)
    }

    pub(super) async fn next_timers(
        &self,
        shard: ShardId,
        after: TimerPlace,
        limit: usize,
    ) -> crate::Result<TimerPage> {
        let mut held = self.leader.take().await?;
        let page = self.timers(&mut held, shard, after, limit).await;
        held.finish(page, Moment::Reading).await
    }

    /// Jobs, waiting runs and messages have three indexes in the same order: this reads a page of each and merges them.
    async fn timers(
        &self,
        held: &mut Held<'_>,
        shard: ShardId,
        after: TimerPlace,
        limit: usize,
    ) -> Result<TimerPage> {
        held.snapshot().await?;
        let at = after.at.as_millis();
        let mut found = held.rows(queries::jobs::DUE_AT, (shard.0, at, after.id, rows_max(limit))).await?;
        if found.len() < limit {
            let rest = (shard.0, at, rows_max(limit - found.len()));
            found.extend(held.rows(queries::jobs::DUE_AFTER, rest).await?);
        }
        let jobs = self.read_jobs(&found)?;

        let place = place::through(shard, after.id);
        let mut found = held.rows(queries::runs::DUE_AT, (shard.0, at, place, rows_max(limit))).await?;
        if found.len() < limit {
            let rest = (shard.0, at, rows_max(limit - found.len()));
            found.extend(held.rows(queries::runs::DUE_AFTER, rest).await?);
        }
        let places = found
            .iter()
            .map(|row| Ok(TimerPlace { at: rows::instant(row, 0)?, id: place::run(rows::int(row, 1)?).0 }));
        let run_places = places.collect::<Result<Vec<TimerPlace>>>()?;
        let job_places =
            jobs.iter().filter_map(|job| Some(TimerPlace { at: job.cursor.wake_at?, id: job.id.0 }));
        let mut messages = queues::due(held, shard, after, limit).await?;
        let message_places = messages.iter().map(message_place);
        let mut places: Vec<TimerPlace> =
            job_places.chain(run_places.iter().copied()).chain(message_places).collect();
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

        let due_runs = run_places.iter().take_while(|place| **place <= end).count();
        let runs = found[..due_runs].iter().map(|row| Ok((rows::run(row, 2)?, false)));
        let runs: Vec<RunRecord> = self.records(held, runs.collect::<Result<_>>()?).await?;
        let is_due =
            |job: &Arc<Job>| job.cursor.wake_at.is_some_and(|at| TimerPlace { at, id: job.id.0 } <= end);
        messages.retain(|message| message_place(message) <= end);
        Ok(TimerPage { jobs: jobs.into_iter().filter(is_due).collect(), runs, messages, end: Some(end) })
    }
}

fn message_place(message: &Arc<Message>) -> TimerPlace {
    TimerPlace { at: message.wake_at(), id: message.id.number }
}

async fn uniques_of(held: &mut Held<'_>, keys: &[(ShardId, &Arc<str>)]) -> Result<Vec<UniqueKey>> {
    let mut uniques = Vec::new();
    for keys in keys.chunks(KEYS_MAX) {
        let mut by_shard: BTreeMap<ShardId, Vec<&Arc<str>>> = BTreeMap::new();
        keys.iter().for_each(|(shard, key)| by_shard.entry(*shard).or_default().push(key));
        let mut sql = Vec::new();
        put(&mut sql, "SELECT unique_key, run, expires_at FROM uniques FORCE INDEX (PRIMARY) WHERE ");
        for (index, (shard, keys)) in by_shard.into_iter().enumerate() {
            put(&mut sql, if index == 0 { "(shard = " } else { " OR (shard = " });
            int(&mut sql, shard.0);
            put(&mut sql, " AND unique_key IN (");
            list(&mut sql, keys, |sql, key| hex(sql, key.as_bytes()));
            put(&mut sql, "))");
        }
        for row in held.text(sql).await? {
            uniques.push(UniqueKey {
                key: Arc::from(rows::text(&row, 0)?),
                run: RunId(rows::int(&row, 1)?),
                expires_at: rows::instant(&row, 2)?,
            });
        }
    }
    Ok(uniques)
}
