//! The queues of ready runs. Priority goes first; within a priority, namespaces and share keys take turns
//! ([`super::turns`]); the runs of one key are ordered by the time they became ready, then by id.
//!
//! Runs with the same requirements on a worker share a queue, so that a run which no worker takes does not block
//! others. There are as many queues as different requirements, not as runs: a million runs of the default route share
//! one.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::ids::{JobId, RunId, ShardId, WorkerId};
use punctual_core::job::Strategy;
use punctual_core::limits::PRIORITY_MAX;
use punctual_core::run::Lack;
use punctual_core::worker::Announcement;
use rustc_hash::FxHashMap;

use super::class::Class;
use super::turns::{Share, Turns};

/// Where a run is in its queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// 0 for the highest priority.
    level: u8,
    share: Share,
    since: Timestamp,
    run: RunId,
}

#[derive(Debug, Default)]
pub(super) struct ReadyQueues {
    queues: BTreeMap<Class, ReadyQueue>,
    /// The turns of each level that has runs.
    turns: BTreeMap<u8, Turns>,
    /// The wishes of runs whose route is more than "the least loaded worker that fits".
    wishes: FxHashMap<RunId, Wish>,
    len: usize,
}

#[derive(Debug, Default)]
struct ReadyQueue {
    /// By level and share, those that wait longest first.
    runs: BTreeMap<u8, BTreeMap<Share, BTreeSet<(Timestamp, RunId)>>>,
    len: usize,
    /// Why no present worker fits, as last told to the runs. `None` means that one fits.
    lack: Option<Lack>,
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
    /// Set when it is put into its queue.
    place: Option<Place>,
    pub(super) pin: Option<Arc<str>>,
}

impl Wish {
    pub(crate) fn new(strategy: Strategy, job: Option<JobId>, key: u64, avoid: Vec<Arc<str>>) -> Self {
        Wish { strategy, job, key, avoid, parent: None, left: None, to: None, place: None, pin: None }
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
    pub(crate) share: Share,
    pub(crate) weight: u32,
    pub(crate) class: Class,
    /// `None` means that the least loaded worker takes it.
    pub(crate) wish: Option<Wish>,
}

/// The run that is served next.
#[derive(Debug)]
pub(super) struct Next {
    pub(super) class: Class,
    place: Place,
}

impl Next {
    pub(super) fn run(&self) -> RunId {
        self.place.run
    }
}

impl Place {
    fn of(ready_run: &ReadyRun) -> Place {
        let ReadyRun { run, priority, since, share, .. } = ready_run;
        Place {
            level: PRIORITY_MAX.saturating_sub(*priority),
            share: share.clone(),
            since: *since,
            run: *run,
        }
    }
}

impl ReadyQueue {
    fn insert(&mut self, place: Place) -> bool {
        let Place { level, share, since, run } = place;
        let runs = self.runs.entry(level).or_default().entry(share).or_default();
        let is_new = runs.insert((since, run));
        self.len += usize::from(is_new);
        is_new
    }

    fn remove(&mut self, place: &Place) -> bool {
        let Some(shares) = self.runs.get_mut(&place.level) else { return false };
        let Some(runs) = shares.get_mut(&place.share) else { return false };
        let was_here = runs.remove(&(place.since, place.run));
        if runs.is_empty() {
            shares.remove(&place.share);
        }
        if shares.is_empty() {
            self.runs.remove(&place.level);
        }
        self.len -= usize::from(was_here);
        was_here
    }

    fn contains(&self, place: &Place) -> bool {
        let runs = self.runs.get(&place.level).and_then(|shares| shares.get(&place.share));
        runs.is_some_and(|runs| runs.contains(&(place.since, place.run)))
    }

    /// The run of this level and share that waits longest.
    fn first(&self, level: u8, share: &Share) -> Option<(Timestamp, RunId)> {
        self.runs.get(&level)?.get(share)?.first().copied()
    }

    fn in_order(&self) -> impl Iterator<Item = RunId> {
        self.runs.values().flat_map(BTreeMap::values).flatten().map(|(_, run)| *run)
    }
}

impl ReadyQueues {
    /// Adds a run. `lack` is asked for a new queue: why no present worker fits it.
    pub(super) fn join(
        &mut self,
        ready_run: ReadyRun,
        lack: impl FnOnce(&Class) -> Option<Lack>,
    ) -> Option<Lack> {
        let place = Place::of(&ready_run);
        let ReadyRun { run, weight, mut class, wish, .. } = ready_run;
        if let Some(mut wish) = wish {
            class.pin.clone_from(&wish.pin);
            wish.place = Some(place.clone());
            self.wishes.insert(run, wish);
        }
        let (level, share) = (place.level, place.share.clone());
        let queue = self.queue(class, lack);
        let lack = queue.lack.clone();
        if queue.insert(place) {
            self.turns.entry(level).or_default().join(&share, weight);
            self.len += 1;
        }
        lack
    }

