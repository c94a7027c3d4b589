//! A run: one occurrence of a job, with one due time, and the only table of what may happen to it.
//!
//! ```text
//!              due                 assigned             succeeded
//!  waiting ───────────▶ ready ───────────────▶ running ───────────▶ succeeded
//!   ▲ ▲ │                │ │                    │ │ │
//!   │ │ │      held      │ │                    │ │ └─ failed, lost: attempts used up ─▶ failed, timed_out
//!   │ └─┼────────────────┘ │                    │ └─── cancelling, then it ended ──────▶ cancelled
//!   │   │                  └─ cancel ─────────┐ │
//!   │   └─ cancel ─▶ cancelled, skip ─▶ skipped │
//!   └────────────── failed or lost, attempts left
//! ```
//!
//! `apply` decides and touches nothing but the run itself. Every change it makes leaves an entry; the
//! place of an entry in the list is its number, so the numbers have no gaps.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::attempt::{End, Outcome};
use crate::ids::{JobId, RunId, ShardId, Token, WorkerId};
use crate::job::Definition;
use crate::limits::LOSSES_MAX;
use crate::name::{Name, Namespace};
use crate::task::Params;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    pub id: RunId,
    pub namespace: Namespace,
    pub origin: Origin,
    pub trigger: Trigger,
    /// The schedule's instant, or the submitter's. It never changes; waiting moves only the state.
    pub due: Timestamp,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    pub state: State,
    /// Attempts begun so far.
    pub attempt: u32,
    /// Attempts that ended badly: these use up `retry.attempts`.
    pub failures: u32,
    /// Attempts whose worker vanished: counted apart, see [`LOSSES_MAX`].
    pub losses: u32,
    /// The newest token given out.
    pub token: Token,
    pub worker: Option<WorkerId>,
    pub priority: u8,
    /// Parameters of this run alone; none: the definition's.
    pub params: Option<Params>,
    pub key: Option<Arc<str>>,
    pub retry_of: Option<RunId>,
    pub progress: Option<u8>,
    pub exit_code: Option<i32>,
    pub output: Box<str>,
    pub error: Box<str>,
    pub reason: Option<Reason>,
    pub entries: Vec<Entry>,
}

/// Where a run's definition comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Origin {
    Job {
        id: JobId,
        name: Name,
        revision: u32,
    },
    /// Submitted by itself: it carries its own definition.
    AdHoc(Arc<Definition>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Trigger {
    Schedule,
    /// A fire that was missed and is made up for.
    Misfire,
    Manual,
    Submit,
    /// A finished run, or a dead letter, tried again by hand.
    Retry,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    Waiting { wait: Wait },
    Ready { since: Timestamp },
    Running { worker: WorkerId, token: Token, since: Timestamp, cancelling: Option<Cause> },
    Succeeded,
    Failed,
    TimedOut,
    Cancelled,
    Skipped,
}

/// What a waiting run waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wait {
    /// Its due time. Only these are paged from the store; all others stay in memory.
    Due(Timestamp),
    /// The end of a retry's delay.
    Backoff(Timestamp),
    /// An earlier run of its job, by the overlap policy.
    Overlap,
    /// A place under `limits.running`.
    Limit,
}

/// Why a running attempt is being stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    User,
    Timeout,
    Replaced,
    JobDeleted,
    /// The attempt was given up; another may be under way.
    Outdated,
}

/// Why a run ended as it did, where its state alone does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// An earlier run of the job was still active.
    Overlap,
    /// Too many runs of the job were waiting already.
    HeldTooMany,
    Cancelled(Cause),
    /// Its worker vanished, and the job asks for at most once.
    LostAtMostOnce,
    /// Its worker vanished too often: the run may be what kills it.
    LostTooOften,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Overlap => "an earlier run of the job was still active",
            Reason::HeldTooMany => "too many runs of the job were waiting already",
            Reason::Cancelled(Cause::User) => "cancelled on request",
            Reason::Cancelled(Cause::Timeout) => "stopped at its timeout",
            Reason::Cancelled(Cause::Replaced) => "replaced by a newer run",
            Reason::Cancelled(Cause::JobDeleted) => "its job was deleted",
            Reason::Cancelled(Cause::Outdated) => "its attempt was given up",
            Reason::LostAtMostOnce => "its worker was lost, and it may run at most once",
            Reason::LostTooOften => "its worker was lost too often",
        })
    }
}

