//! The worker as a state machine without I/O: what happens goes in as an [`Input`], what is to be done comes out as
//! [`Output`]s. Time is an argument.
//!
//! It owns everything that a worker has to remember: its attempts and which node each belongs to (`attempts`), the nodes
//! and when they last heard the worker (`nodes`), and the slots that it lent to them (`lender`). The simulator drives the
//! same code as `worker.rs`, which executes the outputs.
//!
//! The rules:
//! - A (run, token) starts once.
//! - An outcome is kept, and sent again, until a node acknowledges it.
//! - An attempt is stopped when its node has not heard the worker for a lease: the node has given it up by then, and may
//!   have started it elsewhere.
//! - An assignment uses a credit once, at the node that decided it.
//! - A worker that drains lends nothing, and yields the attempts that it stops: their runs go on elsewhere.

mod attempts;
mod io;
mod lender;
mod nodes;
mod settled;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use punctual_core::attempt::{Assignment, End, Order, Outcome, Report};
use punctual_core::ids::RunId;
use punctual_core::planted::{Fault, is_planted};
use punctual_core::progress::Progress;
use punctual_core::task::Task;
use punctual_core::worker::Kinds;
use tracing::{debug, warn};

use attempts::{Assigned, Attempts};
pub use io::{Input, Key, LinkId, Now, Output, Stop, Welcome};
use lender::Lender;
pub use lender::{STARVED_AFTER, UNUSED_MAX};
use nodes::Nodes;

/// A third of the attempt lease of 15 s: two heartbeats may be lost.
pub const HEARTBEAT: Duration = Duration::from_secs(5);
/// Nodes may not ask for a shorter interval.
const HEARTBEAT_MIN: Duration = Duration::from_millis(50);
/// How long a report waits for those of other attempts.
const GATHER: Duration = Duration::from_millis(20);
/// How often leases and outcomes that wait for their output are looked at, while there are any.
const PULSE: Duration = Duration::from_millis(100);
/// How long an outcome waits for its output to be kept.
const OUTPUT_WAIT_MAX: Duration = Duration::from_secs(5);
/// Heartbeats whose answer is still waited for.
const BEATS_MAX: usize = 64;

#[derive(Debug)]
pub struct Driver {
    kinds: Kinds,
    attempts: Attempts,
    nodes: Nodes,
    lender: Lender<LinkId>,
    heartbeat: Duration,
    next_beat: Duration,
    /// When leases and held outcomes are checked next. `None` means there is nothing to check.
    next_pulse: Option<Duration>,
    /// Heartbeats that were sent: their number and when.
    beats: VecDeque<(u64, Duration)>,
    beat: u64,
    /// How long attempts may take to end when a node drains the worker.
    drain_time: Duration,
    /// Whether a node has drained it.
    is_drained: bool,
    /// When a drained worker stops its attempts. `None` means that it has, or is not drained.
    yield_at: Option<Duration>,
    /// When a worker that is to end stops its attempts. `None` means that it is not to end.
    drain_until: Option<Duration>,
    is_stopping: bool,
    /// What attempts reported and no node was told yet.
    gathered: BTreeMap<Key, Progress>,
    /// When they are sent.
    send_at: Option<Duration>,
    outputs: Vec<Output>,
}

impl Driver {
    pub fn new(slots: usize, kinds: Kinds, heartbeat: Duration) -> Driver {
        Driver {
            kinds,
            attempts: Attempts::new(slots),
            nodes: Nodes::default(),
            lender: Lender::default(),
            heartbeat,
            next_beat: Duration::ZERO,
            next_pulse: None,
            beats: VecDeque::new(),
            beat: 0,
            drain_time: Duration::ZERO,
            is_drained: false,
            yield_at: None,
            drain_until: None,
            is_stopping: false,
            gathered: BTreeMap::new(),
            send_at: None,
            outputs: Vec::new(),
        }
    }

    /// Sets how long attempts may take to end when a node drains the worker; without it they are stopped at once.
    #[must_use]
    pub fn with_drain_time(mut self, time: Duration) -> Driver {
        self.drain_time = time;
        self
    }

    /// Works for the node in this process, which is connected as long as the worker lives.
    pub fn join_in_process(&mut self) {
        self.nodes.add_in_process();
        self.lender.joined(LinkId::IN_PROCESS);
    }

    /// Adds a node that is to be dialled as long as the worker lives. `None` means that the node is known already.
    pub fn add_node(&mut self, url: &str) -> Option<LinkId> {
        self.nodes.add(url, true)
    }

