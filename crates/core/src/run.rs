//! A run: one occurrence of a job with one due time, and the only table of its state changes.
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
//!          split                  all child runs have ended
//!  ready ─────────▶ running ──────────────────▶ succeeded, failed, cancelled, timed_out
//!    └─ its only worker is gone ─▶ failed
//! ```
//!
//! A cancelled run that has left work at a service stays waiting or ready. It ends with its next attempt, which cancels the
//! work.
//!
//! The second diagram is of a split run and of a workflow ([`steps`]): their child runs have the attempts. The
//! last arrow is of a child that is pinned to one worker. All arrows are in [`Run::apply`].

mod apply;
mod assignee;
mod entry;
mod link;
pub mod split;
mod reason;
mod state;
mod steps;

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::cut;
use crate::ids::{JobId, RunId, ShardId, Token};
use crate::job::Definition;
use crate::limits::{BY_HAND_MAX, LISTED_OUTPUT_BYTES_MAX};
use crate::name::{Name, Namespace};
use crate::params::Params;
use crate::progress::{Checkpoint, Reported, Resumes, Version};
use crate::workflow::{ByHand, StepParams};

pub use apply::{Event, Refused};
pub use assignee::Assignee;
pub use entry::{Entry, What};
pub use link::{Caller, Link};
pub use reason::{Lack, Reason};
pub use split::{Part, PartOf};
pub use state::{Cause, State, Status, Wait};
pub use steps::{StepOf, StepsEnd};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    pub id: RunId,
    pub namespace: Namespace,
    pub origin: Origin,
    pub trigger: Trigger,
    /// The instant given by the schedule or the submitter. It never changes; retries and jitter change only the state.
    pub due: Timestamp,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    pub state: State,
    /// Attempts made so far.
    pub attempt: u32,
    /// Failed attempts: these count against `retry.attempts`.
    pub failures: u32,
    /// Attempts since the last checkpoint whose worker was lost: counted separately, see [`LOSSES_MAX`].
    pub losses: u32,
    /// Moves since the last checkpoint, see [`MOVES_MAX`](crate::limits::MOVES_MAX).
    pub moves: u32,
    /// The name of the worker that the next attempt should go to. `None` means any worker.
    pub move_to: Option<Arc<str>>,
    /// Why its next attempt is stopped when it starts. Only a worker can cancel the work that an earlier attempt has left at a
    /// service. `None` means that it works.
    pub cancel_next: Option<Cause>,
    /// The newest fencing token.
    pub token: Token,
    /// The worker or queue that the newest attempt was assigned to.
    pub assignee: Option<Assignee>,
    pub priority: u8,
    /// Parameters of this run alone. `None` means those of the definition.
    pub params: Option<Params>,
    pub key: Option<Arc<str>>,
    pub retry_of: Option<RunId>,
    /// What its attempts reported. `None` means nothing yet.
    pub progress: Option<Box<Reported>>,
    /// What its attempts were given to continue from. `None` means that it never had a checkpoint.
    pub resumes: Option<Box<Resumes>>,
    pub exit_code: Option<i32>,
    pub output: Box<str>,
    pub error: Box<str>,
    pub reason: Option<Reason>,
    pub entries: Vec<Entry>,
    /// What is kept of the attempts before the newest, oldest first.
    pub earlier: Vec<Earlier>,
    /// `None` means that it is no part of a split run.
    pub part_of: Option<Box<PartOf>>,
    /// The step of a workflow that it executes, or is a part of. `None` means none.
    pub step: Option<Box<StepOf>>,
    /// What people did to it: the index of the entry, and who, when and why. At most [`BY_HAND_MAX`].
    pub by_hand: Vec<(u32, ByHand)>,
    /// The runs of other jobs that it is linked to. `None` means none.
    pub link: Option<Box<Link>>,
    /// Parameters of the steps of the workflow, in this run only. `None` means none.
    pub step_params: Option<Box<StepParams>>,
    /// The nodes that wrote the entries: each from the entry at this index on. Entries before the first index were
    /// written without a cluster.
    pub signed: Vec<(u32, Arc<str>)>,
}

