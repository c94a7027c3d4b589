//! The events of `GET /api/v1/live`.

use punctual_core::ids::RunId;
use punctual_core::name::Name;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;
use crate::text::Text;

/// The first event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LiveHello {
    /// The node that sends the events.
    pub node: String,
}

/// What changed since the last event, at most 500 ids of each kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LiveChanges {
    #[schema(value_type = Vec<schema::Id>)]
    pub runs: Vec<Text<RunId>>,
    #[schema(value_type = Vec<schema::Name>)]
    pub jobs: Vec<Name>,
    pub queues: Vec<String>,
    /// Workers came, left, or took other runs.
    pub workers: bool,
    /// Nodes came, left, or lead other shards.
    pub nodes: bool,
    /// More changed than is listed: read everything again.
    pub more: bool,
}
