//! A run: one occurrence of a job, with one due time, and the only table of what may happen to it.
//!
//! ```text
//!              due                 assigned             succeeded
//!  waiting ───────────▶ ready ───────────────▶ running ───────────▶ succeeded
//!   ▲ ▲ │                │ │                    │ │ │
//!   │ │ │      held      │ │                    │ │ └─ failed, lost: attempts used up ─▶ failed, timed_out
//!   │ └─┼────────────────┘ │ ◀── moved ─────────┤ └─── cancelling, then it ended ──────▶ cancelled
//!   │   │                  └─ cancel ─────────┐ │
//!   │   └─ cancel ─▶ cancelled, skip ─▶ skipped │
//!   └────────────── failed or lost, attempts left
//!
//!          split                  joined: all children have ended
//!  ready ─────────▶ running ──────────────────▶ succeeded, failed, cancelled
//!    └─ its only worker is gone ─▶ failed
//! ```
//!
//! The second picture is of a run that is split ([`kin`]): it has no attempts, its children have. The last arrow is of a
//! child that may go to one worker only.
//!
//! `apply` decides and touches nothing but the run itself. Every change it makes leaves an entry; the
//! place of an entry in the list is its number, so the numbers have no gaps.

pub mod kin;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::attempt::{End, Outcome};
use crate::cut;
use crate::ids::{JobId, RunId, ShardId, Token, WorkerId};
use crate::job::Definition;
use crate::limits::{EARLIER_ERROR_BYTES_MAX, LISTED_OUTPUT_BYTES_MAX, LOSSES_MAX};
use crate::name::{Name, Namespace};
use crate::queue::{QueueName, Whereabouts};
use crate::task::Params;

pub use kin::{Child, Kin, Part};

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
    /// What the attempts before the newest left behind, the first one first.
    pub earlier: Vec<Earlier>,
    /// None: it is a run by itself. Last, because it came last.
    #[serde(default)]
    pub kin: Option<Box<Kin>>,
}

/// What is kept of an attempt when the next one begins; when it began and ended is in the entries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Earlier {
    pub worker: WorkerId,
    pub started_at: Option<Timestamp>,
    pub exit_code: Option<i32>,
    pub error: Box<str>,
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
    /// A run that was split into this one and others.
    Parent,
}

impl Trigger {
    /// The word that doors and templates have for it.
    pub fn word(self) -> &'static str {
        match self {
            Trigger::Schedule => "schedule",
            Trigger::Misfire => "misfire",
            Trigger::Manual => "manual",
            Trigger::Submit => "submit",
            Trigger::Retry => "retry",
            Trigger::Parent => "parent",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    Waiting {
        wait: Wait,
    },
    Ready {
        since: Timestamp,
    },
    Running {
        worker: WorkerId,
        token: Token,
        since: Timestamp,
        cancelling: Option<Cause>,
    },
    Succeeded,
    Failed,
    TimedOut,
    Cancelled,
    Skipped,
    /// It runs in its children, and has no slot of its own.
    Split {
        since: Timestamp,
        cancelling: Option<Cause>,
    },
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
    /// It is ready, and no worker that is here takes it.
    NoWorkerFits,
    /// The only worker that it may go to has been gone for a lease.
    WorkerGone,
    /// It is a broadcast, and more workers fit than it may have child runs.
    TooManyWorkers,
    /// Of its child runs so many did not succeed.
    Children {
        failed: u32,
        total: u32,
        first: u32,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Children { failed, total, first } => {
                return write!(
                    f,
                    "{failed} of {total} child runs did not succeed, the first of them is that of index {first}"
                );
            }
            Reason::TooManyWorkers => {
                "more workers fit than a run may have child runs: narrow its `route.selector`"
            }
            Reason::WorkerGone => "its worker is gone, and it is meant for no other",
            Reason::Overlap => "an earlier run of the job was still active",
            Reason::HeldTooMany => "too many runs of the job were waiting already",
            Reason::Cancelled(Cause::User) => "cancelled on request",
            Reason::Cancelled(Cause::Timeout) => "stopped at its timeout",
            Reason::Cancelled(Cause::Replaced) => "replaced by a newer run",
            Reason::Cancelled(Cause::JobDeleted) => "its job was deleted",
            Reason::Cancelled(Cause::Outdated) => "its attempt was given up",
            Reason::LostAtMostOnce => "its worker was lost, and it may run at most once",
            Reason::LostTooOften => "its worker was lost too often",
            Reason::NoWorkerFits => {
                "no worker that is here takes it: none allows its kind of task, has the function that it names and bears \
                 the labels of its `route.selector`"
            }
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
    /// The worker that its route names first had no free slot, so it goes to another.
    PassedOver,
    /// Its worker takes nothing more and had not begun: it goes to another.
    Moved,
    /// It goes on in its children.
    Split,
    /// The only worker that it may go to is gone.
    WorkerGone,
    /// Its message is in its queue.
    Delivered,
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
            What::PassedOver => "passed_over",
            What::Moved => "moved",
            What::Split => "split",
            What::WorkerGone => "worker_gone",
            What::Delivered => "delivered",
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
    /// Its first choice of a worker is full.
    PassedOver,
    /// Its worker gives it back, and has not begun.
    Declined {
        token: Token,
    },
    /// It goes on in these.
    Split(Vec<Child>),
    /// All its children have ended.
    Joined,
    /// The only worker that it may go to is gone.
    WorkerGone,
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
            State::Running { .. } | State::Split { .. } => Status::Running,
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
            earlier: Vec::new(),
            kin: None,
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
            State::Running { cancelling, .. } | State::Split { cancelling, .. } => cancelling,
            _ => None,
        }
    }

