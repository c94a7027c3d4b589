//! What all shards of a node share: the workers, and the queues of ready runs that wait for one.
//!
//! One thread applies all shards to one pool, so slots, priorities and routes are exact across shards. The pool chooses
//! the next run and its worker; the shard of that run makes the assignment.

mod line;
mod hand;
mod roster;
mod route;
mod spread;

use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::attempt::Order;
use punctual_core::ids::{RunId, ShardId, Token, WorkerId};
use punctual_core::job::Strategy;
use punctual_core::run::Lack;
use rustc_hash::FxHashMap;

pub use hand::Held;
pub use line::{Class, Joining, Lines, Wish};
pub use roster::{Load, Present, Roster, Silence};
use route::{Choice, Memories};
pub use spread::Spread;

/// How many runs of one queue are told at most when the reason why no worker fits them changes. Later ones are told
/// when they reach the front: a reason on a million runs would not be read.
const NOTED_MAX: usize = 1024;

#[derive(Debug, Default)]
pub struct Pool {
    /// The name of the node. `None` means that there is no cluster.
    pub node: Option<Arc<str>>,
    pub line: Lines,
    pub roster: Roster,
    memories: Memories,
    pub spread: Spread,
    /// The roster's change counter when the queues were last checked.
    seen: u64,
    /// Live runs in the memory of all shards.
    pub live: usize,
    /// Reports with an outdated token.
    pub stale_reports: u64,
    pub messages: MessageCounts,
    /// Attempts whose message is in a queue, by shard.
    in_queues: FxHashMap<ShardId, usize>,
}

/// Totals of messages so far, over all shards.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MessageCounts {
    pub added: u64,
    pub taken: u64,
    pub acked: u64,
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

    /// Puts a run into its queue of waiting runs. Returns why no present worker fits it; `None` means that one fits.
    pub fn join_line(&mut self, mut joining: Joining) -> Option<Lack> {
        if let Some(wish) = joining.wish.as_mut().filter(|wish| wish.strategy == Strategy::Sticky) {
            wish.pin = pin(&self.roster, &joining.class, wish);
        }
        let roster = &self.roster;
        self.line.join(joining, |class| roster.lack(class))
    }

    pub fn leave_line(&mut self, class: Class, priority: u8, since: Timestamp, run: RunId) {
        self.line.leave(class, priority, since, run);
    }

    /// Checks again which runs have a worker that fits, after workers came or left. Returns the runs whose reason
    /// changed; `None` means that a worker fits now.
    pub fn notice(&mut self) -> Vec<(RunId, Option<Lack>)> {
        if self.seen == self.roster.changes() {
            return Vec::new();
        }
        self.seen = self.roster.changes();
        let roster = &self.roster;
        self.line.pin_again(|class, wish| pin(roster, class, wish));
        self.line.fit_again(|class| roster.lack(class), NOTED_MAX)
    }

    /// The next run to assign and its worker. `None` means that no run waits, that no worker has a free slot for the
    /// waiting ones, or that the shard of the first run has no room now.
    pub fn next_match(&mut self, has_room: impl Fn(ShardId) -> bool) -> Option<Match> {
        if self.line.is_empty() {
            return None;
        }
        let roster = &self.roster;
        let mut open = None;
        let (class, run) = self.line.first(|class| match &class.pin {
            // Looked up in one set: a broadcast makes as many queues as there are workers.
            Some(pin) => {
                open.get_or_insert_with(|| roster.names_open()).contains(&**pin) && roster.has_free(class)
            }
            None => roster.has_free(class),
        })?;
        if !has_room(run.shard()) {
            return None;
        }
        let Choice { worker, passed_over } = match self.line.wish(run) {
            None => Choice { worker: roster.least_loaded(class)?, passed_over: false },
            Some(wish) => {
                let mut fit = roster.fitting(class);
                // A retry that avoids workers it failed on needs the full choice.
                if let Some(parent) = wish.parent.filter(|_| wish.avoid.is_empty()) {
                    self.spread.thin_out(parent, &mut fit);
                }
                route::choose(wish.strategy, run, wish, &fit, self.memories.of(wish.job))?
            }
        };
        let class = class.clone();
        self.line.pop_first(&class);
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
        !self.line.is_empty() && self.line.fitting() > self.roster.free()
    }

    /// Orders that tell workers how many runs wait here for their slots.
    pub fn tell_waiting(&mut self) -> Vec<(WorkerId, Order)> {
        let line = &self.line;
        self.roster.tell_waiting(|worker, announced| line.waits_for(worker, announced))
    }

    /// Drops everything of a shard whose memory is discarded.
    pub fn forget(&mut self, shard: ShardId) {
        self.line.forget(shard);
        self.roster.forget(shard);
        self.memories.forget(shard);
        self.spread.forget(shard);
        self.in_queues.remove(&shard);
    }

    /// Counts an attempt of this shard whose message went into a queue.
    pub(crate) fn sent(&mut self, shard: ShardId) {
        *self.in_queues.entry(shard).or_default() += 1;
    }

    /// Reverses `sent` when the message has ended.
    pub(crate) fn came_back(&mut self, shard: ShardId) {
        if let Some(count) = self.in_queues.get_mut(&shard) {
            *count = count.saturating_sub(1);
        }
    }

    /// Attempts that are running: on workers, and as messages in queues.
    pub fn running(&self) -> usize {
        self.roster.in_hand() + self.in_queues()
    }

    /// Attempts whose message is in a queue: they need no slot and may stay for days.
    pub fn in_queues(&self) -> usize {
        self.in_queues.values().sum()
    }

    /// Counts an attempt found running at load as held by its worker, which may not have joined yet.
    pub fn adopt(&mut self, worker: &WorkerId, run: RunId, token: Token, elapsed: Timestamp) {
        self.roster.adopt(worker, run, token, elapsed);
    }
}

