//! The roster: the workers, the attempts each holds, the credits it lent to us, and its last heartbeat.
//!
//! A lease belongs to the worker, not to the attempt: one heartbeat names all attempts it holds, and a missed lease
//! loses all of them. An attempt that a live worker does not name, a lease after it was sent, is not with that worker. A
//! worker without attempts need not send heartbeats. All times here are elapsed time, so a change of the wall clock
//! never makes a worker silent.
//!
//! The surprise: free slots are not computed from the attempts held. A worker lends its free slots as credits, an
//! assignment uses one, and the slot comes back only when it is lent again. So an attempt that was given up while its
//! worker still runs it never counts as a free slot.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::attempt::Order;
use punctual_core::ids::{RunId, ShardId, Token, WorkerId};
use punctual_core::run::Lack;
use punctual_core::worker::Announcement;
use rustc_hash::{FxHashMap, FxHashSet};

use super::hand::{Hand, Held};
use super::line::Class;
use super::route;

/// How long a lost worker is remembered, and how many are.
const LOST_KEPT: Duration = Duration::from_secs(3600);
const LOST_MAX: usize = 1000;

#[derive(Debug, Default)]
pub struct Roster {
    workers: FxHashMap<WorkerId, Worker>,
    /// Workers whose connection broke without a good-bye, and when.
    lost: FxHashMap<WorkerId, (Arc<Announcement>, Timestamp)>,
    /// How often a worker came or left.
    changes: u64,
}

#[derive(Debug)]
struct Worker {
    /// `None` means that it has not joined or has left; its attempts are kept until its lease ends.
    announced: Option<Arc<Announcement>>,
    /// It missed its lease: it gets no assignment until its next heartbeat.
    silent: bool,
    in_hand: Hand,
    /// The last heartbeat, or since when one is expected; for a silent worker, when it was last asked for one.
    heard: Timestamp,
    credits: Credits,
    load: Option<Load>,
    /// What the last `Order::Waiting` told it: the highest priority, and about how many runs.
    told: (Option<u8>, u32),
}

/// Totals since the worker joined.
#[derive(Debug, Default)]
struct Credits {
    lent: u64,
    used: u64,
    gave_back: u64,
}

impl Credits {
    fn free(&self) -> usize {
        usize::try_from(self.lent.saturating_sub(self.used + self.gave_back)).unwrap_or(usize::MAX)
    }
}

/// The load of a worker's machine, as last reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    pub cpu_percent: u8,
    pub memory_percent: u8,
}

/// A worker that takes assignments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Present<'a> {
    pub id: &'a WorkerId,
    pub announced: &'a Arc<Announcement>,
    /// How many attempts of this node it holds.
    pub busy: usize,
    /// How many more assignments it takes from this node now.
    pub free: usize,
    pub load: Option<Load>,
}

/// The result of workers missing their lease.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Silence {
    pub lost: Vec<(RunId, Token)>,
    /// The workers to ask for a heartbeat.
    pub ask: Vec<WorkerId>,
}

impl Worker {
    fn unknown(now: Timestamp) -> Self {
        Worker {
            announced: None,
            silent: false,
            in_hand: Hand::default(),
            heard: now,
            credits: Credits::default(),
            load: None,
            told: (None, 0),
        }
    }

    fn is_present(&self) -> bool {
        self.announced.is_some() && !self.silent
    }

    /// Expects a heartbeat from now on, if none was expected before.
    fn owes_a_sign(&mut self, now: Timestamp) {
        // A worker that holds attempts already owes a heartbeat, and a new attempt does not extend its lease.
        if !self.in_hand.has_been_given() {
            self.heard = self.heard.max(now);
        }
    }

    fn falls_silent(&self, lease: Duration) -> Option<Timestamp> {
        (self.silent || self.in_hand.has_been_given()).then(|| self.heard + lease)
    }

    fn free(&self) -> usize {
        if self.is_present() { self.credits.free() } else { 0 }
    }

