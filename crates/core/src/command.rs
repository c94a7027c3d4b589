//! The commands that an endpoint sends to a shard, and the answers.
//!
//! A command may be forwarded to the node that leads its shard. Commands and answers are serialized with field names,
//! so that nodes of two versions understand each other.

mod ping;
mod refusal;

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::alert::{ActOnIncident, Incident, NoteChannel};
use crate::hold::{Hold, Scope};
use crate::ids::{RunId, ShardId, Token};
use crate::job::{self, Definition, Job};
use crate::lock;
use crate::name::{Name, Namespace};
use crate::params::Params;
use crate::progress::Progress;
use crate::queue;
use crate::run::{Caller, Run};
use crate::schedule::calendar::Calendar;
use crate::topic::{Listener, NewEvent, Topic, TopicKey, Wake};
use crate::workflow::{RetryFrom, StepKey, StepParams};

pub use ping::{Ping, Signal};
pub use refusal::Refusal;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    PutJob(PutJob),
    /// A calendar has changed: a job that uses it follows the new version. `None` means newer time zone data: a next
    /// due time computed with older data is computed again.
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
        /// Empty means that no reason is given.
        reason: Box<str>,
        /// The name of the caller's token. `None` means that the server asks for no token.
        by: Option<Box<str>>,
        /// When the job is resumed by itself. `None` means never.
        until: Option<Timestamp>,
    },
    ResumeJob {
        namespace: Namespace,
        name: Name,
    },
    RunJob(RunJob),
    /// A program outside Punctual reports a run of a job that is a ping. The caller has checked its key.
    Ping(Ping),
    Backfill(BackfillJob),
    Submit(Submit),
    CancelRun {
        namespace: Namespace,
        run: RunId,
        /// Without a grace period.
        now: bool,
        /// The name of the caller's token. `None` means that the server asks for no token.
        by: Option<Box<str>>,
        comment: Box<str>,
    },
    /// Stops the running attempt, and gives the run to another worker.
    MoveRun {
        namespace: Namespace,
        run: RunId,
        /// The name of the worker to move it to. `None` means any other.
        worker: Option<Arc<str>>,
    },
    RetryRun(RetryRun),
    /// A person decides on a workflow or one of its steps.
    ActOnSteps(ActOnSteps),
    DiscardDeadLetter {
        namespace: Namespace,
        run: RunId,
    },
    /// Progress of an attempt, which the caller has checked. Only the newest token is accepted.
    Progress {
        namespace: Namespace,
        run: RunId,
        token: Token,
        progress: Progress,
        /// Answer only when it is stored.
        durable: bool,
    },
    /// Cancels the run that an attempt of another job has started.
    CancelCall(CancelCall),
    /// Tells a listener of a topic what happened.
    Wake(Box<Wake>),
    /// Adds a listener to a topic, perhaps once more.
    Listen {
        topic: TopicKey,
        listener: Listener,
        /// Only events with this key. `None` means all.
        key: Option<Arc<str>>,
    },
    /// Removes a step that waits no more, and lets it not come back.
    StopListening {
        topic: TopicKey,
        step: StepKey,
    },
    /// Tells a step under which number it listens to its event. `None` means that the event has too many listeners.
    StepListens {
        step: StepKey,
        number: Option<i64>,
    },
    /// Removes a listener, unless it has come back under another number. If the notice brought it a message, that message
    /// goes back to its queue.
    Unlisten {
        topic: TopicKey,
        listener: i64,
        notice: i64,
    },
    SendEvent {
        namespace: Namespace,
        name: Name,
        event: NewEvent,
    },
    /// Asks which jobs listen to the ends of the runs of a job.
    Followers {
        namespace: Namespace,
        name: Name,
    },
    /// Puts a namespace or everything on hold, for one shard.
    Hold {
        shard: ShardId,
        hold: Box<Hold>,
    },
    /// Ends a hold for one shard, as of `at`.
    Release {
        shard: ShardId,
        scope: Scope,
        at: Timestamp,
    },
    /// Tells an attempt about the message that it delivered, or the run that it started. Ignored if it has ended.
    Tell {
        sender: queue::Sender,
        news: queue::News,
    },
    /// A person decides on an incident.
    ActOnIncident(ActOnIncident),
    /// Notifications of a namespace cannot be sent to a channel, or (`None`) can be sent again.
    NoteChannel(NoteChannel),
    /// A command on a queue or its messages.
    Queue(queue::Ask),
    Lock(lock::Ask),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PutJob {
    pub namespace: Namespace,
    pub name: Name,
    pub definition: Arc<Definition>,
    pub expect: Expect,
}

