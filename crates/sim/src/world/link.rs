//! The link between a worker and a node. Messages from the node arrive in order, but some twice; a lost message breaks the
//! link sooner or later. Messages from the worker can also be reordered, and arrive again after a while. A worker that
//! connects again names its attempts, and credits that it lent on the old link are void.

use punctual_core::attempt::{End, Order, Outcome, Report};
use punctual_core::ids::WorkerId;
use punctual_node::{Driver, Input as NodeInput};
use punctual_worker::driver::{Input, Key, Welcome};

use super::events::{Happening, Told, Word};
use super::node::ATTEMPT_LEASE;
use super::{World, millis};
use crate::witness::Life;
use crate::worker::{HEARTBEAT, link_to};

/// A worker that is not admitted within this time dials again.
const DIALLING_MAX: u64 = 3_000;
/// A message of a worker may arrive again at most this much later: less than a lease, because then it is no longer true.
const REPLAY_MAX: u64 = 10_000;

#[derive(Debug, Default)]
pub(super) struct Link {
    /// The number of this connection; every dial makes a new one. 0 means there is none.
    pub(super) number: u64,
    pub(super) stage: Stage,
    /// When the last message of each direction arrives, so that messages stay in order.
    down_at: u64,
    up_at: u64,
    /// A message was lost on it.
    torn: bool,
    /// Until when each direction is cut.
    pub(super) cut_down: u64,
    pub(super) cut_up: u64,
    pub(super) credits: Credits,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    #[default]
    Down,
    Dialling {
        since: u64,
    },
    Up,
}

/// The credits of this link, as the worker counts them.
#[derive(Debug, Default)]
pub(super) struct Credits {
    pub(super) lent: u64,
    pub(super) used: u64,
    pub(super) gave_back: u64,
}

impl World {
    /// The number of copies of a message that arrive.
    fn copies(&mut self, worker: usize, node: usize, cut_until: u64) -> u32 {
        let trouble = if self.stormy { self.weather.message_trouble } else { 0 };
        let cut = self.stormy && self.time < cut_until;
        if cut || self.dice.one_in(trouble) {
            self.witness.seen.lost_messages += 1;
            self.links[worker][node].torn = true;
            0
        } else if self.dice.one_in(trouble) {
            self.witness.seen.doubled_messages += 1;
            2
        } else {
            1
        }
    }

    fn delay(&mut self) -> u64 {
        let stalls = self.stormy && self.dice.one_in(self.weather.message_trouble * 4);
        if stalls { self.dice.below(1_500) } else { self.dice.below(4) }
    }

    pub(super) fn send_order(&mut self, index: usize, to: &WorkerId, order: &Order) {
        // Drop an order for an earlier process of a worker, or for a worker that is not linked.
        let mut joined = self.nodes[index].joined.iter();
        let found = joined.find(|(worker, _)| self.worker_id(**worker) == *to);
        let Some((worker, link)) = found.map(|(worker, link)| (*worker, *link)) else { return };
        // A stream carries an order at most once. Orders that may be repeated for other reasons sometimes arrive twice.
        let is_counted = matches!(order, Order::Assign(assignment) if !assignment.again);
        let copies = if is_counted { 1 } else { u32::MAX };
        self.send(worker, index, link, copies, |link| Word::Order {
            node: index,
            link,
            order: order.clone(),
        });
    }

    /// Sends a message from a node to a worker, in order.
    fn send(&mut self, to: Life, node: usize, link: u64, copies: u32, word: impl Fn(u64) -> Word) {
        let delay = self.delay();
        let time = self.time;
        let known = &mut self.links[to.index][node];
        let at = known.down_at.max(time + delay);
        let cut = known.cut_down;
        known.down_at = at;
        for _ in 0..self.copies(to.index, node, cut).min(copies) {
            self.at(at, Happening::Worker(to, word(link)));
        }
    }

    pub(super) fn admit(&mut self, worker: Life, node: usize, link: u64) {
        self.send(worker, node, link, u32::MAX, |link| Word::Admitted { node, link });
    }

    pub(super) fn is_up(&self, worker: usize, node: usize, link: u64) -> bool {
        let known = &self.links[worker][node];
        known.number == link && known.stage == Stage::Up
    }

    /// Sends reports from a worker to a node, if they are linked.
    pub(super) fn say(&mut self, worker: usize, node: usize, reports: &[Report], beat: Option<(u64, u64)>) {
        let known = &self.links[worker][node];
        if known.stage != Stage::Up || reports.is_empty() {
            return;
        }
        let (link, cut, before) = (known.number, known.cut_up, known.up_at);
        let (to, by) = (self.nodes[node].now(), self.life_of(worker));
        let told =
            || Happening::Node(to, Told::Reports { worker: by, link, reports: reports.to_vec(), beat });
        let mut at = self.time + self.delay();
        if at < before {
            let overtakes = self.stormy && self.dice.one_in(2);
            self.witness.seen.reordered += u64::from(overtakes);
            at = if overtakes { at } else { before };
        }
        self.links[worker][node].up_at = before.max(at);
        for _ in 0..self.copies(worker, node, cut) {
            self.at(at, told());
        }
        if self.stormy && self.dice.one_in(self.weather.message_trouble) {
            self.witness.seen.replayed += 1;
            let later = self.dice.below(REPLAY_MAX);
            self.at(at + later, told());
        }
    }

