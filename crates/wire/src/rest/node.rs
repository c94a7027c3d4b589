//! Nodes as they report themselves, and workers as the nodes see them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::text::Instant;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Node {
    pub name: String,
    /// The address at which other nodes reach it. `null` means it cannot be dialled, or it is the only node.
    #[serde(default)]
    pub address: Option<String>,
    /// The address of its Redis-protocol endpoint, for clients of queues. `null` means the endpoint is off.
    #[serde(default)]
    pub resp: Option<String>,
    pub roles: Vec<String>,
    /// Empty if the node did not report it.
    pub version: String,
    /// The time that the node goes by: the store's.
    pub now: Instant,
    /// How far the system clock of its machine is ahead of the store's clock. Nothing goes by the system clock, but the
    /// node's log lines have its time. 0 if the node did not report it.
    #[serde(default)]
    pub clock_offset_ms: i64,
    pub ready: bool,
    /// When the other nodes noticed that it was lost while it led shards. `null` means it is alive. A lost node is listed for
    /// an hour.
    #[serde(default)]
    pub lost_at: Option<Instant>,
    /// Why the node failed, or why it did not report its state.
    pub failed: Option<String>,
    /// What an acknowledged change survives: `full`, a power loss; `relaxed`, a crash of the process only. Empty if the node
    /// did not report it.
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
    /// How busy its scheduling thread is. `null` means it is not measured, because the node is the only one.
    #[serde(default)]
    pub load_percent: Option<u8>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Worker {
    pub name: String,
    /// Whether its heartbeats stopped for longer than the attempt lease, or its connection broke. A lost worker gets no runs
    /// and is listed for an hour.
    #[serde(default)]
    pub lost: bool,
    /// Whether it was told to take no more runs.
    #[serde(default)]
    pub draining: bool,
    /// Whether it does not stop an attempt that it was told to stop. It gets no runs until that attempt has ended.
    #[serde(default)]
    pub stuck: bool,
    /// The nodes that may assign runs to it.
    #[serde(default)]
    pub nodes: Vec<String>,
    pub slots: usize,
    /// Slots in use, by runs of all these nodes together.
    pub busy: usize,
    /// The labels that `route.selector` compares.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The kinds of task that it executes.
    #[serde(default)]
    pub kinds: Vec<String>,
    /// The functions that are registered with it.
    #[serde(default)]
    pub functions: Vec<String>,
    /// Its share under `route.strategy: weighted`.
    #[serde(default)]
    pub weight: u32,
    /// Processor use of its machine. `null` means the worker did not report it.
    #[serde(default)]
    pub cpu_percent: Option<u8>,
    #[serde(default)]
    pub memory_percent: Option<u8>,
}
