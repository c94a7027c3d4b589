//! The attempts of a worker: those that wait for a slot, those that run, and those whose outcome no node has acknowledged.
//!
//! Two rules hold everything else: an attempt starts once, however often it is assigned; and of one run only one attempt
//! runs at a time, so a newer token waits until the older attempt has ended.
//!
//! ```text
//!  assign ──▶ waiting ──▶ running ──ended──▶ ended ──acknowledge──▶ settled (remembered for a while)
//!                │           │ newer token: stopped, its outcome is dropped
//!                └──cancel───┴──────────────▶ ended
//! ```
//!
//! A cancelled attempt that waits is executed all the same if an earlier attempt of its run may have left work at a
//! service: only an executor can tell the service to stop.

use std::collections::VecDeque;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::attempt::{Assignment, Outcome, Report};
use punctual_core::ids::{RunId, Token};
use punctual_core::planted::{Fault, is_planted};
use punctual_core::run::Cause;
use punctual_core::task::Task;
use rustc_hash::FxHashMap;
use tracing::warn;

use super::settled::Settled;
use super::{Key, LinkId, Now, Stop};

/// Attempts of all stages. A node that assigns against slots stays far below; beyond it an assignment is dropped, and its
/// node offers it elsewhere when its lease ends.
const ATTEMPTS_MAX: usize = 100_000;
/// With more attempts than this no slot is lent: nodes that do not acknowledge outcomes get no room for more.
const UNSETTLED_MAX: usize = ATTEMPTS_MAX / 2;
/// Bytes of outcomes without an acknowledgement. Beyond it nothing starts that could add to them.
const OUTCOME_BYTES_MAX: usize = 32 * 1024 * 1024;

#[derive(Debug)]
pub(super) struct Attempts {
    slots: usize,
    /// The newest attempt of each run.
    newest: FxHashMap<RunId, Attempt>,
    /// The attempt of each run that is executed. When a newer one waits for its end, this is the older one.
    running: FxHashMap<RunId, Running>,
    /// Runs that wait for a slot, or for the end of their older attempt.
    line: VecDeque<RunId>,
    /// Runs whose waiting attempt is cancelled and has to cancel the work of an earlier one. They wait for no slot, only
    /// for the end of their older attempt.
    cancelling: VecDeque<(RunId, Stop)>,
    settled: Settled,
    outcome_bytes: usize,
    /// Executions to be stopped, until the driver takes them.
    stops: Vec<(RunId, Stop)>,
}

#[derive(Debug)]
struct Attempt {
    token: Token,
    /// The node that assigned it last, which is the one to settle it.
    owner: LinkId,
    /// When it was last assigned: the owner knew then that this worker lives.
    since: Duration,
    lease: Duration,
    stage: Stage,
    /// Chunks of its output that no node has kept yet.
    unkept: u32,
}

#[derive(Debug)]
enum Stage {
    Waiting(Box<Assignment>),
    Running { started: Timestamp },
    Ended { outcome: Outcome, sent: Sent },
}

#[derive(Debug)]
enum Sent {
    /// It waits until its output is kept, since then.
    Held(Duration),
    /// It was last sent after this heartbeat.
    After(u64),
}

#[derive(Debug)]
struct Running {
    token: Token,
    /// Why it was told to stop. `None` means that it was not.
    stopped: Option<Stop>,
}

/// What follows from an assignment.
#[derive(Debug, PartialEq)]
pub(super) enum Assigned {
    Start(Assignment),
    /// It has ended already, and its node does not know the outcome.
    Ended(Report),
    Nothing,
}

