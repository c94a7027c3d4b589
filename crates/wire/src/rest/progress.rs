//! The progress that an attempt reports.

use punctual_core::ids::Token;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::error::Error;
use crate::schema;
use crate::text::{Text, small};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { token: \"4294967297\", percent: 40 }")]
pub struct Progress {
    /// What the attempt finds in PUNCTUAL_ATTEMPT_TOKEN.
    #[schema(value_type = schema::Id)]
    pub token: Text<u64>,
    #[serde(deserialize_with = "small::number")]
    pub percent: u8,
}

impl Progress {
    pub fn into_core(self) -> Result<(Token, u8), Error> {
        match self.percent {
            0..=100 => Ok((Token(self.token.0), self.percent)),
            _ => Err(Error::invalid("percent", "must be 0 to 100")),
        }
    }
}
