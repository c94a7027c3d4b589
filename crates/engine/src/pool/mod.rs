//! What all shards of a node share: the workers, and the queues of ready runs that wait for one.
//!
//! One thread applies all shards to one pool, so slots, priorities and routes are exact across shards. The pool chooses
//! the next run and its worker; the shard of that run makes the assignment.

mod by_namespace;
mod class;
mod ready;
mod held;
mod present;
mod roster;
mod route;
mod children;
mod turns;

use std::sync::Arc;
use std::time::Duration;

use punctual_core::attempt::{Order, Report};
use punctual_core::ids::{RunId, ShardId, Token, WorkerId};
use punctual_core::job::{Invalid, Strategy};
use punctual_core::name::{Name, Namespace};
use punctual_core::run::{Assignee, Lack};
use punctual_core::time::Elapsed;
use punctual_core::worker::Announcement;
use rustc_hash::FxHashMap;

use by_namespace::CountByNamespace;
use children::ChildrenByWorker;
pub(crate) use class::Class;
pub use present::{Load, Present};
use ready::ReadyQueues;
pub(crate) use ready::{ReadyRun, Wish};
pub use roster::{Heard, Roster, Silence};
use route::{Choice, Memories};
pub(crate) use turns::Share;

/// How many runs of one queue are told at most when the reason why no worker fits them changes. Later ones are told
/// when they reach the front: a reason on a million runs would not be read.
const NOTED_MAX: usize = 1024;

#[derive(Debug, Default)]
pub struct Pool {
    /// The name of the node. `None` means that there is no cluster.
    node: Option<Arc<str>>,
    ready: ReadyQueues,
    roster: Roster,
    memories: Memories,
    children: ChildrenByWorker,
    approvals: CountByNamespace,
    locks: CountByNamespace,
    incidents: CountByNamespace,
    /// The channels of alerts that name none.
    channels: Vec<Name>,
    /// The roster's change counter when the queues were last checked.
    seen: u64,
    /// Live runs in the memory of all shards.
    live: usize,
    counts: Counts,
    /// Attempts whose message is in a queue, by shard.
    in_queues: FxHashMap<ShardId, usize>,
}

/// Totals so far, over all shards.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reports with an outdated token.
    pub stale_reports: u64,
    /// Reports of progress that came from workers.
    pub progress: ProgressCounts,
    pub messages: MessageCounts,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProgressCounts {
    pub accepted: u64,
    /// Ignored, because a newer report came before.
    pub late: u64,
    /// Their attempt is not the running one.
    pub outdated: u64,
    pub invalid: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MessageCounts {
    pub added: u64,
    pub taken: u64,
    pub acked: u64,
    /// Their time to live was over.
    pub expired: u64,
    /// Moved to a dead-letter queue.
    pub dead: u64,
}

/// A ready run and the worker chosen for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match {
    pub run: RunId,
    pub worker: WorkerId,
    /// The worker preferred by its route had no free slot.
    pub passed_over: bool,
}

impl Pool {
    /// The pool of a node. `None` means that there is no cluster.
    pub fn of(node: Option<Arc<str>>) -> Pool {
        Pool { node, ..Pool::default() }
    }

    pub(crate) fn node(&self) -> Option<&Arc<str>> {
        self.node.as_ref()
    }

    /// The workers, and the attempts each has.
    pub fn roster(&self) -> &Roster {
        &self.roster
    }

    /// A worker joins and names the attempts it has. Returns all other attempts given to it or to an earlier process of
    /// the same name: they are lost.
    pub fn join(
        &mut self,
        worker: &WorkerId,
        announced: Announcement,
        holding: &[(RunId, Token)],
        elapsed: Elapsed,
    ) -> Vec<(RunId, Token)> {
        self.roster.join(worker, announced, holding, elapsed)
    }

    /// A worker gets no more assignments. It keeps its attempts until its lease ends.
    pub fn leave(&mut self, worker: &WorkerId) {
        self.roster.leave(worker);
    }

    /// A worker that waits to be admitted is alive: its attempts are not lost meanwhile.
    pub fn is_joining(&mut self, worker: &WorkerId, elapsed: Elapsed) {
        self.roster.is_joining(worker, elapsed);
    }

    /// The connection of a worker broke. It is listed as lost until a worker of its name joins, for an hour at most.
    pub fn lose(&mut self, worker: &WorkerId, elapsed: Elapsed) {
        self.roster.lose(worker, elapsed);
    }

