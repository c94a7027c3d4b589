//! The rows a shard keeps in memory: jobs and runs with something to do soon, and the pins.
//!
//! A row leaves memory when its batch is sealed, before that batch is committed. The row stays pinned until the batch
//! is committed and every read that began before has returned: such a read may bring an older version or no row, and
//! the pin wins.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::change::{DueRun, Found, RunRecord, UniqueKey};
use punctual_core::ids::{JobId, RunId};
use punctual_core::job::{Definition, Job};
use punctual_core::name::{Name, Namespace};
use punctual_core::queue::Message;
use punctual_core::run::{Assignee, Run, State, Wait};
use punctual_core::task::Task;
use punctual_core::time::Elapsed;
use punctual_core::topic::Topic;
use punctual_core::workflow::{StepRecord, Workflow};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::limits::counters::{Counters, LimitedRun};
use crate::pool::{Class, ReadyRun, Share, Wish};

pub(crate) type JobKey = (Namespace, Name);

#[derive(Debug)]
pub(crate) struct LiveJob {
    pub(crate) job: Arc<Job>,
    /// Whether the store has a row of it.
    pub(crate) stored: bool,
    /// Runs that were due and have not ended, without the held ones.
    pub(crate) active: BTreeSet<RunId>,
    /// Due runs that wait for an earlier one, ordered by due time, also after a reload.
    pub(crate) held: BTreeSet<(Timestamp, RunId)>,
    /// Runs in memory that wait for their due time.
    pub(crate) waiting: u32,
    /// Backfills that have not ended. They run beside its other runs, whatever its overlap policy.
    pub(crate) backfills: BTreeSet<RunId>,
    /// The run that gathers the events of a topic.
    pub(crate) gathering: BTreeMap<Topic, RunId>,
    /// Its runs by the keys of its limits.
    pub(crate) counters: Counters,
}

impl LiveJob {
    pub(crate) fn new(job: Arc<Job>, stored: bool) -> Self {
        LiveJob {
            job,
            stored,
            active: BTreeSet::new(),
            held: BTreeSet::new(),
            waiting: 0,
            backfills: BTreeSet::new(),
            gathering: BTreeMap::new(),
            counters: Counters::default(),
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        let has_runs = !(self.active.is_empty() && self.held.is_empty() && self.backfills.is_empty());
        !has_runs && self.waiting == 0 && self.gathering.is_empty()
    }

    /// Counts a run of the job that has entered its state.
    pub(crate) fn enter(&mut self, live: &LiveRun) {
        let run = &live.run;
        self.counters.enter(LimitedRun {
            definition: &self.job.definition,
            own: &live.definition,
            run,
            keys: &live.limit_keys,
        });
        match run.state {
            State::Waiting { wait: Wait::Due(_) } => self.waiting += 1,
            State::Waiting { wait: Wait::Overlap | Wait::Hold | Wait::Limit(_) }
                if run.parent().is_none() =>
            {
                self.held.insert((run.due, run.id));
                self.active.remove(&run.id);
            }
            State::Waiting { wait: Wait::Overlap | Wait::Hold | Wait::Limit(_) } => {}
            State::Waiting { wait: Wait::Backoff(_) } => self.activate(run),
            State::Waiting { wait: Wait::Events(_) } => {
                self.gathering.extend(run.gathers().map(|gathered| (gathered.topic.clone(), run.id)));
            }
            State::Ready { .. } | State::Running { .. } | State::Split { .. } => {
                self.activate(run);
            }
            State::Succeeded | State::Failed | State::TimedOut | State::Cancelled | State::Skipped => {
                self.active.remove(&run.id);
                self.backfills.remove(&run.id);
            }
        }
    }

    /// Reverses the count of a state that a run has left. It stays active until it ends or is held again.
    pub(crate) fn leave(&mut self, live: &LiveRun, state: &State) {
        let run = &live.run;
        let of = LimitedRun {
            definition: &self.job.definition,
            own: &live.definition,
            run,
            keys: &live.limit_keys,
        };
        self.counters.leave(of, state);
        match state {
            State::Waiting { wait: Wait::Due(_) } => self.waiting -= 1,
            State::Waiting { wait: Wait::Events(_) } => self.gathering.retain(|_, other| *other != run.id),
            State::Waiting { wait: Wait::Overlap | Wait::Hold | Wait::Limit(_) } => {
                self.held.remove(&(run.due, run.id));
            }
            _ => {}
        }
    }

    fn activate(&mut self, run: &Run) {
        if run.is_backfill() {
            self.backfills.insert(run.id);
        } else if run.parent().is_none() {
            self.active.insert(run.id);
        }
    }
}

#[derive(Debug)]
pub(crate) struct LiveRun {
    pub(crate) run: Arc<Run>,
    pub(crate) definition: Arc<Definition>,
    pub(crate) stored: bool,
    /// When a checkpoint of it last caused a batch.
    pub(crate) saved_at: Option<Elapsed>,
    /// The steps that a retry reuses, until its workflow begins.
    pub(crate) reused: Vec<Arc<StepRecord>>,
    /// Its key for each limit of its job.
    pub(crate) limit_keys: Box<[Arc<str>]>,
    /// Its share key, set when it becomes ready. `None` means no key.
    pub(crate) share_key: Option<Arc<str>>,
}

impl LiveRun {
    pub(crate) fn new(run: Arc<Run>, definition: Arc<Definition>, stored: bool) -> LiveRun {
        let definition = run.own_definition(definition);
        LiveRun {
            run,
            definition,
            stored,
            saved_at: None,
            reused: Vec::new(),
            limit_keys: Box::default(),
            share_key: None,
        }
    }

