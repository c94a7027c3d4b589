//! Nodes as they report themselves, and workers as the nodes see them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::text::Instant;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Node {
    pub name: String,
    /// Where the other nodes reach it; null: nowhere, or there are no others.
    #[serde(default)]
    pub address: Option<String>,
    /// Where clients of queues reach it, in the Redis protocol; null: it has no such door.
    #[serde(default)]
    pub resp: Option<String>,
    pub roles: Vec<String>,
    /// Empty: it did not say.
    pub version: String,
    /// The time as it tells it.
    pub now: Instant,
    pub ready: bool,
    /// When the others noticed that it was gone while it led shards; null: it is there. A lost node is listed for an hour.
    #[serde(default)]
    pub lost_at: Option<Instant>,
    /// Why it cannot go on, or why it did not say how it is.
    pub failed: Option<String>,
    /// What an acknowledged change survives: `full`, a power loss; `relaxed`, a crash of the process only. Empty: it did not
    /// say.
    #[serde(default)]
    pub durability: String,
    pub shards: usize,
    pub live_runs: usize,
    pub ready_runs: usize,
    pub running_runs: usize,
    pub commits: u64,
    pub changes: u64,
    /// Results refused because a newer attempt had outdated them.
    pub stale_reports: u64,
    /// How busy its scheduling thread is; null: it is alone and nobody asks.
    #[serde(default)]
    pub load_percent: Option<u8>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Worker {
    pub name: String,
    /// A node has not heard of it for as long as attempts are waited for, or its connection broke: it gets no work from there.
    /// A lost worker is listed for an hour.
    #[serde(default)]
    pub lost: bool,
    /// The nodes that may give it work.
    #[serde(default)]
    pub nodes: Vec<String>,
    pub slots: usize,
    /// Slots in use, for all of these nodes together.
    pub busy: usize,
    /// What `route.selector` looks at.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The kinds of task that it takes.
    #[serde(default)]
    pub kinds: Vec<String>,
    /// The functions that are registered with it.
    #[serde(default)]
    pub functions: Vec<String>,
    /// Its share under `route.strategy: weighted`.
    #[serde(default)]
    pub weight: u32,
    /// How busy its machine is; null: it did not say.
    #[serde(default)]
    pub cpu_percent: Option<u8>,
    #[serde(default)]
    pub memory_percent: Option<u8>,
}