    fn queue(&mut self, class: Class, lack: impl FnOnce(&Class) -> Option<Lack>) -> &mut ReadyQueue {
        match self.queues.entry(class) {
            Entry::Occupied(queue) => queue.into_mut(),
            Entry::Vacant(queue) => {
                let lack = lack(queue.key());
                queue.insert(ReadyQueue { lack, ..ReadyQueue::default() })
            }
        }
    }

    /// Removes a run that is not served.
    pub(super) fn leave(&mut self, ready_run: ReadyRun) {
        let place = Place::of(&ready_run);
        let mut class = ready_run.class;
        if let Some(wish) = self.wishes.remove(&ready_run.run) {
            class.pin = wish.pin;
        }
        if self.remove(&class, &place) {
            self.turn(place.level, |turns| turns.leave(&place.share));
        }
    }

    fn remove(&mut self, class: &Class, place: &Place) -> bool {
        let Some(queue) = self.queues.get_mut(class) else { return false };
        let was_here = queue.remove(place);
        if queue.len == 0 {
            self.queues.remove(class);
        }
        self.len -= usize::from(was_here);
        was_here
    }

    fn turn(&mut self, level: u8, change: impl FnOnce(&mut Turns)) {
        if let Some(turns) = self.turns.get_mut(&level) {
            change(turns);
            if turns.is_empty() {
                self.turns.remove(&level);
            }
        }
    }

    /// The next run, of a queue that `may` accepts.
    pub(super) fn first(&self, mut may: impl FnMut(&Class) -> bool) -> Option<Next> {
        self.turns.iter().find_map(|(level, turns)| {
            let waiting = self
                .queues
                .iter()
                .filter(|(_, queue)| queue.lack.is_none() && queue.runs.contains_key(level));
            let mut waiting: Vec<(&Class, &ReadyQueue)> = waiting.collect();
            let mut was_asked = false;
            for share in turns.in_order() {
                let first_of = |waiting: &[(&Class, &ReadyQueue)]| {
                    let first = |queue: &ReadyQueue| queue.first(*level, &share);
                    let firsts = waiting.iter().filter_map(|(class, queue)| Some((first(queue)?, *class)));
                    firsts.min().map(|(first, class)| (first, class.clone()))
                };
                let Some(mut next) = first_of(&waiting) else { continue };
                if !was_asked && !may(&next.1) {
                    // Its workers are busy; those of other queues may be free.
                    was_asked = true;
                    waiting.retain(|(class, _)| may(class));
                    match first_of(&waiting) {
                        Some(other) => next = other,
                        None if waiting.is_empty() => return None,
                        None => continue,
                    }
                }
                let ((since, run), class) = next;
                return Some(Next { class, place: Place { level: *level, share, since, run } });
            }
            None
        })
    }

    /// Removes the run that is served now.
    pub(super) fn serve(&mut self, next: Next) {
        let Next { class, place } = next;
        self.wishes.remove(&place.run);
        if self.remove(&class, &place) {
            self.turn(place.level, |turns| turns.serve(&place.share));
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
            let Some(place) = wish.place.clone() else { continue };
            let stands = |class: &&Class| self.queues.get(*class).is_some_and(|queue| queue.contains(&place));
            let Some(old) = classes.iter().filter(|class| class.pin == wish.pin).find(stands) else {
                continue;
            };
            let free = Class { pin: None, ..old.clone() };
            let new = pin(&free, &wish);
            if new != wish.pin && self.remove(old, &place) {
                // A run is pinned to a worker that fits; without a pin none may fit. `fit_again` finds the reason.
                let lack = new.is_none().then_some(Lack::Workers);
                self.queue(Class { pin: new.clone(), ..free }, |_| lack).insert(place);
                self.len += 1;
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
                let limit = if class.pin.is_some() { queue.len } else { limit };
                changed.extend(queue.in_order().take(limit).map(|run| (run, now.clone())));
            }
        }
        changed
    }

