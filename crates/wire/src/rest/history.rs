//! The lines of an exported history: newline-delimited JSON, each with a `type`.
//!
//! `punctual verify` reads them, so they contain everything that the promises are checked against.

use punctual_core::ids::{JobId, RunId};
use punctual_core::name::{Name, Namespace};
use punctual_core::{Timestamp, change, job, progress, run, workflow};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Carried, Cursor, Event, Job, Run, StepItems};
use crate::job_file::JobFile;
use crate::schema;
use crate::text::{Instant, Text};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Line {
    /// A job in its current state, with its cursor.
    Job {
        #[serde(flatten)]
        job: Box<Job>,
        cursor: Cursor,
        /// The calendars that its due times come from.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calendars: Vec<Carried>,
        /// When the job was deleted. `None` means that it exists.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deleted_at: Option<Instant>,
    },
    /// A definition of a job, and since when: every edit, pause, resume and deletion makes one.
    Revision {
        job_id: Text<JobId>,
        #[serde(flatten)]
        file: Box<JobFile>,
        revision: u32,
        at: Instant,
        /// `active`, `paused` or `deleted`.
        state: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calendars: Vec<Carried>,
    },
    Skip(Skip),
    Run {
        #[serde(flatten)]
        run: Box<Run>,
        /// Distinguishes jobs of the same name. `None` means that the run has no job.
        job_id: Option<Text<JobId>>,
        /// The line shows the run as it was at this time or a moment later. Runs of other pages were read at other times.
        read_at: Instant,
    },
    Event(Event),
    Resume(Resume),
    /// The graph of a run whose task is a workflow. A split run has one step, whose items are the parts.
    Workflow(Workflow),
    Step(Step),
    Stats(Stats),
}

impl Line {
    pub fn job(job: &job::Job, deleted_at: Option<Timestamp>) -> Line {
        Line::Job {
            job: Box::new(job.into()),
            cursor: (&job.cursor).into(),
            calendars: Carried::of(&job.definition),
            deleted_at: deleted_at.map(Text),
        }
    }

    pub fn revision(job: &job::Job, revision: &change::Revision) -> Line {
        Line::Revision {
            job_id: Text(job.id),
            file: Box::new(JobFile::of(&job.namespace, &job.name, &revision.definition)),
            revision: revision.revision,
            at: Text(revision.at),
            state: revision.state.as_str().to_owned(),
            calendars: Carried::of(&revision.definition),
        }
    }
}

/// A range of due times that were skipped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Skip {
    #[schema(value_type = schema::Namespace)]
    pub namespace: Namespace,
    #[schema(value_type = schema::Name)]
    pub job: Name,
    #[schema(value_type = schema::Id)]
    pub job_id: Text<JobId>,
    /// The revision whose schedule names the due times.
    pub revision: u32,
    /// The first and the last due time of the range.
    pub from: Instant,
    pub to: Instant,
    /// `misfire`: no node could fire them in time. `paused`: the job was paused. `calendar`: a calendar excludes their days.
    /// `edited`: an edit replaced the schedule before the due time.
    pub reason: String,
    /// How many due times the range has. `null` means that there are too many to count.
    pub count: Option<u64>,
    pub at: Instant,
}

impl Skip {
    pub fn of(skip: &change::Skip, namespace: &Namespace, job: &Name, count: Option<u64>) -> Self {
        Skip {
            namespace: namespace.clone(),
            job: job.clone(),
            job_id: Text(skip.job),
            revision: skip.revision,
            from: Text(skip.from),
            to: Text(skip.to),
            reason: skip.reason.as_str().to_owned(),
            count,
            at: Text(skip.at),
        }
    }
}

/// The start of an attempt whose run had a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume {
    pub run: Text<RunId>,
    /// The token of the attempt.
    pub token: Text<u64>,
    /// The newest checkpoint that the run had kept before.
    pub kept: Version,
    /// The checkpoint that the attempt was given. `null` means that it started over.
    pub given: Option<Version>,
}

/// The place of a checkpoint among those of its run: by attempt, then by the number of its report, then by count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    pub attempt: u32,
    pub seq: Option<u64>,
    pub count: u64,
}

impl Resume {
    /// Those of a run, in order.
    pub fn all(run: &run::Run) -> impl Iterator<Item = Resume> {
        let starts = run.resumes.iter().flat_map(|resumes| &resumes.starts);
        starts.map(|start| Resume {
            run: Text(run.id),
            token: Text(start.token.0),
            kept: start.kept.into(),
            given: start.given.map(Version::from),
        })
    }
}

impl From<progress::Version> for Version {
    fn from(version: progress::Version) -> Version {
        let progress::Version { attempt, seq, count } = version;
        Version { attempt, seq, count }
    }
}

/// The graph of a run whose task is a workflow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workflow {
    pub run: Text<RunId>,
    pub steps: Vec<DefinedStep>,
    /// Whether it has an `output`.
    pub output: bool,
}

/// A step as it is defined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefinedStep {
    pub name: Name,
    /// Also the steps whose `switch` lists it.
    pub needs: Vec<Name>,
    pub rule: String,
    pub finally: bool,
    pub at_most_once: bool,
}

/// What was decided of a step, or of an item of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    pub run: Text<RunId>,
    pub step: Name,
    /// `null` means the step itself.
    pub item: Option<u32>,
    pub state: String,
    pub child: Option<Text<RunId>>,
    pub decided_at: Instant,
    pub ended_at: Option<Instant>,
    pub reason: Option<String>,
    /// Only of a step with `map`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<StepItems>,
}

impl Workflow {
    pub fn of(run: RunId, workflow: &workflow::Workflow) -> Result<Workflow, job::Invalid> {
        let graph = workflow::Graph::of(workflow)?;
        let name = |index: &usize| Some(workflow.step(*index)?.name.clone());
        let steps = workflow.all().zip(graph.nodes()).enumerate().map(|(index, (step, node))| DefinedStep {
            name: step.name.clone(),
            needs: node.needs.iter().filter_map(name).collect(),
            rule: step.rule.as_str().to_owned(),
            finally: graph.is_finally(index),
            at_most_once: step.policies.at_most_once,
        });
        Ok(Workflow { run: Text(run), steps: steps.collect(), output: workflow.output.is_some() })
    }
}

impl Step {
    /// `None` means that the workflow has no such step.
    pub fn of(workflow: &workflow::Workflow, row: &workflow::StepRecord) -> Option<Step> {
        let index = usize::try_from(row.key.step).ok()?;
        Some(Step {
            run: Text(row.key.run),
            step: workflow.step(index)?.name.clone(),
            item: row.key.item,
            state: row.state.as_str().to_owned(),
            child: row.child.map(Text),
            decided_at: Text(row.decided_at),
            ended_at: row.ended_at.map(Text),
            reason: row.reason.map(|reason| reason.to_string()),
            items: row.items.map(Into::into),
        })
    }
}

/// Counters at the end of an export.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    pub jobs: u64,
    pub live_runs: u64,
    pub history_runs: u64,
    pub dead_letters: u64,
    pub commits: u64,
    pub changes: u64,
    pub stale_reports: u64,
}
