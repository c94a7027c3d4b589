//! The book of attempts in hand: what was ordered, what runs, which outcome nobody has acknowledged yet.
//!
//! It decides and executes nothing. Two rules carry it: an attempt is started once however often it is ordered,
//! and of one run only one attempt is ever under way, so a newer token waits until the older attempt is gone.
//!
//! ```text
//!  assign ──▶ waiting ──begin──▶ running ──ended──▶ ended ──acknowledge──▶ settled (remembered for a while)
//!                │                  │ newer token: stopped, its outcome is dropped
//!                └─────cancel───────┴──────────────▶ ended
//! ```

use std::collections::VecDeque;

use punctual_core::Timestamp;
use punctual_core::attempt::{Assignment, Outcome, Report};
use punctual_core::ids::{RunId, Token};
use punctual_core::run::{Cause, Reason};
use punctual_core::task::Task;
use rustc_hash::FxHashMap;
use tokio::sync::watch;
use tracing::warn;

/// Attempts in hand, outcomes that wait for their acknowledgement included. A node that assigns against slots
/// stays far below; beyond it an assignment is left to run out of its lease.
pub(crate) const IN_HAND_MAX: usize = 100_000;
/// Beyond so many attempts in hand no slot is lent: whoever does not acknowledge outcomes gets no room for more.
const UNSETTLED_MAX: usize = IN_HAND_MAX / 2;
/// Outcomes that wait for their acknowledgement, in bytes: a node that does not write down what it is told must not fill
/// our memory with results. Beyond it nothing more begins that may leave one.
const UNHEARD_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Settled attempts that are remembered, so that an order that was delivered twice starts nothing.
const SETTLED_MAX: usize = 65_536;

/// Why an attempt is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    Cancelled(Cause),
    /// A newer attempt of the same run was assigned.
    Superseded,
    Shutdown,
    /// Nobody who could settle it has heard its worker for a lease.
    Unheard,
}

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Stop::Cancelled(cause) => Reason::Cancelled(*cause).fmt(f),
            Stop::Superseded => f.write_str("a newer attempt took its place"),
            Stop::Shutdown => f.write_str("its worker shut down"),
            Stop::Unheard => f.write_str("no node has heard its worker for a lease"),
        }
    }
}

pub(crate) type Stopper = watch::Sender<Option<Stop>>;

/// What is to be done about an assignment.
#[derive(Debug, PartialEq)]
pub(crate) enum Told {
    Begin(Assignment),
    /// It is over already, and its outcome was not acknowledged.
    Again(Report),
    Nothing,
}

#[derive(Debug)]
pub(crate) struct Attempts {
    slots: usize,
    /// The newest attempt of each run.
    in_hand: FxHashMap<RunId, InHand>,
    /// The attempts that are under way; of a run with two tokens this is the older one.
    running: FxHashMap<RunId, Running>,
    /// Runs that wait for a slot, or for their older attempt to be gone.
    line: VecDeque<RunId>,
    settled: Settled,
    /// Bytes of the outcomes that wait for their acknowledgement.
    unheard_bytes: usize,
    /// Heartbeats so far: an outcome remembers in which one it was sent.
    beat: u32,
}

#[derive(Debug)]
struct InHand {
    token: Token,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Waiting(Box<Assignment>),
    Running,
    Ended { outcome: Outcome, sent: u32 },
}

#[derive(Debug)]
struct Running {
    token: Token,
    stopper: Stopper,
}

impl Attempts {
    pub(crate) fn new(slots: usize) -> Self {
        Attempts {
            slots,
            in_hand: FxHashMap::default(),
            running: FxHashMap::default(),
            line: VecDeque::new(),
            settled: Settled::default(),
            unheard_bytes: 0,
            beat: 0,
        }
    }

    pub(crate) fn assign(&mut self, assignment: Assignment) -> Told {
        let (run, token) = (assignment.run, assignment.token);
        match self.in_hand.get(&run) {
            Some(known) if known.token >= token => return self.told_again(run, token),
            Some(_) => self.supersede(run),
            None if self.settled.covers(run, token) => return Told::Nothing,
            None if self.in_hand.len() >= IN_HAND_MAX => {
                warn!(%run, %token, "too many attempts in hand, the assignment is not taken");
                return Told::Nothing;
            }
            None => {}
        }
        // What does nothing needs no slot.
        let fits =
            matches!(assignment.definition.task, Task::Noop) || (self.has_room() && self.line.is_empty());
        if fits && !self.running.contains_key(&run) {
            return Told::Begin(assignment);
        }
        self.put(run, InHand { token, stage: Stage::Waiting(Box::new(assignment)) });
        self.line.push_back(run);
        Told::Nothing
    }

