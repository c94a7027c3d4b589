//! Pings: what a program outside Punctual reports, and the key that it needs.

use punctual_core::ids::RunId;
use punctual_core::run;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::State;
use crate::schema;
use crate::text::Text;

/// The header with the key of a ping. The query parameter `key` may have it instead.
pub const PING_KEY_HEADER: &str = "punctual-ping-key";

/// The run that a ping was about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Pinged {
    #[schema(value_type = schema::Id)]
    pub run: Text<RunId>,
    pub state: State,
}

/// The key of a ping. Its bearer can report runs of this job, and can do nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PingKey {
    pub key: String,
    /// The path that reports a success. The paths `/start` and `/fail` are below it.
    pub path: String,
}

impl From<&run::Run> for Pinged {
    fn from(run: &run::Run) -> Pinged {
        Pinged { run: Text(run.id), state: State(run.status()) }
    }
}
