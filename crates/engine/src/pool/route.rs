//! The routing strategies: pure functions over the workers that fit and the job's routing memory.
//!
//! A strategy orders the workers; the first one with a free slot gets the run. If the preferred worker was full, the
//! choice says so, because users ask why a run did not go where its route points.

use std::cmp::Reverse;
use std::sync::Arc;

use punctual_core::hash;
use punctual_core::ids::{JobId, RunId, ShardId, WorkerId};
use punctual_core::job::Strategy;
use rustc_hash::FxHashMap;

use super::present::Present;
use super::ready::Wish;

/// How many jobs have a routing memory; at this number all memories are cleared.
const MEMORIES_MAX: usize = 65_536;

/// How many workers one memory counts; at this number its counts are cleared.
const USES_MAX: usize = 4096;

/// The routing memory of each job. In memory only: it is empty after a restart.
#[derive(Debug, Default)]
pub(super) struct Memories {
    jobs: FxHashMap<Option<JobId>, Memory>,
}

/// How the runs of one job were spread so far, by worker name.
#[derive(Debug, Default)]
pub(super) struct Memory {
    last: Option<Arc<str>>,
    uses: FxHashMap<Arc<str>, Used>,
    count: u64,
}

#[derive(Debug, Default)]
struct Used {
    times: u64,
    /// The job's run count when this worker was last chosen. 0 means never.
    last: u64,
    /// The current balance of smooth weighted round-robin.
    owed: i64,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) worker: WorkerId,
    /// The worker that the strategy prefers had no free slot.
    pub(super) passed_over: bool,
}

impl Memories {
    pub(super) fn of(&mut self, job: Option<JobId>) -> &mut Memory {
        if self.jobs.len() >= MEMORIES_MAX && !self.jobs.contains_key(&job) {
            self.jobs.clear();
        }
        self.jobs.entry(job).or_default()
    }

    pub(super) fn forget(&mut self, shard: ShardId) {
        self.jobs.retain(|job, _| job.is_none_or(|job| job.shard() != shard));
    }
}

/// Chooses among the workers that fit, sorted by name. `None` means that none of them has a free slot.
pub(super) fn choose(
    strategy: Strategy,
    run: RunId,
    wish: &Wish,
    fit: &[Present<'_>],
    memory: &mut Memory,
) -> Option<Choice> {
    let is_free = |worker: &&Present<'_>| worker.free > 0;
    let free = || fit.iter().filter(is_free);
    let all = || fit.iter();
    let (chosen, first) = match strategy {
        // The children of a broadcast were pinned when the run was split.
        Strategy::LeastLoaded | Strategy::Broadcast => (least_loaded(free()), None),
        Strategy::LeastUtilised => (free().min_by_key(|worker| (utilisation(worker), worker.id)), None),
        Strategy::Local => {
            let local = free().filter(|worker| worker.announced.node_local);
            (least_loaded(local).or_else(|| least_loaded(free())), None)
        }
        Strategy::Random => {
            let count = free().count() as u64;
            let nth = hash::mix(run.0.unsigned_abs()).checked_rem(count).unwrap_or(0);
            (free().nth(usize::try_from(nth).unwrap_or(0)), None)
        }
        Strategy::Weighted => (memory.weighted(free()), None),
        Strategy::First => (free().next(), all().next()),
        Strategy::Last => (free().next_back(), all().next_back()),
        Strategy::RoundRobin => (memory.next_after(free()), memory.next_after(all())),
        Strategy::ConsistentHash | Strategy::Sticky => (belongs(wish.key, free()), belongs(wish.key, all())),
        Strategy::LeastRecentlyUsed => {
            let rank = |worker: &&Present<'_>| memory.used(worker).map_or(0, |used| used.last);
            (free().min_by_key(rank), all().min_by_key(rank))
        }
        Strategy::LeastFrequentlyUsed => {
            let rank = |worker: &&Present<'_>| memory.used(worker).map_or(0, |used| used.times);
            (free().min_by_key(rank), all().min_by_key(rank))
        }
        Strategy::Failover => {
            let rank = |worker: &&Present<'_>| wish.avoid.iter().any(|name| **name == *worker.id.name());
            (free().min_by_key(rank), all().min_by_key(rank))
        }
    };
    let chosen = chosen?;
    let passed_over = first.is_some_and(|first| first.id != chosen.id);
    if remembers(strategy) {
        memory.note(chosen.id.name());
    }
    Some(Choice { worker: chosen.id.clone(), passed_over })
}

fn remembers(strategy: Strategy) -> bool {
    matches!(strategy, Strategy::RoundRobin | Strategy::LeastRecentlyUsed | Strategy::LeastFrequentlyUsed)
}

/// The worker with the smallest share of its slots in use; ties go by name, so that a replay is the same.
pub(super) fn least_loaded<'a, 'p: 'a>(
    workers: impl Iterator<Item = &'a Present<'p>>,
) -> Option<&'a Present<'p>> {
    workers.min_by(|a, b| {
        let share = |of: &Present<'_>, other: &Present<'_>| of.busy as u64 * u64::from(other.announced.slots);
        share(a, b).cmp(&share(b, a)).then_with(|| a.id.cmp(b.id))
    })
}