/// The name of a state, without what is true in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Status {
    Waiting,
    Ready,
    Running,
    Succeeded,
    Failed,
    TimedOut,
    Cancelled,
    Skipped,
}

impl Status {
    pub const ALL: [Status; 8] = [
        Status::Waiting,
        Status::Ready,
        Status::Running,
        Status::Succeeded,
        Status::Failed,
        Status::TimedOut,
        Status::Cancelled,
        Status::Skipped,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Status::Waiting => "waiting",
            Status::Ready => "ready",
            Status::Running => "running",
            Status::Succeeded => "succeeded",
            Status::Failed => "failed",
            Status::TimedOut => "timed_out",
            Status::Cancelled => "cancelled",
            Status::Skipped => "skipped",
        }
    }

    pub fn parse(text: &str) -> Option<Status> {
        Status::ALL.into_iter().find(|status| status.as_str() == text)
    }

    pub fn is_terminal(self) -> bool {
        !matches!(self, Status::Waiting | Status::Ready | Status::Running)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One change of a run, as it is kept with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub at: Timestamp,
    pub to: Status,
    pub what: What,
    pub token: Token,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    Created,
    Due,
    Held,
    Assigned,
    CancelAsked,
    Ended,
    Failed,
    Lost,
    Skipped,
}

impl What {
    pub fn as_str(self) -> &'static str {
        match self {
            What::Created => "created",
            What::Due => "due",
            What::Held => "held",
            What::Assigned => "assigned",
            What::CancelAsked => "cancel_asked",
            What::Ended => "ended",
            What::Failed => "failed",
            What::Lost => "lost",
            What::Skipped => "skipped",
        }
    }
}

/// What can happen to a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Nothing keeps it from a worker any more.
    Due,
    Held(Wait),
    Assigned {
        worker: WorkerId,
        token: Token,
    },
    CancelAsked(Cause),
    Reported {
        token: Token,
        outcome: Outcome,
    },
    /// The worker vanished, or its lease ended without a word.
    Lost {
        token: Token,
    },
    Skipped(Reason),
}

/// An event that the table has no arrow for: an outdated token, or a run that has moved on.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("run {run} is {from}: it cannot take this event")]
pub struct Refused {
    pub run: RunId,
    pub from: Status,
}

impl State {
    pub fn status(&self) -> Status {
        match self {
            State::Waiting { .. } => Status::Waiting,
            State::Ready { .. } => Status::Ready,
            State::Running { .. } => Status::Running,
            State::Succeeded => Status::Succeeded,
            State::Failed => Status::Failed,
            State::TimedOut => Status::TimedOut,
            State::Cancelled => Status::Cancelled,
            State::Skipped => Status::Skipped,
        }
    }
}

impl Run {
    /// A run that waits for its due time; whoever makes it fills in what is special about it.
    pub fn new(
        id: RunId,
        namespace: Namespace,
        origin: Origin,
        trigger: Trigger,
        due: Timestamp,
        now: Timestamp,
    ) -> Run {
        Run {
            id,
            namespace,
            origin,
            trigger,
            due,
            created_at: now,
            started_at: None,
            finished_at: None,
            state: State::Waiting { wait: Wait::Due(due) },
            attempt: 0,
            failures: 0,
            losses: 0,
            token: Token::default(),
            worker: None,
            priority: 5,
            params: None,
            key: None,
            retry_of: None,
            progress: None,
            exit_code: None,
            output: Box::default(),
            error: Box::default(),
            reason: None,
            entries: vec![Entry {
                at: now,
                to: Status::Waiting,
                what: What::Created,
                token: Token::default(),
            }],
        }
    }

    pub fn shard(&self) -> ShardId {
        self.id.shard()
    }

    pub fn status(&self) -> Status {
        self.state.status()
    }

    pub fn job(&self) -> Option<JobId> {
        match &self.origin {
            Origin::Job { id, .. } => Some(*id),
            Origin::AdHoc(_) => None,
        }
    }

