//! `task.queue:`, a message for a queue.

use punctual_core::queue::QueueName;
use punctual_core::task as rule;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::error::Error;
use crate::schema;
use crate::text::{Span, small};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { name: orders, body: \"{{ params.order }}\" }")]
pub struct Enqueue {
    /// The queue, in the namespace of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::QueueName>)]
    pub name: Option<String>,
    /// The body, a template. The default is the parameters of the run, as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// How long the message is delayed. The default is 0s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
    /// How long a consumer may take before the message is redelivered. 0s means that it is delivered at most once. The
    /// default is a tenth of `ttl`, at least 1s and at most 5m.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Span>,
    /// How long the message is kept. The default is the job's `timeout`, else 24h.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Span>,
    /// 0 to 9; 9 is delivered first. The default is the job's priority.
    #[serde(default, deserialize_with = "small::option", skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
}

impl Enqueue {
    pub(super) fn into_core(self) -> Result<rule::Enqueue, Error> {
        let refuse = |message: String| Error::invalid("task.queue.name", message);
        let name = self.name.ok_or_else(|| refuse("is missing; write the name of the queue".to_owned()))?;
        let name: QueueName = name.parse().map_err(|error| refuse(format!("{error}")))?;
        Ok(rule::Enqueue {
            body: self.body,
            delay: self.delay.map(|span| span.0).unwrap_or_default(),
            retry: self.retry.map(|span| span.0),
            ttl: self.ttl.map(|span| span.0),
            priority: self.priority,
            ..rule::Enqueue::of(name)
        })
    }

    pub(super) fn of(task: &rule::Enqueue) -> Enqueue {
        Enqueue {
            name: Some(task.name.as_str().to_owned()),
            body: task.body.clone(),
            delay: (!task.delay.is_zero()).then_some(Span(task.delay)),
            retry: task.retry.map(Span),
            ttl: task.ttl.map(Span),
            priority: task.priority,
        }
    }
}
