//! The progress that an attempt reports.

use punctual_core::ids::Token;
use punctual_core::progress;
use punctual_core::task::Params;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::error::Error;
use crate::schema;
use crate::text::{Text, small};

/// What an attempt reports over REST.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { token: \"4294967297\", percent: 40 }")]
pub struct Progress {
    /// What the attempt finds in PUNCTUAL_ATTEMPT_TOKEN.
    #[schema(value_type = schema::Id)]
    pub token: Text<u64>,
    #[serde(default, deserialize_with = "small::option", skip_serializing_if = "Option::is_none")]
    pub percent: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Where the next attempt continues: any JSON but null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub checkpoint: Option<Value>,
    /// A report whose number is not greater than that of an earlier one is ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// The attempt asks to be stopped, and the run to go on with another worker.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rebalance: bool,
    /// A JSON merge patch of the run's parameters for its next attempts. Only with `rebalance`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub params: Option<Value>,
    /// Answer only when the report is stored.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub durable: bool,
}

/// A line that a process writes to the file named by PUNCTUAL_REPORT: a report without a token.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgressLine {
    #[serde(default, deserialize_with = "small::option", skip_serializing_if = "Option::is_none")]
    pub percent: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rebalance: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Value>,
}

impl ProgressLine {
    pub fn into_core(self) -> Result<progress::Progress, Error> {
        let progress = progress::Progress {
            percent: self.percent,
            message: self.message.map(Into::into),
            checkpoint: self.checkpoint.map(|json| json.to_string().into()),
            seq: self.seq,
            rebalance: self.rebalance,
            params: self.params.map(|json| Params(json.to_string().into())),
        };
        progress.check()?;
        Ok(progress)
    }
}

impl Progress {
    /// The token, the report, and whether it must be stored before it is answered.
    pub fn into_core(self) -> Result<(Token, progress::Progress, bool), Error> {
        let Progress { token, percent, message, checkpoint, seq, rebalance, params, durable } = self;
        let line = ProgressLine { percent, message, checkpoint, seq, rebalance, params };
        Ok((Token(token.0), line.into_core()?, durable))
    }
}