impl Attempt {
    fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Ended { .. })
    }

    /// The report of its outcome. `None` means it has not ended.
    fn outcome(&self, run: RunId) -> Option<Report> {
        let Stage::Ended { outcome, .. } = &self.stage else { return None };
        Some(Report::Finished { run, token: self.token, outcome: outcome.clone() })
    }

    /// The outcome that waited for its output, and the node to tell.
    fn release(&mut self, run: RunId, beat: u64) -> Option<(LinkId, Report)> {
        let Stage::Ended { sent: sent @ Sent::Held(_), .. } = &mut self.stage else { return None };
        *sent = Sent::After(beat);
        Some((self.owner, self.outcome(run)?))
    }

    /// When its owner has not heard this worker for the lease. `heard` says when a node last did.
    fn lease_ends(&self, heard: impl Fn(LinkId) -> Option<Duration>) -> Duration {
        heard(self.owner).unwrap_or_default().max(self.since) + self.lease
    }
}

impl Attempts {
    pub(super) fn new(slots: usize) -> Self {
        Attempts {
            slots,
            newest: FxHashMap::default(),
            running: FxHashMap::default(),
            line: VecDeque::new(),
            cancelling: VecDeque::new(),
            settled: Settled::default(),
            outcome_bytes: 0,
            stops: Vec::new(),
        }
    }

    /// Whether the worker has never had this attempt or a newer one of its run.
    pub(super) fn is_new(&self, run: RunId, token: Token) -> bool {
        !self.settled.covers(run, token) && self.newest.get(&run).is_none_or(|known| known.token < token)
    }

    /// Notes that another leader of the shard offers an attempt again, which this worker may have.
    pub(super) fn offered_again(&mut self, offer: &Assignment, owner: LinkId, now: Duration) {
        let known = self.newest.get_mut(&offer.run).filter(|known| known.token == offer.token);
        if let Some(known) = known {
            (known.owner, known.since, known.lease) = (owner, now, offer.lease);
        }
    }

    /// Notes who assigned an attempt. An attempt that may start at once is returned, and is still to be [started](Self::start).
    pub(super) fn assign(&mut self, assignment: Assignment, owner: LinkId, now: Duration) -> Assigned {
        let (run, token, lease) = (assignment.run, assignment.token, assignment.lease);
        let count = self.newest.len();
        match self.newest.get_mut(&run) {
            Some(known) if known.token == token => {
                let is_held = matches!(known.stage, Stage::Ended { sent: Sent::Held(_), .. });
                let ended = known.outcome(run).filter(|_| !is_held);
                return ended.map_or(Assigned::Nothing, Assigned::Ended);
            }
            Some(known) if known.token > token => return Assigned::Nothing,
            Some(_) => self.supersede(run),
            None if self.settled.covers(run, token) && !is_planted(Fault::AttemptStartsAgain) => {
                return Assigned::Nothing;
            }
            None if count >= ATTEMPTS_MAX => {
                warn!(%run, %token, "this worker has too many attempts: the assignment is dropped");
                return Assigned::Nothing;
            }
            None => {}
        }
        // A noop needs no slot.
        let has_room = matches!(assignment.definition.task, Task::Noop)
            || (self.has_free_slot() && self.line.is_empty());
        let starts = has_room && !self.running.contains_key(&run);
        let (stage, started) = if starts {
            (Stage::Running { started: Timestamp::MIN }, Assigned::Start(assignment))
        } else {
            self.line.push_back(run);
            (Stage::Waiting(Box::new(assignment)), Assigned::Nothing)
        };
        self.newest.insert(run, Attempt { token, owner, since: now, lease, stage, unkept: 0 });
        started
    }

    /// The next attempt that may start now, and why it is to be stopped then. It is still to be [started](Self::start).
    pub(super) fn next_ready(&mut self) -> Option<(Assignment, Option<Stop>)> {
        let (run, stop) = self.next_cancelling().or_else(|| self.next_in_line())?;
        let attempt = self.newest.get_mut(&run)?;
        match std::mem::replace(&mut attempt.stage, Stage::Running { started: Timestamp::MIN }) {
            Stage::Waiting(assignment) => Some((*assignment, stop)),
            stage => unreachable!("run {run} waits for a slot and is {stage:?}"),
        }
    }