/// The precondition of an edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expect {
    Anything,
    Absent,
    Revision(u32),
}

/// Starts a job by hand, or for a step of a workflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunJob {
    pub namespace: Namespace,
    pub name: Name,
    pub params: Option<Params>,
    /// `None` means now.
    pub due: Option<Timestamp>,
    pub key: Option<Key>,
    /// The attempt that starts it and waits for its end. Its parameters are merged over those of the job. `None` means a
    /// user.
    pub caller: Option<Caller>,
}

/// Makes up for the due times of a job in a span of time, by a run with a child run for each of them. Due times that have a
/// run are left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BackfillJob {
    pub namespace: Namespace,
    pub name: Name,
    /// The beginning of the span, which belongs to it.
    pub from: Timestamp,
    /// The end of the span, which does not belong to it.
    pub to: Timestamp,
    /// `None` means the parameters of the job.
    pub params: Option<Params>,
    /// How many child runs are active at once. `None` means the default of the job.
    pub running: Option<u32>,
    /// Start with the newest due time.
    pub newest_first: bool,
    /// Only say what it would do.
    pub dry_run: bool,
    /// The name of the caller's token. `None` means that the server asks for no token.
    pub by: Option<Box<str>>,
}

/// What a backfill does, or would do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Backfilled {
    /// `None` means that none was made: nothing was left to do, or this was only asked.
    pub run: Option<Arc<Run>>,
    /// How many child runs it has.
    pub total: u32,
    /// The first due time of a child run. `None` means that there is none.
    pub first: Option<Timestamp>,
    pub last: Option<Timestamp>,
    /// The due times that are left out, in their order.
    pub left_out: Vec<LeftOut>,
}

/// A due time that a backfill leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    pub due: Timestamp,
    /// The run that it has, or the backfill that makes up for it. `None` means that the schedule is about to start it.
    pub run: Option<RunId>,
}

/// Submits a run without a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Submit {
    pub namespace: Namespace,
    pub definition: Arc<Definition>,
    /// `None` means now.
    pub due: Option<Timestamp>,
    pub key: Option<Key>,
    /// Decides the shard if there is no key; the caller increments it, so that submits spread over shards.
    pub spread: u64,
}

impl Submit {
    /// The shard of a submit without a key.
    pub fn shard_of(spread: u64, shards: u16) -> ShardId {
        ShardId::of(&[&spread.to_le_bytes()], shards)
    }
}

/// Runs a finished run again, as a new run under the job's newest revision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RetryRun {
    pub namespace: Namespace,
    pub run: RunId,
    /// `None` means the parameters of the finished run.
    pub params: Option<Params>,
    /// `None` means the due time of the finished run.
    pub due: Option<Timestamp>,
    pub key: Option<Key>,
    /// Whether the new run starts at the last checkpoint of the finished run.
    pub resume: bool,
    /// Only if the run is a dead letter now. The replay is held where the overlap policy would skip it, because a user
    /// asked for it.
    pub dead_letter: bool,
    /// Only for a workflow: which of its steps are executed again. `None` means all.
    pub from: Option<RetryFrom>,
    /// Only for a workflow: parameters of its steps. `None` means those of the finished run.
    pub step_params: Option<StepParams>,
    /// The name of the caller's token. `None` means that the server asks for no token.
    pub by: Option<Box<str>>,
    pub comment: Box<str>,
}