    /// Releases an attempt. If it was never sent, its credit is free again.
    fn let_go(credits: &mut Credits, held: Held) {
        if held.credit && held.given.is_none() {
            credits.used -= 1;
        }
    }
}

impl Roster {
    /// A worker joins and names the attempts it holds. Returns all other attempts given to it or to an earlier process
    /// of the same name: they are lost. It has lent no credits yet.
    pub fn join(
        &mut self,
        worker: &WorkerId,
        announced: Announcement,
        holding: &[(RunId, Token)],
        now: Timestamp,
    ) -> Vec<(RunId, Token)> {
        let known = self.workers.entry(worker.clone()).or_insert_with(|| Worker::unknown(now));
        (known.announced, known.silent, known.heard) = (Some(Arc::new(announced)), false, now);
        self.changes += 1;
        self.lost.retain(|id, _| id.name() != worker.name());
        (known.credits, known.told) = (Credits::default(), (None, 0));
        known.in_hand.forget_credits();
        let named: FxHashSet<_> = holding.iter().copied().collect();
        let lives = self.workers.iter().filter(|(id, _)| id.name() == worker.name());
        let theirs = lives.flat_map(|(_, known)| known.in_hand.iter().map(|(run, held)| (run, held.token)));
        sorted(theirs.filter(|attempt| !named.contains(attempt)))
    }

    /// Whether a later process of this worker has joined: then no report will come from this one.
    pub(crate) fn is_outlived(&self, worker: &WorkerId) -> bool {
        !self.is_present(worker)
            && self.workers.iter().any(|(id, known)| known.is_present() && id.name() == worker.name())
    }

    /// A worker left or its connection broke: it gets no more assignments, and keeps its attempts until its lease ends.
    pub fn leave(&mut self, worker: &WorkerId) {
        if let Some(known) = self.workers.get_mut(worker) {
            self.changes += 1;
            known.announced = None;
            if known.in_hand.is_empty() {
                self.workers.remove(worker);
            }
        }
    }

    /// The connection of a worker broke. It is listed as lost until a worker of its name joins, for an hour at most.
    pub fn lose(&mut self, worker: &WorkerId, now: Timestamp) {
        if let Some(announced) = self.workers.get(worker).and_then(|known| known.announced.clone()) {
            self.lost.retain(|_, (_, at)| now.since(*at) < LOST_KEPT);
            if self.lost.len() < LOST_MAX {
                self.lost.insert(worker.clone(), (announced, now));
            }
        }
        self.leave(worker);
    }

    /// A worker leaves and will finish nothing. Returns the attempts it held.
    pub fn part(&mut self, worker: &WorkerId) -> Vec<(RunId, Token)> {
        let known = self.workers.get(worker);
        let had = known.into_iter().flat_map(|known| known.in_hand.iter());
        let had = sorted(had.map(|(run, held)| (run, held.token)));
        self.leave(worker);
        had
    }

    /// The total of credits a worker has lent since it joined. A late or repeated report changes nothing.
    pub fn lent(&mut self, worker: &WorkerId, total: u64) {
        if let Some(known) = self.workers.get_mut(worker) {
            known.credits.lent = known.credits.lent.max(total);
        }
    }

    /// Gives unused credits back. The worker gets an answer even if there are none.
    pub fn recall(&mut self, worker: &WorkerId, credits: u32) -> Option<Order> {
        let known = self.workers.get_mut(worker)?;
        known.credits.gave_back += u64::from(credits).min(known.credits.free() as u64);
        Some(Order::GaveBack { total: known.credits.gave_back })
    }

    pub fn loaded(&mut self, worker: &WorkerId, load: Load) {
        if let Some(known) = self.workers.get_mut(worker) {
            known.load = Some(load);
        }
    }

