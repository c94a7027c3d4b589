//! The roster: who works here, what each has in hand, and when we last heard of it.
//!
//! A lease is the worker's, not the attempt's: one sign of life names all it has in hand, and one silence gives
//! them all up. An attempt that a living worker no longer names, a lease after it was given out, never reached it.
//! All times here are elapsed time: a clock that was set makes nobody silent.

use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::ids::{RunId, ShardId, Token, WorkerId};
use rustc_hash::{FxHashMap, FxHashSet};

#[derive(Debug, Default)]
pub struct Roster {
    workers: FxHashMap<WorkerId, Worker>,
}

#[derive(Debug)]
struct Worker {
    /// Zero: it has not joined, or has left; what it has in hand is kept until its lease ends.
    slots: usize,
    /// It fell silent: it gets nothing more until it is heard again.
    silent: bool,
    in_hand: FxHashMap<RunId, Held>,
    heard: Timestamp,
}

/// An attempt that holds a slot of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    pub token: Token,
    /// When it was given out; none: its order still waits for its commit, and cannot have been missed.
    pub given: Option<Timestamp>,
}

impl Worker {
    fn unknown(now: Timestamp) -> Self {
        Worker { slots: 0, silent: false, in_hand: FxHashMap::default(), heard: now }
    }

    fn is_present(&self) -> bool {
        self.slots > 0 && !self.silent
    }

    fn free(&self) -> usize {
        if self.is_present() { self.slots.saturating_sub(self.in_hand.len()) } else { 0 }
    }
}

impl Roster {
    /// A worker joins and says what it has in hand; everything else that was given to it, or to an earlier life of
    /// it, is lost at once.
    pub fn join(
        &mut self,
        worker: &WorkerId,
        slots: usize,
        holding: &[(RunId, Token)],
        now: Timestamp,
    ) -> Vec<(RunId, Token)> {
        let known = self.workers.entry(worker.clone()).or_insert_with(|| Worker::unknown(now));
        (known.slots, known.silent, known.heard) = (slots, false, now);
        let named: FxHashSet<_> = holding.iter().copied().collect();
        let lives = self.workers.iter().filter(|(id, _)| id.name() == worker.name());
        let theirs = lives.flat_map(|(_, known)| known.in_hand.iter().map(|(run, held)| (*run, held.token)));
        sorted(theirs.filter(|attempt| !named.contains(attempt)))
    }

    /// Whether a later life of this worker is here: then nobody will ever report for it.
    pub(crate) fn is_outlived(&self, worker: &WorkerId) -> bool {
        !self.is_present(worker)
            && self.workers.iter().any(|(id, known)| known.is_present() && id.name() == worker.name())
    }

    /// A worker says good-bye, or its connection broke: it gets nothing more, and keeps what it has until its lease ends.
    pub fn leave(&mut self, worker: &WorkerId) {
        if let Some(known) = self.workers.get_mut(worker) {
            known.slots = 0;
            if known.in_hand.is_empty() {
                self.workers.remove(worker);
            }
        }
    }

    /// A sign of life, with all that the worker has in hand. Returns the attempts that never reached it.
    pub fn heard(
        &mut self,
        worker: &WorkerId,
        named: &[(RunId, Token)],
        lease: Duration,
        now: Timestamp,
    ) -> Vec<(RunId, Token)> {
        let Some(known) = self.workers.get_mut(worker) else { return Vec::new() };
        (known.silent, known.heard) = (false, now);
        let named: FxHashSet<_> = named.iter().copied().collect();
        let missing = known.in_hand.iter().filter(|(run, held)| {
            !named.contains(&(**run, held.token)) && held.given.is_some_and(|at| now.since(at) > lease)
        });
        sorted(missing.map(|(run, held)| (*run, held.token)))
    }

    /// The attempts of workers that have been silent for a lease.
    pub fn silent(&mut self, lease: Duration, now: Timestamp) -> Vec<(RunId, Token)> {
        let mut lost = Vec::new();
        self.workers.retain(|_, worker| {
            if worker.silent || now.since(worker.heard) < lease {
                return true;
            }
            worker.silent = true;
            lost.extend(worker.in_hand.drain().map(|(run, held)| (run, held.token)));
            worker.slots > 0
        });
        sorted(lost.into_iter())
    }

    /// When the next worker falls silent, if it is not heard before.
    pub fn next_silence(&self, lease: Duration) -> Option<Timestamp> {
        self.workers.values().filter(|worker| !worker.silent).map(|worker| worker.heard + lease).min()
    }

    /// The worker with the smallest share of its slots in use; ties go by name, so that a history replays the same.
    pub fn least_loaded(&self) -> Option<WorkerId> {
        // The usual case on one machine, without a walk.
        if self.workers.len() == 1 {
            return self.workers.iter().find(|(_, worker)| worker.free() > 0).map(|(id, _)| id.clone());
        }
        self.workers
            .iter()
            .filter(|(_, worker)| worker.free() > 0)
            .min_by(|(a, left), (b, right)| {
                let (l, r) = (left.in_hand.len() * right.slots, right.in_hand.len() * left.slots);
                l.cmp(&r).then_with(|| a.cmp(b))
            })
            .map(|(id, _)| id.clone())
    }

    pub(crate) fn take(&mut self, worker: &WorkerId, run: RunId, token: Token) {
        if let Some(known) = self.workers.get_mut(worker) {
            known.in_hand.insert(run, Held { token, given: None });
        }
    }

