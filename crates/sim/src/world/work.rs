//! The workers' part: their driver is told what happens, and what it wants done is done.

use punctual_core::attempt::{Assignment, End, Order, Report};
use punctual_core::ids::{RunId, Token};
use punctual_worker::driver::{Input, LinkId, Now, Output, Stop};

use super::link::{Credits, Stage};
use super::node::ATTEMPT_LEASE;
use super::{Happening, World, millis};
use crate::witness::Life;
use crate::worker::{Worker, link_to, node_of};

/// How often a worker looks after its links.
const PULSE: u64 = 1_000;
/// How long an execution may take to stop.
const STOPS_WITHIN: u64 = 500;

/// What reaches a worker.
#[derive(Debug)]
pub(super) enum Word {
    /// A node, over which link, and what.
    Admitted {
        node: usize,
        link: u64,
    },
    Order {
        node: usize,
        link: u64,
        order: Order,
    },
    /// A node has heard a heartbeat, and says which nodes there are.
    Heard {
        node: usize,
        link: u64,
        beat: u64,
        members: Vec<String>,
    },
    Lost {
        node: usize,
        link: u64,
    },
    End(RunId, Token, End),
    Wake,
    Pulse,
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
            Word::Admitted { node, link } => self.admitted(index, node, link),
            Word::Order { node, link, order } => self.take(index, node, link, order),
            Word::Heard { node, link, beat, members } => {
                if self.is_up(index, node, link) {
                    let link = link_to(node);
                    self.drive(index, Input::Heard { link, beat });
                    self.drive(index, Input::Members { link, addresses: members });
                }
            }
            Word::Lost { node, link } => {
                if self.links[index][node].number == link {
                    self.hang_up(index, node);
                }
            }
            Word::End(run, token, end) => {
                if let Some(ended) = self.workers[index].end(run, token, end) {
                    self.drive(index, ended);
                }
            }
            Word::Wake => self.drive(index, Input::Clock),
            Word::Pulse => self.pulse(index),
        }
    }

    fn later_for(&mut self, worker: usize, delay: u64, word: Word) {
        let life = self.life_of(worker);
        self.later(delay, Happening::Worker(life, word));
    }

    /// Tells a worker's driver what happens, and does what it says.
    pub(super) fn drive(&mut self, worker: usize, input: Input) {
        let now = Now { wall: self.clock(), elapsed: self.elapsed_time() };
        let outputs = self.workers[worker].driver.step(input, now);
        // What is said to one node at once goes as one message.
        let mut said: Option<(LinkId, Vec<Report>)> = None;
        for output in outputs {
            match output {
                Output::Say { to, report } => match &mut said {
                    Some((link, reports)) if *link == to => reports.push(report),
                    _ => self.say_gathered(worker, said.replace((to, vec![report]))),
                },
                output => {
                    self.say_gathered(worker, said.take());
                    self.obey(worker, output);
                }
            }
        }
        self.say_gathered(worker, said);
        self.wake_later(worker);
    }

    fn say_gathered(&mut self, worker: usize, said: Option<(LinkId, Vec<Report>)>) {
        let Some((link, reports)) = said else { return };
        let node = node_of(link);
        for report in &reports {
            if let Report::Lent { total } = report {
                self.links[worker][node].credits.lent = *total;
                if self.workers[worker].is_draining {
                    let what =
                        format!("drain: worker {worker} drains, and lends up to {total} to node {node}");
                    self.witnessed(Err(what));
                }
            }
        }
        self.say(worker, node, &reports, None);
    }

    fn obey(&mut self, worker: usize, output: Output) {
        match output {
            Output::Execute { assignment, started_at } => {
                let key = (assignment.run, assignment.token);
                let verdict = self.workers[worker].execute(key, started_at);
                self.witnessed(verdict);
                self.begin(worker, &assignment);
            }
            Output::Stop { run, why } => {
                self.witness.seen.given_up += u64::from(why == Stop::Unheard);
                if let Some(token) = self.workers[worker].stop(run, why) {
                    let takes = self.dice.below(STOPS_WITHIN);
                    self.later_for(worker, takes, Word::End(run, token, End::Failed));
                }
            }
            Output::Heartbeat { to, beat, holding } => {
                let alive = Report::Alive { attempts: holding };
                self.say(worker, node_of(to), &[alive], Some((beat, self.time)));
            }
            Output::Announce { to, holding } => self.announce(worker, node_of(to), holding),
            Output::HangUp { link } => self.let_go(self.life_of(worker), node_of(link)),
            Output::Unwanted { link } => self.links[worker][node_of(link)].stage = Stage::Down,
            Output::Say { .. } | Output::Dial { .. } | Output::Drop { .. } => {}
        }
    }

    /// The driver is woken when it wants to be, and once.
    fn wake_later(&mut self, worker: usize) {
        let Some(at) = self.workers[worker].driver.next_wake() else { return };
        let (wake, pending) = (millis(at).max(self.time + 1), self.workers[worker].wake);
        if pending <= self.time || wake < pending {
            self.workers[worker].wake = wake;
            self.later_for(worker, wake - self.time, Word::Wake);
        }
    }

    fn admitted(&mut self, worker: usize, node: usize, link: u64) {
        let known = &mut self.links[worker][node];
        if known.number == link && known.stage != Stage::Up {
            (known.stage, known.credits) = (Stage::Up, Credits::default());
            self.drive(worker, Input::Admitted { link: link_to(node) });
        }
    }

    fn take(&mut self, worker: usize, node: usize, link: u64, order: Order) {
        if !self.is_up(worker, node, link) {
            return;
        }
        let known = &mut self.links[worker][node];
        let mut credited = None;
        match &order {
            Order::GaveBack { total } => known.credits.gave_back = known.credits.gave_back.max(*total),
            Order::Assign(Assignment { run, token, again: false, .. }) => {
                known.credits.used += 1;
                credited = Some((*run, *token));
            }
            _ => {}
        }
        let Credits { lent, used, gave_back } = known.credits;
        if used + gave_back > lent {
            let what =
                format!("node {node} used {used} and gave back {gave_back} of {lent} credits: {order:?}");
            return self.witnessed(Err(what));
        }
        self.workers[worker].heard = self.time;
        self.drive(worker, Input::Orders { link: link_to(node), orders: vec![order] });
        if let Some(key) = credited {
            let (filled, slots) = (self.workers[worker].credit(key), self.workers[worker].slots);
            if filled > slots {
                let what = format!("credits: worker {worker} has {slots} slots, and {filled} are filled");
                self.witnessed(Err(what));
            }
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

    pub(super) fn pulse(&mut self, worker: usize) {
        let verdict = self.workers[worker].goes_on_unheard(self.time, millis(ATTEMPT_LEASE));
        self.witnessed(verdict);
        self.look_after_links(worker);
        self.later_for(worker, PULSE, Word::Pulse);
        if self.workers[worker].is_draining && self.workers[worker].driver.has_drained(self.elapsed_time()) {
            self.replace_worker(worker);
        }
    }

    /// A worker takes nothing more, and ends when it is done; then it starts again.
    pub(super) fn drain_worker(&mut self, worker: usize) {
        self.workers[worker].is_draining = true;
        let time = self.dice.below(20_000);
        self.drive(worker, Input::Drain(std::time::Duration::from_millis(time)));
    }

    /// A worker starts again, with nothing in its hands.
    pub(super) fn replace_worker(&mut self, index: usize) {
        let (life, old) = (self.life_of(index), &self.workers[index]);
        self.workers[index] = Worker::new(old.name.clone(), old.life + 1, old.slots, self.nodes.len());
        self.held[index] = None;
        for node in 0..self.nodes.len() {
            self.let_go(life, node);
        }
        self.pulse(index);
    }

    pub(super) fn resume_worker(&mut self, index: usize) {
        // It could not look at its leases before.
        self.workers[index].heard = self.time;
        for happening in self.held[index].take().into_iter().flatten() {
            self.at(self.time, happening);
        }
    }

    /// What hung ends at last: only the promises of a living program are checked.
    pub(crate) fn end_what_hangs(&mut self) {
        for worker in 0..self.workers.len() {
            for (run, token) in self.workers[worker].executed() {
                self.later_for(worker, 1_000, Word::End(run, token, End::Failed));
            }
        }
    }
}