/// Cancels the run that an attempt has started. If there is none yet, none is started later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelCall {
    pub sender: queue::Sender,
    pub namespace: Namespace,
    pub job: Name,
    /// `None` means that the attempt does not know whether a run was started.
    pub called: Option<RunId>,
    /// Without a grace period.
    pub now: bool,
}

/// An idempotency key: repeated commands with the same key have one effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    pub text: Arc<str>,
    pub kept: Duration,
}

/// A person decides on a workflow or one of its steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActOnSteps {
    pub namespace: Namespace,
    /// The run of the workflow.
    pub run: RunId,
    pub act: StepsAct,
    /// The name of the caller's token. `None` means that the server asks for no token.
    pub by: Option<Box<str>>,
    pub comment: Box<str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepsAct {
    Approve(Name),
    Reject(Name),
    Skip(Name),
    Cancel(Name),
    /// Start no further step.
    Pause,
    Resume,
}

impl Command {
    /// The shard whose leader decides the command.
    pub fn shard(&self, shards: u16) -> ShardId {
        match self {
            Command::PutJob(PutJob { namespace, name, .. })
            | Command::RunJob(RunJob { namespace, name, .. })
            | Command::Ping(Ping { namespace, name, .. })
            | Command::Backfill(BackfillJob { namespace, name, .. })
            | Command::ReplanJob { namespace, name, .. }
            | Command::DeleteJob { namespace, name, .. }
            | Command::PauseJob { namespace, name, .. }
            | Command::ResumeJob { namespace, name }
            | Command::Followers { namespace, name }
            | Command::CancelCall(CancelCall { namespace, job: name, .. }) => {
                job::shard_of(namespace, name, shards)
            }
            Command::Wake(wake) => wake.listener.shard(&wake.topic.namespace, shards),
            Command::Listen { topic, .. }
            | Command::Unlisten { topic, .. }
            | Command::StopListening { topic, .. } => topic.shard(shards),
            Command::SendEvent { namespace, name, .. } => {
                let topic = Topic::Event(name.clone());
                TopicKey { namespace: namespace.clone(), topic }.shard(shards)
            }
            Command::Submit(Submit { namespace, key: Some(key), .. }) => {
                ShardId::of(&[namespace.as_str().as_bytes(), key.text.as_bytes()], shards)
            }
            Command::Submit(Submit { spread, .. }) => Submit::shard_of(*spread, shards),
            Command::CancelRun { run, .. }
            | Command::MoveRun { run, .. }
            | Command::DiscardDeadLetter { run, .. }
            | Command::Progress { run, .. }
            | Command::RetryRun(RetryRun { run, .. })
            | Command::ActOnSteps(ActOnSteps { run, .. })
            | Command::StepListens { step: StepKey { run, .. }, .. }
            | Command::Tell { sender: queue::Sender { run, .. }, .. } => run.shard(),
            Command::Hold { shard, .. } | Command::Release { shard, .. } => *shard,
            Command::ActOnIncident(ask) => ask.incident.shard(),
            Command::NoteChannel(note) => note.shard(shards),
            Command::Queue(ask) => ask.shard(shards).unwrap_or(ShardId(0)),
            Command::Lock(ask) => ask.key().shard(shards),
        }
    }