    /// Moves the run along one arrow of the diagram, and leaves an entry of it.
    pub fn apply(&mut self, event: Event, definition: &Definition, now: Timestamp) -> Result<(), Refused> {
        let was_unfit = self.reason == Some(Reason::NoWorkerFits);
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
                self.begin_on(worker.clone());
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
            (State::Ready { since }, Event::PassedOver) => (State::Ready { since: *since }, What::PassedOver),
            (State::Running { token, cancelling, .. }, Event::Declined { token: declined })
                if *token == declined =>
            {
                match *cancelling {
                    None => (State::Ready { since: now }, What::Moved),
                    cancelling => self.after_failure(cancelling, definition, now),
                }
            }
            (State::Ready { .. }, Event::Split(children)) if self.kin.is_none() && !children.is_empty() => {
                self.split(children, now)
            }
            (State::Split { since, cancelling: None }, Event::CancelAsked(cause)) => {
                (State::Split { since: *since, cancelling: Some(cause) }, What::CancelAsked)
            }
            (State::Split { cancelling, .. }, Event::Joined) if !self.has_children_under_way() => {
                let cancelling = *cancelling;
                self.join(cancelling)
            }
            (State::Ready { .. }, Event::WorkerGone) if self.pinned_to().is_some() => {
                self.reason = Some(Reason::WorkerGone);
                (State::Failed, What::WorkerGone)
            }
            (from, _) => return Err(Refused { run: self.id, from: from.status() }),
        };
        if was_unfit && self.reason == Some(Reason::NoWorkerFits) {
            self.reason = None;
        }
        self.state = next;
        let to = self.status();
        if to.is_terminal() {
            self.finished_at = Some(now);
        }
        self.entries.push(Entry { at: now, to, what, token: self.token });
        Ok(())
    }

    /// The message of its attempt is in its queue. Heard twice, it is noted once.
    pub fn delivered(&mut self, queue: &QueueName, at: &Whereabouts, now: Timestamp) {
        let State::Running { since, token, .. } = self.state else { return };
        let is_noted = |entry: &Entry| entry.what == What::Delivered && entry.token == token;
        if self.entries.iter().rev().any(is_noted) {
            return;
        }
        self.started_at = Some(at.since.clamp(since.min(now), now));
        self.output = at.output(queue);
        self.entries.push(Entry { at: now, to: self.status(), what: What::Delivered, token });
    }

    fn begin_on(&mut self, worker: WorkerId) {
        if let Some(before) = self.worker.replace(worker) {
            self.earlier.push(Earlier {
                worker: before,
                started_at: self.started_at,
                exit_code: self.exit_code,
                error: cut::keep_end(&self.error, EARLIER_ERROR_BYTES_MAX).into(),
            });
        }
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
        // A node remembers many runs that wait, and the next attempt leaves a result of its own.
        self.abridge();
        State::Waiting { wait: Wait::Backoff(now + delay) }
    }

    /// Keeps the end of a long result, as a listing shows it. True: something was cut.
    pub fn abridge(&mut self) -> bool {
        let Cow::Owned(end) = cut::keep_end(&self.output, LISTED_OUTPUT_BYTES_MAX) else { return false };
        self.output = end.into();
        true
    }

    /// Whether the result may be longer than what is here.
    pub fn may_be_abridged(&self) -> bool {
        cut::is_cut(&self.output) && self.output.len() + 4 > LISTED_OUTPUT_BYTES_MAX
    }
}

#[cfg(test)]
mod tests;
