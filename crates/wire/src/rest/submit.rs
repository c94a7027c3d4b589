//! Requests that make a run: a task without a job, a manual start of a job, an event.

use std::sync::Arc;

use punctual_core::command::Key;
use punctual_core::ids::RunId;
use punctual_core::job::Definition;
use punctual_core::task::Params;
use punctual_core::topic::NewEvent;
use punctual_core::{Timestamp, limits};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::error::Error;
use crate::job_file::{self, JsonObject, Retry, Route, Task, Unique};
use crate::schema;
use crate::text::{Instant, Span, Text, small};

/// A run without a job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map with at least `task`")]
pub struct Submit {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<Task>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub params: Option<JsonObject>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Instant>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
    /// Remembered for a day; `unique` says a longer or shorter time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unique: Option<Unique>,
    #[serde(default, deserialize_with = "small::option", skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<Route>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// The time between the request to stop an attempt and its kill.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most_once: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_letter: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// A job, started by hand.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { params: {} }")]
pub struct Start {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub params: Option<JsonObject>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Instant>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// An event: it starts the jobs that listen to its name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { key: \"order-7\", params: {} }")]
pub struct SendEvent {
    /// Events with the same key have one effect within a day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub params: Option<JsonObject>,
}

/// The answer to an event that is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SentEvent {
    #[schema(value_type = schema::Id)]
    pub id: Text<RunId>,
}

/// How a run is cancelled.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { now: true }")]
pub struct Cancel {
    /// Kill its attempt at once, without a grace period.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub now: bool,
    /// Why. It is recorded with the name of the token.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 1024)]
    pub comment: String,
}

/// Where a run is moved.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { worker: \"w2\" }")]
pub struct Move {
    /// The name of the worker. Without it, any other worker is preferred.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
}

/// A parsed request to make a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Started<T> {
    pub what: T,
    /// The due time. `None` means now.
    pub due: Option<Timestamp>,
    pub key: Option<Key>,
}

impl Submit {
    pub fn into_core(self, header: Option<&str>, now: Timestamp) -> Result<Started<Arc<Definition>>, Error> {
        let task = self.task.ok_or_else(|| Error::invalid("task", job_file::NEEDED))?;
        let due = due(self.due_at, self.delay, now)?;
        let mut definition = Definition::of(task.into_core()?);
        definition.params = job_file::params(self.params);
        definition.timeout = self.timeout.map(|span| span.0);
        definition.grace = self.grace.map(|span| span.0);
        definition.retry = self.retry.unwrap_or_default().into_core();
        definition.priority = self.priority.unwrap_or(definition.priority);
        definition.route = self.route.unwrap_or_default().into_core();
        definition.at_most_once = self.at_most_once.unwrap_or(definition.at_most_once);
        definition.dead_letter = self.dead_letter.unwrap_or(definition.dead_letter);
        definition.description = self.description.unwrap_or_default();
        definition.unique = self.unique.map(Unique::into_core).transpose()?;
        definition.check()?;
        definition.check_alone()?;
        // A run without a job has its own key: `unique` is evaluated once, here.
        let unique = definition.unique.take();
        let key = match (unique, key(self.key, header)?) {
            (Some(_), Some(_)) => {
                return Err(Error::invalid("unique", "give either `key` or `unique`, not both"));
            }
            (Some(unique), None) => {
                Some(Key { text: unique.key_for(&definition.params)?, kept: unique.kept })
            }
            (None, key) => key,
        };
        Ok(Started { what: Arc::new(definition), due, key })
    }
}

impl Start {
    pub fn into_core(self, header: Option<&str>, now: Timestamp) -> Result<Started<Option<Params>>, Error> {
        let due = due(self.due_at, self.delay, now)?;
        Ok(Started { what: own_params(self.params)?, due, key: key(self.key, header)? })
    }
}

impl SendEvent {
    pub fn into_core(self, header: Option<&str>) -> Result<NewEvent, Error> {
        let event = NewEvent {
            key: key(self.key, header)?.map(|key| key.text),
            params: job_file::params(self.params),
        };
        event.check()?;
        Ok(event)
    }
}

fn due(at: Option<Instant>, delay: Option<Span>, now: Timestamp) -> Result<Option<Timestamp>, Error> {
    match (at, delay) {
        (Some(_), Some(_)) => Err(Error::invalid("delay", "give either `due_at` or `delay`, not both")),
        (Some(at), None) => instant("due_at", at).map(Some),
        (None, Some(delay)) if delay.0 > limits::DURATION_MAX => {
            Err(Error::invalid("delay", "must be at most ten years"))
        }
        (None, Some(delay)) => Ok(Some(now + delay.0)),
        (None, None) => Ok(None),
    }
}

pub(super) fn instant(field: &'static str, at: Instant) -> Result<Timestamp, Error> {
    if (Timestamp::MIN..=Timestamp::MAX).contains(&at.0) {
        Ok(at.0)
    } else {
        Err(Error::invalid(field, "must lie in the years 1970 to 9999"))
    }
}

