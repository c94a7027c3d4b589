//! Injects faults into nodes, workers, the store and the network; each kind has its own interval.

use std::time::Duration;

use punctual_core::ids::ShardId;
use punctual_node::Driver;
use punctual_store::{Claim, PrunePolicy, Sessions, Shards, Upkeep};

use super::events::{Fault, Happening, Told};
use super::node::{Node, SHARD_LEASE};
use super::{World, at_once, millis};

/// How a node departs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Departure {
    /// Its process dies, and its address refuses connections.
    Killed,
    /// Its machine is gone, and its address does not answer.
    Vanished,
    /// Its process is paused for longer than its lease, then continues.
    Stopped,
    /// It hands its shards over and stops.
    Leaves,
}

impl World {
    fn gap(&self, fault: Fault) -> u64 {
        let weather = &self.weather;
        match fault {
            Fault::Crash => weather.crash_gap,
            Fault::Pause => weather.pause_gap,
            Fault::Leave => weather.leave_gap,
            Fault::StepClock => weather.step_gap,
            Fault::StealShard => weather.steal_gap,
            Fault::DeleteSessions => weather.delete_sessions_gap,
            Fault::Prune => weather.prune_gap,
            Fault::CutLink => weather.cut_gap,
            Fault::CutStore => weather.store_cut_gap,
            Fault::Outage => weather.outage_gap,
            Fault::CutPeers => weather.peer_cut_gap,
            Fault::HurtWorker => weather.worker_gap,
        }
    }

    /// Starts the commands of users and the faults.
    pub(crate) fn begin_storm(&mut self) {
        use Fault::{
            Crash, CutLink, CutPeers, CutStore, DeleteSessions, HurtWorker, Leave, Outage, Pause, Prune,
            StealShard, StepClock,
        };
        self.stormy = true;
        for _ in 0..self.weather.names.min(16) {
            let delay = self.dice.below(50);
            self.later(delay, Happening::Ask);
        }
        self.begin_traffic();
        self.begin_locks();
        self.later(2_000, Happening::Hold);
        for fault in [
            Crash,
            StepClock,
            StealShard,
            Prune,
            CutLink,
            Pause,
            Leave,
            DeleteSessions,
            CutStore,
            CutPeers,
            HurtWorker,
            Outage,
        ] {
            if self.gap(fault) > 0 {
                let delay = 2_000 + self.dice.below(self.gap(fault));
                self.later(delay, Happening::Fault(fault));
            }
        }
    }

    pub(super) fn inject(&mut self, fault: Fault) {
        if !self.stormy {
            return;
        }
        let least = match fault {
            Fault::Crash => 500,
            Fault::Prune => 1_000,
            Fault::CutLink => 3_000,
            _ => 5_000,
        };
        let next = least + self.dice.below(self.gap(fault));
        self.later(next, Happening::Fault(fault));
        match fault {
            Fault::Crash => self.maybe_crash(),
            Fault::Pause => self.maybe_pause(),
            Fault::Leave => self.maybe_leave(),
            Fault::StepClock => self.step_clock(),
            Fault::StealShard => self.steal_shard(),
            Fault::DeleteSessions => self.delete_sessions(),
            Fault::Prune => self.prune(),
            Fault::CutLink => self.cut_link(),
            Fault::CutStore => self.cut_store(),
            Fault::Outage => self.lose_store(),
            Fault::CutPeers => self.cut_peers(),
            Fault::HurtWorker => self.hurt_worker(),
        }
    }

    /// A random running node that is not stopping.
    fn some_node(&mut self) -> Option<usize> {
        let is_there = |node: &&Node| node.driver.is_some() && node.stopping_until.is_none();
        let there: Vec<usize> = self.nodes.iter().filter(is_there).map(|node| node.index).collect();
        self.dice.pick(&there).copied()
    }

    fn maybe_crash(&mut self) {
        let Some(index) = self.some_node() else { return };
        self.crash(index);
        self.nodes[index].is_silent = self.dice.one_in(3);
        let away = if self.dice.one_in(8) { self.dice.below(90_000) } else { self.dice.below(3_000) };
        self.later(away, Happening::Start(index));
    }