    /// Slots without an attempt that runs or waits in them.
    pub(crate) fn room(&self) -> usize {
        if self.unheard_bytes >= UNHEARD_BYTES_MAX {
            return 0;
        }
        let free = self.slots.saturating_sub(self.running.len() + self.line.len());
        free.min(UNSETTLED_MAX.saturating_sub(self.in_hand.len()))
    }

    /// Whether this attempt, or one that outdates it, was ordered before.
    pub(crate) fn knows(&self, run: RunId, token: Token) -> bool {
        self.in_hand.get(&run).is_some_and(|newest| newest.token >= token) || self.settled.covers(run, token)
    }

    /// The next attempt in line that may begin now.
    pub(crate) fn next_ready(&mut self) -> Option<Assignment> {
        if !self.has_room() {
            return None;
        }
        let place = self.line.iter().position(|run| !self.running.contains_key(run))?;
        let run = self.line.remove(place)?;
        match self.take(run)?.stage {
            Stage::Waiting(assignment) => Some(*assignment),
            stage => unreachable!("run {run} stands in line and is {stage:?}"),
        }
    }

    fn has_room(&self) -> bool {
        self.running.len() < self.slots && self.unheard_bytes < UNHEARD_BYTES_MAX
    }

    /// The attempt is under way.
    pub(crate) fn begun(&mut self, run: RunId, token: Token, stopper: Stopper) {
        let older = self.running.insert(run, Running { token, stopper });
        assert!(older.is_none(), "two attempts of run {run} are under way");
        self.put(run, InHand { token, stage: Stage::Running });
    }

    /// What was under way is over. None: a newer attempt took its place, so nobody wants to know.
    pub(crate) fn ended(&mut self, run: RunId, outcome: Outcome) -> Option<Report> {
        let token = self.running.remove(&run)?.token;
        let wanted = self.in_hand.get(&run).is_some_and(|newest| newest.token == token);
        wanted.then(|| self.keep(run, token, outcome))
    }

    /// Keeps an outcome until it is acknowledged.
    pub(crate) fn keep(&mut self, run: RunId, token: Token, outcome: Outcome) -> Report {
        self.unheard_bytes += weight_of(&outcome);
        let stage = Stage::Ended { outcome: outcome.clone(), sent: self.beat };
        self.put(run, InHand { token, stage });
        Report::Finished { run, token, outcome }
    }

    /// Stops an attempt that runs; one that does not run yet never will.
    pub(crate) fn cancel(
        &mut self,
        run: RunId,
        token: Token,
        cause: Cause,
        now: Timestamp,
    ) -> Option<Report> {
        let stop = Stop::Cancelled(cause);
        match self.in_hand.get(&run) {
            Some(newest) if newest.token > token => return None,
            Some(InHand { token: known, stage: Stage::Running }) if *known == token => {
                self.stop(run, stop);
                return None;
            }
            Some(InHand { token: known, stage: Stage::Ended { .. } }) if *known == token => return None,
            Some(_) => self.supersede(run),
            None if self.settled.covers(run, token) => return None,
            None => {}
        }
        Some(self.keep(run, token, Outcome::failed(now, format!("{stop} before it started"))))
    }

    pub(crate) fn acknowledge(&mut self, run: RunId, token: Token) {
        let over = matches!(self.in_hand.get(&run),
            Some(InHand { token: known, stage: Stage::Ended { .. } }) if *known == token);
        if over {
            self.take(run);
            self.settled.insert(run, token);
        }
    }

    fn put(&mut self, run: RunId, newest: InHand) {
        let before = self.in_hand.insert(run, newest);
        self.forget(before.as_ref());
    }

    fn take(&mut self, run: RunId) -> Option<InHand> {
        let gone = self.in_hand.remove(&run);
        self.forget(gone.as_ref());
        gone
    }