    fn next_cancelling(&mut self) -> Option<(RunId, Option<Stop>)> {
        let place = self.cancelling.iter().position(|(run, _)| !self.running.contains_key(run))?;
        let (run, stop) = self.cancelling.remove(place)?;
        Some((run, Some(stop)))
    }

    fn next_in_line(&mut self) -> Option<(RunId, Option<Stop>)> {
        if !self.has_free_slot() {
            return None;
        }
        let place = self.line.iter().position(|run| !self.running.contains_key(run))?;
        Some((self.line.remove(place)?, None))
    }

    /// The newest attempt of a run takes a slot.
    pub(super) fn start(&mut self, run: RunId, now: Timestamp) {
        let Some(attempt) = self.newest.get_mut(&run) else { return };
        attempt.stage = Stage::Running { started: now };
        let older = self.running.insert(run, Running { token: attempt.token, stopped: None });
        assert!(older.is_none(), "two attempts of run {run} are executed");
    }

    /// Slots that may be lent: no attempt runs in them or waits for them.
    pub(super) fn room(&self) -> usize {
        if self.outcome_bytes >= OUTCOME_BYTES_MAX {
            return 0;
        }
        let free = self.slots.saturating_sub(self.running.len() + self.line.len());
        free.min(UNSETTLED_MAX.saturating_sub(self.newest.len()))
    }

    fn has_free_slot(&self) -> bool {
        self.running.len() < self.slots && self.outcome_bytes < OUTCOME_BYTES_MAX
    }

    /// An execution has ended. Returns the outcome and the node to send it to. `None` means that a newer attempt replaced
    /// this one, or that the outcome waits until its output is stored.
    pub(super) fn ended(
        &mut self,
        run: RunId,
        outcome: Outcome,
        now: Duration,
        beat: u64,
    ) -> Option<(LinkId, Report)> {
        let token = self.running.remove(&run)?.token;
        let attempt = self.newest.get(&run).filter(|newest| newest.token == token)?;
        let is_held = attempt.unkept > 0;
        let sent = if is_held { Sent::Held(now) } else { Sent::After(beat) };
        self.keep(run, outcome, sent).filter(|_| !is_held)
    }

    /// The newest attempt of a run is over without having been executed.
    pub(super) fn ended_at_once(
        &mut self,
        run: RunId,
        outcome: Outcome,
        beat: u64,
    ) -> Option<(LinkId, Report)> {
        self.keep(run, outcome, Sent::After(beat))
    }

    /// Keeps an outcome until it is acknowledged.
    fn keep(&mut self, run: RunId, outcome: Outcome, sent: Sent) -> Option<(LinkId, Report)> {
        let attempt = self.newest.get_mut(&run)?;
        self.outcome_bytes += bytes_of(&outcome);
        let report = Report::Finished { run, token: attempt.token, outcome: outcome.clone() };
        attempt.stage = Stage::Ended { outcome, sent };
        let told = (attempt.owner, report);
        if is_planted(Fault::OutcomeIsForgotten) {
            self.remove(run);
        }
        Some(told)
    }

    /// Cancels an attempt. An attempt that has not started never does: its outcome and the node to tell are returned.
    /// Only if it has to cancel the work of an earlier attempt, it starts, and is stopped then.
    pub(super) fn cancel(
        &mut self,
        (run, token): Key,
        cause: Cause,
        from: LinkId,
        now: Now,
        beat: u64,
    ) -> Option<(LinkId, Report)> {
        let stop = Stop::Cancelled(cause);
        match self.newest.get(&run) {
            Some(newest) if newest.token > token => return None,
            Some(newest) if newest.token == token => match newest.stage {
                Stage::Running { .. } => {
                    self.stop(run, stop);
                    return None;
                }
                Stage::Ended { .. } => return None,
                Stage::Waiting(ref assignment) if has_to_cancel_work(assignment, cause) => {
                    self.start_cancelling(run, stop);
                    return None;
                }
                Stage::Waiting(_) => self.supersede(run),
            },
            Some(_) => self.supersede(run),
            None if self.settled.covers(run, token) => return None,
            None => {}
        }
        let (since, stage) = (now.elapsed, Stage::Running { started: now.wall });
        let attempt = Attempt { token, owner: from, since, lease: Duration::ZERO, stage, unkept: 0 };
        self.newest.insert(run, attempt);
        self.ended_at_once(run, Outcome::failed(now.wall, format!("{stop} before it started")), beat)
    }