    /// Pauses a node, mostly for longer than its lease, so that other nodes take its shards over.
    fn maybe_pause(&mut self) {
        let Some(index) = self.some_node().filter(|index| self.nodes[*index].held.is_none()) else { return };
        self.witness.seen.pauses += 1;
        self.pause(index);
        let lease = millis(SHARD_LEASE);
        let span = match self.dice.below(4) {
            0 => self.dice.below(lease),
            // Shortly before or after the end of the lease.
            1 => lease - 300 + self.dice.below(1_500),
            _ => lease + self.dice.below(9_000),
        };
        self.later(span, Happening::Resume(index));
    }

    /// A node hands its shards over and stops; later it starts again.
    fn maybe_leave(&mut self) {
        let Some(index) = self.some_node() else { return };
        let life = self.nodes[index].now();
        self.later(0, Happening::Node(life, Told::Stop));
    }

    fn step_clock(&mut self) {
        self.witness.seen.clock_steps += 1;
        self.offsets.retain(|(until, _)| self.time < *until);
        if !self.is_alone() {
            self.offsets.push((self.time + HEARD_OF_WITHIN, self.offset));
        }
        let before = self.clock();
        self.offset += match self.dice.below(6) {
            0 => self.dice.between(0, 8 * 3_600_000),
            1 => self.dice.between(-60_000, 0),
            _ => self.dice.between(-900, 20_000),
        };
        if self.clock() < before {
            self.witness.clock_went_back();
        }
        // A node notices it at its next renewal.
        if !self.is_alone() && self.clock() < self.latest {
            self.latest = self.latest + SHARD_LEASE;
        }
        self.move_to(self.time);
        // The operating system tells each node about the change after a while.
        for index in 0..self.nodes.len() {
            let (life, told) = (self.nodes[index].now(), self.dice.below(1_000));
            self.later(told, Happening::Node(life, Told::Wake));
        }
    }

    /// A leader from outside acquires a shard and does nothing with it: commits of the former leader must be refused.
    fn steal_shard(&mut self) {
        let shard = ShardId(u16::try_from(self.dice.below(u64::from(self.size.shards))).unwrap_or(0));
        for (shard, epoch) in
            at_once(self.store.acquire(None, &[Claim::any_epoch(shard)])).unwrap_or_default()
        {
            self.witness.seen.stolen += 1;
            self.stolen.insert(shard);
            let verdict = self.witness.leaders.acquired(None, shard, epoch, &mut self.witness.seen);
            self.witnessed(verdict);
        }
    }

    /// An operator deletes every session.
    fn delete_sessions(&mut self) {
        let sessions: Vec<_> = self.nodes.iter().filter_map(|node| Some(node.session.as_ref()?.id)).collect();
        for session in sessions {
            drop(at_once(self.store.leave(session)));
        }
    }

    fn prune(&mut self) {
        // A node prunes only while it is running, and in a cluster with a time that is a little behind.
        let behind = if self.is_alone() { Duration::ZERO } else { Duration::from_secs(5) };
        let now = self.drivers().map(Driver::now).min().unwrap_or_default().before(behind);
        if self.drivers().any(|driver| driver.shards_led() > 0) {
            let policy = PrunePolicy { now, ad_hoc_kept: AD_HOC_KEPT };
            self.witness.seen.pruned += at_once(self.store.prune(&policy, 50)).unwrap_or(0) as u64;
        }
    }

    /// Cuts a link in one direction or both, for less than a lease or for longer; after a lease the attempts are given up.
    /// Sometimes every worker of a node is cut off for a moment, and all connect again at once.
    fn cut_link(&mut self) {
        self.witness.seen.cuts += 1;
        let node = usize::try_from(self.dice.below(self.nodes.len() as u64)).unwrap_or(0);
        let worker = usize::try_from(self.dice.below(self.workers.len() as u64)).unwrap_or(0);
        if !self.is_alone() && self.dice.one_in(4) {
            for worker in 0..self.workers.len() {
                self.hang_up(worker, node);
            }
            return;
        }
        let until = self.time + 3_000 + self.dice.below(40_000);
        let link = &mut self.links[worker][node];
        match self.dice.below(3) {
            0 => link.cut_down = until,
            1 => link.cut_up = until,
            _ => (link.cut_down, link.cut_up) = (until, until),
        }
    }

