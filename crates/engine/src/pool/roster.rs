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

mod credits;
mod stopping;

use std::sync::Arc;
use std::time::Duration;

use punctual_core::attempt::{Order, Report};
use punctual_core::ids::{RunId, ShardId, Token, WorkerId};
use punctual_core::limits::HOLDING_MAX;
use punctual_core::run::Lack;
use punctual_core::time::Elapsed;
use punctual_core::worker::Announcement;
use rustc_hash::{FxHashMap, FxHashSet};

use super::class::Class;
use super::held::{Held, HeldAttempts};
use super::present::{Load, Present};
use super::route;
use credits::Credits;

/// How long a lost worker is remembered, and how many are.
const LOST_KEPT: Duration = Duration::from_secs(3600);
const LOST_MAX: usize = 1000;

#[derive(Debug, Default)]
pub struct Roster {
    workers: FxHashMap<WorkerId, Worker>,
    /// Workers whose connection broke without a good-bye, and when.
    lost: FxHashMap<WorkerId, (Arc<Announcement>, Elapsed)>,
    /// How often a worker came or left.
    changes: u64,
}

#[derive(Debug)]
struct Worker {
    /// `None` means that it has not joined or has left; its attempts are kept until its lease ends.
    announced: Option<Arc<Announcement>>,
    /// It missed its lease: it gets no assignment until its next heartbeat.
    silent: bool,
    /// It has sent a heartbeat since it joined.
    has_beaten: bool,
    held: HeldAttempts,
    /// The last heartbeat, or since when one is expected; for a silent worker, when it was last asked for one.
    heard: Elapsed,
    credits: Credits,
    load: Option<Load>,
    /// Attempts that it was told to stop in vain. It gets no assignment while there are any.
    unstopped: FxHashSet<(RunId, Token)>,
    /// It takes no more attempts, as it says.
    draining: bool,
    /// What the last `Order::Waiting` told it: the highest priority, and about how many runs.
    told: (Option<u8>, u32),
}

/// What follows from a worker's report about itself.
#[derive(Debug, PartialEq)]
pub enum Heard {
    Nothing,
    /// The answer to the worker.
    Order(Order),
    /// A heartbeat. The worker does not have the `lost` attempts, although they were sent to it a lease ago.
    Alive {
        lost: Vec<(RunId, Token)>,
        /// It was silent, or this is its first heartbeat since it joined.
        is_back: bool,
    },
    /// The report cannot be true, for this reason.
    Impossible(String),
}

/// The result of workers missing their lease.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Silence {
    pub lost: Vec<(RunId, Token)>,
    /// The workers to ask for a heartbeat.
    pub ask: Vec<WorkerId>,
}

impl Worker {
    fn unknown(now: Elapsed) -> Self {
        Worker {
            announced: None,
            silent: false,
            has_beaten: false,
            held: HeldAttempts::default(),
            heard: now,
            credits: Credits::default(),
            load: None,
            unstopped: FxHashSet::default(),
            draining: false,
            told: (None, 0),
        }
    }

    /// Whether it takes assignments, if it has a free slot.
    fn is_open(&self) -> bool {
        self.is_present() && !self.draining && self.unstopped.is_empty()
    }

    fn is_present(&self) -> bool {
        self.announced.is_some() && !self.silent
    }

    /// Expects a heartbeat from now on, if none was expected before.
    fn owes_a_sign(&mut self, now: Elapsed) {
        // A worker that holds attempts already owes a heartbeat, and a new attempt does not extend its lease.
        if !self.held.has_been_given() {
            self.heard = self.heard.max(now);
        }
    }

    fn falls_silent(&self, lease: Duration) -> Option<Elapsed> {
        (self.silent || self.held.has_been_given()).then(|| self.heard + lease)
    }

    fn free(&self) -> usize {
        if self.is_open() { self.credits.free() } else { 0 }
    }

    /// Releases an attempt. If it was never sent, its credit is free again.
    fn let_go(credits: &mut Credits, held: Held) {
        if held.credit && held.given.is_none() {
            credits.used -= 1;
        }
    }
}

impl Roster {
    /// A worker joins; it has lent no credits yet.
    pub(super) fn join(
        &mut self,
        worker: &WorkerId,
        announced: Announcement,
        holding: &[(RunId, Token)],
        now: Elapsed,
    ) -> Vec<(RunId, Token)> {
        let known = self.workers.entry(worker.clone()).or_insert_with(|| Worker::unknown(now));
        (known.announced, known.silent, known.heard) = (Some(Arc::new(announced)), false, now);
        known.has_beaten = false;
        self.changes += 1;
        self.lost.retain(|id, _| id.name() != worker.name());
        (known.credits, known.told, known.draining) = (Credits::default(), (None, 0), false);
        known.held.forget_credits();
        let named: FxHashSet<_> = holding.iter().copied().collect();
        known.unstopped.retain(|attempt| named.contains(attempt));
        let lives = self.workers.iter().filter(|(id, _)| id.name() == worker.name());
        let theirs = lives.flat_map(|(_, known)| known.held.iter().map(|(run, held)| (run, held.token)));
        sorted(theirs.filter(|attempt| !named.contains(attempt)))
    }

