//! The progress that an attempt reports.

use punctual_core::ids::{RunId, Token};
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
    /// What the attempt finds in PUNCTUAL_ATTEMPT_TOKEN. Not needed with the key of the attempt, which names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Id>)]
    pub token: Option<Text<u64>>,
    #[serde(default, deserialize_with = "small::option", skip_serializing_if = "Option::is_none")]
    pub percent: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Where the next attempt continues: any JSON but null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub checkpoint: Option<Value>,
    /// A report whose number is not greater than that of an earlier one is ignored; a checkpoint only if a newer one is kept.
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

/// The same in a plain shape, for services that know only the id of their execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { execution_id: \"7301\", progress: 50 }")]
pub struct TaskProgress {
    /// The id of the run.
    #[schema(value_type = schema::Id)]
    pub execution_id: Text<RunId>,
    /// The percentage.
    #[serde(default, deserialize_with = "small::option", skip_serializing_if = "Option::is_none")]
    pub progress: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Where the next attempt continues: any JSON but null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub checkpoint: Option<Value>,
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

/// The answer to a plain report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TaskProgressed {
    #[schema(value_type = schema::Id)]
    pub execution_id: Text<RunId>,
}

/// The header with the key of an attempt.
pub const ATTEMPT_KEY_HEADER: &str = "punctual-attempt-key";

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

/// A report as an endpoint has read it, with the attempt that it names.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgressReport {
    /// `None` means that the key of the attempt names it.
    pub run: Option<RunId>,
    /// `None` means that the key of the attempt names it or, without a key, that it is the newest attempt.
    pub token: Option<Token>,
    pub progress: progress::Progress,
    /// Whether the report must be stored before it is answered.
    pub durable: bool,
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
    pub fn into_core(self) -> Result<(Option<Token>, progress::Progress, bool), Error> {
        let Progress { token, percent, message, checkpoint, seq, rebalance, params, durable } = self;
        let line = ProgressLine { percent, message, checkpoint, seq, rebalance, params };
        Ok((token.map(|token| Token(token.0)), line.into_core()?, durable))
    }
}

impl TaskProgress {
    /// The run, the report, and whether it must be stored before it is answered.
    pub fn into_core(self) -> Result<(RunId, progress::Progress, bool), Error> {
        let TaskProgress { execution_id, progress, message, checkpoint, rebalance, params, durable } = self;
        let line = ProgressLine { percent: progress, message, checkpoint, seq: None, rebalance, params };
        let in_this_shape = |error: Error| match error.field.as_str() {
            "percent" => Error::invalid("progress", error.message.replace("percent", "progress")),
            _ => error,
        };
        Ok((execution_id.0, line.into_core().map_err(in_this_shape)?, durable))
    }
}