    /// When a page of timers has to bring this run into memory; none: it is there already.
    pub fn wake_at(&self) -> Option<Timestamp> {
        match self.state {
            State::Waiting { wait: Wait::Due(at) } => Some(at),
            _ => None,
        }
    }

    pub fn cancelling(&self) -> Option<Cause> {
        match self.state {
            State::Running { cancelling, .. } => cancelling,
            _ => None,
        }
    }

    /// Moves the run along one arrow of the diagram, and leaves an entry of it.
    pub fn apply(&mut self, event: Event, definition: &Definition, now: Timestamp) -> Result<(), Refused> {
        let (next, what) = match (&self.state, event) {
            (State::Waiting { .. }, Event::Due) => (State::Ready { since: now }, What::Due),
            (State::Waiting { .. } | State::Ready { .. }, Event::Held(wait)) => {
                (State::Waiting { wait }, What::Held)
            }
            (State::Waiting { .. } | State::Ready { .. }, Event::Skipped(reason)) => {
                self.reason = Some(reason);
                (State::Skipped, What::Skipped)
            }
            (State::Waiting { .. } | State::Ready { .. }, Event::CancelAsked(cause)) => {
                self.reason = Some(Reason::Cancelled(cause));
                (State::Cancelled, What::CancelAsked)
            }
            (State::Ready { .. }, Event::Assigned { worker, token }) if token > self.token => {
                self.attempt += 1;
                self.token = token;
                self.worker = Some(worker.clone());
                (State::Running { worker, token, since: now, cancelling: None }, What::Assigned)
            }
            // The first cause to stop an attempt is the one that is kept, but a user's word outranks a timeout:
            // it forbids the retry that a timeout would allow.
            (State::Running { worker, token, since, cancelling }, Event::CancelAsked(cause))
                if cancelling.is_none()
                    || (*cancelling == Some(Cause::Timeout) && cause != Cause::Timeout) =>
            {
                let (worker, token, since) = (worker.clone(), *token, *since);
                (State::Running { worker, token, since, cancelling: Some(cause) }, What::CancelAsked)
            }
            (State::Running { token, cancelling, .. }, Event::Reported { token: reported, outcome })
                if *token == reported =>
            {
                let cancelling = *cancelling;
                let ended_well = outcome.end == End::Succeeded;
                self.take(outcome, now);
                if ended_well {
                    (State::Succeeded, What::Ended)
                } else {
                    self.after_failure(cancelling, definition, now)
                }
            }
            (State::Running { token, cancelling, .. }, Event::Lost { token: lost }) if *token == lost => {
                let cancelling = *cancelling;
                self.losses += 1;
                self.after_loss(cancelling, definition, now)
            }
            (from, _) => return Err(Refused { run: self.id, from: from.status() }),
        };
        self.state = next;
        let to = self.status();
        if to.is_terminal() {
            self.finished_at = Some(now);
        }
        self.entries.push(Entry { at: now, to, what, token: self.token });
        Ok(())
    }

    /// Keeps what an attempt left behind. A worker's clock is not believed: it started between its
    /// assignment and now, whatever it says.
    fn take(&mut self, outcome: Outcome, now: Timestamp) {
        let earliest = match &self.state {
            State::Running { since, .. } => *since,
            _ => self.created_at,
        };
        self.started_at = Some(outcome.started_at.clamp(earliest.min(now), now));
        self.exit_code = outcome.exit_code;
        self.output = outcome.output;
        self.error = outcome.error;
    }

    fn after_failure(
        &mut self,
        cancelling: Option<Cause>,
        definition: &Definition,
        now: Timestamp,
    ) -> (State, What) {
        match cancelling {
            Some(cause) if cause != Cause::Timeout => {
                self.reason = Some(Reason::Cancelled(cause));
                (State::Cancelled, What::Ended)
            }
            _ => {
                self.failures += 1;
                let timed_out = cancelling == Some(Cause::Timeout);
                if timed_out {
                    self.reason = Some(Reason::Cancelled(Cause::Timeout));
                }
                match definition.retry.delay_after(self.failures, self.id) {
                    Some(delay) => (self.back_off(delay, definition, now), What::Failed),
                    None if timed_out => (State::TimedOut, What::Ended),
                    None => (State::Failed, What::Ended),
                }
            }
        }
    }