    /// Whether a later process of this worker has joined: then no report will come from this one.
    pub(crate) fn is_outlived(&self, worker: &WorkerId) -> bool {
        !self.is_present(worker)
            && self.workers.iter().any(|(id, known)| known.is_present() && id.name() == worker.name())
    }

    pub(super) fn is_joining(&mut self, worker: &WorkerId, now: Elapsed) {
        if let Some(known) = self.workers.get_mut(worker) {
            known.heard = known.heard.max(now);
        }
    }

    pub(super) fn leave(&mut self, worker: &WorkerId) {
        if let Some(known) = self.workers.get_mut(worker) {
            self.changes += 1;
            known.announced = None;
            if known.held.is_empty() {
                self.workers.remove(worker);
            }
        }
    }

    pub(super) fn lose(&mut self, worker: &WorkerId, now: Elapsed) {
        if let Some(announced) = self.workers.get(worker).and_then(|known| known.announced.clone()) {
            self.lost.retain(|_, (_, at)| now.since(*at) < LOST_KEPT);
            if self.lost.len() < LOST_MAX {
                self.lost.insert(worker.clone(), (announced, now));
            }
        }
        self.leave(worker);
    }

    /// The attempts that a worker has.
    pub fn attempts_of(&self, worker: &WorkerId) -> Vec<(RunId, Token)> {
        let known = self.workers.get(worker).into_iter();
        sorted(known.flat_map(|known| known.held.iter()).map(|(run, held)| (run, held.token)))
    }

    /// Whether a worker has this attempt.
    pub fn has(&self, worker: &WorkerId, run: RunId, token: Token) -> bool {
        self.workers.get(worker).is_some_and(|known| known.held.token_of(run) == Some(token))
    }

    pub(super) fn hear(
        &mut self,
        worker: &WorkerId,
        report: &Report,
        lease: Duration,
        now: Elapsed,
    ) -> Heard {
        match report {
            Report::Lent { total } => match self.lent(worker, *total) {
                Ok(()) => Heard::Nothing,
                Err(why) => Heard::Impossible(why),
            },
            Report::Recall { credits } => self.recall(worker, *credits).map_or(Heard::Nothing, Heard::Order),
            Report::Load { cpu_percent, memory_percent } => {
                if let Some(known) = self.workers.get_mut(worker) {
                    known.load = Some(Load { cpu_percent: *cpu_percent, memory_percent: *memory_percent });
                }
                Heard::Nothing
            }
            Report::Draining { on } => {
                if let Some(known) = self.workers.get_mut(worker).filter(|known| known.draining != *on) {
                    known.draining = *on;
                    self.changes += 1;
                }
                Heard::Nothing
            }
            Report::Alive { attempts } if attempts.len() > HOLDING_MAX => {
                Heard::Impossible(format!("alive.attempts: at most {HOLDING_MAX}"))
            }
            Report::Alive { attempts } => {
                let is_back = self.workers.get(worker).is_some_and(|known| known.silent || !known.has_beaten);
                Heard::Alive { lost: self.heard(worker, attempts, lease, now), is_back }
            }
            _ => Heard::Nothing,
        }
    }

    /// The total of credits a worker has lent since it joined. A late or repeated report changes nothing. A worker lends
    /// a slot again only after an assignment used it or it was given back, so it never has more free credits than slots.
    pub(super) fn lent(&mut self, worker: &WorkerId, total: u64) -> Result<(), String> {
        let Some(known) = self.workers.get_mut(worker) else { return Ok(()) };
        let Some(announced) = &known.announced else { return Ok(()) };
        let slots = announced.slots;
        if total > u64::from(slots) + known.credits.used + known.credits.gave_back {
            return Err(format!("lent.total: {total} slots of a worker that has {slots}"));
        }
        if total > known.credits.lent {
            known.credits.lent = total;
            // A draining worker lends nothing: what said that it drains was late, or has been taken back since.
            self.changes += u64::from(std::mem::take(&mut known.draining));
        }
        Ok(())
    }