    /// The run as the pool knows it, ready since then.
    pub(crate) fn ready_run(&self, since: Timestamp, wish: Option<Wish>) -> ReadyRun {
        ReadyRun {
            run: self.run.id,
            priority: self.run.priority,
            since,
            share: Share { namespace: self.run.namespace.clone(), key: self.share_key.clone() },
            weight: 1,
            class: self.class(),
            wish,
        }
    }

    /// The requirements on a worker.
    pub(crate) fn class(&self) -> Class {
        let selector = &self.definition.route.selector;
        let selector = (!selector.is_empty()).then(|| Arc::clone(selector));
        let (task, pin) = (&self.definition.task, self.run.pinned_to().cloned());
        Class { kind: task.kind(), function: task.function().cloned(), selector, pin }
    }

    /// The queue or job that the run goes to, or the program outside Punctual that has begun it. `None` means that it needs
    /// a worker, or is a workflow or a backfill.
    pub(crate) fn destination(&self) -> Option<Assignee> {
        match &self.definition.task {
            _ if self.run.is_backfill() => None,
            Task::Queue(queue) => Some(Assignee::Queue(queue.name.clone())),
            Task::Job(name) => Some(Assignee::Job(name.clone())),
            Task::Ping(_) => self.run.job_name().cloned().map(Assignee::Ping),
            _ => None,
        }
    }

    /// The workflow that it executes. `None` means that it has no child runs, but attempts.
    pub(crate) fn workflow(&self) -> Option<&Workflow> {
        self.run.workflow(&self.definition)
    }

    /// Whether its child runs are parts of it. A part has the same definition.
    pub(crate) fn is_split(&self) -> bool {
        self.run.is_split(&self.definition)
    }
}

/// Whether the store has an older version of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stored {
    Yes,
    No,
}

/// Rows that left memory and that a read in progress may not have seen, by the batch that carries them.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    pub(crate) jobs: FxHashMap<JobKey, Pinned<Option<Arc<Job>>>>,
    pub(crate) runs: FxHashMap<RunId, Pinned<RunRecord>>,
    /// The steps of workflows that have ended.
    pub(crate) steps: FxHashMap<RunId, Pinned<Vec<Arc<StepRecord>>>>,
    /// `None` means that the key is free.
    pub(crate) uniques: FxHashMap<Arc<str>, Pinned<Option<UniqueKey>>>,
    /// By message number. `None` means that the message was deleted.
    pub(crate) messages: FxHashMap<i64, Pinned<Option<Arc<Message>>>>,
    by_batch: VecDeque<(u64, Vec<PinKey>)>,
}

