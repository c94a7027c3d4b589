//! One shard: the only place that decides about its jobs and runs.
//!
//! `apply` changes memory and marks rows as dirty; [`crate::seal`] turns all rows that became dirty since the last seal
//! into one batch, each row at most once. Nothing here waits: the driver commits the batch while it applies the next
//! one on top of it, and discards the whole value if the store refuses the batch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::change::{Loaded, Revision, RunRecord, Skip, UniqueKey};
use punctual_core::ids::{Epoch, IdMaker, JobId, RunId, ShardId, Token};
use punctual_core::job::{Definition, Job};
use punctual_core::name::{Name, Namespace};
use punctual_core::run::{Assignee, Run, State, Status};
use punctual_core::search::RunTerm;
use punctual_core::time::Elapsed;
use punctual_core::workflow::{Approval, ApprovalKey, StepKey, StepRecord};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::alerts::incidents::Incidents;
use crate::deadline::{Deadline, LAZY_DUE};
use crate::event::{Context, Effect, Event};
use crate::holds::Holds;
use crate::limits::rates::Rates;
use crate::locks::Locks;
use crate::memory::{Fetched, JobKey, LiveJob, LiveRun, Pins, Stored};
use crate::plan::{Plan, TimerOwner};
use crate::queue::{OpenNotices, Queues};
use crate::statistics::Tallies;
use crate::topics::listeners::Topics;
use crate::wheel::Wheel;
use crate::workflow::Flow;

/// Settings that all shards of a node share.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// How long a worker may miss heartbeats before its attempts are considered lost.
    pub attempt_lease: Duration,
    /// Timers on one page: about how many a shard keeps in memory.
    pub page: usize,
    /// Whether statistics and search terms are written. Only a benchmark leaves them out, to measure what they cost.
    pub records: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { attempt_lease: Duration::from_secs(15), page: 512, records: true }
    }
}

#[derive(Debug)]
pub struct Shard {
    pub(crate) id: ShardId,
    pub(crate) epoch: Epoch,
    pub(crate) commit: u64,
    pub(crate) ids: IdMaker,
    pub(crate) settings: Settings,

    pub(crate) jobs: FxHashMap<JobId, LiveJob>,
    pub(crate) names: FxHashMap<JobKey, JobId>,
    pub(crate) runs: FxHashMap<RunId, LiveRun>,
    pub(crate) plan: Plan,
    pub(crate) deadlines: Wheel<Deadline>,
    pub(crate) pins: Pins,
    pub(crate) fetched: Fetched,
    /// Ready runs whose only permitted worker is absent, and since when (elapsed time).
    pub(crate) absent: FxHashMap<RunId, Elapsed>,
    /// Lost attempts that still count as running, because their job has an `overlap_grace`.
    pub(crate) losses: FxHashMap<RunId, Token>,
    pub(crate) queues: Queues,
    pub(crate) end_notices: OpenNotices,
    pub(crate) topics: Topics,
    pub(crate) locks: Locks,
    pub(crate) holds: Holds,
    pub(crate) incidents: Incidents,
    pub(crate) tallies: Tallies,
    pub(crate) rates: Rates,
    /// The workflows and split runs that have begun.
    pub(crate) flows: FxHashMap<RunId, Flow>,
    /// Workflows of which a step may be decided or started.
    pub(crate) due_flows: BTreeSet<RunId>,
    /// When waits of workflows end, and when approvals count as rejected.
    pub(crate) step_timers: BTreeSet<(Timestamp, StepKey)>,

    pub(crate) dirty: Dirty,
    /// Whether the wheel has a deadline of lazy changes.
    is_lazy_armed: bool,
    /// Number of batches sealed so far. Pins are released by this number.
    pub(crate) batch: u64,
}

/// The rows that the next batch must carry.
#[derive(Debug, Default)]
pub(crate) struct Dirty {
    pub(crate) jobs: FxHashSet<JobId>,
    pub(crate) runs: FxHashSet<RunId>,
    /// Runs that ended since the last seal.
    pub(crate) settled: Vec<Settled>,
    pub(crate) deleted_jobs: Vec<LiveJob>,
    pub(crate) revisions: Vec<Arc<Revision>>,
    /// By key. `None` means that the key is free again.
    pub(crate) uniques: FxHashMap<Arc<str>, (Option<UniqueKey>, Stored)>,
    pub(crate) skips: Vec<Skip>,
    /// Steps of workflows, and parts of split runs.
    pub(crate) steps: BTreeMap<StepKey, (Arc<StepRecord>, Stored)>,
    /// Approvals that began, and (`None`) ended, in this order.
    pub(crate) approvals: Vec<(Arc<ApprovalKey>, Option<Approval>)>,
    /// Terms of runs that were made earlier.
    pub(crate) terms: Vec<RunTerm>,
    /// Dead letters that were replayed or discarded.
    pub(crate) decided: Vec<RunId>,
    /// Jobs of which a run ended: they leave memory if nothing else keeps them.
    pub(crate) quieter: FxHashSet<JobId>,
    /// Runs whose start or progress is written with the next batch, whatever causes that batch.
    pub(crate) lazy: FxHashSet<RunId>,
    /// When the first of them was noted.
    lazy_since: Option<Elapsed>,
    lazy_due: bool,
    /// Effects that are released once the lazy changes are stored.
    pub(crate) once_stored: Vec<Effect>,
}