pub(super) fn own_params(object: Option<JsonObject>) -> Result<Option<Params>, Error> {
    let params = object.map(|object| job_file::params(Some(object)));
    match &params {
        Some(params) if params.0.len() > limits::PARAMS_BYTES_MAX => Err(Error::invalid(
            "params",
            format!("must be at most {} bytes of JSON", limits::PARAMS_BYTES_MAX),
        )),
        _ => Ok(params),
    }
}

/// The idempotency key of a request, from the body or the header `Idempotency-Key`; both mean the same.
pub fn key(body: Option<String>, header: Option<&str>) -> Result<Option<Key>, Error> {
    let text = match (body, header) {
        (Some(body), Some(header)) if body != header => {
            return Err(Error::invalid("key", "differs from the header Idempotency-Key; send one of them"));
        }
        (Some(body), _) => body,
        (None, Some(header)) => header.to_owned(),
        (None, None) => return Ok(None),
    };
    if text.is_empty() || text.len() > limits::KEY_BYTES_MAX || text.chars().any(char::is_control) {
        let message = format!("1 to {} bytes, no control characters", limits::KEY_BYTES_MAX);
        return Err(Error::invalid("key", message));
    }
    Ok(Some(Key { text: text.into(), kept: limits::KEY_KEPT }))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::tree;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn submit(body: &str) -> Result<Started<Arc<Definition>>, Error> {
        tree::from_json::<Submit>(body.as_bytes())?.into_core(None, NOW)
    }

    #[test]
    fn a_submit_is_due_now_at_an_instant_or_after_a_delay() {
        let due = |body| submit(body).unwrap().due;
        assert_eq!(due(r#"{"task":{"noop":{}}}"#), None);
        assert_eq!(due(r#"{"task":{"noop":{}},"delay":"5s"}"#), Some(NOW + Duration::from_secs(5)));
        assert_eq!(due(r#"{"task":{"noop":{}},"due_at":"2027-01-15T09:00:00+01:00"}"#), Some(NOW));
    }

    #[test]
    fn a_key_in_the_header_is_the_key_in_the_body() {
        let read = |body: Option<&str>, header| {
            key(body.map(str::to_owned), header).map(|key| key.map(|key| key.text))
        };
        assert_eq!(read(Some("a"), None), read(None, Some("a")));
        assert_eq!(read(Some("a"), Some("a")).unwrap().as_deref(), Some("a"));
        assert_eq!(read(Some("a"), Some("b")).unwrap_err().field, "key");
        assert_eq!(read(Some(""), None).unwrap_err().field, "key");
    }

    #[test]
    fn bad_submits_name_the_field() {
        let long = "k".repeat(257);
        let rows = [
            (r"{}".to_owned(), "task"),
            (r#"{"task":{}}"#.to_owned(), "task"),
            (r#"{"task":{"shell":""}}"#.to_owned(), "task.shell"),
            (r#"{"task":{"noop":{}},"delay":"5s","due_at":"2027-01-15T08:00:00Z"}"#.to_owned(), "delay"),
            (r#"{"task":{"noop":{}},"delay":"5"}"#.to_owned(), "delay"),
            (r#"{"task":{"noop":{}},"delay":"5000w"}"#.to_owned(), "delay"),
            (r#"{"task":{"noop":{}},"due_at":"1969-01-01T00:00:00Z"}"#.to_owned(), "due_at"),
            (r#"{"task":{"noop":{}},"due_at":1800000000}"#.to_owned(), "due_at"),
            (r#"{"task":{"noop":{}},"params":[]}"#.to_owned(), "params"),
            (r#"{"task":{"noop":{}},"priority":10}"#.to_owned(), "priority"),
            (r#"{"task":{"noop":{}},"overlap":"skip"}"#.to_owned(), "overlap"),
            (r#"{"task":{"noop":{}},"key":"a","unique":{"key":"b"}}"#.to_owned(), "unique"),
            (r#"{"task":{"noop":{}},"unique":{"for":"1h"}}"#.to_owned(), "unique.key"),
            (format!(r#"{{"task":{{"noop":{{}}}},"key":"{long}"}}"#), "key"),
            (r#"{"task":{"noop":{}},"route":{"shards":0}}"#.to_owned(), "route.shards"),
            (r#"{"task":{"noop":{}},"route":{"shards":-1}}"#.to_owned(), "route.shards"),
            (
                r#"{"task":{"noop":{}},"route":{"shards":2,"strategy":"broadcast"}}"#.to_owned(),
                "route.shards",
            ),
            (r#"{"task":{"noop":{}},"route":{"shards":2,"strategy":"sticky"}}"#.to_owned(), "route.shards"),
            (r#"{"task":{"noop":{}},"route":{"strategy":"broadcast","key":"k"}}"#.to_owned(), "route.key"),
            (format!(r#"{{"task":{{"shell":"{}"}},"route":{{"shards":2}}}}"#, "x".repeat(40_000)), "task"),
            (r#"{"task":{"noop":{}},"retry":{"attempts":2},"at_most_once":true}"#.to_owned(), "at_most_once"),
        ];
        for (body, field) in rows {
            assert_eq!(submit(&body).unwrap_err().field, field, "{body}");
        }
    }
}