    /// Tells every worker without free credits how many runs wait for it, if that changed.
    pub(super) fn tell_waiting(
        &mut self,
        waits: impl Fn(&WorkerId, &Announcement) -> (Option<u8>, u32),
    ) -> Vec<(WorkerId, Order)> {
        let mut words = Vec::new();
        for (id, known) in &mut self.workers {
            let Some(announced) = known.announced.as_ref().filter(|_| !known.silent) else { continue };
            let (priority, runs) = if known.credits.free() == 0 { waits(id, announced) } else { (None, 0) };
            // Rounded to a power of two: an order for every new run would be too many.
            let about = if runs == 0 { 0 } else { runs.next_power_of_two() };
            if known.told != (priority, about) {
                known.told = (priority, about);
                words.push((id.clone(), Order::Waiting { priority, runs }));
            }
        }
        words.sort_by(|(a, _), (b, _)| a.cmp(b));
        words
    }

    /// Handles a heartbeat, which names all attempts the worker holds. Returns the attempts that it does
    /// not hold although they were sent a lease ago.
    pub fn heard(
        &mut self,
        worker: &WorkerId,
        named: &[(RunId, Token)],
        lease: Duration,
        now: Timestamp,
    ) -> Vec<(RunId, Token)> {
        let Some(known) = self.workers.get_mut(worker) else { return Vec::new() };
        self.changes += u64::from(known.silent);
        (known.silent, known.heard) = (false, now);
        let named: FxHashSet<_> = named.iter().copied().collect();
        // Their credits stay used: a sent order is lost only with its connection, and a new connection counts anew. If
        // the worker had the attempt and settled it with another leader of the shard, it has lent the slot again.
        let missing = known.in_hand.iter().filter(|(run, held)| {
            !named.contains(&(*run, held.token)) && held.given.is_some_and(|at| now.since(at) > lease)
        });
        sorted(missing.map(|(run, held)| (run, held.token)))
    }

    /// Gives up the attempts of workers that missed their lease, and asks these workers for a heartbeat: without
    /// attempts they would not send one.
    pub fn silent(&mut self, lease: Duration, now: Timestamp) -> Silence {
        let (mut lost, mut ask) = (Vec::new(), Vec::new());
        self.workers.retain(|id, worker| {
            if worker.falls_silent(lease).is_none_or(|at| at > now) {
                return true;
            }
            self.changes += u64::from(!worker.silent);
            (worker.silent, worker.heard) = (true, now);
            for (run, held) in worker.in_hand.take() {
                Worker::let_go(&mut worker.credits, held);
                lost.push((run, held.token));
            }
            if worker.announced.is_some() {
                ask.push(id.clone());
            }
            worker.announced.is_some()
        });
        ask.sort();
        Silence { lost: sorted(lost.into_iter()), ask }
    }

    /// When the next worker misses its lease or must be asked again.
    pub fn next_silence(&self, lease: Duration) -> Option<Timestamp> {
        self.workers.values().filter_map(|worker| worker.falls_silent(lease)).min()
    }

    /// Counts up whenever a worker comes or goes.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// Why no present worker fits. `None` means that one fits.
    pub(super) fn lack(&self, class: &Class) -> Option<Lack> {
        let mut nearest = None;
        for Present { id, announced, .. } in self.each_present() {
            let unmet = class.unmet(id, announced)?;
            // Ties go by name, so that a replay is the same.
            if nearest.is_none_or(|(known, name, _)| (unmet, id) < (known, name)) {
                nearest = Some((unmet, id, &**announced));
            }
        }
        Some(class.lack(nearest))
    }

    /// Whether a worker that fits has a free slot.
    pub(super) fn has_free(&self, class: &Class) -> bool {
        self.each_present().any(|worker| worker.free > 0 && class.fits(worker.id, worker.announced))
    }

    /// The names of the workers with a free slot.
    pub(super) fn names_open(&self) -> FxHashSet<&str> {
        self.each_present().filter(|worker| worker.free > 0).map(|worker| worker.id.name()).collect()
    }

