//! The records of a history: what the checks need to know of a run, an event, a job and a skip.

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
    /// None: submitted by itself.
    pub job: Option<JobRef>,
    pub revision: u32,
    pub lane: Lane,
    pub status: Status,
    pub due: Timestamp,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    /// Attempts begun so far.
    pub attempt: u32,
    /// The run that it is a child of, and which of its children.
    pub parent: Option<RunId>,
    pub step: Option<Box<str>>,
    /// What the run's own definition says; an export does not carry it.
    pub at_most_once: Option<bool>,
}

/// The job of a run: an export tells the name, the engine the id too.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobRef {
    pub name: Name,
    pub id: Option<JobId>,
}

/// Which key a run has beside its job. On the schedule's lane it is the due time, so there is one run for each.
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
    /// None: the run was made by this event.
    pub from: Option<Status>,
    pub to: Status,
    pub at: Timestamp,
    pub token: Token,
    /// The arrow's name, where it was told.
    pub what: Option<Box<str>>,
}

/// Due times that were passed over; `to` is the last of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkipRecord {
    pub job: JobId,
    /// The revision whose schedule names them.
    pub revision: u32,
    pub from: Timestamp,
    pub to: Timestamp,
    pub reason: SkipReason,
}

/// A revision of a job: what it promised, and since when.
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

/// What the node itself counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatsRecord {
    pub jobs: u64,
    pub live_runs: u64,
    pub history_runs: u64,
}

impl EventRecord {
    /// An attempt starts here. A run that is split runs too, in its children: it has no attempts.
    pub fn starts(&self) -> bool {
        self.begins() && self.what.as_deref() != Some("split")
    }

    /// It begins to run. (A running run that is asked to stop stays running: that is no beginning.)
    pub fn begins(&self) -> bool {
        self.to == Status::Running && self.from != Some(Status::Running)
    }

    /// The events that a run carries with it; the place of an entry is its number.
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
            Trigger::Manual | Trigger::Submit | Trigger::Retry | Trigger::Parent => Lane::Own,
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
            lane: run.trigger.into(),
            status: run.status(),
            due: run.due,
            created_at: run.created_at,
            started_at: run.started_at,
            finished_at: run.finished_at,
            attempt: run.attempt,
            parent: run.parent(),
            step: run.parent().map(|_| run.part().index.to_string().into()),
            at_most_once,
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