/// The worker of a key, by rendezvous hashing: when a worker joins or leaves, only its own keys move.
pub(super) fn belongs<'a, 'p: 'a>(
    key: u64,
    workers: impl Iterator<Item = &'a Present<'p>>,
) -> Option<&'a Present<'p>> {
    let score = |worker: &Present<'_>| hash::stable(&[&key.to_be_bytes(), worker.id.name().as_bytes()]);
    workers.max_by_key(|worker| (score(worker), Reverse(worker.id)))
}

/// The load of the worker's machine; if it reports none, the share of its slots in use.
fn utilisation(worker: &Present<'_>) -> u64 {
    match worker.load {
        Some(load) => u64::from(load.cpu_percent.max(load.memory_percent)),
        None => worker.busy as u64 * 100 / u64::from(worker.announced.slots.max(1)),
    }
}

impl Memory {
    fn used(&self, worker: &Present<'_>) -> Option<&Used> {
        self.uses.get(worker.id.name())
    }

    fn note(&mut self, name: &str) {
        self.count += 1;
        let count = self.count;
        let used = self.entry(name);
        used.times += 1;
        used.last = count;
        self.last = Some(Arc::from(name));
    }

    fn entry(&mut self, name: &str) -> &mut Used {
        if !self.uses.contains_key(name) {
            if self.uses.len() >= USES_MAX {
                self.uses.clear();
            }
            self.uses.insert(Arc::from(name), Used::default());
        }
        self.uses.entry(Arc::from(name)).or_default()
    }

    /// The next worker by name after the last one chosen.
    fn next_after<'a, 'p: 'a>(
        &self,
        workers: impl Iterator<Item = &'a Present<'p>>,
    ) -> Option<&'a Present<'p>> {
        let is_over =
            |worker: &&Present<'_>| self.last.as_ref().is_some_and(|last| *worker.id.name() <= **last);
        workers.min_by_key(is_over)
    }

    /// Smooth weighted round-robin: add each weight, pick the highest balance, then subtract the total weight from it.
    fn weighted<'a, 'p: 'a>(
        &mut self,
        workers: impl Iterator<Item = &'a Present<'p>>,
    ) -> Option<&'a Present<'p>> {
        let (mut total, mut best) = (0, None);
        for worker in workers {
            let weight = i64::from(worker.announced.weight.max(1));
            let used = self.entry(worker.id.name());
            used.owed += weight;
            total += weight;
            if best.is_none_or(|(owed, _)| used.owed > owed) {
                best = Some((used.owed, worker));
            }
        }
        let (_, chosen) = best?;
        self.entry(chosen.id.name()).owed -= total;
        Some(chosen)
    }
}

#[cfg(test)]
mod tests;
