//! The records of a history: the fields of runs, events, jobs and skips that the checks need.

use punctual_core::Timestamp;
use punctual_core::change::{Revision, Skip, SkipReason};
use punctual_core::ids::{JobId, RunId, Token};
use punctual_core::job::{Cursor, Job, State};
use punctual_core::name::{Name, Namespace};
use punctual_core::run::{Origin, Run, Status, Trigger};

use super::rules::Rules;

#[derive(Debug, Clone, PartialEq)]
pub struct RunRecord {
    pub id: RunId,
    pub namespace: Namespace,
    /// `None` means the run was submitted without a job.
    pub job: Option<JobRef>,
    pub revision: u32,
    pub trigger: Trigger,
    pub lane: Lane,
    pub status: Status,
    pub due: Timestamp,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    /// Attempts started so far.
    pub attempt: u32,
    /// The parent run; `step` says which of its children this is. `None` means it is not a child.
    pub parent: Option<RunId>,
    pub step: Option<Box<str>>,
    /// The index among the parts of a split run. `None` means that it is no part.
    pub part: Option<u32>,
    /// The run of another job that started it.
    pub started_by: Option<RunId>,
    /// The run of another job that it has started and waits for.
    pub started: Option<RunId>,
    /// The job that it starts. `None` means that its task is another one.
    pub starts: Option<Name>,
    /// From the run's own definition. `None` means unknown: an export does not contain it.
    pub at_most_once: Option<bool>,
    /// What happened to the run later is not known. `None` means that all runs were read at the same time.
    pub read_at: Option<Timestamp>,
}

/// The job of a run: an export has its name, the engine also its id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobRef {
    pub name: Name,
    pub id: Option<JobId>,
}

/// How a run is keyed besides its job. On the schedule's lane the key is the due time, so there is one run per due
/// time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    Schedule,
    Own,
}

/// One change of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRecord {
    pub run: RunId,
    pub seq: u64,
    /// `None` means this event created the run.
    pub from: Option<Status>,
    pub to: Status,
    pub at: Timestamp,
    pub token: Token,
    /// The name of the transition. `None` means the export does not contain it.
    pub what: Option<Box<str>>,
}

/// Skipped due times from `from` to `to`, both included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkipRecord {
    pub job: JobId,
    /// The revision whose schedule has these due times.
    pub revision: u32,
    pub from: Timestamp,
    pub to: Timestamp,
    pub reason: SkipReason,
}

/// A revision of a job: its rules, and when it was made.
#[derive(Debug, Clone, PartialEq)]
pub struct RevisionRecord {
    pub job: JobId,
    pub revision: u32,
    pub at: Timestamp,
    pub state: State,
    pub rules: Rules,
}

#[derive(Debug, Clone, PartialEq)]
pub struct JobRecord {
    pub id: JobId,
    pub namespace: Namespace,
    pub name: Name,
    pub revision: u32,
    pub state: State,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub cursor: Cursor,
    pub rules: Rules,
}

/// Counts reported by the node itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatsRecord {
    pub jobs: u64,
    pub live_runs: u64,
    pub history_runs: u64,
}

impl EventRecord {
    /// Whether an attempt starts here. A split run has no attempts of its own; it runs in its children.
    pub fn starts(&self) -> bool {
        self.begins() && self.what.as_deref() != Some("split")
    }

    /// Whether the run enters `running`. A running run that is asked to stop stays running and does not begin again.
    pub fn begins(&self) -> bool {
        self.to == Status::Running && self.from != Some(Status::Running)
    }

    /// The events stored with a run; the index of an entry is its number.
    pub fn all_of(run: &Run) -> impl Iterator<Item = EventRecord> {
        let mut from = None;
        run.entries.iter().zip(0..).map(move |(entry, seq)| EventRecord {
            run: run.id,
            seq,
            from: from.replace(entry.to),
            to: entry.to,
            at: entry.at,
            token: entry.token,
            what: Some(entry.what.as_str().into()),
        })
    }
}

impl SkipRecord {
    pub fn covers(&self, due: Timestamp) -> bool {
        (self.from..=self.to).contains(&due)
    }
}

impl From<Trigger> for Lane {
    fn from(trigger: Trigger) -> Lane {
        match trigger {
            Trigger::Schedule | Trigger::Misfire => Lane::Schedule,
            Trigger::Manual
            | Trigger::Submit
            | Trigger::Retry
            | Trigger::Parent
            | Trigger::Workflow
            | Trigger::After
            | Trigger::Event
            | Trigger::Backfill
            | Trigger::Ping => Lane::Own,
        }
    }
}

impl From<&Run> for RunRecord {
    fn from(run: &Run) -> RunRecord {
        let (job, revision, at_most_once) = match &run.origin {
            Origin::Job { id, name, revision } => {
                (Some(JobRef { name: name.clone(), id: Some(*id) }), *revision, None)
            }
            Origin::AdHoc(definition) => (None, 0, Some(definition.at_most_once)),
        };
        RunRecord {
            id: run.id,
            namespace: run.namespace.clone(),
            job,
            revision,
            trigger: run.trigger,
            lane: run.trigger.into(),
            status: run.status(),
            due: run.due,
            created_at: run.created_at,
            started_at: run.started_at,
            finished_at: run.finished_at,
            attempt: run.attempt,
            parent: run.parent(),
            step: run.place_in_parent().map(Into::into),
            part: run.part_of.as_ref().map(|of| of.part.index),
            started_by: run.started_by(),
            started: run.called(),
            starts: run.assignee.as_ref().and_then(|assignee| assignee.job().cloned()),
            at_most_once,
            read_at: None,
        }
    }
}

impl From<&Job> for JobRecord {
    fn from(job: &Job) -> JobRecord {
        JobRecord {
            id: job.id,
            namespace: job.namespace.clone(),
            name: job.name.clone(),
            revision: job.revision,
            state: job.state(),
            created_at: job.created_at,
            updated_at: job.updated_at,
            cursor: job.cursor.clone(),
            rules: (&*job.definition).into(),
        }
    }
}

impl From<&Skip> for SkipRecord {
    fn from(skip: &Skip) -> SkipRecord {
        let Skip { job, revision, from, to, reason, .. } = *skip;
        SkipRecord { job, revision, from, to, reason }
    }
}

impl From<&Revision> for RevisionRecord {
    fn from(revision: &Revision) -> RevisionRecord {
        let Revision { job, revision: number, at, state, .. } = *revision;
        RevisionRecord { job, revision: number, at, state, rules: (&*revision.definition).into() }
    }
}

impl From<&JobRecord> for RevisionRecord {
    fn from(job: &JobRecord) -> RevisionRecord {
        RevisionRecord {
            job: job.id,
            revision: job.revision,
            at: job.updated_at,
            state: job.state,
            rules: job.rules.clone(),
        }
    }
}