    /// Handles a report of a worker about itself.
    pub fn hear(&mut self, worker: &WorkerId, report: &Report, lease: Duration, elapsed: Elapsed) -> Heard {
        self.roster.hear(worker, report, lease, elapsed)
    }

    /// Gives up the attempts of workers that missed their lease, and asks these workers for a heartbeat: without
    /// attempts they would not send one.
    pub fn silence(&mut self, lease: Duration, elapsed: Elapsed) -> Silence {
        self.roster.silence(lease, elapsed)
    }

    /// The order of an attempt is sent: from now on a heartbeat must name the attempt. Returns whether it uses a credit
    /// of the worker's present connection.
    pub fn sent(&mut self, worker: &WorkerId, run: RunId, token: Token, elapsed: Elapsed) -> bool {
        self.roster.sent(worker, run, token, elapsed)
    }

    /// Offers an attempt to its worker again. It uses no credit: the first assignment used it.
    pub(crate) fn offer_again(&mut self, worker: &WorkerId, run: RunId, token: Token) {
        self.roster.offer_again(worker, run, token);
    }

    /// The worker that a user names as the next one of a run.
    pub(crate) fn target(&self, name: &str, class: &Class) -> Result<Arc<str>, Invalid> {
        self.roster.target(name, class).map_err(|why| Invalid::new("worker", why))
    }

    /// A worker does not stop an attempt: it gets no more work until it says that the attempt has ended.
    pub fn distrust(&mut self, worker: &WorkerId, run: RunId, token: Token) {
        self.roster.distrust(worker, run, token);
    }

    /// A worker says that an attempt has ended.
    pub(crate) fn attempt_ended(&mut self, worker: &WorkerId, run: RunId, token: Token) {
        self.roster.attempt_ended(worker, run, token);
    }

    pub fn counts(&self) -> Counts {
        self.counts
    }

    pub(crate) fn counts_mut(&mut self) -> &mut Counts {
        &mut self.counts
    }

    /// Live runs in the memory of all shards.
    pub fn live_runs(&self) -> usize {
        self.live
    }

    pub(crate) fn run_came(&mut self) {
        self.live += 1;
    }

    pub(crate) fn run_left(&mut self) {
        self.live -= 1;
    }

    /// How many approvals wait in a namespace, in all shards.
    pub fn approvals(&self, namespace: &Namespace) -> usize {
        self.approvals.of(namespace)
    }

    pub(crate) fn approval_began(&mut self, namespace: &Namespace, shard: ShardId) {
        self.approvals.began(namespace, shard);
    }

    /// Sets the channels of alerts that name none.
    pub fn set_channels(&mut self, channels: Vec<Name>) {
        self.channels = channels;
    }

    pub(crate) fn channels(&self) -> &[Name] {
        &self.channels
    }

    /// How many incidents are open in a namespace, in all shards.
    pub fn incidents(&self, namespace: &Namespace) -> usize {
        self.incidents.of(namespace)
    }

    pub(crate) fn incident_opened(&mut self, namespace: &Namespace, shard: ShardId) {
        self.incidents.began(namespace, shard);
    }

    pub(crate) fn incident_ended(&mut self, namespace: &Namespace, shard: ShardId) {
        self.incidents.ended(namespace, shard);
    }

    pub(crate) fn approval_ended(&mut self, namespace: &Namespace, shard: ShardId) {
        self.approvals.ended(namespace, shard);
    }

    /// How many locks are held in a namespace, in all shards.
    pub(crate) fn locks(&self, namespace: &Namespace) -> usize {
        self.locks.of(namespace)
    }

    pub(crate) fn lock_began(&mut self, namespace: &Namespace, shard: ShardId) {
        self.locks.began(namespace, shard);
    }

    pub(crate) fn lock_ended(&mut self, namespace: &Namespace, shard: ShardId) {
        self.locks.ended(namespace, shard);
    }

    /// Runs that wait for a worker.
    pub fn ready_runs(&self) -> usize {
        self.ready.len()
    }

    /// Puts a run into its queue of waiting runs. Returns why no present worker fits it; `None` means that one fits.
    pub(crate) fn enqueue(&mut self, mut ready_run: ReadyRun) -> Option<Lack> {
        if let Some(wish) = ready_run.wish.as_mut().filter(|wish| wish.has_pin()) {
            wish.pin = pin(&self.roster, &ready_run.class, wish);
        }
        let roster = &self.roster;
        self.ready.join(ready_run, |class| roster.lack(class))
    }

    pub(crate) fn dequeue(&mut self, ready_run: ReadyRun) {
        self.ready.leave(ready_run);
    }