    pub fn step(&mut self, input: Input, now: Now) -> Vec<Output> {
        match input {
            Input::Welcomed { link, welcome } => self.welcomed(link, welcome, now),
            Input::Admitted { link } => self.admitted_by(link),
            Input::Orders { link, orders } => self.ordered(link, orders, now),
            Input::Heard { link, beat } => {
                if let Some((_, sent)) = self.beats.iter().find(|(number, _)| *number == beat) {
                    self.nodes.heard_beat(link, beat, *sent);
                }
            }
            Input::Members { link, addresses } => self.outputs.extend(self.nodes.listed(link, addresses)),
            Input::Gone { link } => self.gone(link),
            Input::Progress(report) => self.reported(report, now.elapsed),
            Input::Ended { run, outcome, stopped } => self.ended(run, outcome, stopped, now),
            Input::Printed(key) => self.attempts.printed(key),
            Input::OutputKept(key) => {
                let released = self.attempts.output_kept(key, self.beat);
                self.tell_owner(released);
            }
            Input::Drain(time) => {
                self.lender.drain(true);
                self.drain_until = Some(now.elapsed + time);
                self.tell(None, Report::Draining { on: true });
            }
            Input::Stop => self.stop(),
            Input::Clock => {}
        }
        self.look_at_the_clock(now.elapsed);
        self.lend(now.elapsed);
        let stops = self.attempts.take_stops().into_iter();
        self.outputs.extend(stops.map(|(run, why)| Output::Stop { run, why }));
        std::mem::take(&mut self.outputs)
    }

    /// When [`Input::Clock`] is due if nothing happens before.
    pub fn next_wake(&self) -> Option<Duration> {
        let beat = (!self.may_be_silent()).then_some(self.next_beat);
        let drained = self.drain_until.filter(|_| !self.is_stopping);
        let wakes = [beat, self.next_pulse, self.lender.next_wake(), drained, self.yield_at, self.send_at];
        wakes.into_iter().flatten().min()
    }

    /// The node that an attempt belongs to.
    pub fn owner(&self, attempt: Key) -> Option<LinkId> {
        self.attempts.owner(attempt)
    }

    pub fn is_admitted(&self, link: LinkId) -> bool {
        self.nodes.is_admitted(link)
    }

    /// The nodes that give this worker work.
    pub fn admitted(&self) -> impl Iterator<Item = LinkId> {
        self.nodes.admitted_links().map(|(link, _)| link)
    }

    /// Attempts that are not over.
    pub fn unfinished(&self) -> Vec<Key> {
        self.attempts.unfinished()
    }

    /// Whether a worker that drains has finished, or its time is over.
    pub fn has_drained(&self, now: Duration) -> bool {
        let is_settled = || self.attempts.is_empty() && self.lender.unused() == 0;
        self.drain_until.is_some_and(|until| is_settled() || now >= until)
    }

    fn welcomed(&mut self, link: LinkId, welcome: Welcome, now: Now) {
        if self.drain_until.is_some() || !self.nodes.welcomed(link, &welcome, now.elapsed) {
            return self.outputs.push(Output::Unwanted { link });
        }
        self.heartbeat = self.heartbeat.min(welcome.heartbeat.max(HEARTBEAT_MIN));
        self.next_beat = self.next_beat.min(now.elapsed + self.heartbeat);
        self.outputs.push(Output::Announce { to: link, holding: self.attempts.holding() });
        self.outputs.extend(self.nodes.listed(link, welcome.members));
    }

    fn admitted_by(&mut self, link: LinkId) {
        if !self.nodes.admitted(link) {
            return;
        }
        self.lender.joined(link);
        if self.is_drained || self.drain_until.is_some() {
            self.outputs.push(Output::Say { to: link, report: Report::Draining { on: true } });
        }
        for report in self.attempts.starts(link) {
            self.outputs.push(Output::Say { to: link, report });
        }
        // It may be the one that can settle what no node has acknowledged.
        self.say_all_to(link);
    }

    fn gone(&mut self, link: LinkId) {
        self.lender.left(&link);
        self.nodes.down(link);
    }

    fn hang_up(&mut self, link: LinkId) {
        self.outputs.push(Output::HangUp { link });
        self.gone(link);
    }

    fn ordered(&mut self, link: LinkId, orders: Vec<Order>, now: Now) {
        if !self.nodes.is_admitted(link) {
            return;
        }
        if self.may_be_silent() {
            self.next_beat = now.elapsed + self.heartbeat;
        }
        for order in orders {
            // What arrives after the end of a connection is too late: it may run elsewhere.
            if self.nodes.is_admitted(link) {
                self.obey(link, order, now);
            }
        }
        self.start_ready(now);
        self.watch(now.elapsed);
    }