    /// The order has left: from now on the worker may be asked about it.
    pub fn give(&mut self, worker: &WorkerId, run: RunId, token: Token, now: Timestamp) {
        let held = self.workers.get_mut(worker).and_then(|known| known.in_hand.get_mut(&run));
        if let Some(held) = held.filter(|held| held.token == token) {
            held.given = Some(now);
        }
    }

    pub(super) fn adopt(&mut self, worker: &WorkerId, run: RunId, token: Token, now: Timestamp) {
        let known = self.workers.entry(worker.clone()).or_insert_with(|| Worker::unknown(now));
        known.in_hand.insert(run, Held { token, given: Some(now) });
    }

    pub(crate) fn give_back(&mut self, worker: &WorkerId, run: RunId) {
        if let Some(known) = self.workers.get_mut(worker) {
            known.in_hand.remove(&run);
            if known.slots == 0 && known.in_hand.is_empty() {
                self.workers.remove(worker);
            }
        }
    }

    /// Slots that are free, of all workers together.
    pub fn free(&self) -> usize {
        self.workers.values().map(Worker::free).sum()
    }

    /// Whether a worker takes orders now.
    pub fn is_present(&self, worker: &WorkerId) -> bool {
        self.workers.get(worker).is_some_and(Worker::is_present)
    }

    pub(super) fn forget(&mut self, shard: ShardId) {
        self.workers.retain(|_, worker| {
            worker.in_hand.retain(|run, _| run.shard() != shard);
            worker.slots > 0 || !worker.in_hand.is_empty()
        });
    }

    /// Every worker that takes orders: its name, its slots, and how many are in use.
    pub fn present(&self) -> Vec<(WorkerId, usize, usize)> {
        let mut list: Vec<_> = self
            .workers
            .iter()
            .filter(|(_, worker)| worker.is_present())
            .map(|(id, worker)| (id.clone(), worker.slots, worker.in_hand.len()))
            .collect();
        list.sort();
        list
    }

    pub fn in_hand(&self) -> usize {
        self.workers.values().map(|worker| worker.in_hand.len()).sum()
    }
}

fn sorted(attempts: impl Iterator<Item = (RunId, Token)>) -> Vec<(RunId, Token)> {
    let mut list: Vec<_> = attempts.collect();
    list.sort_unstable();
    list
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const LEASE: Duration = Duration::from_secs(15);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    fn worker(name: &str) -> WorkerId {
        WorkerId(Arc::from(name))
    }

    #[test]
    fn a_worker_silent_for_its_lease_loses_what_it_has_in_hand() {
        let mut roster = Roster::default();
        roster.join(&worker("a"), 2, &[], at(0));
        roster.take(&worker("a"), RunId(1), Token(1));
        assert!(roster.silent(LEASE, at(14)).is_empty());
        assert_eq!(roster.silent(LEASE, at(15)), [(RunId(1), Token(1))]);
        assert_eq!(roster.least_loaded(), None, "a silent worker gets nothing more");
        roster.heard(&worker("a"), &[], LEASE, at(16));
        assert_eq!(roster.least_loaded(), Some(worker("a")), "until it is heard again");
    }

    #[test]
    fn an_assignment_that_never_arrived_is_noticed_after_a_lease() {
        let mut roster = Roster::default();
        roster.join(&worker("a"), 2, &[], at(0));
        roster.take(&worker("a"), RunId(1), Token(1));
        assert!(
            roster.heard(&worker("a"), &[], LEASE, at(20)).is_empty(),
            "its order may wait for a slow commit"
        );
        roster.give(&worker("a"), RunId(1), Token(1), at(21));
        assert!(roster.heard(&worker("a"), &[], LEASE, at(25)).is_empty(), "it may still be on its way");
        assert_eq!(roster.heard(&worker("a"), &[], LEASE, at(37)), [(RunId(1), Token(1))]);
    }

    #[test]
    fn a_worker_that_comes_back_loses_what_it_does_not_name() {
        let mut roster = Roster::default();
        roster.adopt(&worker("a"), RunId(1), Token(1), at(0));
        roster.adopt(&worker("a"), RunId(2), Token(1), at(0));
        assert_eq!(roster.join(&worker("a"), 2, &[(RunId(2), Token(1))], at(1)), [(RunId(1), Token(1))]);
    }

    #[test]
    fn a_worker_that_starts_again_outlives_what_was_given_to_its_earlier_life() {
        let mut roster = Roster::default();
        let (earlier, later) = (WorkerId::new("a", 1), WorkerId::new("a", 2));
        roster.adopt(&earlier, RunId(1), Token(1), at(0));
        assert_eq!(roster.join(&later, 2, &[], at(1)), [(RunId(1), Token(1))]);
        assert!(roster.is_outlived(&earlier) && !roster.is_outlived(&later));
    }

    #[test]
    fn runs_go_to_the_worker_with_the_most_room_for_its_size() {
        let mut roster = Roster::default();
        roster.join(&worker("big"), 10, &[], at(0));
        roster.join(&worker("small"), 2, &[], at(0));
        roster.take(&worker("big"), RunId(1), Token(1));
        assert_eq!(roster.least_loaded(), Some(worker("small")));
        roster.take(&worker("small"), RunId(2), Token(1));
        assert_eq!(roster.least_loaded(), Some(worker("big")));
    }
}
