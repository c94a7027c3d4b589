//! Nodes and workers, as they see themselves.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::text::Instant;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Node {
    pub name: String,
    pub roles: Vec<String>,
    pub version: String,
    /// The time as it tells it.
    pub now: Instant,
    pub ready: bool,
    /// Why it cannot go on, if it cannot.
    pub failed: Option<String>,
    pub shards: usize,
    pub live_runs: usize,
    pub ready_runs: usize,
    pub running_runs: usize,
    pub commits: u64,
    pub changes: u64,
    /// Results refused because a newer attempt had outdated them.
    pub stale_reports: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Worker {
    pub name: String,
    pub node: String,
    pub slots: usize,
    pub busy: usize,
    /// What `route.selector` looks at.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The kinds of task that it takes.
    #[serde(default)]
    pub kinds: Vec<String>,
    /// Its share under `route.strategy: weighted`.
    #[serde(default)]
    pub weight: u32,
    /// How busy its machine is; null: it did not say.
    #[serde(default)]
    pub cpu_percent: Option<u8>,
    #[serde(default)]
    pub memory_percent: Option<u8>,
}
