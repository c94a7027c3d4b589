//! The whole at a glance: `GET /api/v1/overview` and `GET /api/v1/fires`.

use punctual_core::ids::RunId;
use punctual_core::name::{Name, Namespace};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Percentiles;
use crate::schema;
use crate::text::{Instant, Text};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Overview {
    pub at: Instant,
    pub nodes: NodeCounts,
    pub workers: WorkerCounts,
    pub jobs: JobCounts,
    pub runs: LiveCounts,
    pub last_hour: HourCounts,
    /// The last 60 minutes, oldest first, each present.
    pub minutes: Vec<MinuteCounts>,
    /// What needs a person, worst first, at most 100.
    pub attention: Vec<Attention>,
    /// The next fires, at most 20.
    pub next: Vec<NextFire>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeCounts {
    pub alive: usize,
    /// Nodes that were lost within the last hour.
    pub lost: usize,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WorkerCounts {
    pub alive: usize,
    pub lost: usize,
    pub slots: usize,
    pub busy: usize,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobCounts {
    pub active: usize,
    pub paused: usize,
    pub finished: usize,
    /// Only the first 20,000 jobs were counted.
    pub capped: bool,
}

/// Live runs, at most 10,000 of each state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LiveCounts {
    pub waiting: u64,
    pub ready: u64,
    pub running: u64,
    pub capped: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HourCounts {
    pub fires: u64,
    pub succeeded: u64,
    /// Failed and timed-out runs.
    pub failed: u64,
    pub skipped: u64,
    /// `null` means that no run started.
    pub late_ms: Option<Percentiles>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MinuteCounts {
    pub at: Instant,
    pub fires: u64,
    /// Failed and timed-out runs.
    pub failed: u64,
}

/// Something that needs a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Attention {
    pub kind: AttentionKind,
    /// `null` means that it is about the cluster.
    #[schema(value_type = Option<schema::Namespace>)]
    pub namespace: Option<Namespace>,
    /// The name of the job or node. `null` means runs without a job.
    pub subject: Option<String>,
    /// The run to look at. `null` means none in particular.
    #[schema(value_type = Option<schema::Id>)]
    pub run: Option<Text<RunId>>,
    pub count: u64,
    pub since: Option<Instant>,
    pub message: String,
}

/// The worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AttentionKind {
    NodeLost,
    ClockOffset,
    NoWorkerFits,
    /// Open incidents that nobody has acknowledged.
    Incidents,
    DeadLetters,
    /// Steps that wait for an approval.
    Approvals,
    JobPaused,
    RelaxedStore,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NextFire {
    #[schema(value_type = schema::Namespace)]
    pub namespace: Namespace,
    #[schema(value_type = schema::Name)]
    pub job: Name,
    pub due_at: Instant,
}

/// Fires by bucket: what happened before now, what is planned after it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Fires {
    pub from: Instant,
    pub to: Instant,
    pub bucket_ms: u64,
    /// False means that coming fires are estimates: jobs were sampled, or some jobs fire too often to count.
    pub exact: bool,
    /// Jobs that have a next due time.
    pub jobs: usize,
    /// Jobs in the sample. `null` means that all jobs were counted.
    pub sampled: Option<usize>,
    /// Only buckets with fires or ended runs, oldest first.
    pub buckets: Vec<FireBucket>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FireBucket {
    pub at: Instant,
    pub fires: u64,
    /// The ten jobs with the most coming fires. Left out in a bucket of the past.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<Vec<JobFires>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub succeeded: Option<u64>,
    /// Failed and timed-out runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobFires {
    #[schema(value_type = schema::Namespace)]
    pub namespace: Namespace,
    #[schema(value_type = schema::Name)]
    pub job: Name,
    pub fires: u64,
}