/// The worker of a sticky run, among those that fit.
fn pin(roster: &Roster, class: &Class, wish: &Wish) -> Option<Arc<str>> {
    let fit = roster.fitting(class);
    route::belongs(wish.key, fit.iter()).map(|worker| Arc::from(worker.id.name()))
}

#[cfg(test)]
mod tests {
    use punctual_core::task::Kind;
    use punctual_core::worker::Announcement;

    use super::*;

    fn joining(run: i64, kind: Kind) -> Joining {
        let class = Class { kind, function: None, selector: None, pin: None };
        Joining { run: RunId(run), priority: 5, since: Timestamp::from_millis(run), class, wish: None }
    }

    fn pool() -> Pool {
        let mut pool = Pool::default();
        let (worker, now) = (WorkerId::new("w", 1), Timestamp::from_millis(0));
        pool.roster.join(&worker, Announcement::of(2), &[], now);
        pool.roster.lent(&worker, 2);
        pool
    }

    #[test]
    fn a_run_that_was_matched_is_out_of_the_line_whatever_comes_of_it() {
        let mut pool = pool();
        assert_eq!(pool.join_line(joining(1, Kind::Noop)), None);
        assert_eq!(pool.next_match(|_| true).map(|given| given.run), Some(RunId(1)));
        assert_eq!((pool.next_match(|_| true), pool.line.len()), (None, 0));
    }

    #[test]
    fn nothing_is_matched_while_the_shard_of_the_first_has_no_room() {
        let mut pool = pool();
        pool.join_line(joining(1, Kind::Noop));
        assert_eq!(pool.next_match(|_| false), None);
        assert_eq!(pool.line.len(), 1);
    }

    #[test]
    fn runs_that_no_worker_fits_do_not_make_a_node_behind() {
        let mut pool = Pool::default();
        let (worker, now) = (WorkerId::new("w", 1), Timestamp::from_millis(0));
        let kinds = [Kind::Http].into_iter().collect();
        pool.roster.join(&worker, Announcement { kinds, ..Announcement::of(2) }, &[], now);
        assert_eq!(pool.join_line(joining(1, Kind::Shell)), Some(Lack::Kind("shell".into())));
        assert!(!pool.is_behind(), "no end of an attempt would help");
        assert_eq!(pool.join_line(joining(2, Kind::Http)), None);
        assert!(pool.is_behind());
        assert_eq!(pool.tell_waiting(), [(worker, Order::Waiting { priority: Some(5), runs: 1 })]);
    }
}