/// What is kept of an attempt when the next one starts. Its start and end are in the entries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Earlier {
    pub assignee: Assignee,
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
    /// Submitted without a job: it carries its own definition.
    AdHoc(Arc<Definition>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Trigger {
    Schedule,
    /// A missed due time, made up for.
    Misfire,
    Manual,
    Submit,
    /// A finished run or a dead letter, run again by a user.
    Retry,
    /// A split run or a workflow, of which this is a child.
    Parent,
    /// A step of a workflow of another job.
    Workflow,
    /// The end of a run of another job.
    After,
    Event,
    /// A due time of the past that a user made up for, or the backfill that contains it.
    Backfill,
    /// A program outside Punctual has reported it.
    Ping,
}

impl Trigger {
    pub const ALL: [Trigger; 11] = [
        Trigger::Schedule,
        Trigger::Misfire,
        Trigger::Manual,
        Trigger::Submit,
        Trigger::Retry,
        Trigger::Parent,
        Trigger::Workflow,
        Trigger::After,
        Trigger::Event,
        Trigger::Backfill,
        Trigger::Ping,
    ];

    /// Its name at endpoints and in templates.
    pub fn word(self) -> &'static str {
        match self {
            Trigger::Schedule => "schedule",
            Trigger::Misfire => "misfire",
            Trigger::Manual => "manual",
            Trigger::Submit => "submit",
            Trigger::Retry => "retry",
            Trigger::Parent => "parent",
            Trigger::Workflow => "workflow",
            Trigger::After => "after",
            Trigger::Event => "event",
            Trigger::Backfill => "backfill",
            Trigger::Ping => "ping",
        }
    }
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Trigger {
    type Err = String;

    fn from_str(word: &str) -> Result<Trigger, String> {
        Trigger::ALL.into_iter().find(|trigger| trigger.word() == word).ok_or_else(|| {
            format!("`{word}` is not a trigger; known are {}", Trigger::ALL.map(Trigger::word).join(", "))
        })
    }
}

impl Run {
    /// A run that waits for its due time, with default values in all other fields.
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
            moves: 0,
            move_to: None,
            cancel_next: None,
            token: Token::default(),
            assignee: None,
            priority: 5,
            params: None,
            key: None,
            retry_of: None,
            progress: None,
            resumes: None,
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
            part_of: None,
            step: None,
            by_hand: Vec::new(),
            link: None,
            step_params: None,
            signed: Vec::new(),
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

    /// `None` means that it was submitted without a job.
    pub fn job_name(&self) -> Option<&Name> {
        match &self.origin {
            Origin::Job { name, .. } => Some(name),
            Origin::AdHoc(_) => None,
        }
    }

    /// The revision of its job that it was made under.
    pub fn revision(&self) -> Option<u32> {
        match &self.origin {
            Origin::Job { revision, .. } => Some(*revision),
            Origin::AdHoc(_) => None,
        }
    }

    /// When a page of timers must bring this run into memory. `None` means that it is always in memory.
    pub fn wake_at(&self) -> Option<Timestamp> {
        match self.state {
            State::Waiting { wait: Wait::Due(at) } => Some(at),
            _ => None,
        }
    }

    /// The moment from which lateness is measured: the due time of a scheduled run. A run asked for by a user may have
    /// a due time in the past and is not late because of that.
    pub fn late_from(&self) -> Timestamp {
        match self.trigger {
            Trigger::Schedule | Trigger::Misfire => self.due,
            Trigger::Manual
            | Trigger::Submit
            | Trigger::Retry
            | Trigger::Parent
            | Trigger::Workflow
            | Trigger::After
            | Trigger::Event
            | Trigger::Backfill
            | Trigger::Ping => self.due.max(self.created_at),
        }
    }

    /// When it first started: as reported by its worker, else when it was assigned. A split run and a workflow start
    /// when they are split. `None` means not yet.
    pub fn first_start(&self) -> Option<Timestamp> {
        let assigned =
            self.entries.iter().find(|entry| matches!(entry.what, What::Assigned | What::Split))?;
        let reported = match self.earlier.first() {
            Some(earlier) => earlier.started_at,
            None if self.attempt <= 1 => self.started_at,
            None => None,
        };
        Some(reported.filter(|at| *at >= assigned.at).unwrap_or(assigned.at))
    }

    pub fn percent(&self) -> Option<u8> {
        self.progress.as_ref()?.percent
    }

    /// Where the next attempt continues.
    pub fn checkpoint(&self) -> Option<&Checkpoint> {
        self.progress.as_ref()?.checkpoint.as_ref()
    }

    fn checkpoint_version(&self) -> Option<Version> {
        Some(self.checkpoint()?.version)
    }

    /// Lets a new run continue at the checkpoint of another run.
    pub fn continue_at(&mut self, reported: Reported) {
        self.progress = Some(Box::new(reported));
        self.note_checkpoint();
    }

    /// Puts the checkpoint that was just kept on record.
    fn note_checkpoint(&mut self) {
        if let Some(version) = self.checkpoint_version() {
            self.resumes.get_or_insert_default().keep(version);
        }
    }

    /// The name of the worker that a moved run has left, while it waits for another.
    pub fn left(&self) -> Option<Arc<str>> {
        let is_moved = self.entries.last().is_some_and(|entry| entry.what == What::Moved);
        self.assignee.as_ref().filter(|_| is_moved).map(Assignee::name)
    }

    /// Records who causes the next entry.
    pub fn note_by_hand(&mut self, by_hand: ByHand) {
        self.note_by_hand_at(self.entries.len(), by_hand);
    }

    /// Records who asked for the run, as a retry of an earlier one.
    pub fn asked_by(&mut self, by_hand: ByHand) {
        self.note_by_hand_at(0, by_hand);
    }

    fn note_by_hand_at(&mut self, entry: usize, by_hand: ByHand) {
        // The first is kept: it may say who asked for the run.
        if self.by_hand.len() >= BY_HAND_MAX {
            self.by_hand.remove(1);
        }
        self.by_hand.push((u32::try_from(entry).unwrap_or(u32::MAX), by_hand));
    }

    /// Who caused the entry with this index by hand.
    pub fn by_hand_at(&self, entry: usize) -> Option<&ByHand> {
        let is_it = |at: &u32| usize::try_from(*at).is_ok_and(|at| at == entry);
        self.by_hand.iter().find(|(at, _)| is_it(at)).map(|(_, by_hand)| by_hand)
    }

    pub fn cancelling(&self) -> Option<Cause> {
        match self.state {
            State::Running { cancelling, .. } | State::Split { cancelling, .. } => cancelling,
            State::Waiting { .. } | State::Ready { .. } => self.cancel_next,
            State::Succeeded | State::Failed | State::TimedOut | State::Cancelled | State::Skipped => None,
        }
    }

    /// Keeps only the end of a long output, as listings show it. Returns whether it was cut.
    pub fn abridge(&mut self) -> bool {
        let Cow::Owned(end) = cut::keep_end(&self.output, LISTED_OUTPUT_BYTES_MAX) else { return false };
        self.output = end.into();
        true
    }

    /// Whether the full output may be longer than the one here.
    pub fn may_be_abridged(&self) -> bool {
        cut::is_cut(&self.output) && self.output.len() + 4 > LISTED_OUTPUT_BYTES_MAX
    }
}

#[cfg(test)]
mod tests;
