//! A job: its file, and the fields that the server adds.

use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::command;
use punctual_core::ids::JobId;
use punctual_core::job as rule;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::LastRun;
use crate::job_file::JobFile;
use crate::schema;
use crate::text::{Instant, Text};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Job {
    #[schema(value_type = schema::Id)]
    pub id: Text<JobId>,
    #[serde(flatten)]
    pub file: JobFile,
    pub revision: u32,
    pub state: JobState,
    /// Only of a paused job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<Pause>,
    pub created_at: Instant,
    pub updated_at: Instant,
    /// The next due time. `null` means that the job is paused, finished, started by hand only, or waits for a run to end.
    pub next_due_at: Option<Instant>,
    /// Every due time up to here has had its run or its recorded skip.
    pub fired_through: Instant,
    /// The last runs, oldest first, in a listing with `last`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Vec<LastRun>>,
}

/// Why a job is paused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Pause {
    /// Empty if no reason was given.
    pub reason: String,
    /// The name of the token. Absent if the server asks for no token, or if the job was paused by its `pause_after`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    pub since: Instant,
    /// When the job is resumed by itself. Absent if someone has to resume it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Instant>,
}

impl Pause {
    /// In words: `by ops: the bank is closed, until 2026-12-01T08:00:00.000Z`.
    pub fn told(&self) -> String {
        let by = self.by.as_ref().map(|by| format!("by {by}"));
        let reason = (!self.reason.is_empty()).then(|| self.reason.clone());
        let why = [by, reason].into_iter().flatten().collect::<Vec<_>>().join(": ");
        let until = self.until.map(|until| format!("until {until}"));
        [Some(why).filter(|why| !why.is_empty()), until].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

impl From<&rule::Pause> for Pause {
    fn from(pause: &rule::Pause) -> Pause {
        Pause {
            reason: pause.reason.to_string(),
            by: pause.by.as_deref().map(str::to_owned),
            since: Text(pause.since),
            until: pause.until.map(Text),
        }
    }
}

/// Pauses a job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { reason: \"the bank is closed\" }")]
pub struct PauseJob {
    /// Why; it is recorded with the name of the token.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 1024)]
    pub reason: String,
    /// When the job is resumed by itself, within a year.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    Active,
    Paused,
    /// Its schedules have no further due times: it starts only by hand.
    Finished,
}

impl JobState {
    pub fn of(job: &rule::Job) -> JobState {
        match (job.is_paused(), job.is_finished()) {
            (true, _) => JobState::Paused,
            (false, true) => JobState::Finished,
            (false, false) => JobState::Active,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            JobState::Active => "active",
            JobState::Paused => "paused",
            JobState::Finished => "finished",
        }
    }
}

/// The cursor of a job's schedule, as exported.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cursor {
    pub fired_through: Instant,
    pub next_due_at: Option<Instant>,
    pub wake_at: Option<Instant>,
    /// Fires so far, for each schedule.
    pub fires: Vec<u32>,
}

/// The response header that says what a put did.
pub const MADE_HEADER: &str = "punctual-made";

/// What a put did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Made {
    Created,
    Changed,
    Unchanged,
}

impl Made {
    pub fn as_str(self) -> &'static str {
        match self {
            Made::Created => "created",
            Made::Changed => "changed",
            Made::Unchanged => "unchanged",
        }
    }

    pub fn parse(text: &str) -> Option<Made> {
        [Made::Created, Made::Changed, Made::Unchanged].into_iter().find(|made| made.as_str() == text)
    }
}

impl From<command::Made> for Made {
    fn from(made: command::Made) -> Self {
        match made {
            command::Made::Created => Made::Created,
            command::Made::Changed => Made::Changed,
            command::Made::Unchanged => Made::Unchanged,
        }
    }
}

/// A fire that is still to come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Fire {
    pub due_at: Instant,
    /// The same instant by the clocks of the schedule's zone.
    pub local: String,
    /// When the run is made: later than due by the jitter.
    pub wake_at: Instant,
}

impl Fire {
    /// The next fires, assuming that each of them happens; with `from`, those from that instant on.
    pub fn of(job: &rule::Job, count: usize, from: Option<Timestamp>) -> Vec<Fire> {
        let mut job = job.clone();
        if let Some(from) = from.filter(|_| !job.is_paused()) {
            job.plan_after(from.before(Duration::from_millis(1)));
        }
        let mut fires = Vec::new();
        while let (Some(due), true) = (job.cursor.next_due, fires.len() < count) {
            let wake_at = Text(job.cursor.wake_at.unwrap_or(due));
            fires.push(Fire { due_at: Text(due), local: job.local(due), wake_at });
            job.count_fire(due);
            job.plan_after(due);
        }
        fires
    }
}

impl From<&rule::Job> for Job {
    fn from(job: &rule::Job) -> Self {
        Job {
            id: Text(job.id),
            file: JobFile::of(&job.namespace, &job.name, &job.definition),
            revision: job.revision,
            state: JobState::of(job),
            pause: job.pause.as_deref().map(Into::into),
            created_at: Text(job.created_at),
            updated_at: Text(job.updated_at),
            next_due_at: job.cursor.next_due.map(Text),
            fired_through: Text(job.cursor.fired_through),
            last: None,
        }
    }
}

impl From<&rule::Cursor> for Cursor {
    fn from(cursor: &rule::Cursor) -> Self {
        Cursor {
            fired_through: Text(cursor.fired_through),
            next_due_at: cursor.next_due.map(Text),
            wake_at: cursor.wake_at.map(Text),
            fires: cursor.fires.to_vec(),
        }
    }
}