    fn start_cancelling(&mut self, run: RunId, stop: Stop) {
        self.line.retain(|waiting| *waiting != run);
        if !self.cancelling.iter().any(|(waiting, _)| *waiting == run) {
            self.cancelling.push_back((run, stop));
        }
    }

    pub(super) fn acknowledge(&mut self, (run, token): Key) {
        if self.newest.get(&run).is_some_and(|newest| newest.token == token && newest.is_over()) {
            self.remove(run);
            self.settled.insert(run, token);
        }
    }

    /// Stops every attempt whose owner has not heard this worker for its lease: the owner has given it up by now, and may
    /// have started it elsewhere. Outcomes are kept; they may still be in time.
    pub(super) fn give_up(&mut self, now: Duration, heard: impl Fn(LinkId) -> Option<Duration>) -> Vec<Key> {
        let overdue =
            self.newest.iter().filter(|(_, attempt)| !attempt.is_over() && attempt.lease_ends(&heard) <= now);
        let overdue = overdue.filter(|_| !is_planted(Fault::LeaseIsIgnored));
        let mut overdue: Vec<Key> = overdue.map(|(run, attempt)| (*run, attempt.token)).collect();
        overdue.sort_unstable();
        for (run, token) in &overdue {
            self.remove(*run);
            self.stop(*run, Stop::Unheard);
            self.settled.insert(*run, *token);
        }
        overdue
    }

    /// Gives back what has not started: another worker may take it.
    pub(super) fn decline_waiting(&mut self) -> Vec<Report> {
        let line = std::mem::take(&mut self.line).into_iter();
        let cancelling = std::mem::take(&mut self.cancelling).into_iter().map(|(run, _)| run);
        let declined = line.chain(cancelling).filter_map(|run| {
            let token = self.remove(run)?.token;
            Some(Report::Declined { run, token })
        });
        declined.collect()
    }

    pub(super) fn stop_all(&mut self, why: Stop) {
        let mut runs: Vec<RunId> = self.running.keys().copied().collect();
        runs.sort_unstable();
        for run in runs {
            self.stop(run, why);
        }
    }

    /// The executions that are to be stopped since this was last asked.
    pub(super) fn take_stops(&mut self) -> Vec<(RunId, Stop)> {
        std::mem::take(&mut self.stops)
    }

    /// A chunk of output is on its way to a node.
    pub(super) fn printed(&mut self, (run, token): Key) {
        if let Some(attempt) = self.newest.get_mut(&run).filter(|newest| newest.token == token) {
            attempt.unkept += 1;
        }
    }

    /// A chunk is kept, or refused for good. Gives the outcome that waited for it, and the node to tell.
    pub(super) fn output_kept(&mut self, (run, token): Key, beat: u64) -> Option<(LinkId, Report)> {
        let attempt = self.newest.get_mut(&run).filter(|newest| newest.token == token)?;
        attempt.unkept = attempt.unkept.saturating_sub(1);
        if attempt.unkept == 0 { attempt.release(run, beat) } else { None }
    }

    /// The outcomes that have waited for their output since `before` go without it.
    pub(super) fn release_held(&mut self, before: Duration, beat: u64) -> Vec<(LinkId, Report)> {
        let held = self.newest.iter_mut().filter(|(_, attempt)| {
            matches!(attempt.stage, Stage::Ended { sent: Sent::Held(since), .. } if since <= before)
        });
        held.filter_map(|(run, attempt)| attempt.release(*run, beat)).collect()
    }