    pub(super) fn hear(
        &mut self,
        index: usize,
        worker: Life,
        link: u64,
        reports: Vec<Report>,
        beat: Option<(u64, u64)>,
    ) {
        if !self.is_newest(index, worker, link) {
            return;
        }
        if let Some((beat, sent)) = beat {
            self.workers[worker.index].heard = self.workers[worker.index].heard.max(sent);
            let members = self.members_known_to(index);
            let heard = |link| Word::Heard { node: index, link, beat, members: members.clone() };
            self.send(worker, index, link, u32::MAX, heard);
        }
        let earliest = self.earliest();
        for report in &reports {
            if let Report::Finished { run, token, outcome: Outcome { end: End::Succeeded, .. } } = report {
                self.witness.heard(*run, *token, earliest);
            }
        }
        self.step(index, NodeInput::Reports { worker: self.worker_id(worker), reports });
    }

    /// A worker checks its links: it hangs up where a message was lost, and dials nodes that it is not linked to.
    pub(super) fn look_after_links(&mut self, worker: usize) {
        for node in 0..self.nodes.len() {
            let link = &self.links[worker][node];
            let is_late = match link.stage {
                Stage::Down => false,
                Stage::Dialling { since } => self.time > since + DIALLING_MAX,
                Stage::Up => link.torn,
            };
            if is_late {
                self.hang_up(worker, node);
            }
            let link = &self.links[worker][node];
            let is_cut = self.stormy && self.time < link.cut_down.max(link.cut_up);
            if link.stage == Stage::Down && !is_cut && self.nodes[node].driver.is_some() {
                self.dial(worker, node);
            }
        }
    }

    /// Dials a node. Messages in flight on the old link never arrive.
    fn dial(&mut self, worker: usize, node: usize) {
        self.next_link += 1;
        self.witness.seen.links += 1;
        let time = self.time;
        let link = &mut self.links[worker][node];
        (link.number, link.stage, link.torn) = (self.next_link, Stage::Dialling { since: time }, false);
        (link.down_at, link.up_at) = (time, time);
        let members = self.members_known_to(node);
        let welcome = Welcome { node: format!("node-{node}"), heartbeat: HEARTBEAT, members };
        self.drive(worker, Input::Welcomed { link: link_to(node), welcome });
    }

    /// The worker tells the node its name and its attempts.
    pub(super) fn announce(&mut self, worker: usize, node: usize, holding: Vec<Key>) {
        let (link, cut) = (self.links[worker][node].number, self.links[worker][node].cut_up);
        let (to, worker) = (self.nodes[node].now(), self.life_of(worker));
        let delay = self.delay();
        if self.copies(worker.index, node, cut) > 0 {
            self.later(delay, Happening::Node(to, Told::Join { worker, link, holding }));
        }
    }

    /// The addresses of the members that a node knows.
    fn members_known_to(&self, node: usize) -> Vec<String> {
        let members = self.nodes[node].driver.iter().flat_map(Driver::members);
        members.filter_map(|member| member.address.as_deref().map(str::to_owned)).collect()
    }

    /// A worker ends a link, or finds it broken.
    pub(super) fn hang_up(&mut self, worker: usize, node: usize) {
        self.let_go(self.life_of(worker), node);
        self.drive(worker, Input::Gone { link: link_to(node) });
    }

    /// A link ends on the worker's side. The node notices at once, or after a while if the connection is half open.
    pub(super) fn let_go(&mut self, by: Life, node: usize) {
        let link = &mut self.links[by.index][node];
        link.stage = Stage::Down;
        let number = std::mem::replace(&mut link.number, 0);
        if self.is_alone() {
            // Worker and node are in one process, so the link cannot break.
            return;
        }
        let is_half_open = self.stormy && self.dice.one_in(3);
        let delay = if is_half_open { self.dice.below(20_000) } else { self.dice.below(20) };
        let to = self.nodes[node].now();
        self.later(delay, Happening::Node(to, Told::Gone { worker: by, link: number }));
    }

    /// If the worker has hung up or died meanwhile, the node notices after a while.
    pub(super) fn notice_gone(&mut self, worker: Life, node: usize, link: u64) {
        if self.life_of(worker.index) != worker || self.links[worker.index][node].number != link {
            let (to, delay) = (self.nodes[node].now(), self.dice.below(2_000));
            self.later(delay, Happening::Node(to, Told::Gone { worker, link }));
        }
    }

    pub(super) fn life_of(&self, worker: usize) -> Life {
        Life { index: worker, life: self.workers[worker].life }
    }

    pub(super) fn worker_id(&self, worker: Life) -> WorkerId {
        WorkerId::new(&self.workers[worker.index].name, u64::from(worker.life))
    }

    /// A node has gone: its workers notice at once or after a while.
    pub(super) fn hang_up_all(&mut self, node: usize) {
        for worker in 0..self.workers.len() {
            let is_slow = self.stormy && self.dice.one_in(3);
            let delay = if is_slow { self.dice.below(millis(ATTEMPT_LEASE)) } else { self.dice.below(20) };
            let (life, link) = (self.life_of(worker), self.links[worker][node].number);
            self.later(delay, Happening::Worker(life, Word::Lost { node, link }));
        }
    }
}
