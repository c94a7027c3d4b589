//! The queues of ready runs, each ordered by priority, then by the time the run became ready, then by id.
//!
//! Runs with the same requirements on a worker share a queue, so that a run which no worker takes does not block
//! others. There are as many queues as different requirements, not as runs: a million runs of the default route share
//! one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::ids::{JobId, RunId, ShardId, WorkerId};
use punctual_core::job::Strategy;
use punctual_core::job::route::Labels;
use punctual_core::limits::PRIORITY_MAX;
use punctual_core::name::Name;
use punctual_core::run::Lack;
use punctual_core::task::Kind;
use punctual_core::worker::Announcement;
use rustc_hash::FxHashMap;

pub(super) type ReadyPosition = (u8, Timestamp, RunId);

#[derive(Debug, Default)]
pub(super) struct ReadyQueues {
    queues: BTreeMap<Class, ReadyQueue>,
    /// The wishes of runs whose route is more than "the least loaded worker that fits".
    wishes: FxHashMap<RunId, Wish>,
    len: usize,
}

#[derive(Debug, Default)]
pub(super) struct ReadyQueue {
    pub(super) runs: BTreeSet<ReadyPosition>,
    /// Why no present worker fits, as last told to the runs. `None` means that one fits.
    pub(super) lack: Option<Lack>,
}

/// The requirements that a worker must meet to fit a run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Class {
    pub(crate) kind: Kind,
    /// The function that the run calls. `None` means that the kind is enough.
    pub(crate) function: Option<Name>,
    /// The labels required. `None` means no labels.
    pub(crate) selector: Option<Arc<Labels>>,
    /// The name of the only worker that may take the run. `None` means any worker.
    pub(crate) pin: Option<Arc<str>>,
}

/// How a run's worker is chosen among those that fit.
#[derive(Debug, Clone)]
pub(crate) struct Wish {
    pub(crate) strategy: Strategy,
    /// The job whose routing memory applies. `None`: the one shared by all runs without a job.
    pub(crate) job: Option<JobId>,
    /// The hash of the route key, for keyed strategies.
    pub(crate) key: u64,
    /// The names of the workers on which attempts of this run failed.
    pub(crate) avoid: Vec<Arc<str>>,
    /// The parent of a child run: children are spread over workers. `None`: not a child, or pinned to one worker.
    pub(crate) parent: Option<RunId>,
    /// The name of the worker that a moved run has left: another one is preferred.
    pub(crate) left: Option<Arc<str>>,
    /// The name of the worker that the run was moved to. It waits for this worker as long as it is present.
    pub(crate) to: Option<Arc<str>>,
    pub(super) position: ReadyPosition,
    pub(super) pin: Option<Arc<str>>,
}

impl Wish {
    pub(crate) fn new(strategy: Strategy, job: Option<JobId>, key: u64, avoid: Vec<Arc<str>>) -> Self {
        let position = (0, Timestamp::default(), RunId(0));
        Wish { strategy, job, key, avoid, parent: None, left: None, to: None, position, pin: None }
    }

    /// Whether it is for one of the present workers only.
    pub(super) fn has_pin(&self) -> bool {
        self.strategy == Strategy::Sticky || self.to.is_some()
    }
}

/// A ready run that is put into its queue.
#[derive(Debug)]
pub(crate) struct ReadyRun {
    pub(crate) run: RunId,
    pub(crate) priority: u8,
    pub(crate) since: Timestamp,
    pub(crate) class: Class,
    /// `None` means that the least loaded worker takes it.
    pub(crate) wish: Option<Wish>,
}

pub(super) fn position(priority: u8, since: Timestamp, run: RunId) -> ReadyPosition {
    (PRIORITY_MAX.saturating_sub(priority), since, run)
}

/// A requirement that a worker does not meet; the closest to fitting comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Unmet {
    /// This many labels are missing.
    Labels(usize),
    Function,
    Kind,
    Pin,
}

impl Class {
    pub(super) fn fits(&self, worker: &WorkerId, announced: &Announcement) -> bool {
        self.unmet(worker, announced).is_none()
    }

    /// The first requirement that the worker does not meet. `None` means that it fits.
    pub(super) fn unmet(&self, worker: &WorkerId, announced: &Announcement) -> Option<Unmet> {
        if self.pin.as_ref().is_some_and(|pin| **pin != *worker.name()) {
            return Some(Unmet::Pin);
        }
        if !announced.kinds.contains(self.kind) {
            return Some(Unmet::Kind);
        }
        if self.function.as_ref().is_some_and(|function| !announced.functions.contains(function)) {
            return Some(Unmet::Function);
        }
        let missing = self.missing(announced).count();
        (missing > 0).then_some(Unmet::Labels(missing))
    }

