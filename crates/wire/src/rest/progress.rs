//! The progress that an attempt reports.

use std::fmt::Display;
use std::str::FromStr;

use punctual_core::ids::{RunId, Token};
use punctual_core::progress;
use punctual_core::run::Run;
use punctual_core::task::Params;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::run::Checkpoint;
use crate::error::Error;
use crate::schema;
use crate::text::{Instant, Text, small};

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

/// A report as a message in the queue for progress: the fields of both shapes of REST, and the key of the attempt.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a map like { execution_id: \"7301\", progress: 50 }")]
pub struct QueuedProgress {
    pub attempt_key: Option<String>,
    /// The id of the run, as text or as a number.
    #[serde(alias = "run")]
    pub execution_id: Option<Value>,
    pub token: Option<Value>,
    #[serde(alias = "progress", deserialize_with = "small::option")]
    pub percent: Option<u8>,
    pub message: Option<String>,
    pub checkpoint: Option<Value>,
    pub seq: Option<u64>,
    pub rebalance: bool,
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

/// The newest report of a run, for its followers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProgressEvent {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the report came.
    pub at: Instant,
    /// Only if it has changed since the event before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
}

impl ProgressEvent {
    /// What is new since `before`. `None` means nothing.
    pub fn since(before: Option<&progress::Reported>, run: &Run) -> Option<ProgressEvent> {
        let now = run.progress.as_deref().filter(|now| Some(*now) != before)?;
        let known = before.and_then(|before| before.checkpoint.as_ref());
        let checkpoint = now.checkpoint.as_ref().filter(|now| Some(*now) != known);
        Some(ProgressEvent {
            percent: now.percent,
            message: now.message.as_deref().map(str::to_owned),
            at: Text(now.at),
            checkpoint: checkpoint.map(Checkpoint::of),
        })
    }
}

impl QueuedProgress {
    /// The key of the attempt, and the report.
    pub fn into_core(self) -> Result<(Option<String>, ProgressReport), Error> {
        let (run, token) = (id("execution_id", self.execution_id)?, id("token", self.token)?);
        let QueuedProgress { percent, message, checkpoint, seq, rebalance, params, .. } = self;
        if checkpoint.is_some() && seq.is_none() {
            // A message may come after a newer one, and an older checkpoint must not replace a newer one.
            return Err(Error::invalid(
                "seq",
                "is missing; a checkpoint in a queue needs a number that grows",
            ));
        }
        let progress = ProgressLine { percent, message, checkpoint, seq, rebalance, params }.into_core()?;
        let token = token.map(Token);
        Ok((self.attempt_key, ProgressReport { run, token, progress, durable: false }))
    }
}

/// An id as text or as a number.
fn id<T: FromStr<Err: Display>>(field: &str, value: Option<Value>) -> Result<Option<T>, Error> {
    let text = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => text,
        Some(Value::Number(number)) => number.to_string(),
        Some(_) => return Err(Error::invalid(field, "must be an id, such as \"7301\"")),
    };
    text.parse().map(Some).map_err(|error: T::Err| Error::invalid(field, error.to_string()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree;

    #[track_caller]
    fn check_queued(text: &str) -> ProgressReport {
        tree::from_json::<QueuedProgress>(text.as_bytes()).unwrap().into_core().unwrap().1
    }

    #[test]
    fn a_message_has_the_fields_of_either_shape() {
        let plain = check_queued(r#"{"execution_id": 7301, "progress": 50}"#);
        assert_eq!((plain.run, plain.token, plain.progress.percent), (Some(RunId(7301)), None, Some(50)));
        let full = check_queued(r#"{"run": "7301", "token": "4294967297", "percent": 50, "seq": 3}"#);
        assert_eq!((full.run, full.token), (plain.run, Some(Token(4_294_967_297))));
        assert_eq!((full.progress.percent, full.progress.seq), (Some(50), Some(3)));
    }

    #[test]
    fn a_message_that_is_wrong_names_its_field() {
        for (text, field) in [
            (r#"{"execution_id": "7301", "progress": 101}"#, "percent"),
            (r#"{"execution_id": "7301"}"#, "percent"),
            (r#"{"execution_id": "x", "progress": 5}"#, "execution_id"),
            (r#"{"execution_id": -7, "progress": 5}"#, "execution_id"),
            (r#"{"execution_id": [], "progress": 5}"#, "execution_id"),
            (r#"{"token": 1.5, "progress": 5}"#, "token"),
            (r#"{"execution_id": 7, "params": {}}"#, "params"),
            (r#"{"execution_id": 7, "checkpoint": 1}"#, "seq"),
        ] {
            let read = tree::from_json::<QueuedProgress>(text.as_bytes()).unwrap();
            assert_eq!(read.into_core().unwrap_err().field, field, "{text}");
        }
        for text in ["", "50", r#"{"percent": 5, "percentage": 5}"#] {
            assert!(tree::from_json::<QueuedProgress>(text.as_bytes()).is_err(), "{text}");
        }
    }
}
