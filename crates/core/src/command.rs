//! What a door may ask of a shard, and what it may hear back.
//!
//! A command may travel to the node that leads its shard, and its answer back: both are written down by the names of
//! their fields, so that nodes of two versions understand each other.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::ids::{RunId, ShardId, Token};
use crate::job::{self, Definition, Job};
use crate::name::{Name, Namespace};
use crate::queue;
use crate::run::{Run, Status};
use crate::schedule::calendar::Calendar;
use crate::task::Params;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    PutJob(PutJob),
    /// A calendar has changed: a job that names it follows the new one. Without a calendar the time zone data is newer:
    /// a job whose next due time was calculated with older data gets a new one.
    ReplanJob {
        namespace: Namespace,
        name: Name,
        calendar: Option<Arc<Calendar>>,
    },
    DeleteJob {
        namespace: Namespace,
        name: Name,
        expect: Expect,
    },
    PauseJob {
        namespace: Namespace,
        name: Name,
    },
    ResumeJob {
        namespace: Namespace,
        name: Name,
    },
    RunJob(RunJob),
    Submit(Submit),
    CancelRun {
        namespace: Namespace,
        run: RunId,
    },
    RetryRun(RetryRun),
    DiscardDeadLetter {
        namespace: Namespace,
        run: RunId,
    },
    /// An attempt tells how far it is. Only the newest one is believed.
    Progress {
        namespace: Namespace,
        run: RunId,
        token: Token,
        percent: u8,
    },
    /// An attempt hears what became of the message that it delivered. If there is no such attempt any more, there is
    /// nobody who would have to know.
    Tell {
        sender: queue::Sender,
        news: queue::News,
    },
    /// Something about a queue or its messages.
    Queue(queue::Ask),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PutJob {
    pub namespace: Namespace,
    pub name: Name,
    pub definition: Arc<Definition>,
    pub expect: Expect,
}

/// What must be true of a job for an edit to go through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expect {
    Anything,
    Absent,
    Revision(u32),
}

/// Starts a job by hand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunJob {
    pub namespace: Namespace,
    pub name: Name,
    pub params: Option<Params>,
    /// None: now.
    pub due: Option<Timestamp>,
    pub key: Option<Key>,
}

/// Submits a run without a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Submit {
    pub namespace: Namespace,
    pub definition: Arc<Definition>,
    /// None: now.
    pub due: Option<Timestamp>,
    pub key: Option<Key>,
    /// Decides the shard when there is no key; the caller counts it up so that submits spread.
    pub spread: u64,
}

impl Submit {
    /// Where a run without a key belongs.
    pub fn shard_of(spread: u64, shards: u16) -> ShardId {
        ShardId::of(&[&spread.to_le_bytes()], shards)
    }
}

/// A finished run, tried again as a new run under the job's newest revision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RetryRun {
    pub namespace: Namespace,
    pub run: RunId,
    /// None: those it had.
    pub params: Option<Params>,
    /// None: the due time that it had.
    pub due: Option<Timestamp>,
    pub key: Option<Key>,
    /// Only if it is a dead letter by now. Whoever replays one asks for this very run to be made up for: it waits
    /// its turn where another would be skipped.
    pub dead_letter: bool,
}

/// A key that makes a repeated ask have one effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    pub text: Arc<str>,
    pub kept: Duration,
}

impl Command {
    /// The shard whose leader decides this.
    pub fn shard(&self, shards: u16) -> ShardId {
        match self {
            Command::PutJob(PutJob { namespace, name, .. })
            | Command::RunJob(RunJob { namespace, name, .. })
            | Command::ReplanJob { namespace, name, .. }
            | Command::DeleteJob { namespace, name, .. }
            | Command::PauseJob { namespace, name }
            | Command::ResumeJob { namespace, name } => job::shard_of(namespace, name, shards),
            Command::Submit(Submit { namespace, key: Some(key), .. }) => {
                ShardId::of(&[namespace.as_str().as_bytes(), key.text.as_bytes()], shards)
            }
            Command::Submit(Submit { spread, .. }) => Submit::shard_of(*spread, shards),
            Command::CancelRun { run, .. }
            | Command::DiscardDeadLetter { run, .. }
            | Command::Progress { run, .. }
            | Command::RetryRun(RetryRun { run, .. })
            | Command::Tell { sender: queue::Sender { run, .. }, .. } => run.shard(),
            Command::Queue(ask) => ask.shard(shards).unwrap_or(ShardId(0)),
        }
    }

    /// Whether carrying it out twice comes to the same as once, so that it may be sent again when nobody knows what
    /// became of it. The second answer may be a refusal that the first one brought about.
    pub fn is_repeatable(&self) -> bool {
        match self {
            // On top of whatever is there it would undo what somebody else did in between, an end of the job included.
            Command::PutJob(PutJob { expect, .. }) => matches!(expect, Expect::Revision(_)),
            // A job made meanwhile under the old name has the old revisions too.
            Command::DeleteJob { .. } => false,
            Command::RunJob(RunJob { key, .. })
            | Command::Submit(Submit { key, .. })
            | Command::RetryRun(RetryRun { key, .. }) => key.is_some(),
            Command::ReplanJob { .. }
            | Command::PauseJob { .. }
            | Command::ResumeJob { .. }
            | Command::CancelRun { .. }
            | Command::DiscardDeadLetter { .. }
            | Command::Progress { .. }
            | Command::Tell { .. } => true,
            Command::Queue(ask) => ask.is_repeatable(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The job as it now is, and whether this made it, changed it or found it the same.
    Job {
        job: Arc<Job>,
        made: Made,
    },
    Deleted,
    Run(Arc<Run>),
    /// The key was given before: this run bears it.
    Existing(RunId),
    Discarded,
    /// Heard, and written with whatever is written next.
    Noted,
    Queue(queue::Said),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Made {
    Created,
    Changed,
    Unchanged,
}

/// Why a command was not carried out. Nothing happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    #[error("no job `{name}` in namespace `{namespace}`")]
    NoSuchJob { namespace: Namespace, name: Name },
    #[error("no run {0}")]
    NoSuchRun(RunId),
    #[error("run {0} is not a dead letter")]
    NotADeadLetter(RunId),
    #[error("job `{0}` exists already")]
    JobExists(Name),
    #[error("job is at revision {actual}, not {expected}: read it again and repeat the edit")]
    WrongRevision { expected: u32, actual: u32 },
    #[error("no calendar `{name}` in namespace `{namespace}`")]
    NoSuchCalendar { namespace: Namespace, name: Name },
    #[error("calendar `{0}` exists already")]
    CalendarExists(Name),
    #[error("calendar is at version {actual}, not {expected}: read it again and repeat the edit")]
    WrongVersion { expected: u32, actual: u32 },
    #[error("calendar `{calendar}` is kept to by job `{job}`: change or delete that job first")]
    CalendarInUse { calendar: Name, job: Name },
    #[error("run {run} is {status}: {hint}")]
    WrongState { run: RunId, status: Status, hint: Cow<'static, str> },
    #[error("run {0} has gone on under a newer token: this attempt is given up, and should stop")]
    OutdatedToken(RunId),
    #[error("{0}")]
    Invalid(#[from] job::Invalid),
    #[error("this node holds as many live runs as it may: try again when some have finished")]
    TooManyRuns,
}