    /// What the command is about, for messages to users.
    pub fn subject(&self) -> String {
        match self {
            Command::PutJob(PutJob { name, .. })
            | Command::RunJob(RunJob { name, .. })
            | Command::Ping(Ping { name, .. })
            | Command::Backfill(BackfillJob { name, .. })
            | Command::ReplanJob { name, .. }
            | Command::DeleteJob { name, .. }
            | Command::PauseJob { name, .. }
            | Command::ResumeJob { name, .. }
            | Command::Followers { name, .. }
            | Command::CancelCall(CancelCall { job: name, .. }) => format!("job `{name}`"),
            Command::Submit(_) => "new run".to_owned(),
            Command::Wake(wake) => wake.listener.to_string(),
            Command::Listen { topic, .. }
            | Command::Unlisten { topic, .. }
            | Command::StopListening { topic, .. } => topic.topic.to_string(),
            Command::SendEvent { name, .. } => Topic::Event(name.clone()).to_string(),
            Command::CancelRun { run, .. }
            | Command::MoveRun { run, .. }
            | Command::DiscardDeadLetter { run, .. }
            | Command::Progress { run, .. }
            | Command::RetryRun(RetryRun { run, .. })
            | Command::ActOnSteps(ActOnSteps { run, .. })
            | Command::StepListens { step: StepKey { run, .. }, .. }
            | Command::Tell { sender: queue::Sender { run, .. }, .. } => format!("run {run}"),
            Command::Hold { shard, .. } | Command::Release { shard, .. } => format!("shard {shard}"),
            Command::ActOnIncident(ask) => format!("incident {}", ask.incident),
            Command::NoteChannel(note) => format!("channel `{}`", note.channel),
            Command::Queue(ask) => ask.subject(),
            Command::Lock(ask) => format!("lock `{}`", ask.key().name),
        }
    }

    /// Whether the command is idempotent, so that it may be sent again when its outcome is unknown. The second answer
    /// may be a refusal caused by the first.
    pub fn is_repeatable(&self) -> bool {
        match self {
            // Without an expected revision it could undo edits made in between, even a deletion of the job.
            Command::PutJob(PutJob { expect, .. }) => matches!(expect, Expect::Revision(_)),
            // A job created meanwhile under the old name may have the same revision.
            Command::DeleteJob { .. } => false,
            // The first may have moved the run already.
            Command::MoveRun { .. } => false,
            // The second is refused, because the first has decided.
            Command::ActOnSteps(_) => false,
            // The second would leave out what the first has made, and answer without its run.
            Command::Backfill(BackfillJob { dry_run, .. }) => *dry_run,
            Command::RunJob(RunJob { key, .. })
            | Command::Submit(Submit { key, .. })
            | Command::RetryRun(RetryRun { key, .. }) => key.is_some(),
            Command::SendEvent { event, .. } => event.key.is_some(),
            // A run that has ended stays as it is.
            Command::Ping(Ping { signal, run, .. }) => *signal != Signal::Started && run.is_some(),
            Command::ReplanJob { .. }
            | Command::Wake(_)
            | Command::StepListens { .. }
            | Command::Listen { .. }
            | Command::Unlisten { .. }
            | Command::StopListening { .. }
            | Command::PauseJob { .. }
            | Command::ResumeJob { .. }
            | Command::Followers { .. }
            | Command::CancelRun { .. }
            | Command::CancelCall(_)
            | Command::DiscardDeadLetter { .. }
            | Command::Progress { .. }
            | Command::Hold { .. }
            | Command::Release { .. }
            | Command::ActOnIncident(_)
            | Command::NoteChannel(_)
            | Command::Tell { .. }
            | Command::Lock(_) => true,
            Command::Queue(ask) => ask.is_repeatable(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The job as it is now, and whether the command created, changed or did not change it.
    Job {
        job: Arc<Job>,
        made: Made,
    },
    Deleted,
    Run(Arc<Run>),
    Backfill(Box<Backfilled>),
    /// The key was used before, by this run.
    Existing(RunId),
    Discarded,
    /// The id of an event that is stored.
    Event(i64),
    /// The topic has the listener, under this number.
    Listening(i64),
    /// The job or step does not listen to the topic.
    NotListening,
    /// Whether the shard had a hold that was released.
    Released(bool),
    /// The jobs that listen to the ends of a job's runs. The definition of some may no longer say so.
    Followers(Vec<Name>),
    /// Accepted; written with the next batch.
    Noted,
    /// A report of progress that came late, and was ignored.
    Late,
    Incident(Arc<Incident>),
    Queue(queue::Said),
    Lock(lock::Said),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Made {
    Created,
    Changed,
    Unchanged,
}