    /// Gives unused credits back. The worker gets an answer even if there are none.
    fn recall(&mut self, worker: &WorkerId, credits: u32) -> Option<Order> {
        let known = self.workers.get_mut(worker)?;
        known.credits.gave_back += u64::from(credits).min(known.credits.free() as u64);
        Some(Order::GaveBack { total: known.credits.gave_back })
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

    /// Handles a heartbeat, which names all attempts the worker has. Returns the attempts that it does
    /// not have although they were sent a lease ago.
    fn heard(
        &mut self,
        worker: &WorkerId,
        named: &[(RunId, Token)],
        lease: Duration,
        now: Elapsed,
    ) -> Vec<(RunId, Token)> {
        let Some(known) = self.workers.get_mut(worker) else { return Vec::new() };
        self.changes += u64::from(known.silent);
        (known.silent, known.has_beaten, known.heard) = (false, true, now);
        let named: FxHashSet<_> = named.iter().copied().collect();
        let unstopped = known.unstopped.len();
        known.unstopped.retain(|attempt| named.contains(attempt));
        self.changes += u64::from(known.unstopped.len() < unstopped);
        // Their credits stay used: a sent order is lost only with its connection, and a new connection counts anew. If
        // the worker had the attempt and settled it with another leader of the shard, it has lent the slot again.
        let missing = known.held.iter().filter(|(run, held)| {
            !named.contains(&(*run, held.token)) && held.given.is_some_and(|at| now.since(at) > lease)
        });
        sorted(missing.map(|(run, held)| (run, held.token)))
    }

    pub(super) fn silence(&mut self, lease: Duration, now: Elapsed) -> Silence {
        let (mut lost, mut ask) = (Vec::new(), Vec::new());
        self.workers.retain(|id, worker| {
            if worker.falls_silent(lease).is_none_or(|at| at > now) {
                return true;
            }
            self.changes += u64::from(!worker.silent);
            (worker.silent, worker.heard) = (true, now);
            for (run, held) in worker.held.take() {
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
    pub fn next_silence(&self, lease: Duration) -> Option<Elapsed> {
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
        list.retain(|worker| worker.is_open && class.fits(worker.id, worker.announced));
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
    pub(super) fn take(&mut self, worker: &WorkerId, run: RunId, token: Token) {
        if let Some(known) = self.workers.get_mut(worker) {
            known.held.put(run, Held { token, given: None, credit: true });
            known.credits.used += 1;
        }
    }

    pub(super) fn offer_again(&mut self, worker: &WorkerId, run: RunId, token: Token) {
        if let Some(known) = self.workers.get_mut(worker) {
            known.held.put(run, Held { token, given: None, credit: false });
        }
    }

    pub(super) fn sent(&mut self, worker: &WorkerId, run: RunId, token: Token, now: Elapsed) -> bool {
        let Some(known) = self.workers.get_mut(worker) else { return false };
        known.owes_a_sign(now);
        known.held.sent(run, token, now)
    }

    pub(super) fn adopt(&mut self, worker: &WorkerId, run: RunId, token: Token, now: Elapsed) {
        let known = self.workers.entry(worker.clone()).or_insert_with(|| Worker::unknown(now));
        // It has a lease to name the attempt to this node, although it may have been silent towards it.
        known.heard = known.heard.max(now);
        known.held.put(run, Held { token, given: Some(now), credit: false });
    }

    pub(super) fn give_back(&mut self, worker: &WorkerId, run: RunId) {
        if let Some(known) = self.workers.get_mut(worker) {
            if let Some(held) = known.held.remove(run) {
                Worker::let_go(&mut known.credits, held);
            }
            if known.announced.is_none() && known.held.is_empty() {
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
    pub fn shards_held(&self) -> FxHashSet<ShardId> {
        let held = self.workers.values().flat_map(|worker| worker.held.iter());
        held.map(|(run, _)| run.shard()).collect()
    }

    pub(super) fn forget(&mut self, shard: ShardId) {
        self.workers.retain(|_, worker| {
            worker.held.retain(|run, held| {
                let stays = run.shard() != shard;
                if !stays {
                    Worker::let_go(&mut worker.credits, held);
                }
                stays
            });
            worker.announced.is_some() || !worker.held.is_empty()
        });
    }

    /// Every worker that takes assignments, by name.
    pub fn present(&self) -> Vec<Present<'_>> {
        let mut list: Vec<_> = self.each_present().collect();
        list.sort_by_key(|worker| worker.id);
        list
    }

    /// Workers that take no assignments because they missed their lease or their connection broke, by name.
    pub fn lost(&self, now: Elapsed) -> Vec<(&WorkerId, &Arc<Announcement>)> {
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
            let (busy, free) = (worker.held.len(), worker.free());
            let (is_open, is_draining) = (worker.is_open(), worker.draining);
            let (load, is_stuck) = (worker.load, !worker.unstopped.is_empty());
            Some(Present { id, announced, busy, free, load, is_open, is_draining, is_stuck })
        })
    }

    pub fn attempts_held(&self) -> usize {
        self.workers.values().map(|worker| worker.held.len()).sum()
    }
}

fn sorted(attempts: impl Iterator<Item = (RunId, Token)>) -> Vec<(RunId, Token)> {
    let mut list: Vec<_> = attempts.collect();
    list.sort_unstable();
    list
}

#[cfg(test)]
mod tests;