#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) run: Arc<Run>,
    pub(crate) definition: Arc<Definition>,
    /// Whether the store has a live row of it.
    pub(crate) stored: bool,
    pub(crate) dead: bool,
}

impl Shard {
    /// Builds a shard from its stored rows. Running attempts are offered to their workers again.
    pub fn load(loaded: Loaded, settings: Settings, cx: &mut Context<'_>) -> Shard {
        let mut shard = Shard {
            id: loaded.shard,
            epoch: loaded.epoch,
            commit: loaded.commit,
            ids: IdMaker::new(loaded.shard, loaded.last_id),
            settings,
            jobs: FxHashMap::default(),
            names: FxHashMap::default(),
            runs: FxHashMap::default(),
            plan: Plan::new(settings.page),
            deadlines: Wheel::new(cx.elapsed),
            pins: Pins::default(),
            fetched: Fetched::default(),
            absent: FxHashMap::default(),
            losses: FxHashMap::default(),
            queues: Queues::default(),
            end_notices: OpenNotices::default(),
            topics: Topics::default(),
            locks: Locks::default(),
            holds: Holds::default(),
            incidents: Incidents::default(),
            tallies: Tallies::new(loaded.shard, loaded.recent_counts),
            rates: Rates::default(),
            flows: FxHashMap::default(),
            due_flows: BTreeSet::new(),
            step_timers: BTreeSet::new(),
            dirty: Dirty::default(),
            is_lazy_armed: false,
            batch: 0,
        };
        cx.pool.forget(loaded.shard);
        let mut records = loaded.runs;
        // Sorted, so that a replay is the same whatever the order of the store.
        records.sort_by_key(|record| record.run.id);
        shard.topics.load(loaded.listeners);
        shard.load_locks(loaded.locks, cx);
        shard.holds.load(loaded.holds);
        shard.load_incidents(loaded.incidents, cx);
        shard.rates.load(loaded.rates);
        let mut steps: FxHashMap<RunId, Vec<Arc<StepRecord>>> = FxHashMap::default();
        for step in loaded.steps {
            steps.entry(step.key.run).or_default().push(step);
        }
        // A run is created after its parent, so a workflow is in memory before the runs of its steps.
        for record in records {
            let (run, has_steps) = (record.run.id, record.run.has_open_steps());
            shard.take_up(record, cx);
            let steps = steps.remove(&run).unwrap_or_default();
            if has_steps {
                shard.restore_workflow(run, steps, cx);
            } else if let Some(live) = shard.runs.get_mut(&run) {
                live.reused = steps;
            }
        }
        shard.give_up_outlived(cx);
        shard.load_queues(loaded.queues, cx);
        shard.count_approvals(cx);
        shard.take_up_holds(cx);
        shard.advance_workflows(cx);
        shard
    }

    /// Gives up the attempts of workers that have restarted since: no report will ever come for them.
    fn give_up_outlived(&mut self, cx: &mut Context<'_>) {
        let running = self.runs.values().filter_map(|live| match &live.run.state {
            State::Running { assignee: Assignee::Worker(worker), token, .. }
                if cx.pool.roster().is_outlived(worker) =>
            {
                Some((live.run.id, *token))
            }
            _ => None,
        });
        let mut outlived: Vec<(RunId, Token)> = running.collect();
        outlived.sort_unstable();
        for (run, token) in outlived {
            self.lost(run, token, cx);
        }
    }

    pub fn id(&self) -> ShardId {
        self.id
    }

    pub fn live_runs(&self) -> usize {
        self.runs.len()
    }

    pub fn apply(&mut self, event: Event, cx: &mut Context<'_>) {
        match event {
            Event::Command { ticket, command } => self.intake(ticket, command, cx),
            Event::Report { worker, report } => self.report(&worker, report, cx),
            Event::Lost { run, token } => self.lost(run, token, cx),
            Event::OfferAgain { run } => self.offer_again(run, cx),
            Event::Assign(given) => self.assign(given, cx),
            Event::Fits { run, lack } => self.note_fit(run, lack, cx),
            Event::Tick { limit } => self.tick(limit, cx),
        }
        self.mind_queues(cx);
        self.advance_workflows(cx);
    }

    /// Finds a job by name in memory or among the pins; a pinned job is put back into memory.
    pub(crate) fn find_job(&mut self, namespace: &Namespace, name: &Name) -> Option<JobId> {
        let key = (namespace.clone(), name.clone());
        if let Some(id) = self.names.get(&key) {
            return Some(*id);
        }
        let job = self.pins.jobs.get(&key)?.row.clone()?;
        Some(self.remember_job(job, true))
    }

