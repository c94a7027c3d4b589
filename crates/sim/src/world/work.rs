//! What the workers do: they take orders, run attempts, say what became of them, and lend what is free.

use punctual_core::attempt::{Assignment, End, Order, Report};
use punctual_core::ids::{RunId, Token};

use super::link::{Credits, Stage};
use super::node::ATTEMPT_LEASE;
use super::{Happening, World, millis};
use crate::witness::Life;
use crate::worker::{Did, From, Worker};

const HEARTBEAT: u64 = 5_000;
/// How often a worker looks after its links and leases.
const PULSE: u64 = 1_000;

/// What reaches a worker.
#[derive(Debug)]
pub(super) enum Word {
    /// A node, over which link, and what.
    Admitted {
        node: usize,
        link: u64,
        sent: u64,
    },
    Order {
        node: usize,
        link: u64,
        order: Order,
    },
    Heard {
        node: usize,
        link: u64,
        sent: u64,
    },
    Lost {
        node: usize,
        link: u64,
    },
    End(RunId, Token, End),
    Heartbeat,
    Pulse,
    /// A credit that somebody waits for has lain long enough.
    Lend,
}

impl World {
    pub(super) fn tell_worker(&mut self, life: Life, word: Word) {
        let index = life.index;
        if self.workers[index].life != life.life {
            return;
        }
        if let Some(held) = &mut self.held[index] {
            return held.push(Happening::Worker(life, word));
        }
        match word {
            Word::Admitted { node, link, sent } => self.admitted(index, node, link, sent),
            Word::Order { node, link, order } => self.take(index, node, link, order),
            Word::Heard { node, link, sent } => {
                let known = &mut self.links[index][node];
                if known.number == link {
                    known.heard = known.heard.max(sent);
                }
            }
            Word::Lost { node, link } => {
                if self.links[index][node].number == link {
                    self.hang_up(index, node);
                }
            }
            Word::End(run, token, end) => self.end(index, run, token, end),
            Word::Heartbeat => self.heartbeat(index),
            Word::Pulse => self.pulse(index),
            Word::Lend => {}
        }
        self.lend(index);
    }

    fn later_for(&mut self, worker: usize, delay: u64, word: Word) {
        let life = self.life_of(worker);
        self.later(delay, Happening::Worker(life, word));
    }

    fn admitted(&mut self, worker: usize, node: usize, link: u64, sent: u64) {
        let known = &mut self.links[worker][node];
        if known.number != link || known.stage == Stage::Up {
            return;
        }
        (known.stage, known.heard, known.credits) = (Stage::Up, sent, Credits::default());
        self.workers[worker].lender.joined(node);
        // It may be the one that can settle what nobody acknowledged.
        let reports = self.workers[worker].heartbeat();
        self.say(worker, node, &reports);
    }

    fn take(&mut self, worker: usize, node: usize, link: u64, order: Order) {
        let known = &mut self.links[worker][node];
        if known.number != link || known.stage != Stage::Up {
            return;
        }
        if let Order::GaveBack { total } = order {
            known.credits.gave_back = known.credits.gave_back.max(total);
        }
        known.credits.used += u64::from(self.workers[worker].uses_credit(&order, node));
        if matches!(order, Order::Assign(_)) && self.time >= known.heard + millis(ATTEMPT_LEASE) {
            // The node has given it up by now: it lay somewhere while the worker stood still.
            return;
        }
        let Credits { lent, used, gave_back } = known.credits;
        if used + gave_back > lent {
            let what =
                format!("node {node} used {used} and gave back {gave_back} of {lent} credits: {order:?}");
            return self.witnessed(Err(what));
        }
        let from = From { node, time: self.time, clock: self.clock() };
        match self.workers[worker].take(order, from) {
            Did::Start(assignment) => self.begin(worker, &assignment),
            Did::Stop(run, token) => {
                let takes = self.dice.below(500);
                self.later_for(worker, takes, Word::End(run, token, End::Failed));
            }
            Did::Say(reports) => self.say(worker, node, &reports),
            Did::Nothing => {}
        }
        let (filled, slots) = (self.workers[worker].filled(), self.workers[worker].slots());
        if filled > slots {
            self.witnessed(Err(format!(
                "credits: worker {worker} has {slots} slots, and {filled} are filled"
            )));
        }
    }

