//! One shard: the only place where what happens to its jobs and runs is decided.
//!
//! `apply` changes memory and notes what is dirty; `seal` turns all that became dirty since the last seal into one
//! batch, a row at most once. Nothing here waits: the driver commits the batch while the next one is applied on
//! top of it, and throws the whole value away if the store says no.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::change::{
    Batch, Changes, DeadLetter, Found, Loaded, Revision, Row, RowKey, RunRecord, Skip, UniqueKey, Want,
};
use punctual_core::command::{Command, RetryRun, RunJob};
use punctual_core::ids::{Epoch, IdMaker, JobId, RunId, ShardId, Token};
use punctual_core::job::Job;
use punctual_core::name::{Name, Namespace};
use punctual_core::run::{Origin, Run, State, Wait};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::event::{Context, Event};
use crate::memory::{Fetched, JobKey, LiveJob, LiveRun, Pins};
use crate::plan::Plan;
use crate::wheel::Wheel;

/// How long a start or a progress may stay unwritten when nothing else is.
const LAZY_MAX: Duration = Duration::from_secs(1);

/// What a node decides for all its shards.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// How long a worker may be silent before what it has in hand is given up.
    pub attempt_lease: Duration,
    /// Timers on one page: about how many a shard keeps in memory.
    pub page: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { attempt_lease: Duration::from_secs(15), page: 512 }
    }
}

#[derive(Debug)]
pub struct Shard {
    pub(crate) id: ShardId,
    pub(crate) epoch: Epoch,
    commit: u64,
    pub(crate) ids: IdMaker,
    pub(crate) settings: Settings,

    pub(crate) jobs: FxHashMap<JobId, LiveJob>,
    pub(crate) names: FxHashMap<JobKey, JobId>,
    pub(crate) runs: FxHashMap<RunId, LiveRun>,
    pub(crate) plan: Plan,
    pub(crate) deadlines: Wheel<Deadline>,
    pub(crate) pins: Pins,
    pub(crate) fetched: Fetched,
    /// Ready runs whose only worker is not here, and since when by elapsed time.
    pub(crate) absent: FxHashMap<RunId, Timestamp>,

    pub(crate) dirty: Dirty,
    /// Seals so far: the number a pin is released by.
    batch: u64,
}

/// What an attempt or a backing-off run must not outlast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deadline {
    Backoff(RunId),
    Timeout(RunId, Token),
    /// A run that could not be split at once may be now.
    Split(RunId),
    /// The only worker that a run may go to has had its time to come back.
    Gone(RunId),
    /// Something lazy has waited long enough to be written.
    Lazy,
}

/// What the next batch must carry.
#[derive(Debug, Default)]
pub(crate) struct Dirty {
    pub(crate) jobs: FxHashSet<JobId>,
    pub(crate) runs: FxHashSet<RunId>,
    /// Runs that ended since the last seal.
    pub(crate) settled: Vec<Settled>,
    pub(crate) deleted_jobs: Vec<LiveJob>,
    pub(crate) revisions: Vec<Arc<Revision>>,
    pub(crate) uniques: FxHashMap<Arc<str>, (UniqueKey, Stored)>,
    pub(crate) skips: Vec<Skip>,
    /// Dead letters that someone has decided about.
    pub(crate) decided: Vec<RunId>,
    /// Jobs that lost a run: they leave memory if nothing else keeps them.
    pub(crate) quieter: FxHashSet<JobId>,
    /// Runs whose start or progress is written with the next batch, whatever causes it.
    pub(crate) lazy: FxHashSet<RunId>,
    lazy_due: bool,
}

/// Whether the store has an older version of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stored {
    Yes,
    No,
}

#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) run: Arc<Run>,
    /// The store has a live row of it.
    pub(crate) stored: bool,
    pub(crate) dead: bool,
}