    /// A node is cut off from the store, in one direction or both.
    fn cut_store(&mut self) {
        let Some(index) = self.some_node() else { return };
        self.witness.seen.store_cuts += 1;
        let span = if self.dice.one_in(2) { self.dice.below(3_000) } else { 3_000 + self.dice.below(12_000) };
        let (node, until) = (&mut self.nodes[index], self.time + span);
        match self.dice.below(3) {
            0 => node.requests_cut = until,
            1 => node.answers_cut = until,
            _ => (node.requests_cut, node.answers_cut) = (until, until),
        }
    }

    /// No node can reach the store for longer than every lease. Users who waited send commands as soon as it is back,
    /// before the nodes have renewed their sessions.
    fn lose_store(&mut self) {
        self.witness.seen.outages += 1;
        let span = millis(SHARD_LEASE) + 500 + self.dice.below(12_000);
        let until = self.time + span;
        for node in &mut self.nodes {
            (node.requests_cut, node.answers_cut) = (until, until);
        }
        for _ in 0..4 + self.dice.below(8) {
            let delay = span + self.dice.below(1_500);
            self.later(delay, Happening::AskAfterOutage);
        }
    }

    /// Two nodes cannot reach each other, in one direction or both.
    fn cut_peers(&mut self) {
        let (Some(one), Some(other)) = (self.some_node(), self.some_node()) else { return };
        let until = self.time + self.dice.below(20_000);
        self.peers_cut.insert((one, other), until);
        if self.dice.one_in(2) {
            self.peers_cut.insert((other, one), until);
        }
    }

    /// A worker dies with its attempts, drains and starts again, is drained by a node for a while, or is paused for less than
    /// a lease or for longer.
    fn hurt_worker(&mut self) {
        let index = usize::try_from(self.dice.below(self.workers.len() as u64)).unwrap_or(0);
        self.witness.seen.worker_deaths += 1;
        match self.dice.below(6) {
            0 | 1 => return self.replace_worker(index),
            4 | 5 => return self.drain_soon(index),
            2 if self.held[index].is_none() => return self.drain_worker(index),
            _ => {}
        }
        self.held[index].get_or_insert_default();
        let span = self.dice.below(30_000);
        self.later(span, Happening::ResumeWorker(index));
    }

    /// A node departs as told.
    pub(crate) fn depart(&mut self, index: usize, departure: Departure) {
        match departure {
            Departure::Killed => self.crash(index),
            Departure::Vanished => {
                self.crash(index);
                self.nodes[index].is_silent = true;
            }
            Departure::Stopped => self.pause(index),
            Departure::Leaves => {
                let life = self.nodes[index].now();
                self.tell(life, Told::Stop);
            }
        }
    }

    pub(crate) fn come_back(&mut self, index: usize) {
        self.resume(index);
        self.start(index);
    }

    /// Ends every fault at once.
    pub(crate) fn end_storm(&mut self) {
        self.stormy = false;
        self.later(1_000, Happening::Hold);
        for index in 0..self.nodes.len() {
            self.resume(index);
            let soon = self.dice.below(2_000);
            // A node that is stopping starts again after it has stopped.
            self.later(soon, Happening::Start(index));
            self.later(12_000 + soon, Happening::Start(index));
        }
        for index in 0..self.workers.len() {
            self.resume_worker(index);
        }
        self.end_hanging_attempts();
        self.witness.late.healed(self.clock() + HEALED_AFTER);
    }
}

/// How long the history of deleted jobs is kept in a simulated world.
pub(super) const AD_HOC_KEPT: Duration = Duration::from_secs(3600);
/// After this time every leader knows the store's new clock: it renews within a lease, and the renewal takes time.
const HEARD_OF_WITHIN: u64 = 10_000;
/// After this time without faults, a cluster must be healthy.
const HEALED_AFTER: Duration = Duration::from_secs(20);
