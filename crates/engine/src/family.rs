//! Splits a run into parts: chooses how many there are and, in a broadcast, the worker of each.
//!
//! A run of a job with `route.shards` or `broadcast` has no attempt of its own. It begins with the row of a step whose
//! items are its parts; the list of workers is part of that row, so a crash does not change it. [`crate::workflow`] does the
//! rest as for a step with `map`: it starts a child run for each part, page by page, records their ends and ends the whole
//! with the last of them.
//!
//! The surprise: the workers of a broadcast are chosen here and not when the run is created, because a run may wait
//! long before it may start. While no worker fits, it waits like any other ready run.
//!
//! overlap ──ready──▶ family ──parts──▶ workflow ──child runs──▶ assign

use std::sync::Arc;
use std::time::Duration;

use punctual_core::ids::RunId;
use punctual_core::job::{Definition, Strategy};
use punctual_core::limits::BROADCAST_MAX;
use punctual_core::run::{Event, Origin, Part, PartOf, Reason, State, StepsEnd, split};
use punctual_core::task::Params;
use punctual_core::workflow::{StepKey, StepRecord};

use crate::Shard;
use crate::deadline::Deadline;
use crate::event::Context;
use crate::memory::{LiveRun, Stored};

/// How long a broadcast that found no worker waits for more after the first one joins: after a node starts, its workers
/// join within moments of each other.
const GATHER: Duration = Duration::from_secs(1);

/// With this many changed runs in the next batch, child runs wait for the batch after it: a fan-out must not delay the
/// commits of other jobs.
pub(crate) const CHANGED_MAX: usize = 1000;
pub(crate) const NEXT_BATCH: Duration = Duration::from_millis(1);

impl Shard {
    /// Starts a ready run that has child runs. A run that cannot be split yet stays ready.
    pub(crate) fn split(&mut self, run: RunId, cx: &mut Context<'_>) {
        if self.holds.is_parked(run) {
            return;
        }
        let is_batch_full = self.is_batch_full();
        let Some(live) = self.runs.get_mut(&run).filter(|live| live.workflow().is_some()) else { return };
        let State::Ready { since } = live.run.state else { return };
        if is_batch_full {
            return self.split_after(run, NEXT_BATCH, cx);
        }
        if !live.is_split() {
            let reused = std::mem::take(&mut live.reused);
            self.begin_steps(run, reused, cx);
            return;
        }
        let Some((total, workers)) = parts(live, cx) else {
            self.transition(run, Event::Skipped(Reason::TooManyWorkers), cx);
            return;
        };
        if total == 0 {
            // It may have been taken out of the queue of waiting runs to be split.
            return self.enqueue(run, since, cx);
        }
        let whole = Arc::new(StepRecord::of_parts(run, total, workers, cx.now));
        if self.begin_steps(run, vec![Arc::clone(&whole)], cx) {
            self.dirty.steps.insert(whole.key, (whole, Stored::No));
        }
    }

    /// A worker that fits the run has joined or become free: splits the run soon.
    pub(crate) fn split_soon(&mut self, run: RunId, cx: &Context<'_>) {
        let Some(live) = self.runs.get(&run).filter(|live| live.workflow().is_some()) else { return };
        let is_broadcast = live.definition.route.strategy == Strategy::Broadcast;
        self.split_after(run, if is_broadcast { GATHER } else { NEXT_BATCH }, cx);
    }

    pub(crate) fn split_after(&mut self, run: RunId, span: Duration, cx: &Context<'_>) {
        self.deadlines.insert(cx.elapsed + span, Deadline::Split(run));
    }

    /// Which part of a split run an item is. `None` means that the run is a workflow.
    pub(crate) fn part_of(&self, key: StepKey) -> Option<PartOf> {
        let whole = self.flows.get(&key.run)?.whole_of_parts()?;
        let index = key.item?;
        let worker = whole.workers.get(usize::try_from(index).ok()?).cloned();
        Some(PartOf { parent: key.run, part: Part { index, total: whole.items?.total }, worker })
    }

    /// The end of a split run, and its output. `None` means that the run is a workflow.
    pub(crate) fn joined(&self, run: RunId) -> Option<(StepsEnd, Box<str>)> {
        let flow = self.flows.get(&run)?;
        let total = flow.whole_of_parts()?.items?.total;
        let is_stopping = self.runs.get(&run)?.run.cancelling().is_some();
        Some(split::joined(&flow.parts(), total, is_stopping))
    }

    /// The parameters of a run; a child without its own has those of its parent, which is in memory as long as the
    /// child.
    pub(crate) fn params_of(&self, live: &LiveRun) -> Params {
        let mut of = live;
        while of.run.params.is_none()
            && let Some(parent) = of.run.parent().and_then(|parent| self.runs.get(&parent))
        {
            of = parent;
        }
        of.run.params.as_ref().unwrap_or(&of.definition.params).clone()
    }

    /// The split run of which a run is a part; for any other run, the run itself.
    pub(crate) fn whole_of<'a>(&'a self, live: &'a LiveRun) -> &'a LiveRun {
        live.run.split_parent().and_then(|parent| self.runs.get(&parent)).unwrap_or(live)
    }

    /// The share key of a run, with its weight. Child runs share slots with the run of the job that they belong to.
    pub(crate) fn share_of(&self, live: &LiveRun) -> Option<(Arc<str>, u32)> {
        let mut of = live;
        while let Some(parent) = of.run.parent().and_then(|parent| self.runs.get(&parent)) {
            of = parent;
        }
        let share = of.definition.share.as_ref()?;
        Some((share.key_for(&self.params_of(of), of.run.due)?, share.weight))
    }

    /// Notes whether the only worker that a ready child may go to is here. If not, it may come back within a lease.
    pub(crate) fn note_presence(&mut self, run: RunId, is_here: bool, cx: &Context<'_>) {
        if is_here {
            self.absent.remove(&run);
        } else if self.runs.get(&run).is_some_and(|live| live.run.pinned_to().is_some()) {
            self.absent.insert(run, cx.elapsed);
            self.deadlines.insert(cx.elapsed + self.settings.attempt_lease, Deadline::Gone(run));
        }
    }

    /// Fails a child whose only worker has been absent for a lease: a visible failure is better than waiting forever.
    pub(crate) fn give_up_absent(&mut self, run: RunId, cx: &mut Context<'_>) {
        let lease = self.settings.attempt_lease;
        if self.absent.get(&run).is_some_and(|since| *since + lease <= cx.elapsed) {
            self.transition(run, Event::WorkerGone, cx);
        }
    }
}

/// How many parts the run has and, in a broadcast, the worker of each. The outer `None` means that there would be too
/// many.
fn parts(live: &LiveRun, cx: &Context<'_>) -> Option<(u32, Box<[Arc<str>]>)> {
    if let Some(shards) = live.definition.route.shards {
        return Some((shards, Box::default()));
    }
    let workers: Box<[Arc<str>]> = cx.pool.names_fitting(&live.class()).into();
    let total = u32::try_from(workers.len()).ok().filter(|total| *total <= BROADCAST_MAX)?;
    Some((total, workers))
}

/// The definition of the parts of a split run. Without a job, each part carries a copy of it, without what only the
/// whole needs.
pub(crate) fn definition_of_parts(whole: &LiveRun) -> Arc<Definition> {
    match &whole.run.origin {
        Origin::Job { .. } => Arc::clone(&whole.definition),
        Origin::AdHoc(_) => {
            let (params, description) = (Params::default(), String::new());
            Arc::new(Definition { params, description, ..(*whole.definition).clone() })
        }
    }
}
