//! Who the caller is, and the namespaces to choose from.

use punctual_core::name::Namespace;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Role;
use crate::schema;

/// What the server knows of the caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Whoami {
    /// The name of the token. `null` means that this server needs no token.
    pub token: Option<String>,
    pub role: Role,
    /// What the caller may do: `read`, `run`, `edit`, `admin`, `worker`.
    pub rights: Vec<String>,
    pub auth: Auth,
    /// The node that answers.
    pub node: String,
    pub version: String,
}

/// How callers prove who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Auth {
    /// Every caller may do everything.
    None,
    Token,
}

/// A namespace and how much is in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NamespaceCounts {
    #[schema(value_type = schema::Namespace)]
    pub name: Namespace,
    /// At most 10,000 are counted.
    pub jobs: u64,
    /// At most 10,000 are counted.
    pub queues: u64,
}