    /// Puts a job into memory and arms it.
    pub(crate) fn remember_job(&mut self, job: Arc<Job>, stored: bool) -> JobId {
        let id = job.id;
        self.plan.arm(job.timer_at(), TimerOwner::Job(id));
        self.names.insert((job.namespace.clone(), job.name.clone()), id);
        self.jobs.insert(id, LiveJob::new(job, stored));
        id
    }

    /// Changes a job in memory and re-arms its timer by its cursor.
    pub(crate) fn edit_job(&mut self, id: JobId, edit: impl FnOnce(&mut Job)) {
        let Some(live) = self.jobs.get_mut(&id) else { return };
        let before = live.job.timer_at();
        edit(Arc::make_mut(&mut live.job));
        // Re-armed even where the two are equal: a due timer was already popped, and with jitter two due times can have
        // the same wake-up time.
        self.plan.disarm(before, TimerOwner::Job(id));
        self.plan.arm(live.job.timer_at(), TimerOwner::Job(id));
        self.dirty.jobs.insert(id);
    }

    /// Puts a stored live run back into memory, as its state requires.
    pub(crate) fn take_up(&mut self, record: RunRecord, cx: &mut Context<'_>) {
        let RunRecord { run, definition, job, .. } = record;
        if let Some(job) = job
            && !self.jobs.contains_key(&job.id)
        {
            self.remember_job(job, true);
        }
        let id = run.id;
        let (is_ready, is_running) =
            (run.status() == Status::Ready, matches!(run.state, State::Running { .. }));
        self.remember_run(LiveRun::new(run, definition, true), cx);
        if is_ready {
            self.split_soon(id, cx);
        } else if is_running {
            self.offer_again(id, cx);
        }
    }

    /// Whether the next batch would carry anything.
    pub fn is_dirty(&self) -> bool {
        let dirty = &self.dirty;
        dirty.lazy_due
            || self.queues.is_dirty()
            || self.end_notices.dirty_rows() > 0
            || self.topics.dirty_rows() > 0
            || self.locks.is_dirty()
            || self.holds.is_dirty()
            || self.incidents.dirty_rows() > 0
            || !(dirty.jobs.is_empty()
                && dirty.runs.is_empty()
                && dirty.settled.is_empty()
                && dirty.deleted_jobs.is_empty()
                && dirty.uniques.is_empty()
                && dirty.steps.is_empty()
                && dirty.skips.is_empty()
                && dirty.decided.is_empty())
    }

    /// About how many rows the next batch would change.
    pub fn dirty_rows(&self) -> usize {
        let dirty = &self.dirty;
        dirty.jobs.len()
            + dirty.runs.len()
            + 2 * dirty.settled.len()
            + dirty.revisions.len()
            + dirty.uniques.len()
            + dirty.steps.len()
            + self.queues.dirty_rows()
            + self.end_notices.dirty_rows()
            + self.topics.dirty_rows()
            + self.locks.dirty_rows()
            + self.holds.dirty_rows()
            + self.incidents.dirty_rows()
    }

    pub(crate) fn note_lazily(&mut self, run: RunId, elapsed: Elapsed) {
        self.dirty.lazy.insert(run);
        let since = *self.dirty.lazy_since.get_or_insert(elapsed);
        self.arm_lazy(since);
    }

    fn arm_lazy(&mut self, since: Elapsed) {
        if !std::mem::replace(&mut self.is_lazy_armed, true) {
            self.deadlines.insert(since + LAZY_DUE, Deadline::Lazy);
        }
    }

    /// The deadline of lazy changes has passed. Newer ones than it was set for wait for their own.
    pub(crate) fn lazy_deadline(&mut self, elapsed: Elapsed) {
        self.is_lazy_armed = false;
        match self.dirty.lazy_since {
            Some(since) if since + LAZY_DUE > elapsed => self.arm_lazy(since),
            _ => self.lazy_is_due(),
        }
    }

    /// Whether lazy changes cause the next batch.
    pub fn has_lazy_due(&self) -> bool {
        self.dirty.lazy_due
    }

    /// Lazy changes of other shards are about to be committed. Those of this shard join them if half of their time is
    /// over, so that many shards do not commit one after the other.
    pub fn join_lazy(&mut self, elapsed: Elapsed) {
        if self.dirty.lazy_since.is_some_and(|since| since + LAZY_DUE / 2 <= elapsed) {
            self.lazy_is_due();
        }
    }

    /// The effects that will never be released, because the memory of the shard is discarded.
    pub fn unreleased(&mut self) -> Vec<(ShardId, Effect)> {
        self.dirty.once_stored.drain(..).map(|effect| (self.id, effect)).collect()
    }

    pub(crate) fn lazy_is_due(&mut self) {
        self.dirty.lazy_due = !self.dirty.lazy.is_empty();
    }
}