    fn forget(&mut self, gone: Option<&InHand>) {
        if let Some(InHand { stage: Stage::Ended { outcome, .. }, .. }) = gone {
            self.unheard_bytes -= weight_of(outcome);
        }
    }

    /// Stops an attempt that is outdated by now, or will be: nobody wants to know how it ends, and it is never begun
    /// again. An outcome that is there already is kept; it may still be in time.
    pub(crate) fn give_up(&mut self, run: RunId, token: Token) {
        let is_under_way = matches!(self.in_hand.get(&run),
            Some(InHand { token: known, stage: Stage::Waiting(_) | Stage::Running }) if *known == token);
        if !is_under_way {
            return;
        }
        if let Some(InHand { stage: Stage::Waiting(_), .. }) = self.take(run) {
            self.line.retain(|waiting| *waiting != run);
        }
        self.stop(run, Stop::Unheard);
        self.settled.insert(run, token);
    }

    /// Gives back what has not begun: another worker may take it.
    pub(crate) fn decline_waiting(&mut self) -> Vec<Report> {
        let line = std::mem::take(&mut self.line);
        let declined = line.into_iter().filter_map(|run| {
            let InHand { token, .. } = self.take(run)?;
            Some(Report::Declined { run, token })
        });
        declined.collect()
    }

    pub(crate) fn stop_all(&mut self) {
        let runs: Vec<RunId> = self.running.keys().copied().collect();
        for run in runs {
            self.stop(run, Stop::Shutdown);
        }
    }

    /// Nothing is in hand: nothing to be done, and nothing to be told.
    pub(crate) fn is_empty(&self) -> bool {
        self.in_hand.is_empty()
    }

    pub(crate) fn in_hand(&self) -> Vec<(RunId, Token)> {
        self.in_hand.iter().map(|(run, newest)| (*run, newest.token)).collect()
    }

    /// Begins a heartbeat: the outcomes that have waited for a whole one are due to be sent again.
    pub(crate) fn next_beat(&mut self) -> Vec<Report> {
        self.beat = self.beat.wrapping_add(1);
        self.unacknowledged(2)
    }

    /// Outcomes that were last sent at least so many heartbeats ago.
    pub(crate) fn unacknowledged(&mut self, beats: u32) -> Vec<Report> {
        let beat = self.beat;
        let due = self.in_hand.iter_mut().filter_map(|(run, newest)| match &mut newest.stage {
            Stage::Ended { outcome, sent } if beat.wrapping_sub(*sent) >= beats => {
                *sent = beat;
                Some(Report::Finished { run: *run, token: newest.token, outcome: outcome.clone() })
            }
            _ => None,
        });
        due.collect()
    }

    /// A node that asks again does not know the outcome.
    fn told_again(&self, run: RunId, token: Token) -> Told {
        match self.in_hand.get(&run) {
            Some(InHand { token: known, stage: Stage::Ended { outcome, .. } }) if *known == token => {
                Told::Again(Report::Finished { run, token, outcome: outcome.clone() })
            }
            _ => Told::Nothing,
        }
    }

    /// Forgets the newest attempt of a run in favour of a newer one, and stops what is under way.
    fn supersede(&mut self, run: RunId) {
        if let Some(InHand { stage: Stage::Waiting(_), .. }) = self.take(run) {
            self.line.retain(|waiting| *waiting != run);
        }
        self.stop(run, Stop::Superseded);
    }

    /// The first reason to stop is the one that is kept.
    fn stop(&mut self, run: RunId, stop: Stop) {
        if let Some(running) = self.running.get(&run) {
            running.stopper.send_if_modified(|reason| {
                let first = reason.is_none();
                reason.get_or_insert(stop);
                first
            });
        }
    }
}

fn weight_of(outcome: &Outcome) -> usize {
    outcome.output.len() + outcome.error.len()
}

/// The last attempts that were acknowledged, oldest first.
#[derive(Debug, Default)]
struct Settled {
    newest: FxHashMap<RunId, Token>,
    order: VecDeque<(RunId, Token)>,
}

impl Settled {
    /// This attempt, or one that outdates it, is over and known to be.
    fn covers(&self, run: RunId, token: Token) -> bool {
        self.newest.get(&run).is_some_and(|settled| *settled >= token)
    }