    /// Checks again which runs have a worker that fits, after workers came or left. Returns the runs whose reason
    /// changed; `None` means that a worker fits now.
    pub fn notice(&mut self) -> Vec<(RunId, Option<Lack>)> {
        if self.seen == self.roster.changes() {
            return Vec::new();
        }
        self.seen = self.roster.changes();
        let roster = &self.roster;
        self.ready.pin_again(|class, wish| pin(roster, class, wish));
        self.ready.fit_again(|class| roster.lack(class), NOTED_MAX)
    }

    /// The next run to assign and its worker. `None` means that no run waits, that no worker has a free slot for the
    /// waiting ones, or that the shard of the first run has no room now.
    pub fn next_match(&mut self, has_room: impl Fn(ShardId) -> bool) -> Option<Match> {
        if self.ready.is_empty() {
            return None;
        }
        let roster = &self.roster;
        let mut open = None;
        let next = self.ready.first(|class| match &class.pin {
            // Looked up in one set: a broadcast makes as many queues as there are workers.
            Some(pin) => {
                open.get_or_insert_with(|| roster.names_open()).contains(&**pin) && roster.has_free(class)
            }
            None => roster.has_free(class),
        })?;
        let (class, run) = (&next.class, next.run());
        if !has_room(run.shard()) {
            return None;
        }
        let Choice { worker, passed_over } = match self.ready.wish(run) {
            None => Choice { worker: roster.least_loaded(class)?, passed_over: false },
            Some(wish) => {
                let mut fit = roster.fitting(class);
                if let Some(left) = &wish.left {
                    keep_others(left, &mut fit, |worker| worker.free > 0);
                }
                // A retry that avoids workers it failed on needs the full choice.
                if let Some(parent) = wish.parent.filter(|_| wish.avoid.is_empty()) {
                    self.children.keep_fewest(parent, &mut fit);
                }
                route::choose(wish.strategy, run, wish, &fit, self.memories.of(wish.job))?
            }
        };
        self.ready.serve(next);
        Some(Match { run, worker, passed_over })
    }

    /// The names of the workers that fit.
    pub(crate) fn names_fitting(&self, class: &Class) -> Vec<Arc<str>> {
        let mut names: Vec<Arc<str>> =
            self.roster.fitting(class).iter().map(|worker| Arc::from(worker.id.name())).collect();
        names.dedup();
        names
    }

    /// Whether more runs wait than slots are free.
    pub fn is_behind(&self) -> bool {
        !self.ready.is_empty() && self.ready.fitting() > self.roster.free()
    }

    /// Orders that tell workers how many runs wait here for their slots.
    pub fn tell_waiting(&mut self) -> Vec<(WorkerId, Order)> {
        let ready = &self.ready;
        self.roster.tell_waiting(|worker, announced| ready.waits_for(worker, announced))
    }

    /// No run of this shard is assigned until it is led again.
    pub fn forget_ready(&mut self, shard: ShardId) {
        self.ready.forget(shard);
    }

    /// The memory of a shard with this many live runs is discarded.
    pub fn unload(&mut self, shard: ShardId, live_runs: usize) {
        self.live -= live_runs;
        self.approvals.forget(shard);
        self.locks.forget(shard);
        self.incidents.forget(shard);
        self.forget_ready(shard);
    }

    /// Drops everything of a shard whose memory is discarded.
    pub fn forget(&mut self, shard: ShardId) {
        self.ready.forget(shard);
        self.roster.forget(shard);
        self.memories.forget(shard);
        self.children.forget(shard);
        self.approvals.forget(shard);
        self.locks.forget(shard);
        self.incidents.forget(shard);
        self.in_queues.remove(&shard);
    }

    /// Gives an attempt to a worker, using a credit, or counts one whose message goes into a queue.
    pub(crate) fn take(&mut self, to: &Assignee, (run, token): (RunId, Token), parent: Option<RunId>) {
        if let Some(worker) = self.count(to, run, parent) {
            self.roster.take(worker, run, token);
        }
    }

    /// Like `take`, for an attempt found running at load. Its worker may not have joined yet.
    pub(crate) fn adopt(
        &mut self,
        of: &Assignee,
        (run, token): (RunId, Token),
        parent: Option<RunId>,
        elapsed: Elapsed,
    ) {
        if let Some(worker) = self.count(of, run, parent) {
            self.roster.adopt(worker, run, token, elapsed);
        }
    }

