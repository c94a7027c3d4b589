//! The lines of an exported history: newline-delimited JSON, each with a `type`.
//!
//! `punctual verify` reads them, so they say everything that the promises can be checked against.

use punctual_core::change;
use punctual_core::ids::JobId;
use punctual_core::name::{Name, Namespace};
use serde::{Deserialize, Serialize};

use super::{Carried, Cursor, Event, Job, Run};
use crate::text::{Instant, Text};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Line {
    /// A job as it is now, and how far it got.
    Job {
        #[serde(flatten)]
        job: Box<Job>,
        cursor: Cursor,
        /// The calendars that its due times come from.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calendars: Vec<Carried>,
    },
    Skip(Skip),
    Run {
        #[serde(flatten)]
        run: Box<Run>,
        /// Tells a job from an earlier one of the same name; null: the run has none.
        job_id: Option<Text<JobId>>,
    },
    Event(Event),
    Stats(Stats),
}

/// Due times that were passed over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Skip {
    pub namespace: Namespace,
    pub job: Name,
    pub job_id: Text<JobId>,
    pub revision: u32,
    /// The first and the last due time of the range.
    pub from: Instant,
    pub to: Instant,
    pub reason: String,
    /// How many due times the range holds; null: more than anyone counted.
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