#[derive(Debug)]
pub(crate) struct Pinned<T> {
    batch: u64,
    pub(crate) row: T,
}

#[derive(Debug)]
enum PinKey {
    Job(JobKey),
    Run(RunId),
    Steps(RunId),
    Unique(Arc<str>),
    Message(i64),
}

impl Pins {
    /// Pins a job. `None` means that it was deleted.
    pub(crate) fn job(&mut self, batch: u64, key: JobKey, row: Option<Arc<Job>>) {
        self.note(batch, PinKey::Job(key.clone()));
        self.jobs.insert(key, Pinned { batch, row });
    }

    pub(crate) fn run(&mut self, batch: u64, record: RunRecord) {
        self.note(batch, PinKey::Run(record.run.id));
        self.runs.insert(record.run.id, Pinned { batch, row: record });
    }

    pub(crate) fn unique(&mut self, batch: u64, key: Arc<str>, row: Option<UniqueKey>) {
        self.note(batch, PinKey::Unique(Arc::clone(&key)));
        self.uniques.insert(key, Pinned { batch, row });
    }

    pub(crate) fn message(&mut self, batch: u64, number: i64, row: Option<Arc<Message>>) {
        self.note(batch, PinKey::Message(number));
        self.messages.insert(number, Pinned { batch, row });
    }

    /// Pins the steps of a workflow that has ended.
    pub(crate) fn steps(&mut self, batch: u64, run: RunId, rows: Vec<Arc<StepRecord>>) {
        self.note(batch, PinKey::Steps(run));
        self.steps.insert(run, Pinned { batch, row: rows });
    }

    fn note(&mut self, batch: u64, key: PinKey) {
        match self.by_batch.back_mut() {
            Some((last, keys)) if *last == batch => keys.push(key),
            _ => self.by_batch.push_back((batch, vec![key])),
        }
    }

    /// Releases every row carried by this batch or an earlier one.
    pub(crate) fn release(&mut self, through: u64) {
        while self.by_batch.front().is_some_and(|(batch, _)| *batch <= through) {
            let Some((batch, keys)) = self.by_batch.pop_front() else { return };
            for key in keys {
                // A row pinned again by a later batch stays.
                match key {
                    PinKey::Job(key) => remove_if(&mut self.jobs, &key, batch),
                    PinKey::Run(run) => remove_if(&mut self.runs, &run, batch),
                    PinKey::Steps(run) => remove_if(&mut self.steps, &run, batch),
                    PinKey::Unique(key) => remove_if(&mut self.uniques, &key, batch),
                    PinKey::Message(number) => remove_if(&mut self.messages, &number, batch),
                }
            }
        }
    }
}

fn remove_if<K: Eq + std::hash::Hash, T>(map: &mut FxHashMap<K, Pinned<T>>, key: &K, batch: u64) {
    if map.get(key).is_some_and(|pinned| pinned.batch <= batch) {
        map.remove(key);
    }
}

/// Rows read for the next commands, valid until the next read.
#[derive(Debug, Default)]
pub(crate) struct Fetched {
    pub(crate) runs: FxHashMap<RunId, RunRecord>,
    pub(crate) steps: FxHashMap<RunId, Vec<Arc<StepRecord>>>,
    pub(crate) uniques: FxHashMap<Arc<str>, UniqueKey>,
    pub(crate) due_runs: Vec<DueRun>,
    /// Jobs that this read brought into memory: they leave it again when nothing keeps them.
    pub(crate) jobs: FxHashSet<JobId>,
}

impl Fetched {
    pub(crate) fn take(&mut self, found: Found) -> Vec<Arc<Job>> {
        self.runs = found.runs.into_iter().map(|record| (record.run.id, record)).collect();
        self.steps.clear();
        for step in found.steps {
            self.steps.entry(step.key.run).or_default().push(step);
        }
        self.uniques = found.uniques.into_iter().map(|unique| (Arc::clone(&unique.key), unique)).collect();
        self.due_runs = found.due_runs;
        found.jobs
    }
}
