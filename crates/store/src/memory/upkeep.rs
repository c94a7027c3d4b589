//! Removes rows that are past their retention.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use punctual_core::Timestamp;
use punctual_core::change::{Row, RowKey};
use punctual_core::ids::{JobId, RunId, ShardId};
use punctual_core::run::Run;
use punctual_core::statistics::Bucket;

use super::Memory;
use super::tables::Tables;
use crate::retention::{Kept, statistics_kept_since};
use crate::{PrunePolicy, Result, Upkeep};

#[async_trait]
impl Upkeep for Memory {
    async fn prune(&self, policy: &PrunePolicy, limit: usize) -> Result<usize> {
        Ok(self.tables.lock().prune(policy, limit))
    }
}

impl Tables {
    pub(super) fn prune(&mut self, policy: &PrunePolicy, limit: usize) -> usize {
        let mut gone: Vec<(RowKey, ShardId)> = self.old_history(policy);
        gone.extend(self.loose_ends(policy));
        gone.truncate(limit);
        let rows = gone.len();
        gone.extend(self.parts_of_gone(&gone));
        for place in gone {
            self.put(place, None);
        }
        let tables = &*self;
        let is_kept = |job: JobId| !tables.revisions(job, None, 1).is_empty();
        let forgotten: Vec<JobId> =
            tables.deleted_jobs().map(|gone| gone.id).filter(|job| !is_kept(*job)).collect();
        for job in forgotten {
            self.put((RowKey::DeletedJob(job), job.shard()), None);
        }
        rows + self.prune_logs(limit - rows)
    }

    /// History beyond what its job keeps, counted from the newest run of a job. A dead letter stays, however old. Child runs
    /// do not count, and go before their parent.
    fn old_history(&self, policy: &PrunePolicy) -> Vec<(RowKey, ShardId)> {
        let mut newer: BTreeMap<JobId, u32> = BTreeMap::new();
        let mut children: BTreeMap<RunId, Vec<RunId>> = BTreeMap::new();
        for run in self.history(0, i64::MAX) {
            if let Some(parent) = run.parent() {
                children.entry(parent).or_default().push(run.id);
            }
        }
        let newest_first = self.history(0, i64::MAX).rev().filter(|run| run.parent().is_none());
        let old = newest_first.filter(|run| {
            let kept = self.kept(run.job(), policy);
            let newer = run.job().map_or(0, |job| {
                let count = newer.entry(job).or_default();
                *count += 1;
                *count - 1
            });
            let is_old = newer >= kept.runs || finished_at(run) < kept.since;
            is_old && self.row(run.shard(), &RowKey::DeadLetter(run.id)).is_none()
        });
        let old: Vec<RunId> = old.map(|run| run.id).collect();
        let families = old.into_iter().flat_map(|run| family(run, &children));
        families.map(|run| (RowKey::History(run), run.shard())).collect()
    }

    /// The terms and steps of pruned runs. They are part of their run and do not count as rows.
    fn parts_of_gone(&self, gone: &[(RowKey, ShardId)]) -> Vec<(RowKey, ShardId)> {
        let runs =
            gone.iter().filter_map(|(key, _)| if let RowKey::History(run) = key { Some(*run) } else { None });
        let runs: BTreeSet<RunId> = runs.collect();
        let is_part = |key: &RowKey| match key {
            RowKey::Term(term) => runs.contains(&term.run),
            RowKey::Step(step) => runs.contains(&step.run),
            _ => false,
        };
        self.rows.keys().filter(|(key, _)| is_part(key)).cloned().collect()
    }

    /// Expired keys, old skip records, old statistics, revisions of deleted jobs that no run and no skip record needs.
    fn loose_ends(&self, policy: &PrunePolicy) -> Vec<(RowKey, ShardId)> {
        let runs = self.live_runs(0, i64::MAX).chain(self.history(0, i64::MAX));
        let skipped = self.rows.values().filter_map(|row| match row {
            Row::Skip(skip) => Some(skip.job),
            _ => None,
        });
        let needed: BTreeSet<JobId> = runs.filter_map(|run| run.job()).chain(skipped).collect();
        let loose = self.rows.iter().filter(|(_, row)| match row {
            Row::Unique(unique) => unique.expires_at < policy.now,
            Row::Skip(skip) => skip.at < self.kept(Some(skip.job), policy).since,
            Row::Statistics(row) => {
                let Bucket { period, at, .. } = row.key.bucket;
                at < statistics_kept_since(period, policy.now)
            }
            Row::Revision(revision) => self.job(revision.job).is_none() && !needed.contains(&revision.job),
            _ => false,
        });
        loose.map(|(place, _)| place.clone()).collect()
    }

    fn prune_logs(&mut self, limit: usize) -> usize {
        let has_run = |run: RunId| {
            let live = self.row(run.shard(), &RowKey::Run(run));
            live.or_else(|| self.row(run.shard(), &RowKey::History(run))).is_some()
        };
        let gone: Vec<_> = self.logs.keys().filter(|(run, ..)| !has_run(*run)).take(limit).copied().collect();
        for place in &gone {
            self.logs.remove(place);
        }
        gone.len()
    }

    fn kept(&self, job: Option<JobId>, policy: &PrunePolicy) -> Kept {
        let keep = job.and_then(|job| self.job(job)).map(|job| job.definition.keep.clone());
        Kept::of(keep.map(|keep| (keep.runs, keep.days)), policy)
    }
}

/// A run after its children, and those after theirs.
fn family(run: RunId, children: &BTreeMap<RunId, Vec<RunId>>) -> Vec<RunId> {
    let (mut all, mut at) = (vec![run], 0);
    while let Some(run) = all.get(at).copied() {
        all.extend(children.get(&run).into_iter().flatten());
        at += 1;
    }
    all.reverse();
    all
}

fn finished_at(run: &Arc<Run>) -> Timestamp {
    run.finished_at.unwrap_or(run.created_at)
}
