//! A job that was validated but not saved: its file, its next due times and warnings.

use punctual_core::advice::Advice;
use punctual_core::job;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Fire, Graph};
use crate::job_file::JobFile;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Checked {
    /// The job file with every default spelt out.
    pub job: JobFile,
    pub next: Vec<Fire>,
    pub warnings: Vec<Warning>,
    /// The first 1,000 steps, if the graph was asked for and the task is a workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<Graph>,
}

/// Nothing that is refused, but probably not meant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Warning {
    pub field: String,
    pub message: String,
}

impl Checked {
    pub fn of(job: &job::Job, count: usize, advice: Vec<Advice>) -> Checked {
        let warning = |advice: Advice| Warning { field: advice.field.to_owned(), message: advice.message };
        Checked {
            job: JobFile::of(&job.namespace, &job.name, &job.definition),
            next: Fire::of(job, count, None),
            warnings: advice.into_iter().map(warning).collect(),
            graph: None,
        }
    }
}