    fn begin(&mut self, worker: usize, assignment: &Assignment) {
        let (run, token) = (assignment.run, assignment.token);
        // A clock that was set back since the fire does not make it early: engine time stood still. Nor does the death of
        // the node that gave the order while it was under way.
        let now = if self.is_alone() {
            self.clock().max(assignment.due.min(self.reached))
        } else {
            self.latest + self.skew()
        };
        let verdict = self.witness.started(assignment, now);
        self.witnessed(verdict);
        if self.dice.one_in(3) {
            let at = self.clock();
            self.say_all(worker, &[Report::Started { run, token, at }]);
        }
        let fails = self.stormy && self.dice.one_in(self.weather.failures);
        let end = if fails { End::Failed } else { End::Succeeded };
        if let Some(takes) = self.takes() {
            self.later_for(worker, takes, Word::End(run, token, end));
        }
        if let Some(timeout) = assignment.definition.timeout {
            self.later_for(worker, millis(timeout), Word::End(run, token, End::TimedOut));
        }
    }

    /// How long an attempt takes; none: it hangs.
    fn takes(&mut self) -> Option<u64> {
        match self.dice.below(40) {
            _ if !self.stormy => Some(self.dice.below(20)),
            0 => None,
            1 => Some(self.dice.below(60_000)),
            2..=9 => Some(self.dice.below(4_000)),
            _ => Some(self.dice.below(300)),
        }
    }

    fn end(&mut self, worker: usize, run: RunId, token: Token, end: End) {
        if let Some((owner, report)) = self.workers[worker].end(run, token, end) {
            // To whoever assigned it; if that node is not there, to everyone who is.
            if self.links[worker][owner].stage == Stage::Up {
                self.say(worker, owner, &[report]);
            } else {
                self.say_all(worker, &[report]);
            }
        }
        self.begin_next(worker);
    }

    /// Those who waited for a slot begin, unless they have waited for longer than their lease.
    fn begin_next(&mut self, worker: usize) {
        self.give_up(worker);
        let clock = self.clock();
        while let Some(next) = self.workers[worker].next_in_line(clock) {
            self.begin(worker, &next);
        }
    }

    pub(super) fn heartbeat(&mut self, worker: usize) {
        let reports = self.workers[worker].heartbeat();
        self.say_all(worker, &reports);
        self.later_for(worker, HEARTBEAT, Word::Heartbeat);
    }

    pub(super) fn pulse(&mut self, worker: usize) {
        self.look_after_links(worker);
        self.begin_next(worker);
        self.later_for(worker, PULSE, Word::Pulse);
    }

    /// Stops what nobody has heard the worker about for a lease.
    fn give_up(&mut self, worker: usize) {
        let links = &self.links[worker];
        let newest = links.iter().map(|link| link.heard).max().unwrap_or(0);
        // A node that is gone has lost its shards to one of the others.
        let heard: Vec<u64> = self
            .nodes
            .iter()
            .zip(links)
            .map(|(node, link)| if node.driver.is_some() { link.heard } else { newest })
            .collect();
        let given_up = self.workers[worker].give_up(self.time, millis(ATTEMPT_LEASE), |node| heard[node]);
        self.witness.seen.given_up += given_up;
    }

    /// The worker lends what has become free.
    pub(super) fn lend(&mut self, worker: usize) {
        for (node, word) in self.workers[worker].lend(self.time) {
            if let Report::Lent { total } = &word {
                self.links[worker][node].credits.lent = *total;
            }
            self.say(worker, node, &[word]);
        }
        if let Some(at) = self.workers[worker].lender.next_wake() {
            let wake = u64::try_from(at.as_millis()).unwrap_or(0).max(self.time + 1);
            let pending = self.workers[worker].lend_wake;
            if pending <= self.time || wake < pending {
                self.workers[worker].lend_wake = wake;
                self.later_for(worker, wake - self.time, Word::Lend);
            }
        }
    }

    /// A worker starts again, with nothing in its hands.
    pub(super) fn replace_worker(&mut self, index: usize) {
        let (life, old) = (self.life_of(index), &self.workers[index]);
        self.workers[index] = Worker::new(old.name.clone(), old.life + 1, old.slots());
        self.held[index] = None;
        for node in 0..self.nodes.len() {
            self.hang_up_by(life, node);
        }
        self.pulse(index);
        self.heartbeat(index);
    }

    pub(super) fn resume_worker(&mut self, index: usize) {
        for happening in self.held[index].take().into_iter().flatten() {
            self.at(self.time, happening);
        }
    }

    /// What hung ends at last: only the promises of a living program are checked.
    pub(crate) fn end_what_hangs(&mut self) {
        for worker in 0..self.workers.len() {
            for (run, token) in self.workers[worker].unfinished() {
                self.later_for(worker, 1_000, Word::End(run, token, End::Failed));
            }
        }
    }
}