    /// Removes the runs of a shard: none is assigned until the shard is led again.
    pub(super) fn forget(&mut self, shard: ShardId) {
        for queue in self.queues.values_mut() {
            queue.runs.retain(|level, shares| {
                shares.retain(|share, runs| {
                    let before = runs.len();
                    runs.retain(|(_, run)| run.shard() != shard);
                    let gone = before - runs.len();
                    queue.len -= gone;
                    self.len -= gone;
                    let turns = self.turns.get_mut(level).into_iter();
                    turns.for_each(|turns| (0..gone).for_each(|_| turns.leave(share)));
                    !runs.is_empty()
                });
                !shares.is_empty()
            });
        }
        self.queues.retain(|_, queue| queue.len > 0);
        self.turns.retain(|_, turns| !turns.is_empty());
        self.wishes.retain(|run, _| run.shard() != shard);
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many runs wait for which a present worker fits.
    pub(super) fn fitting(&self) -> usize {
        self.queues.values().filter(|queue| queue.lack.is_none()).map(|queue| queue.len).sum()
    }

    /// The highest priority among the runs that this worker fits, and the number of these runs.
    pub(super) fn waits_for(&self, worker: &WorkerId, announced: &Announcement) -> (Option<u8>, u32) {
        let queues = self.queues.iter().filter(|(class, _)| class.fits(worker, announced));
        queues.fold((None, 0), |(highest, runs), (_, queue)| {
            let priority = queue.runs.first_key_value().map(|(level, _)| PRIORITY_MAX - level);
            (highest.max(priority), runs + u32::try_from(queue.len).unwrap_or(u32::MAX / 4))
        })
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::task::Kind;

    use super::*;

    fn class(kind: Kind) -> Class {
        Class { kind, function: None, selector: None, pin: None }
    }

    fn ready(kind: Kind, (priority, since, run): (u8, i64, i64), share: &str) -> ReadyRun {
        let (since, run) = (Timestamp::from_millis(since), RunId(run));
        let share = Share { namespace: share.parse().unwrap(), key: None };
        ReadyRun { run, priority, since, share, weight: 1, class: class(kind), wish: None }
    }

    fn join(queues: &mut ReadyQueues, kind: Kind, run: (u8, i64, i64)) {
        queues.join(ready(kind, run, "default"), |_| None);
    }

    fn drain(queues: &mut ReadyQueues, mut may: impl FnMut(&Class) -> bool) -> Vec<i64> {
        let mut order = Vec::new();
        while let Some(next) = queues.first(&mut may) {
            order.push(next.run().0);
            queues.serve(next);
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
        assert!(queues.is_empty() && queues.queues.is_empty() && queues.turns.is_empty());
    }

    #[test]
    fn a_flood_of_one_namespace_does_not_delay_the_others() {
        let mut queues = ReadyQueues::default();
        for run in 0..100 {
            let kind = if run % 2 == 0 { Kind::Shell } else { Kind::Http };
            queues.join(ready(kind, (5, run, run), "flood"), |_| None);
        }
        for run in [200, 201] {
            queues.join(ready(Kind::Shell, (5, run, run), "small"), |_| None);
        }
        assert_eq!(drain(&mut queues, |_| true)[..5], [0, 200, 1, 201, 2]);
    }

    #[test]
    fn a_share_whose_workers_are_busy_leaves_its_turn_to_others() {
        let mut queues = ReadyQueues::default();
        for run in 0..4 {
            queues.join(ready(Kind::Http, (5, run, run), "a"), |_| None);
            queues.join(ready(Kind::Shell, (5, run, 10 + run), "b"), |_| None);
        }
        queues.join(ready(Kind::Shell, (0, 0, 20), "a"), |_| None);
        assert_eq!(drain(&mut queues, |class| class.kind == Kind::Shell), [10, 11, 12, 13, 20]);
        assert_eq!(drain(&mut queues, |_| true), [0, 1, 2, 3]);
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
    fn the_runs_of_a_shard_that_is_forgotten_are_gone() {
        let mut queues = ReadyQueues::default();
        let other = 1 << 12;
        for run in [1, 2, other] {
            join(&mut queues, Kind::Shell, (5, run, run));
        }
        queues.forget(RunId(1).shard());
        assert_eq!((queues.len(), drain(&mut queues, |_| true)), (1, vec![other]));
    }

    #[test]
    fn who_leaves_is_gone_and_leaves_twice_in_vain() {
        let mut queues = ReadyQueues::default();
        join(&mut queues, Kind::Shell, (5, 1, 1));
        for _ in 0..2 {
            queues.leave(ready(Kind::Shell, (5, 1, 1), "default"));
            assert_eq!(queues.len(), 0);
        }
        assert!(queues.turns.is_empty());
    }
}