    fn missing<'a>(&'a self, announced: &'a Announcement) -> impl Iterator<Item = (&'a String, &'a String)> {
        let labels = self.selector.iter().flat_map(|selector| selector.iter());
        labels.filter(|(name, value)| announced.labels.get(*name) != Some(value))
    }

    /// What the closest worker lacks, for users. `nearest` is `None` if no worker is present.
    pub(super) fn lack(&self, nearest: Option<(Unmet, &WorkerId, &Announcement)>) -> Lack {
        let words = |(name, value): (&String, &String)| format!("{name}={value}").into_boxed_str();
        match nearest {
            None => Lack::Workers,
            Some((Unmet::Labels(_), worker, announced)) => Lack::Labels {
                worker: worker.name().into(),
                labels: self.missing(announced).map(words).collect(),
            },
            Some((unmet, ..)) => match (unmet, &self.function, &self.pin) {
                (Unmet::Function, Some(function), _) => Lack::Function(function.clone()),
                (Unmet::Pin, _, Some(pin)) => Lack::Worker((**pin).into()),
                _ => Lack::Kind(self.kind.as_str().into()),
            },
        }
    }
}

impl ReadyQueues {
    /// Adds a run. `lack` is asked for a new queue: why no present worker fits it.
    pub(super) fn join(
        &mut self,
        ready_run: ReadyRun,
        lack: impl FnOnce(&Class) -> Option<Lack>,
    ) -> Option<Lack> {
        let ReadyRun { run, priority, since, mut class, wish } = ready_run;
        let position = position(priority, since, run);
        if let Some(mut wish) = wish {
            class.pin.clone_from(&wish.pin);
            wish.position = position;
            self.wishes.insert(run, wish);
        }
        self.insert(class, position, lack)
    }

    fn insert(
        &mut self,
        class: Class,
        position: ReadyPosition,
        lack: impl FnOnce(&Class) -> Option<Lack>,
    ) -> Option<Lack> {
        let queue = match self.queues.entry(class) {
            std::collections::btree_map::Entry::Occupied(queue) => queue.into_mut(),
            std::collections::btree_map::Entry::Vacant(queue) => {
                let lack = lack(queue.key());
                queue.insert(ReadyQueue { runs: BTreeSet::new(), lack })
            }
        };
        self.len += usize::from(queue.runs.insert(position));
        queue.lack.clone()
    }

    pub(super) fn leave(&mut self, mut class: Class, priority: u8, since: Timestamp, run: RunId) {
        if let Some(wish) = self.wishes.remove(&run) {
            class.pin = wish.pin;
        }
        self.remove(&class, position(priority, since, run));
    }

    fn remove(&mut self, class: &Class, position: ReadyPosition) {
        let Some(queue) = self.queues.get_mut(class) else { return };
        self.len -= usize::from(queue.runs.remove(&position));
        if queue.runs.is_empty() {
            self.queues.remove(class);
        }
    }

    /// The queue whose first run comes before those of all other queues that `may` accepts.
    pub(super) fn first(&self, mut may: impl FnMut(&Class) -> bool) -> Option<(&Class, RunId)> {
        let firsts = || {
            let fitting = self.queues.iter().filter(|(_, queue)| queue.lack.is_none());
            fitting.filter_map(|(class, queue)| Some((*queue.runs.first()?, class)))
        };
        let ((_, _, run), class) = firsts().min()?;
        if may(class) {
            return Some((class, run));
        }
        // Its workers are busy; those of other queues may be free.
        let mut others: Vec<(ReadyPosition, &Class)> =
            firsts().filter(|(position, _)| position.2 != run).collect();
        others.sort_unstable();
        others.into_iter().find(|(_, class)| may(class)).map(|((_, _, run), class)| (class, run))
    }

    /// Removes the first run of a queue.
    pub(super) fn pop_first(&mut self, class: &Class) {
        if let Some(first) = self.queues.get(class).and_then(|queue| queue.runs.first().copied()) {
            self.wishes.remove(&first.2);
            self.remove(class, first);
        }
    }

    pub(super) fn wish(&self, run: RunId) -> Option<&Wish> {
        self.wishes.get(&run)
    }

    /// Moves every run with a pin to the queue of the worker that is now the right one.
    pub(super) fn pin_again(&mut self, pin: impl Fn(&Class, &Wish) -> Option<Arc<str>>) {
        let pinned = self.wishes.iter().filter(|(_, wish)| wish.has_pin());
        let mut runs: Vec<RunId> = pinned.map(|(run, _)| *run).collect();
        if runs.is_empty() {
            return;
        }
        runs.sort_unstable();
        let classes: Vec<Class> = self.queues.keys().cloned().collect();
        for run in runs {
            let Some(wish) = self.wishes.get(&run).cloned() else { continue };
            let stands = |class: &&Class| {
                self.queues.get(*class).is_some_and(|queue| queue.runs.contains(&wish.position))
            };
            let Some(old) = classes.iter().filter(|class| class.pin == wish.pin).find(stands) else {
                continue;
            };
            let free = Class { pin: None, ..old.clone() };
            let new = pin(&free, &wish);
            if new != wish.pin {
                self.remove(old, wish.position);
                // A run is pinned to a worker that fits; without a pin none may fit. `fit_again` finds the reason.
                let lack = new.is_none().then_some(Lack::Workers);
                self.insert(Class { pin: new.clone(), ..free }, wish.position, |_| lack);
                self.wishes.insert(run, Wish { pin: new, ..wish });
            }
        }
    }

