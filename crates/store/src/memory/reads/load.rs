//! A shard as committed.

use std::sync::Arc;

use punctual_core::change::{Loaded, RATE_PREFIX, Row, RowKey, RunRecord};
use punctual_core::ids::{Epoch, Fence, IncidentId, ShardId};

use super::super::tables::Tables;
use crate::{Error, Result};

impl Tables {
    pub(in crate::memory) fn load(&self, shard: ShardId, epoch: Epoch) -> Result<Loaded> {
        let row = self.shards.get(usize::from(shard.0)).filter(|row| row.epoch == epoch);
        let row = row.ok_or(Error::Fenced { shard, epoch })?;
        let live = self.live_runs(0, i64::MAX);
        let held = live.filter(|run| run.shard() == shard && run.wake_at().is_none());
        let runs = held.map(|run| self.record(run)).collect::<Result<Vec<RunRecord>>>()?;
        let workflows = runs.iter().filter(|record| record.run.may_have_steps());
        let steps = workflows.flat_map(|record| self.steps(record.run.id)).cloned().collect();
        let queues = self.queues_of(shard);
        let rows = |first: RowKey, last: RowKey| {
            let span = self.rows.range((first, ShardId(0))..=(last, ShardId(u16::MAX)));
            span.filter(|((_, of), _)| *of == shard).map(|(_, row)| row)
        };
        let listeners = rows(RowKey::Listener(0), RowKey::Listener(i64::MAX)).filter_map(|row| match row {
            Row::Listener(listener) => Some(Arc::clone(listener)),
            _ => None,
        });
        let locks = rows(RowKey::Lock(Fence(0)), RowKey::Lock(Fence(i64::MAX))).filter_map(|row| match row {
            Row::Lock(lock) => Some(Arc::clone(lock)),
            _ => None,
        });
        let holds = rows(RowKey::Hold(0), RowKey::Hold(i64::MAX)).filter_map(|row| match row {
            Row::Hold(hold) => Some(Arc::clone(hold)),
            _ => None,
        });
        let first = RowKey::Incident(IncidentId(0));
        let incidents = rows(first, RowKey::Incident(IncidentId(i64::MAX))).filter_map(|row| match row {
            Row::Incident(incident) => Some(Arc::clone(incident)),
            _ => None,
        });
        let incidents = incidents.collect();
        let pages = rows(RowKey::RecentCounts(0), RowKey::RecentCounts(u32::MAX));
        let recent_counts = pages.filter_map(|row| match row {
            Row::RecentCounts(recent) => Some(recent.clone()),
            _ => None,
        });
        let last_rate = format!("{RATE_PREFIX}\u{10ffff}");
        let rates = rows(RowKey::Unique(RATE_PREFIX.into()), RowKey::Unique(last_rate.into()));
        let rates = rates.filter_map(|row| match row {
            Row::Unique(rate) => Some(rate.clone()),
            _ => None,
        });
        let (listeners, locks, holds) = (listeners.collect(), locks.collect(), holds.collect());
        let (recent_counts, rates) = (recent_counts.collect(), rates.collect());
        let (commit, last_id) = (row.commit, row.last_id);
        Ok(Loaded {
            shard,
            epoch,
            commit,
            last_id,
            runs,
            steps,
            listeners,
            locks,
            holds,
            incidents,
            queues,
            recent_counts,
            rates,
        })
    }
}