impl Shard {
    /// A shard as the store has it. Attempts found running are offered to their workers again.
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
            dirty: Dirty::default(),
            batch: 0,
        };
        cx.pool.forget(loaded.shard);
        let mut records = loaded.runs;
        // In one order, whatever the store's, so that a history replays the same.
        records.sort_by_key(|record| record.run.id);
        for record in records {
            shard.take_up(record, cx);
        }
        shard.give_up_outlived(cx);
        shard
    }

    /// Attempts of workers that have started again since: nobody will ever report them.
    fn give_up_outlived(&mut self, cx: &mut Context<'_>) {
        let running = self.runs.values().filter_map(|live| match &live.run.state {
            State::Running { worker, token, .. } if cx.pool.roster.is_outlived(worker) => {
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
            Event::Command { ticket, command } => {
                let answer = self.intake(command, cx);
                cx.answer(ticket, answer);
            }
            Event::Report { worker, report } => self.report(&worker, report, cx),
            Event::Lost { run, token } => self.lost(run, token, cx),
            Event::Assign(given) => self.assign(given, cx),
            Event::Fits { run, fits } => self.note_fit(run, fits, cx),
            Event::Tick { limit } => self.tick(limit, cx),
        }
    }

    /// The rows that a command needs and that neither memory nor a pin has. What was read may tell that more is
    /// needed: the caller asks again after a supply, and leaves out what it has asked for already.
    pub fn wants(&self, command: &Command) -> Vec<Want> {
        let mut wants = Vec::new();
        match command {
            Command::PutJob(put) => self.want_job(&put.namespace, &put.name, &mut wants),
            Command::ReplanJob { namespace, name, .. }
            | Command::DeleteJob { namespace, name, .. }
            | Command::PauseJob { namespace, name }
            | Command::ResumeJob { namespace, name } => self.want_job(namespace, name, &mut wants),
            Command::RunJob(RunJob { namespace, name, key, params, .. }) => {
                self.want_job(namespace, name, &mut wants);
                // Without a key of its own, the job's `unique` is its key: known once the job is.
                let unique = self.peek_job(namespace, name).and_then(|job| {
                    // One that cannot be worked out is refused by intake.
                    crate::intake::unique_of(&job.definition, params.as_ref()).ok().flatten()
                });
                if let Some(key) = key.clone().or(unique) {
                    self.want_unique(&crate::intake::job_run_key(namespace, name, &key.text), &mut wants);
                }
            }
            Command::Submit(submit) => {
                if let Ok(Some(key)) = crate::intake::given_key(submit) {
                    self.want_unique(&crate::intake::submit_key(&submit.namespace, &key.text), &mut wants);
                }
            }
            Command::CancelRun { run, .. }
            | Command::DiscardDeadLetter { run, .. }
            | Command::Progress { run, .. } => {
                self.want_run(*run, &mut wants);
            }
            Command::RetryRun(RetryRun { namespace, run, key, .. }) => {
                self.want_run(*run, &mut wants);
                if let Some(key) = key {
                    self.want_unique(&crate::intake::retry_key(namespace, *run, &key.text), &mut wants);
                }
            }
        }
        wants
    }

    fn peek_job(&self, namespace: &Namespace, name: &Name) -> Option<&Arc<Job>> {
        let key = (namespace.clone(), name.clone());
        let pinned = || self.pins.jobs.get(&key).and_then(|pin| pin.row.as_ref());
        self.names.get(&key).and_then(|id| self.jobs.get(id)).map(|live| &live.job).or_else(pinned)
    }

    fn want_job(&self, namespace: &Namespace, name: &Name, wants: &mut Vec<Want>) {
        let key = (namespace.clone(), name.clone());
        if !self.names.contains_key(&key) && !self.pins.jobs.contains_key(&key) {
            wants.push(Want::Job(key.0, key.1));
        }
    }

    fn want_run(&self, run: RunId, wants: &mut Vec<Want>) {
        if !self.runs.contains_key(&run) && !self.pins.runs.contains_key(&run) {
            wants.push(Want::Run(run));
        }
    }

    fn want_unique(&self, key: &Arc<str>, wants: &mut Vec<Want>) {
        if !self.dirty.uniques.contains_key(key) && !self.pins.uniques.contains_key(key) {
            wants.push(Want::Unique(Arc::clone(key)));
        }
    }

    /// Takes rows read for the commands that come next. What memory or a pin knows better is not believed.
    pub fn supply(&mut self, found: Found) {
        for job in self.fetched.take(found) {
            let key = (job.namespace.clone(), job.name.clone());
            if job.shard() == self.id && !self.names.contains_key(&key) && !self.pins.jobs.contains_key(&key)
            {
                self.fetched.jobs.insert(job.id);
                self.remember_job(job, true);
            }
        }
    }

    /// Lets go of rows that were read for commands and that nothing keeps.
    pub fn supplied(&mut self) {
        self.fetched.runs.clear();
        self.fetched.uniques.clear();
        for id in std::mem::take(&mut self.fetched.jobs) {
            // A dirty one leaves when its batch is sealed.
            if !self.dirty.jobs.contains(&id) {
                self.drop_if_far(id, None);
            }
        }
    }

    /// The job of that name in memory, brought back from its pin if need be.
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
        self.plan.arm(job.cursor.wake_at, id.0);
        self.names.insert((job.namespace.clone(), job.name.clone()), id);
        self.jobs.insert(id, LiveJob::new(job, stored));
        id
    }

    /// Changes a job in memory; its place in the plan follows its cursor.
    pub(crate) fn edit_job(&mut self, id: JobId, edit: impl FnOnce(&mut Job)) {
        let Some(live) = self.jobs.get_mut(&id) else { return };
        let before = live.job.cursor.wake_at;
        edit(Arc::make_mut(&mut live.job));
        // Armed even where the two are equal: the place was popped if it was due, and jitter can give two due times
        // one place.
        self.plan.disarm(before, id.0);
        self.plan.arm(live.job.cursor.wake_at, id.0);
        self.dirty.jobs.insert(id);
    }

    /// A run that nobody knew before.
    pub(crate) fn remember_run(&mut self, live: LiveRun, cx: &mut Context<'_>) {
        let id = live.run.id;
        if !live.stored {
            self.dirty.runs.insert(id);
        }
        self.plan.arm(live.run.wake_at(), id.0);
        if let (Some(job), true) = (live.run.job(), live.run.wake_at().is_some())
            && let Some(job) = self.jobs.get_mut(&job)
        {
            job.waiting += 1;
        }
        if self.runs.insert(id, live).is_none() {
            cx.pool.live += 1;
        }
    }

    /// A live run as the store has it, put back where it was.
    pub(crate) fn take_up(&mut self, record: RunRecord, cx: &mut Context<'_>) {
        let RunRecord { run, definition, job, .. } = record;
        if let Some(job) = job
            && !self.jobs.contains_key(&job.id)
        {
            self.remember_job(job, true);
        }
        let (id, state) = (run.id, run.state.clone());
        self.remember_run(LiveRun { run: Arc::clone(&run), definition, stored: true }, cx);
        if let Some(job) = run.job().and_then(|job| self.jobs.get_mut(&job)) {
            job.take_up(&run);
        }
        match state {
            State::Waiting { wait: Wait::Backoff(at) } => {
                self.deadlines.insert(cx.elapsed_at(at), Deadline::Backoff(id));
            }
            State::Ready { since } => {
                self.join_line(id, since, cx);
                self.split_soon(id, cx);
            }
            State::Running { worker, token, since, .. } => {
                cx.pool.adopt(&worker, id, token, cx.elapsed);
                if let Some(parent) = run.parent() {
                    cx.pool.spread.went(parent, id, &worker);
                }
                self.arm_timeout(id, token, since, cx);
                self.offer_again(id, cx);
            }
            _ => {}
        }
    }

    /// Whether the next batch would carry anything.
    pub fn is_dirty(&self) -> bool {
        let dirty = &self.dirty;
        dirty.lazy_due
            || !(dirty.jobs.is_empty()
                && dirty.runs.is_empty()
                && dirty.settled.is_empty()
                && dirty.deleted_jobs.is_empty()
                && dirty.uniques.is_empty()
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
    }

    pub(crate) fn note_lazily(&mut self, run: RunId, elapsed: Timestamp) {
        if self.dirty.lazy.is_empty() {
            self.deadlines.insert(elapsed + LAZY_MAX, Deadline::Lazy);
        }
        self.dirty.lazy.insert(run);
    }

    pub(crate) fn lazy_is_due(&mut self) {
        self.dirty.lazy_due = !self.dirty.lazy.is_empty();
    }

    /// Everything that changed since the last seal, as one batch; what need not stay in memory leaves it.
    pub fn seal(&mut self, cx: &mut Context<'_>) -> Batch {
        self.batch += 1;
        self.ids.pass(cx.now);
        let mut changes = Changes::default();
        let dirty = std::mem::take(&mut self.dirty);
        self.seal_jobs(&dirty, &mut changes);
        self.seal_runs(dirty.runs.iter().chain(&dirty.lazy), &mut changes);
        for settled in dirty.settled {
            seal_settled(settled, &mut changes);
        }
        for revision in dirty.revisions {
            changes.insert(Row::Revision(revision));
        }
        for (unique, stored) in dirty.uniques.into_values() {
            self.pins.unique(self.batch, unique.clone());
            match stored {
                Stored::Yes => changes.update(Row::Unique(unique)),
                Stored::No => changes.insert(Row::Unique(unique)),
            }
        }
        for skip in dirty.skips {
            changes.insert(Row::Skip(skip));
        }
        for run in dirty.decided {
            changes.delete(RowKey::DeadLetter(run));
        }
        for job in dirty.jobs.into_iter().chain(dirty.quieter) {
            self.drop_if_far(job, Some(self.batch));
        }
        for run in dirty.runs {
            self.drop_run_if_far(run, cx);
        }
        self.shrink(cx);
        let batch = Batch {
            shard: self.id,
            epoch: self.epoch,
            commit: self.commit,
            last_id: self.ids.last(),
            changes,
        };
        self.commit += 1;
        batch
    }

    /// The number of the batch that will carry what is dirty now.
    pub(crate) fn next_batch(&self) -> u64 {
        self.batch + 1
    }

    /// The number of the newest sealed batch.
    pub fn sealed(&self) -> u64 {
        self.batch
    }

    /// Batches up to this one are committed, and every read that began before that has returned.
    pub fn release_pins(&mut self, through: u64) {
        self.pins.release(through);
    }

    fn seal_jobs(&mut self, dirty: &Dirty, changes: &mut Changes) {
        for id in &dirty.jobs {
            if let Some(live) = self.jobs.get_mut(id) {
                let row = Row::Job(Arc::clone(&live.job));
                if std::mem::replace(&mut live.stored, true) {
                    changes.update(row);
                } else {
                    changes.insert(row);
                }
            }
        }
        for gone in &dirty.deleted_jobs {
            if gone.stored {
                changes.delete(RowKey::Job(gone.job.id));
            }
        }
    }

    fn seal_runs<'a>(&mut self, dirty: impl Iterator<Item = &'a RunId>, changes: &mut Changes) {
        for id in dirty {
            if let Some(live) = self.runs.get_mut(id) {
                let row = Row::Run(Arc::clone(&live.run));
                if std::mem::replace(&mut live.stored, true) {
                    changes.update(row);
                } else {
                    changes.insert(row);
                }
            }
        }
    }

    /// Takes a job out of memory if nothing will happen to it soon. `batch` pins it: the one that carries it.
    pub(crate) fn drop_if_far(&mut self, id: JobId, batch: Option<u64>) {
        let Some(live) = self.jobs.get(&id) else { return };
        if !live.is_idle() || live.job.cursor.wake_at.is_some_and(|at| self.plan.is_near(at, id.0)) {
            return;
        }
        if let Some(live) = self.forget_job(id)
            && let Some(batch) = batch
        {
            let key = (live.job.namespace.clone(), live.job.name.clone());
            self.pins.job(batch, key, Some(live.job));
        }
    }

    pub(crate) fn forget_job(&mut self, id: JobId) -> Option<LiveJob> {
        let live = self.jobs.remove(&id)?;
        self.names.remove(&(live.job.namespace.clone(), live.job.name.clone()));
        self.plan.disarm(live.job.cursor.wake_at, id.0);
        Some(live)
    }

    fn drop_run_if_far(&mut self, id: RunId, cx: &mut Context<'_>) {
        let Some(at) = self.runs.get(&id).and_then(|live| live.run.wake_at()) else { return };
        if !self.plan.is_near(at, id.0) {
            self.evict_run(id, cx);
        }
    }

    fn evict_run(&mut self, id: RunId, cx: &mut Context<'_>) {
        let Some(live) = self.runs.remove(&id) else { return };
        cx.pool.live -= 1;
        self.plan.disarm(live.run.wake_at(), id.0);
        let mut job = None;
        if let Some(of) = live.run.job()
            && let Some(live_job) = self.jobs.get_mut(&of)
        {
            live_job.waiting -= 1;
            job = Some(Arc::clone(&live_job.job));
        }
        let record =
            RunRecord { run: live.run, definition: live.definition, job: job.clone(), dead_letter: false };
        self.pins.run(self.batch, record);
        if let Some(job) = job {
            self.drop_if_far(job.id, Some(self.batch));
        }
    }

    /// Keeps the number of armed timers bounded: the farthest leave memory, and a page brings them back in time.
    fn shrink(&mut self, cx: &mut Context<'_>) {
        for id in self.plan.shrink() {
            if self.runs.contains_key(&RunId(id)) {
                self.drop_run_if_far(RunId(id), cx);
            } else {
                self.drop_if_far(JobId(id), Some(self.batch));
            }
        }
    }
}

fn seal_settled(settled: Settled, changes: &mut Changes) {
    let Settled { run, stored, dead } = settled;
    if stored {
        changes.delete(RowKey::Run(run.id));
    }
    if dead {
        let (namespace, at) = (run.namespace.clone(), run.finished_at.unwrap_or(run.due));
        let job = match &run.origin {
            Origin::Job { name, .. } => Some(name.clone()),
            Origin::AdHoc(_) => None,
        };
        changes.insert(Row::DeadLetter(DeadLetter { run: run.id, namespace, job, at }));
    }
    changes.insert(Row::History(run));
}