    /// Checks again which queues have a worker that fits. Returns the first runs of the queues whose reason changed.
    pub(super) fn fit_again(
        &mut self,
        lack: impl Fn(&Class) -> Option<Lack>,
        limit: usize,
    ) -> Vec<(RunId, Option<Lack>)> {
        let mut changed = Vec::new();
        for (class, queue) in &mut self.queues {
            let now = lack(class);
            if queue.lack != now {
                queue.lack.clone_from(&now);
                // A pinned run fails when its worker stays absent, so all of them must be told.
                let limit = if class.pin.is_some() { queue.runs.len() } else { limit };
                changed.extend(queue.runs.iter().take(limit).map(|(_, _, run)| (*run, now.clone())));
            }
        }
        changed
    }

    /// Removes the runs of a shard: none is assigned until the shard is led again.
    pub(super) fn forget(&mut self, shard: ShardId) {
        for queue in self.queues.values_mut() {
            queue.runs.retain(|(_, _, run)| run.shard() != shard);
        }
        self.queues.retain(|_, queue| !queue.runs.is_empty());
        self.wishes.retain(|run, _| run.shard() != shard);
        self.len = self.queues.values().map(|queue| queue.runs.len()).sum();
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many runs wait for which a present worker fits.
    pub(super) fn fitting(&self) -> usize {
        self.queues.values().filter(|queue| queue.lack.is_none()).map(|queue| queue.runs.len()).sum()
    }

    /// The highest priority among the runs that this worker fits, and the number of these runs.
    pub(super) fn waits_for(&self, worker: &WorkerId, announced: &Announcement) -> (Option<u8>, u32) {
        let queues = self.queues.iter().filter(|(class, _)| class.fits(worker, announced));
        queues.fold((None, 0), |(highest, runs), (_, queue)| {
            let priority = queue.runs.first().map(|(position, _, _)| PRIORITY_MAX - position);
            (highest.max(priority), runs + u32::try_from(queue.runs.len()).unwrap_or(u32::MAX / 4))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(kind: Kind) -> Class {
        Class { kind, function: None, selector: None, pin: None }
    }

    fn join(queues: &mut ReadyQueues, kind: Kind, (priority, since, run): (u8, i64, i64)) {
        let (since, run) = (Timestamp::from_millis(since), RunId(run));
        queues.join(ReadyRun { run, priority, since, class: class(kind), wish: None }, |_| None);
    }

    fn drain(queues: &mut ReadyQueues, mut may: impl FnMut(&Class) -> bool) -> Vec<i64> {
        let mut order = Vec::new();
        while let Some((class, run)) = queues.first(&mut may).map(|(class, run)| (class.clone(), run)) {
            queues.pop_first(&class);
            order.push(run.0);
        }
        order
    }

    #[test]
    fn priority_goes_first_then_the_longest_wait() {
        let mut queues = ReadyQueues::default();
        for (kind, ready) in [
            (Kind::Http, (5, 10, 1)),
            (Kind::Shell, (9, 30, 2)),
            (Kind::Http, (5, 5, 3)),
            (Kind::Noop, (0, 1, 4)),
        ] {
            join(&mut queues, kind, ready);
        }
        assert_eq!(drain(&mut queues, |_| true), [2, 3, 1, 4]);
        assert!(queues.is_empty() && queues.queues.is_empty());
    }

    #[test]
    fn a_run_that_nobody_takes_holds_up_nobody_else() {
        let mut queues = ReadyQueues::default();
        join(&mut queues, Kind::Shell, (9, 1, 1));
        join(&mut queues, Kind::Http, (0, 2, 2));
        assert_eq!(drain(&mut queues, |class| class.kind == Kind::Http), [2]);
        assert_eq!(queues.len(), 1);
    }

    #[test]
    fn who_leaves_is_gone_and_leaves_twice_in_vain() {
        let mut queues = ReadyQueues::default();
        join(&mut queues, Kind::Shell, (5, 1, 1));
        for _ in 0..2 {
            queues.leave(class(Kind::Shell), 5, Timestamp::from_millis(1), RunId(1));
            assert_eq!(queues.len(), 0);
        }
    }
}
