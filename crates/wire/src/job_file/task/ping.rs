//! `task.ping:`, a program outside Punctual that reports its runs.

use punctual_core::task as rule;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::error::Error;
use crate::text::Span;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { period: 24h }")]
pub struct Ping {
    /// The usual time between two runs that succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period: Option<Span>,
    /// How much later a run may succeed. The default is a tenth of `period`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace: Option<Span>,
    /// The number of its key. Another number gives another key, and the key before it opens nothing any more. The default
    /// is 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<u32>,
}

impl Ping {
    pub(super) fn into_core(self) -> Result<rule::Ping, Error> {
        let missing = || Error::invalid("task.ping.period", "is missing; write it like 24h");
        let period = self.period.ok_or_else(missing)?.0;
        Ok(rule::Ping { period, grace: self.grace.map(|span| span.0), key: self.key.unwrap_or(1) })
    }

    pub(super) fn of(task: &rule::Ping) -> Ping {
        Ping { period: Some(Span(task.period)), grace: task.grace.map(Span), key: Some(task.key) }
    }
}