    /// Whether a lease or an outcome that waits for its output has to be watched.
    pub(super) fn needs_watching(&self) -> bool {
        self.newest
            .values()
            .any(|attempt| !matches!(attempt.stage, Stage::Ended { sent: Sent::After(_), .. }))
    }

    /// Outcomes to send again, each with the heartbeat after which it was last sent: all, or those that were sent before
    /// a heartbeat.
    pub(super) fn unacknowledged(&mut self, before: u64, beat: u64) -> Vec<(u64, Report)> {
        let due = self.newest.iter_mut().filter_map(|(run, attempt)| {
            let Stage::Ended { sent: Sent::After(sent), .. } = &mut attempt.stage else { return None };
            if *sent >= before {
                return None;
            }
            let sent = std::mem::replace(sent, beat);
            Some((sent, attempt.outcome(*run)?))
        });
        due.collect()
    }

    /// The starts of what is executed for a node, which may have missed them.
    pub(super) fn starts(&self, owner: LinkId) -> Vec<Report> {
        let theirs = self.newest.iter().filter(|(_, attempt)| attempt.owner == owner);
        let started = theirs.filter_map(|(run, attempt)| match attempt.stage {
            Stage::Running { started } => {
                Some(Report::Started { run: *run, token: attempt.token, at: started })
            }
            _ => None,
        });
        started.collect()
    }

    pub(super) fn owner(&self, (run, token): Key) -> Option<LinkId> {
        self.newest.get(&run).filter(|newest| newest.token == token).map(|attempt| attempt.owner)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.newest.is_empty()
    }

    /// Every attempt that is not settled.
    pub(super) fn holding(&self) -> Vec<Key> {
        self.newest.iter().map(|(run, newest)| (*run, newest.token)).collect()
    }

    /// Attempts that are not over.
    pub(super) fn unfinished(&self) -> Vec<Key> {
        let unfinished = self.newest.iter().filter(|(_, attempt)| !attempt.is_over());
        unfinished.map(|(run, attempt)| (*run, attempt.token)).collect()
    }

    fn remove(&mut self, run: RunId) -> Option<Attempt> {
        let gone = self.newest.remove(&run)?;
        match &gone.stage {
            Stage::Ended { outcome, .. } => self.outcome_bytes -= bytes_of(outcome),
            Stage::Waiting(_) => {
                self.line.retain(|waiting| *waiting != run);
                self.cancelling.retain(|(waiting, _)| *waiting != run);
            }
            Stage::Running { .. } => {}
        }
        Some(gone)
    }

    /// Forgets the newest attempt of a run in favour of a newer one, and stops the execution of an older one.
    fn supersede(&mut self, run: RunId) {
        self.remove(run);
        self.stop(run, Stop::Superseded);
    }

    /// Stops an attempt once, for the first reason. A later reason counts only if it leaves no grace period.
    pub(super) fn stop(&mut self, run: RunId, why: Stop) {
        let at_once = |stop: Stop| stop.grace(Duration::MAX).is_zero();
        if let Some(running) = self.running.get_mut(&run)
            && running.stopped.is_none_or(|earlier| at_once(why) && !at_once(earlier))
        {
            running.stopped = Some(why);
            self.stops.push((run, why));
        }
    }
}

/// Whether an earlier attempt may have left work at a service, which the cancel has to reach.
fn has_to_cancel_work(assignment: &Assignment, cause: Cause) -> bool {
    assignment.attempt > 1
        && assignment.definition.is_accepted_elsewhere()
        && cause.cancels_accepted_work()
        && cause != Cause::UserNow
}

fn bytes_of(outcome: &Outcome) -> usize {
    outcome.output.len() + outcome.error.len()
}