    fn insert(&mut self, run: RunId, token: Token) {
        if self.order.len() >= SETTLED_MAX
            && let Some((run, token)) = self.order.pop_front()
            && self.newest.get(&run) == Some(&token)
        {
            self.newest.remove(&run);
        }
        self.newest.insert(run, token);
        self.order.push_back((run, token));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use punctual_core::job::Definition;
    use punctual_core::name::Namespace;
    use punctual_core::run::{Part, Trigger};
    use punctual_core::task::Params;

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(7);

    fn assignment(run: i64, token: u64) -> Assignment {
        Assignment {
            run: RunId(run),
            token: Token(token),
            attempt: 1,
            namespace: Namespace::default(),
            job: None,
            revision: None,
            trigger: Trigger::Manual,
            key: None,
            due: NOW,
            late_from: NOW,
            definition: Arc::new(Definition::of(Task::Shell("true".to_owned()))),
            params: Params::default(),
            part: Part::default(),
            lease: Duration::from_secs(15),
            again: false,
        }
    }

    /// Orders an attempt that must begin at once, and lets it; its end of the stop signal is returned.
    fn begin(attempts: &mut Attempts, run: i64, token: u64) -> watch::Receiver<Option<Stop>> {
        assert_eq!(attempts.assign(assignment(run, token)), Told::Begin(assignment(run, token)));
        let (stopper, stop) = watch::channel(None);
        attempts.begun(RunId(run), Token(token), stopper);
        stop
    }

    fn end(attempts: &mut Attempts, run: i64) -> Option<Report> {
        attempts.ended(RunId(run), Outcome::succeeded(NOW))
    }

    fn finished(run: i64, token: u64) -> Report {
        Report::Finished { run: RunId(run), token: Token(token), outcome: Outcome::succeeded(NOW) }
    }

    #[test]
    fn an_attempt_ordered_again_is_not_started_again_running_ended_or_acknowledged() {
        let mut attempts = Attempts::new(4);
        begin(&mut attempts, 1, 5);
        assert_eq!(attempts.assign(assignment(1, 5)), Told::Nothing);
        assert_eq!(end(&mut attempts, 1), Some(finished(1, 5)));
        assert_eq!(attempts.assign(assignment(1, 5)), Told::Again(finished(1, 5)));
        attempts.acknowledge(RunId(1), Token(5));
        assert_eq!(attempts.assign(assignment(1, 5)), Told::Nothing);
        assert_eq!(attempts.assign(assignment(1, 4)), Told::Nothing);
        assert!(attempts.in_hand().is_empty());
        begin(&mut attempts, 1, 6);
    }

    #[test]
    fn a_newer_token_stops_the_older_attempt_and_begins_when_it_is_gone() {
        let mut attempts = Attempts::new(4);
        let stop = begin(&mut attempts, 1, 5);
        assert_eq!(attempts.assign(assignment(1, 6)), Told::Nothing);
        assert_eq!(*stop.borrow(), Some(Stop::Superseded));
        assert_eq!((attempts.next_ready(), attempts.in_hand()), (None, vec![(RunId(1), Token(6))]));
        assert_eq!(attempts.assign(assignment(1, 7)), Told::Nothing);
        assert_eq!(end(&mut attempts, 1), None);
        assert_eq!(attempts.next_ready(), Some(assignment(1, 7)));
        assert_eq!(attempts.next_ready(), None);
    }

    #[test]
    fn more_attempts_than_slots_wait_their_turn() {
        let mut attempts = Attempts::new(1);
        begin(&mut attempts, 1, 1);
        assert_eq!(attempts.assign(assignment(2, 1)), Told::Nothing);
        assert_eq!(attempts.assign(assignment(3, 1)), Told::Nothing);
        assert_eq!(attempts.next_ready(), None);
        end(&mut attempts, 1);
        assert_eq!(attempts.next_ready(), Some(assignment(2, 1)));
    }

    #[test]
    fn a_cancelled_attempt_that_has_not_begun_never_begins() {
        let mut attempts = Attempts::new(1);
        begin(&mut attempts, 1, 1);
        attempts.assign(assignment(2, 1));
        for run in [2, 3] {
            let report = attempts.cancel(RunId(run), Token(1), Cause::User, NOW);
            let outcome = Outcome::failed(NOW, "cancelled on request before it started");
            assert_eq!(report, Some(Report::Finished { run: RunId(run), token: Token(1), outcome }));
            assert!(matches!(attempts.assign(assignment(run, 1)), Told::Again(_)));
            assert_eq!(attempts.cancel(RunId(run), Token(1), Cause::User, NOW), None);
        }
        end(&mut attempts, 1);
        assert_eq!(attempts.next_ready(), None);
    }

    #[test]
    fn an_attempt_that_was_given_up_is_neither_named_nor_begun_again() {
        let mut attempts = Attempts::new(1);
        let stop = begin(&mut attempts, 1, 1);
        attempts.assign(assignment(2, 1));
        attempts.give_up(RunId(1), Token(1));
        attempts.give_up(RunId(2), Token(1));
        assert_eq!(*stop.borrow(), Some(Stop::Unheard));
        assert!(attempts.in_hand().is_empty());
        assert_eq!(end(&mut attempts, 1), None);
        assert_eq!(attempts.assign(assignment(1, 1)), Told::Nothing);
        assert_eq!((attempts.assign(assignment(2, 1)), attempts.next_ready()), (Told::Nothing, None));
        begin(&mut attempts, 1, 2);
        end(&mut attempts, 1);
        attempts.give_up(RunId(1), Token(2));
        assert_eq!(attempts.in_hand(), [(RunId(1), Token(2))], "an outcome is kept");
    }

    #[test]
    fn what_waits_in_line_is_given_back_and_what_runs_is_not() {
        let mut attempts = Attempts::new(1);
        begin(&mut attempts, 1, 1);
        attempts.assign(assignment(2, 7));
        assert_eq!(attempts.decline_waiting(), [Report::Declined { run: RunId(2), token: Token(7) }]);
        assert_eq!(attempts.in_hand(), [(RunId(1), Token(1))]);
        end(&mut attempts, 1);
        assert_eq!(attempts.next_ready(), None);
    }

    #[test]
    fn the_first_reason_to_stop_is_kept() {
        let mut attempts = Attempts::new(1);
        let stop = begin(&mut attempts, 1, 1);
        attempts.cancel(RunId(1), Token(1), Cause::Timeout, NOW);
        attempts.stop_all();
        assert_eq!(*stop.borrow(), Some(Stop::Cancelled(Cause::Timeout)));
    }

    #[test]
    fn an_outcome_without_an_acknowledgement_is_sent_again_after_a_whole_heartbeat() {
        let mut attempts = Attempts::new(1);
        begin(&mut attempts, 1, 1);
        end(&mut attempts, 1);
        assert_eq!(attempts.next_beat(), []);
        assert_eq!(attempts.next_beat(), [finished(1, 1)]);
        assert_eq!(attempts.next_beat(), []);
        assert_eq!(attempts.unacknowledged(0), [finished(1, 1)]);
        attempts.acknowledge(RunId(1), Token(1));
        assert_eq!(attempts.unacknowledged(0), []);
    }

    #[test]
    fn while_large_outcomes_wait_for_their_acknowledgement_nothing_more_begins() {
        let mut attempts = Attempts::new(100);
        let mut run = 0;
        let large = Outcome { output: "x".repeat(1 << 20).into(), ..Outcome::succeeded(NOW) };
        while attempts.assign(assignment(run, 1)) != Told::Nothing {
            attempts.begun(RunId(run), Token(1), watch::channel(None).0);
            attempts.ended(RunId(run), large.clone());
            run += 1;
        }
        assert_eq!(run, 32, "that many mebibytes");
        assert_eq!(attempts.next_ready(), None);
        attempts.acknowledge(RunId(7), Token(1));
        assert_eq!(attempts.next_ready(), Some(assignment(run, 1)));
        attempts.begun(RunId(run), Token(1), watch::channel(None).0);
        attempts.ended(RunId(run), large);
        for run in 0..=run {
            attempts.acknowledge(RunId(run), Token(1));
        }
        assert_eq!(attempts.unheard_bytes, 0);
    }

    #[test]
    fn only_so_many_settled_attempts_are_remembered() {
        let mut settled = Settled::default();
        for run in 0..=SETTLED_MAX as i64 {
            settled.insert(RunId(run), Token(1));
        }
        assert!(!settled.covers(RunId(0), Token(1)));
        assert!(settled.covers(RunId(1), Token(1)));
        assert_eq!(settled.newest.len(), SETTLED_MAX);
    }
}
