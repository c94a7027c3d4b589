//! Runs the workers: gives inputs to their drivers and carries out the outputs.

use punctual_core::attempt::{Assignment, End, Order, Report};
use punctual_core::ids::{RunId, Token};
use punctual_worker::driver::{Input, LinkId, Now, Output, Stop};

use super::events::{Happening, Word};
use super::link::{Credits, Stage};
use super::node::{ATTEMPT_LEASE, address};
use super::{World, millis};
use crate::witness::Life;
use crate::worker::{Worker, link_to, node_of, step_of};

/// How often a worker checks its links.
const PULSE: u64 = 1_000;
/// How long an execution may take to stop.
const STOPS_WITHIN: u64 = 500;
/// How long an attempt runs on if it ignores the request to stop: longer than a grace period and a lease.
const STUCK_WITHIN: u64 = 60_000;

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
            Word::Checkpoint(run, token) => self.checkpoint(index, run, token),
            Word::Drain(on) => self.drain_from_outside(index, on),
            Word::Wake => self.drive(index, Input::Clock),
            Word::Pulse => self.pulse(index),
        }
    }

    fn later_for(&mut self, worker: usize, delay: u64, word: Word) {
        let life = self.life_of(worker);
        self.later(delay, Happening::Worker(life, word));
    }

    /// Gives an input to a worker's driver and carries out its outputs.
    pub(super) fn drive(&mut self, worker: usize, input: Input) {
        let now = Now { wall: self.clock(), elapsed: self.elapsed_time() };
        let outputs = self.workers[worker].driver.step(input, now);
        // Consecutive reports to one node travel as one message.
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
                if self.workers[worker].is_draining || self.workers[worker].is_drained {
                    let what = format!(
                        "drain: worker {worker} is draining and has lent {total} credits to node {node}"
                    );
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
                let number = step_of(assignment.checkpoint.as_deref());
                let verdict = self.workers[worker].execute(key, started_at, number);
                self.witnessed(verdict);
                self.begin(worker, &assignment);
            }
            Output::Stop { run, why } => {
                self.witness.seen.given_up += u64::from(why == Stop::Unheard);
                let is_stuck = matches!(why, Stop::Cancelled(_)) && self.stormy && self.dice.one_in(40);
                if let Some(token) = self.workers[worker].stop(run, why, is_stuck) {
                    let takes = self.dice.below(if is_stuck { STUCK_WITHIN } else { STOPS_WITHIN });
                    self.later_for(worker, takes, Word::End(run, token, End::Failed));
                }
            }
            Output::Saved { run, seq } => {
                if let Some(number) = self.workers[worker].saved(run, seq) {
                    self.witness.saved(run, number);
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

    /// Schedules the driver's next wake-up, once.
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
                let what = format!("credits: worker {worker} has {slots} slots, and {filled} are in use");
                self.witnessed(Err(what));
            }
        }
    }

    fn begin(&mut self, worker: usize, assignment: &Assignment) {
        let (run, token) = (assignment.run, assignment.token);
        // If the clock was set back after the fire, the run is not early: engine time stood still. The same holds if the
        // node died while its order was in flight.
        let now = if self.is_alone() {
            self.clock().max(assignment.due.min(self.reached))
        } else {
            self.latest + self.skew()
        };
        let verdict = self.witness.started(assignment, now);
        self.witnessed(verdict);
        let verdict = self.runs_alone(worker, assignment);
        self.witnessed(verdict);
        let fails = self.stormy && self.dice.one_in(self.weather.failures);
        let end = if fails { End::Failed } else { End::Succeeded };
        if self.stormy && self.dice.one_in(3) {
            let soon = self.dice.below(400);
            self.later_for(worker, soon, Word::Checkpoint(run, token));
        }
        if let Some(takes) = self.takes() {
            self.later_for(worker, takes, Word::End(run, token, end));
        }
        if let Some(timeout) = assignment.definition.timeout {
            self.later_for(worker, millis(timeout), Word::End(run, token, End::TimedOut));
        }
    }

    /// Fails if another worker still executes an earlier attempt of the run, although the run was moved. If the worker of
    /// that attempt is paused, its node cannot know that it goes on.
    fn runs_alone(&self, worker: usize, assignment: &Assignment) -> Result<(), String> {
        let run = assignment.run;
        for (index, other) in self.workers.iter().enumerate().filter(|(index, _)| *index != worker) {
            let Some(earlier) = other.executes(run).filter(|_| self.held[index].is_none()) else { continue };
            if self.witness.was_just_moved(run, earlier) {
                return Err(format!(
                    "two at once: run {run} starts under {} while {} still executes {earlier}, which was moved",
                    assignment.token, other.name
                ));
            }
        }
        Ok(())
    }

    /// The attempt has done one more step, and reports it. Sometimes it asks for a move, and sometimes an earlier report is
    /// sent again after it.
    fn checkpoint(&mut self, worker: usize, run: RunId, token: Token) {
        let Some((before, mut progress)) = self.workers[worker].next_step(run, token) else { return };
        progress.rebalance = self.dice.one_in(8);
        self.drive(worker, Input::Progress(Report::Progress { run, token, progress }));
        if let Some(progress) = before.filter(|_| self.dice.one_in(4)) {
            self.drive(worker, Input::Progress(Report::Progress { run, token, progress }));
        }
        let soon = self.dice.below(1_500);
        self.later_for(worker, soon, Word::Checkpoint(run, token));
    }

    /// How long an attempt takes. `None` means it hangs.
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
        let verdict = self.workers[worker].check_lease(self.time, millis(ATTEMPT_LEASE));
        self.witnessed(verdict);
        self.look_after_links(worker);
        self.later_for(worker, PULSE, Word::Pulse);
        if self.workers[worker].is_draining && self.workers[worker].driver.has_drained(self.elapsed_time()) {
            self.end_worker(worker);
        }
    }

    /// A worker whose time to drain is over yields its attempts, and starts again when they have ended.
    fn end_worker(&mut self, worker: usize) {
        if !std::mem::replace(&mut self.workers[worker].is_stopping, true) {
            self.drive(worker, Input::Stop);
        } else if self.workers[worker].executed().is_empty() {
            self.replace_worker(worker);
        }
    }

    /// A node tells a worker to accept no more attempts, and later to work again.
    fn drain_from_outside(&mut self, worker: usize, on: bool) {
        let Some(link) = self.workers[worker].driver.admitted().next() else {
            return self.later_for(worker, 1_000, Word::Drain(on));
        };
        self.workers[worker].is_drained = on;
        self.witness.seen.drains += u64::from(on);
        self.drive(worker, Input::Orders { link, orders: vec![Order::Drain { on }] });
        if on {
            let span = self.dice.below(20_000);
            self.later_for(worker, span, Word::Drain(false));
        }
    }

    pub(super) fn drain_soon(&mut self, worker: usize) {
        self.later_for(worker, 0, Word::Drain(true));
    }

    /// A worker drains: it accepts no more attempts, ends when all have ended, and starts again.
    pub(super) fn drain_worker(&mut self, worker: usize) {
        self.workers[worker].is_draining = true;
        let time = self.dice.below(20_000);
        self.drive(worker, Input::Drain(std::time::Duration::from_millis(time)));
    }

    /// A worker starts again, without attempts.
    pub(super) fn replace_worker(&mut self, index: usize) {
        let (life, old) = (self.life_of(index), &self.workers[index]);
        self.workers[index] =
            Worker::new(old.name.clone(), old.life + 1, old.slots, (0..self.nodes.len()).map(address));
        self.held[index] = None;
        for node in 0..self.nodes.len() {
            self.let_go(life, node);
        }
        self.pulse(index);
    }

    pub(super) fn resume_worker(&mut self, index: usize) {
        // It could not check its leases while it was paused.
        self.workers[index].heard = self.time;
        for happening in self.held[index].take().into_iter().flatten() {
            self.at(self.time, happening);
        }
    }

    /// Ends attempts that hang: the promises do not cover a program that never ends.
    pub(crate) fn end_hanging_attempts(&mut self) {
        for worker in 0..self.workers.len() {
            for (run, token) in self.workers[worker].executed() {
                self.later_for(worker, 1_000, Word::End(run, token, End::Failed));
            }
        }
    }
}