    fn obey(&mut self, link: LinkId, order: Order, now: Now) {
        match order {
            Order::Assign(assignment) => self.assigned(link, assignment, now),
            Order::Cancel { run, token, cause } => {
                debug!(%run, %token, ?cause, "asked to stop an attempt");
                let ended = self.attempts.cancel((run, token), cause, link, now, self.beat);
                self.tell_owner(ended);
            }
            Order::Acknowledge { run, token } => self.attempts.acknowledge((run, token)),
            Order::Saved { run, token, seq } => {
                if self.attempts.owner((run, token)).is_some() {
                    self.outputs.push(Output::Saved { run, seq });
                }
            }
            Order::Resend => self.say_all_to(link),
            Order::GaveBack { total } => self.lender.gave_back(&link, total),
            Order::Waiting { priority, runs } => self.lender.waits(&link, priority, runs, now.elapsed),
            Order::Drain { on } => self.drain(on, now.elapsed),
        }
    }

    /// A node says whether the worker is to take work.
    fn drain(&mut self, on: bool, now: Duration) {
        if self.is_stopping || self.drain_until.is_some() || self.is_drained == on {
            return;
        }
        self.is_drained = on;
        self.lender.drain(on);
        self.yield_at = on.then_some(now + self.drain_time);
        self.tell(None, Report::Draining { on });
        if on {
            self.decline_waiting();
        }
    }

    fn decline_waiting(&mut self) {
        for report in self.attempts.decline_waiting() {
            self.tell(None, report);
        }
    }

    fn assigned(&mut self, link: LinkId, assignment: Assignment, now: Now) {
        let Assignment { run, token, lease, again, .. } = assignment;
        // The node that decided an assignment has used a credit, even if the assignment comes too late, or another node has
        // offered it meanwhile. An offer that is made again uses none.
        if !again || is_planted(Fault::OfferUsesCredit) {
            self.lender.used(&link);
        }
        let takes_no_more = self.is_stopping || self.is_drained;
        if takes_no_more && self.attempts.is_new(run, token) {
            return self.outputs.push(Output::Say { to: link, report: Report::Declined { run, token } });
        }
        if !self.nodes.heard_within(link, lease, now.elapsed) {
            warn!(%run, %token, "an assignment came after its lease: it is not started");
            // The node offers its attempts again when the worker joins.
            return self.hang_up(link);
        }
        // The first offer may come late, after another leader has made its own: then it changes nothing.
        if again {
            self.attempts.offered_again(&assignment, link, now.elapsed);
        }
        if self.is_stopping {
            return;
        }
        match self.attempts.assign(assignment, link, now.elapsed) {
            Assigned::Start(assignment) => self.start(assignment, now),
            Assigned::Ended(report) => self.outputs.push(Output::Say { to: link, report }),
            Assigned::Nothing => {}
        }
    }

    fn start_ready(&mut self, now: Now) {
        while !self.is_stopping
            && let Some((assignment, stop)) = self.attempts.next_ready()
        {
            let run = assignment.run;
            self.start(assignment, now);
            if let Some(stop) = stop {
                self.attempts.stop(run, stop);
            }
        }
    }

    fn start(&mut self, assignment: Assignment, now: Now) {
        let (run, token, kind) = (assignment.run, assignment.token, assignment.definition.task.kind());
        let at_once = if !self.kinds.contains(kind) {
            let why = format!("this worker takes no {} tasks", kind.as_str());
            Some(Outcome::failed(now.wall, why))
        } else {
            matches!(assignment.definition.task, Task::Noop).then(|| Outcome::succeeded(now.wall))
        };
        if let Some(outcome) = at_once {
            let ended = self.attempts.ended_at_once(run, outcome, self.beat);
            return self.tell_owner(ended);
        }
        self.attempts.start(run, now.wall);
        let owner = self.attempts.owner((run, token));
        self.tell(owner, Report::Started { run, token, at: now.wall });
        self.outputs.push(Output::Execute { assignment, started_at: now.wall });
    }

    /// A report that only shows progress waits a moment for those of other attempts, so that a node wakes up once for all.
    fn reported(&mut self, report: Report, now: Duration) {
        let Report::Progress { run, token, progress } = report else { return };
        let key = (run, token);
        if progress.is_for_show() {
            self.gathered.entry(key).or_default().follow(progress);
            self.send_at.get_or_insert(now + GATHER);
        } else {
            self.send_gathered_of(key);
            self.tell_progress(key, progress);
        }
    }

    fn send_gathered_of(&mut self, key: Key) {
        if let Some(progress) = self.gathered.remove(&key) {
            self.tell_progress(key, progress);
        }
    }

    fn tell_progress(&mut self, (run, token): Key, progress: Progress) {
        let owner = self.attempts.owner((run, token));
        self.tell(owner, Report::Progress { run, token, progress });
    }