    /// The workers that fit, by name.
    pub(super) fn fitting(&self, class: &Class) -> Vec<Present<'_>> {
        let mut list = self.present();
        list.retain(|worker| class.fits(worker.id, worker.announced));
        list
    }

    /// Among the workers that fit and have a free slot, the one with the smallest share of its slots in use.
    pub(super) fn least_loaded(&self, class: &Class) -> Option<WorkerId> {
        let is_open = |worker: &Present<'_>| worker.free > 0 && class.fits(worker.id, worker.announced);
        // The usual case on one machine, without a scan.
        if self.workers.len() == 1 {
            return self.each_present().find(is_open).map(|worker| worker.id.clone());
        }
        let open: Vec<Present<'_>> = self.each_present().filter(is_open).collect();
        route::least_loaded(open.iter()).map(|worker| worker.id.clone())
    }

    /// Gives an attempt to a worker, using a credit.
    pub(crate) fn take(&mut self, worker: &WorkerId, run: RunId, token: Token) {
        if let Some(known) = self.workers.get_mut(worker) {
            known.in_hand.put(run, Held { token, given: None, credit: true });
            known.credits.used += 1;
        }
    }

    /// Offers an attempt again. It uses no credit: the first assignment used it.
    pub(crate) fn take_again(&mut self, worker: &WorkerId, run: RunId, token: Token) {
        if let Some(known) = self.workers.get_mut(worker) {
            known.in_hand.put(run, Held { token, given: None, credit: false });
        }
    }

    /// The order is sent: from now on a heartbeat must name the attempt. Returns whether it uses a credit of the worker's
    /// present connection.
    pub fn give(&mut self, worker: &WorkerId, run: RunId, token: Token, now: Timestamp) -> bool {
        let Some(known) = self.workers.get_mut(worker) else { return false };
        known.owes_a_sign(now);
        known.in_hand.give(run, token, now)
    }

    pub(super) fn adopt(&mut self, worker: &WorkerId, run: RunId, token: Token, now: Timestamp) {
        let known = self.workers.entry(worker.clone()).or_insert_with(|| Worker::unknown(now));
        known.owes_a_sign(now);
        known.in_hand.put(run, Held { token, given: Some(now), credit: false });
    }

    pub(crate) fn give_back(&mut self, worker: &WorkerId, run: RunId) {
        if let Some(known) = self.workers.get_mut(worker) {
            if let Some(held) = known.in_hand.remove(run) {
                Worker::let_go(&mut known.credits, held);
            }
            if known.announced.is_none() && known.in_hand.is_empty() {
                self.workers.remove(worker);
            }
        }
    }

    /// Unused credits of all workers together.
    pub fn free(&self) -> usize {
        self.workers.values().map(Worker::free).sum()
    }

    /// Whether a worker takes assignments now.
    pub fn is_present(&self, worker: &WorkerId) -> bool {
        self.workers.get(worker).is_some_and(Worker::is_present)
    }

    /// The shards of all attempts that workers hold.
    pub fn shards_in_hand(&self) -> FxHashSet<ShardId> {
        let in_hand = self.workers.values().flat_map(|worker| worker.in_hand.iter());
        in_hand.map(|(run, _)| run.shard()).collect()
    }

    pub(super) fn forget(&mut self, shard: ShardId) {
        self.workers.retain(|_, worker| {
            worker.in_hand.retain(|run, held| {
                let stays = run.shard() != shard;
                if !stays {
                    Worker::let_go(&mut worker.credits, held);
                }
                stays
            });
            worker.announced.is_some() || !worker.in_hand.is_empty()
        });
    }

    /// Every worker that takes assignments, by name.
    pub fn present(&self) -> Vec<Present<'_>> {
        let mut list: Vec<_> = self.each_present().collect();
        list.sort_by_key(|worker| worker.id);
        list
    }

    /// Workers that take no assignments because they missed their lease or their connection broke, by name.
    pub fn lost(&self, now: Timestamp) -> Vec<(&WorkerId, &Arc<Announcement>)> {
        let silent = self.workers.iter().filter(|(_, worker)| worker.silent);
        let silent = silent.filter_map(|(id, worker)| Some((id, worker.announced.as_ref()?)));
        let gone = self.lost.iter().filter(|(_, (_, at))| now.since(*at) < LOST_KEPT);
        let mut list: Vec<_> = silent.chain(gone.map(|(id, (announced, _))| (id, announced))).collect();
        list.sort_by_key(|(id, _)| *id);
        list
    }

    /// How many workers take assignments.
    pub fn workers(&self) -> usize {
        self.workers.values().filter(|worker| worker.is_present()).count()
    }

    fn each_present(&self) -> impl Iterator<Item = Present<'_>> {
        self.workers.iter().filter(|(_, worker)| !worker.silent).filter_map(|(id, worker)| {
            let announced = worker.announced.as_ref()?;
            let (busy, free) = (worker.in_hand.len(), worker.free());
            Some(Present { id, announced, busy, free, load: worker.load })
        })
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
    use punctual_core::task::Kind;

    use super::*;

    const LEASE: Duration = Duration::from_secs(15);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    fn worker(name: &str) -> WorkerId {
        WorkerId(Arc::from(name))
    }

    /// A roster that a worker has joined and lent all its slots to.
    fn lent(name: &str, slots: usize) -> Roster {
        let mut roster = Roster::default();
        join_and_lend(&mut roster, name, slots);
        roster
    }

    fn anything() -> Class {
        Class { kind: Kind::Shell, function: None, selector: None, pin: None }
    }

    fn join_and_lend(roster: &mut Roster, name: &str, slots: usize) {
        roster.join(&worker(name), Announcement::of(slots), &[], at(0));
        roster.lent(&worker(name), slots as u64);
    }

    #[test]
    fn a_worker_silent_for_its_lease_loses_what_it_has_in_hand() {
        let mut roster = lent("a", 2);
        roster.take(&worker("a"), RunId(1), Token(1));
        roster.give(&worker("a"), RunId(1), Token(1), at(0));
        assert_eq!(roster.silent(LEASE, at(14)), Silence::default());
        assert_eq!(roster.silent(LEASE, at(15)).lost, [(RunId(1), Token(1))]);
        assert_eq!(roster.least_loaded(&anything()), None, "a silent worker gets nothing more");
        roster.heard(&worker("a"), &[], LEASE, at(16));
        assert_eq!(roster.least_loaded(&anything()), Some(worker("a")), "until it is heard again");
    }

    #[test]
    fn a_worker_is_lost_while_it_is_silent_or_its_connection_is_gone() {
        let mut roster = lent("a@1", 2);
        roster.take(&worker("a@1"), RunId(1), Token(1));
        roster.give(&worker("a@1"), RunId(1), Token(1), at(0));
        let names = |roster: &Roster, now| -> Vec<String> {
            roster.lost(at(now)).into_iter().map(|(id, _)| id.to_string()).collect()
        };
        roster.silent(LEASE, at(15));
        assert_eq!((names(&roster, 15), roster.present().len()), (vec!["a@1".to_owned()], 0));
        roster.heard(&worker("a@1"), &[], LEASE, at(16));
        assert!(names(&roster, 16).is_empty());
        roster.lose(&worker("a@1"), at(20));
        assert_eq!(names(&roster, 20), ["a@1"]);
        assert!(names(&roster, 20 + 3600).is_empty(), "it is forgotten after an hour");
        join_and_lend(&mut roster, "a@2", 2);
        assert!(names(&roster, 20).is_empty(), "its next life is here");
    }

    #[test]
    fn a_worker_with_empty_hands_may_be_silent_for_ever() {
        let mut roster = lent("a", 2);
        assert_eq!((roster.next_silence(LEASE), roster.silent(LEASE, at(1000))), (None, Silence::default()));
        roster.take(&worker("a"), RunId(1), Token(1));
        assert_eq!(
            roster.next_silence(LEASE),
            None,
            "its order waits for a slow commit: it knows of nothing"
        );
        roster.give(&worker("a"), RunId(1), Token(1), at(2000));
        assert_eq!(roster.next_silence(LEASE), Some(at(2015)), "a lease counts from what it was given");
        roster.take(&worker("a"), RunId(2), Token(1));
        roster.give(&worker("a"), RunId(2), Token(1), at(2010));
        assert_eq!(roster.next_silence(LEASE), Some(at(2015)), "and what comes later does not prolong it");
        roster.give_back(&worker("a"), RunId(1));
        roster.give_back(&worker("a"), RunId(2));
        assert_eq!(roster.next_silence(LEASE), None);
    }

    #[test]
    fn a_silent_worker_is_asked_every_lease_until_it_is_heard_or_leaves() {
        let mut roster = lent("a", 2);
        roster.take(&worker("a"), RunId(1), Token(1));
        roster.give(&worker("a"), RunId(1), Token(1), at(0));
        for second in [15, 30, 45] {
            assert_eq!(roster.next_silence(LEASE), Some(at(second)));
            assert_eq!(roster.silent(LEASE, at(second)).ask, [worker("a")]);
        }
        roster.heard(&worker("a"), &[], LEASE, at(46));
        assert_eq!(
            (roster.next_silence(LEASE), roster.free()),
            (None, 1),
            "what it lost it has to lend again"
        );
    }

    #[test]
    fn an_assignment_that_never_arrived_is_noticed_after_a_lease() {
        let mut roster = lent("a", 2);
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
    fn the_credit_of_an_attempt_that_another_leader_settled_is_not_free_again() {
        let mut roster = lent("a", 1);
        roster.take(&worker("a"), RunId(1), Token(1));
        roster.give(&worker("a"), RunId(1), Token(1), at(0));
        roster.heard(&worker("a"), &[(RunId(1), Token(1))], LEASE, at(5));
        assert_eq!(roster.heard(&worker("a"), &[], LEASE, at(16)), [(RunId(1), Token(1))]);
        roster.give_back(&worker("a"), RunId(1));
        assert_eq!(roster.free(), 0, "the worker lends the slot again by itself");
    }

    #[test]
    fn a_worker_that_says_good_bye_finishes_nothing_more() {
        let mut roster = lent("a", 2);
        roster.take(&worker("a"), RunId(1), Token(1));
        assert_eq!(roster.part(&worker("a")), [(RunId(1), Token(1))]);
        assert!(!roster.is_present(&worker("a")));
        roster.give_back(&worker("a"), RunId(1));
        assert_eq!(roster.part(&worker("a")), []);
    }

    #[test]
    fn a_worker_that_comes_back_loses_what_it_does_not_name() {
        let mut roster = Roster::default();
        roster.adopt(&worker("a"), RunId(1), Token(1), at(0));
        roster.adopt(&worker("a"), RunId(2), Token(1), at(0));
        assert_eq!(
            roster.join(&worker("a"), Announcement::of(2), &[(RunId(2), Token(1))], at(1)),
            [(RunId(1), Token(1))]
        );
    }

    #[test]
    fn a_worker_that_starts_again_outlives_what_was_given_to_its_earlier_life() {
        let mut roster = Roster::default();
        let (earlier, later) = (WorkerId::new("a", 1), WorkerId::new("a", 2));
        roster.adopt(&earlier, RunId(1), Token(1), at(0));
        assert_eq!(roster.join(&later, Announcement::of(2), &[], at(1)), [(RunId(1), Token(1))]);
        assert!(roster.is_outlived(&earlier) && !roster.is_outlived(&later));
    }

    #[test]
    fn runs_go_to_the_worker_with_the_most_room_for_its_size() {
        let mut roster = lent("big", 10);
        join_and_lend(&mut roster, "small", 2);
        roster.take(&worker("big"), RunId(1), Token(1));
        assert_eq!(roster.least_loaded(&anything()), Some(worker("small")));
        roster.take(&worker("small"), RunId(2), Token(1));
        assert_eq!(roster.least_loaded(&anything()), Some(worker("big")));
    }
    #[test]
    fn a_slot_comes_back_only_by_being_lent_again() {
        let mut roster = lent("a", 1);
        roster.take(&worker("a"), RunId(1), Token(1));
        roster.give(&worker("a"), RunId(1), Token(1), at(1));
        roster.give_back(&worker("a"), RunId(1));
        assert_eq!((roster.in_hand(), roster.free()), (0, 0), "given up, and its worker may still run it");
        roster.lent(&worker("a"), 2);
        roster.lent(&worker("a"), 2);
        assert_eq!(roster.free(), 1, "told twice, lent once");
    }

    #[test]
    fn an_assignment_that_never_left_has_used_no_credit_up() {
        let mut roster = lent("a", 3);
        for run in 1..=3 {
            roster.take(&worker("a"), RunId(run), Token(1));
        }
        assert_eq!(roster.free(), 0);
        roster.give_back(&worker("a"), RunId(1));
        assert_eq!(roster.free(), 1);
        roster.forget(RunId(2).shard());
        assert_eq!(roster.free(), 3, "the memory of its shard was thrown away before the commit");
        roster.adopt(&worker("a"), RunId(2), Token(1), at(1));
        roster.take_again(&worker("a"), RunId(2), Token(1));
        assert_eq!(roster.free(), 3, "what is offered again uses none");
    }

    #[test]
    fn an_assignment_that_is_sent_after_its_worker_joined_anew_uses_no_credit() {
        let mut roster = lent("a", 2);
        roster.take(&worker("a"), RunId(1), Token(1));
        roster.take(&worker("a"), RunId(2), Token(1));
        assert!(roster.give(&worker("a"), RunId(1), Token(1), at(1)));
        roster.join(&worker("a"), Announcement::of(2), &[], at(2));
        assert!(!roster.give(&worker("a"), RunId(2), Token(1), at(2)));
        roster.lent(&worker("a"), 2);
        assert_eq!(roster.free(), 2);
    }

    #[test]
    fn what_is_recalled_is_given_back_as_far_as_it_is_unused() {
        let mut roster = lent("a", 3);
        roster.take(&worker("a"), RunId(1), Token(1));
        assert_eq!(roster.recall(&worker("a"), 5), Some(Order::GaveBack { total: 2 }));
        assert_eq!(roster.recall(&worker("a"), 1), Some(Order::GaveBack { total: 2 }));
        assert_eq!(roster.free(), 0);
        roster.join(&worker("a"), Announcement::of(3), &[(RunId(1), Token(1))], at(1));
        assert_eq!(roster.recall(&worker("a"), 1), Some(Order::GaveBack { total: 0 }), "it joined anew");
    }

    #[test]
    fn a_worker_is_told_that_somebody_waits_when_it_does_not_know() {
        let mut roster = lent("a", 1);
        assert_eq!(roster.tell_waiting(|_, _| (Some(5), 3)), [], "it has lent us what we need");
        roster.take(&worker("a"), RunId(1), Token(1));
        let mut tell = |priority, runs| {
            let words = roster.tell_waiting(|_, _| (priority, runs)).into_iter();
            words.map(|(_, word)| word).collect::<Vec<_>>()
        };
        assert_eq!(tell(Some(5), 3), [Order::Waiting { priority: Some(5), runs: 3 }]);
        assert_eq!(tell(Some(5), 4), [], "that is about as many");
        assert_eq!(tell(Some(9), 4), [Order::Waiting { priority: Some(9), runs: 4 }]);
        assert_eq!(tell(Some(9), 5), [Order::Waiting { priority: Some(9), runs: 5 }]);
        assert_eq!(tell(None, 0), [Order::Waiting { priority: None, runs: 0 }]);
        assert_eq!(tell(None, 0), []);
    }
}