    /// Counts an attempt in its queue or among those of its parent. Returns its worker; `None` means it is in a queue.
    fn count<'a>(&mut self, of: &'a Assignee, run: RunId, parent: Option<RunId>) -> Option<&'a WorkerId> {
        let Some(worker) = of.worker() else {
            *self.in_queues.entry(run.shard()).or_default() += 1;
            return None;
        };
        if let Some(parent) = parent {
            self.children.assigned(parent, run, worker);
        }
        Some(worker)
    }

    /// The attempt of a run has ended: reverses `take` and `adopt`.
    pub(crate) fn give_back(&mut self, of: &Assignee, run: RunId, parent: Option<RunId>) {
        match of {
            Assignee::Worker(worker) => self.roster.give_back(worker, run),
            Assignee::Queue(_) | Assignee::Job(_) | Assignee::Ping(_) => {
                if let Some(count) = self.in_queues.get_mut(&run.shard()) {
                    *count = count.saturating_sub(1);
                }
            }
        }
        if let Some(parent) = parent {
            self.children.ended(parent, run);
        }
    }

    /// Attempts that are running: on workers, and as messages in queues.
    pub fn running(&self) -> usize {
        self.roster.attempts_held() + self.in_queues()
    }

    /// Attempts whose message is in a queue: they need no slot and may stay for days.
    pub fn in_queues(&self) -> usize {
        self.in_queues.values().sum()
    }
}

/// The worker that a run was moved to or, of a sticky run, that its key belongs to, among those that fit.
fn pin(roster: &Roster, class: &Class, wish: &Wish) -> Option<Arc<str>> {
    let mut fit = roster.fitting(class);
    if let Some(to) = wish.to.as_ref().filter(|to| fit.iter().any(|worker| *worker.id.name() == ***to)) {
        return Some(Arc::clone(to));
    }
    if wish.strategy != Strategy::Sticky {
        return None;
    }
    if let Some(left) = &wish.left {
        keep_others(left, &mut fit, |_| true);
    }
    route::belongs(wish.key, fit.iter()).map(|worker| Arc::from(worker.id.name()))
}

/// Removes the worker that a moved run has left, if another worker can take the run.
fn keep_others(left: &str, fit: &mut Vec<Present<'_>>, can_take: impl Fn(&Present<'_>) -> bool) {
    let is_other = |worker: &Present<'_>| worker.id.name() != left;
    if fit.iter().any(|worker| is_other(worker) && can_take(worker)) {
        fit.retain(is_other);
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::Timestamp;
    use punctual_core::task::Kind;

    use super::*;

    fn ready_run(run: i64, kind: Kind) -> ReadyRun {
        let class = Class { kind, function: None, selector: None, pin: None };
        let (since, share) =
            (Timestamp::from_millis(run), Share { namespace: Namespace::default(), key: None });
        ReadyRun { run: RunId(run), priority: 5, since, share, weight: 1, class, wish: None }
    }

    fn pool() -> Pool {
        let mut pool = Pool::default();
        let (worker, now) = (WorkerId::new("w", 1), Elapsed::default());
        pool.roster.join(&worker, Announcement::of(2), &[], now);
        pool.roster.lent(&worker, 2).unwrap();
        pool
    }

    #[test]
    fn a_matched_run_leaves_the_ready_queue() {
        let mut pool = pool();
        assert_eq!(pool.enqueue(ready_run(1, Kind::Noop)), None);
        assert_eq!(pool.next_match(|_| true).map(|given| given.run), Some(RunId(1)));
        assert_eq!((pool.next_match(|_| true), pool.ready.len()), (None, 0));
    }

    #[test]
    fn nothing_is_matched_while_the_shard_of_the_first_has_no_room() {
        let mut pool = pool();
        pool.enqueue(ready_run(1, Kind::Noop));
        assert_eq!(pool.next_match(|_| false), None);
        assert_eq!(pool.ready.len(), 1);
    }

    #[test]
    fn runs_that_no_worker_fits_do_not_make_a_node_behind() {
        let mut pool = Pool::default();
        let (worker, now) = (WorkerId::new("w", 1), Elapsed::default());
        let kinds = [Kind::Http].into_iter().collect();
        pool.roster.join(&worker, Announcement { kinds, ..Announcement::of(2) }, &[], now);
        assert_eq!(pool.enqueue(ready_run(1, Kind::Shell)), Some(Lack::Kind("shell".into())));
        assert!(!pool.is_behind(), "no end of an attempt would help");
        assert_eq!(pool.enqueue(ready_run(2, Kind::Http)), None);
        assert!(pool.is_behind());
        assert_eq!(pool.tell_waiting(), [(worker, Order::Waiting { priority: Some(5), runs: 1 })]);
    }
}