    fn after_loss(
        &mut self,
        cancelling: Option<Cause>,
        definition: &Definition,
        now: Timestamp,
    ) -> (State, What) {
        match cancelling {
            Some(Cause::Timeout) => self.after_failure(cancelling, definition, now),
            Some(cause) => {
                self.reason = Some(Reason::Cancelled(cause));
                (State::Cancelled, What::Lost)
            }
            None if definition.at_most_once => {
                self.reason = Some(Reason::LostAtMostOnce);
                (State::Failed, What::Lost)
            }
            None if self.losses >= LOSSES_MAX => {
                self.reason = Some(Reason::LostTooOften);
                (State::Failed, What::Lost)
            }
            // The run itself did nothing wrong: it goes on at once, on another worker if there is one.
            None => (self.back_off(Duration::ZERO, definition, now), What::Lost),
        }
    }

    fn back_off(&mut self, delay: Duration, definition: &Definition, now: Timestamp) -> State {
        if let Some(priority) = definition.retry.priority {
            self.priority = priority;
        }
        self.progress = None;
        State::Waiting { wait: Wait::Backoff(now + delay) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ids::Epoch;
    use crate::retry::Retry;
    use crate::task::Task;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn definition(attempts: u32) -> Definition {
        let retry = Retry { attempts, ..Retry::default() };
        Definition { retry, ..Definition::of(Task::Noop) }
    }

    fn waiting() -> Run {
        Run::new(
            RunId(1),
            Namespace::default(),
            Origin::AdHoc(Arc::new(definition(1))),
            Trigger::Submit,
            at(5),
            at(0),
        )
    }

    fn worker() -> WorkerId {
        WorkerId(Arc::from("w"))
    }

    fn running(definition: &Definition) -> Run {
        let mut run = waiting();
        run.apply(Event::Due, definition, at(5)).unwrap();
        let token = run.token.next(Epoch(1));
        run.apply(Event::Assigned { worker: worker(), token }, definition, at(6)).unwrap();
        run
    }

    fn reported(run: &Run, end: End) -> Event {
        Event::Reported { token: run.token, outcome: Outcome { end, ..Outcome::succeeded(at(6)) } }
    }

    #[test]
    fn a_failed_attempt_waits_and_is_tried_again_until_its_attempts_are_used_up() {
        let definition = definition(2);
        let mut run = running(&definition);
        run.apply(reported(&run, End::Failed), &definition, at(10)).unwrap();
        assert_eq!(run.state, State::Waiting { wait: Wait::Backoff(at(10_010)) });
        run.apply(Event::Due, &definition, at(10_010)).unwrap();
        let token = run.token.next(Epoch(1));
        run.apply(Event::Assigned { worker: worker(), token }, &definition, at(10_011)).unwrap();
        run.apply(reported(&run, End::Failed), &definition, at(10_020)).unwrap();
        assert_eq!((run.status(), run.attempt), (Status::Failed, 2));
    }

    #[test]
    fn a_result_under_an_outdated_token_is_refused() {
        let definition = definition(3);
        let mut run = running(&definition);
        let stale = reported(&run, End::Succeeded);
        run.apply(Event::Lost { token: run.token }, &definition, at(20)).unwrap();
        assert!(run.apply(stale.clone(), &definition, at(21)).is_err());
        run.apply(Event::Due, &definition, at(21)).unwrap();
        let token = run.token.next(Epoch(1));
        run.apply(Event::Assigned { worker: worker(), token }, &definition, at(22)).unwrap();
        assert!(run.apply(stale, &definition, at(23)).is_err());
    }

    #[test]
    fn a_cancelled_run_keeps_running_until_its_worker_reports_and_is_not_retried() {
        let definition = definition(5);
        let mut run = running(&definition);
        run.apply(Event::CancelAsked(Cause::User), &definition, at(7)).unwrap();
        assert_eq!((run.status(), run.cancelling()), (Status::Running, Some(Cause::User)));
        run.apply(reported(&run, End::Failed), &definition, at(8)).unwrap();
        assert_eq!(run.status(), Status::Cancelled);
    }

    #[test]
    fn a_user_cancel_outranks_a_timeout_so_that_no_retry_follows() {
        let definition = definition(5);
        let mut run = running(&definition);
        run.apply(Event::CancelAsked(Cause::Timeout), &definition, at(7)).unwrap();
        run.apply(Event::CancelAsked(Cause::User), &definition, at(8)).unwrap();
        assert!(run.apply(Event::CancelAsked(Cause::Timeout), &definition, at(8)).is_err());
        run.apply(Event::Lost { token: run.token }, &definition, at(9)).unwrap();
        assert_eq!(run.status(), Status::Cancelled);
    }

    #[test]
    fn at_most_once_gives_up_a_lost_attempt() {
        let definition = Definition { at_most_once: true, ..definition(1) };
        let mut run = running(&definition);
        run.apply(Event::Lost { token: run.token }, &definition, at(20)).unwrap();
        assert_eq!((run.status(), run.reason), (Status::Failed, Some(Reason::LostAtMostOnce)));
    }

    #[test]
    fn a_run_that_loses_three_workers_is_given_up() {
        let definition = definition(1);
        let mut run = running(&definition);
        for _ in 1..LOSSES_MAX {
            run.apply(Event::Lost { token: run.token }, &definition, at(20)).unwrap();
            run.apply(Event::Due, &definition, at(21)).unwrap();
            let token = run.token.next(Epoch(1));
            run.apply(Event::Assigned { worker: worker(), token }, &definition, at(22)).unwrap();
        }
        run.apply(Event::Lost { token: run.token }, &definition, at(30)).unwrap();
        assert_eq!((run.status(), run.reason), (Status::Failed, Some(Reason::LostTooOften)));
    }

    #[test]
    fn a_worker_cannot_claim_to_have_started_before_it_was_asked() {
        let definition = definition(1);
        let mut run = running(&definition);
        let outcome = Outcome::succeeded(at(0));
        run.apply(Event::Reported { token: run.token, outcome }, &definition, at(9)).unwrap();
        assert_eq!(run.started_at, Some(at(6)));
    }

    fn any_event() -> impl Strategy<Value = u8> {
        0u8..8
    }

    proptest! {
        /// Whatever arrives in whatever order: terminal states are final, refused events leave no trace, the
        /// entries tell every change, and at most one result is accepted.
        #[test]
        fn any_sequence_of_events_keeps_the_promises_of_a_run(
            events in proptest::collection::vec(any_event(), 0..40),
            attempts in 1u32..4,
            at_most_once: bool,
        ) {
            let definition = Definition { at_most_once, ..definition(attempts) };
            let mut run = waiting();
            let (mut assigned, mut clock) = (0, 10);
            for event in events {
                clock += 1;
                let before = run.clone();
                let event = match event {
                    0 => Event::Due,
                    1 => Event::Held(Wait::Overlap),
                    2 => Event::Assigned { worker: worker(), token: run.token.next(Epoch(1)) },
                    3 => Event::CancelAsked(Cause::User),
                    4 => reported(&run, End::Succeeded),
                    5 => reported(&run, End::Failed),
                    6 => Event::Lost { token: run.token },
                    _ => Event::Skipped(Reason::Overlap),
                };
                let is_assignment = matches!(event, Event::Assigned { .. });
                match run.apply(event, &definition, at(clock)) {
                    Ok(()) => {
                        prop_assert!(!before.status().is_terminal(), "a terminal state moved on");
                        prop_assert_eq!(run.entries.len(), before.entries.len() + 1);
                        prop_assert_eq!(run.entries.last().map(|entry| entry.to), Some(run.status()));
                        assigned += usize::from(is_assignment);
                    }
                    Err(_) => prop_assert_eq!(&run, &before),
                }
                if at_most_once && attempts == 1 {
                    prop_assert!(assigned <= 1, "at most once, and it started {} times", assigned);
                }
            }
            prop_assert!(run.failures <= attempts && run.losses <= LOSSES_MAX);
        }
    }
}
