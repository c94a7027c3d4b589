//! Tokens, which programs authenticate with. The text is shown once, when the token is made.

use punctual_core::name::Name;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;
use crate::text::{Instant, Span};

/// What the bearer may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Everything that a person may do.
    Admin,
    /// To look at everything and change nothing.
    Reader,
    /// To enrol as a worker, and nothing else.
    Worker,
}

impl Role {
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Admin => "admin",
            Role::Reader => "reader",
            Role::Worker => "worker",
        }
    }
}

/// A token that is to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { name: ci, role: reader }")]
pub struct AddToken {
    /// What people call it; a name is taken until its token is removed.
    #[schema(value_type = schema::Name)]
    pub name: Name,
    pub role: Role,
    /// How long the token is valid. By default it is valid until it is removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<Span>,
}

/// A token in a listing. Its text is not stored and cannot be shown again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Token {
    pub name: String,
    pub role: Role,
    pub created_at: Instant,
    pub expires_at: Option<Instant>,
    /// When the answering node last accepted the token, since that node started.
    pub last_used_at: Option<Instant>,
}

/// A token that was just made, with its text.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NewToken {
    pub name: String,
    pub role: Role,
    pub created_at: Instant,
    pub expires_at: Option<Instant>,
    /// The text of the token. The server does not store it: keep it.
    pub token: String,
}

/// Hides the text, because debug output ends up in logs.
impl std::fmt::Debug for NewToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewToken").field("name", &self.name).field("role", &self.role).finish_non_exhaustive()
    }
}