    fn ended(&mut self, run: RunId, mut outcome: Outcome, stopped: Option<Stop>, now: Now) {
        let reported = self.gathered.keys().find(|(of, _)| *of == run).copied();
        if let Some(key) = reported {
            self.send_gathered_of(key);
        }
        // It did nothing wrong. Reported as failed, it would use up one of its attempts.
        if stopped.is_some_and(Stop::is_yield) {
            outcome.end = End::Yielded;
        }
        let ended = self.attempts.ended(run, outcome, now.elapsed, self.beat);
        self.tell_owner(ended);
        self.start_ready(now);
        self.watch(now.elapsed);
    }

    fn stop(&mut self) {
        self.is_stopping = true;
        self.lender.drain(true);
        self.decline_waiting();
        self.attempts.stop_all(Stop::Shutdown);
        for released in self.attempts.release_held(Duration::MAX, self.beat) {
            self.tell_owner(Some(released));
        }
    }

    fn look_at_the_clock(&mut self, now: Duration) {
        if self.yield_at.is_some_and(|at| at <= now) {
            self.yield_at = None;
            self.attempts.stop_all(Stop::Drained);
        }
        if self.send_at.is_some_and(|at| at <= now) {
            self.send_at = None;
            for (key, progress) in std::mem::take(&mut self.gathered) {
                self.tell_progress(key, progress);
            }
        }
        let beats = now >= self.next_beat && !self.may_be_silent();
        if beats {
            self.next_beat = now + self.heartbeat;
            self.send_heartbeat(now);
        }
        if !beats && self.next_pulse.is_none_or(|at| at > now) {
            return;
        }
        self.next_pulse = None;
        if let Some(before) = now.checked_sub(OUTPUT_WAIT_MAX) {
            for released in self.attempts.release_held(before, self.beat) {
                self.tell_owner(Some(released));
            }
        }
        for (run, token) in self.attempts.give_up(now, |link| self.nodes.heard(link, now)) {
            warn!(%run, %token, "no node has heard this worker for a lease: the attempt is stopped");
        }
        for link in self.nodes.mute(now) {
            self.hang_up(link);
        }
        self.watch(now);
    }

    /// Schedules the next check of leases and held outcomes, if there are any.
    fn watch(&mut self, now: Duration) {
        let needs = || !self.nodes.is_in_process() && self.attempts.needs_watching();
        if self.next_pulse.is_none() && needs() {
            self.next_pulse = Some(now + PULSE);
        }
    }

    /// A worker without attempts sends nothing to the node in its own process, so that an idle machine can sleep.
    fn may_be_silent(&self) -> bool {
        self.nodes.is_in_process() && self.attempts.is_empty()
    }

    fn send_heartbeat(&mut self, now: Duration) {
        self.beat += 1;
        self.beats.push_back((self.beat, now));
        if self.beats.len() > BEATS_MAX {
            self.beats.pop_front();
        }
        // A node that received a heartbeat after the outcome has the outcome, but does not settle it; another node may.
        let overdue = self.attempts.unacknowledged(self.beat.saturating_sub(1), self.beat);
        let holding = self.attempts.holding();
        for (to, node) in self.nodes.admitted_links() {
            let again = overdue.iter().filter(|(sent, _)| *sent < node.heard_beat);
            self.outputs.extend(again.map(|(_, report)| Output::Say { to, report: report.clone() }));
            self.outputs.push(Output::Heartbeat { to, beat: self.beat, holding: holding.clone() });
        }
    }

    /// Every outcome without an acknowledgement, and a heartbeat.
    fn say_all_to(&mut self, to: LinkId) {
        for (_, report) in self.attempts.unacknowledged(u64::MAX, self.beat) {
            self.outputs.push(Output::Say { to, report });
        }
        self.outputs.push(Output::Heartbeat { to, beat: self.beat, holding: self.attempts.holding() });
    }

    fn tell_owner(&mut self, told: Option<(LinkId, Report)>) {
        if let Some((owner, report)) = told {
            self.tell(Some(owner), report);
        }
    }

    /// To the node that assigned it; if that is not connected, to every node that is.
    fn tell(&mut self, owner: Option<LinkId>, report: Report) {
        if let Some(to) = owner.filter(|owner| self.nodes.is_admitted(*owner)) {
            return self.outputs.push(Output::Say { to, report });
        }
        let everyone = self.nodes.admitted_links();
        self.outputs.extend(everyone.map(|(to, _)| Output::Say { to, report: report.clone() }));
    }

    fn lend(&mut self, now: Duration) {
        let lent = self.lender.lend(self.attempts.room(), now);
        self.outputs.extend(lent.into_iter().map(|(to, report)| Output::Say { to, report }));
    }
}
