//! The policies of a job: what is tried again, what may overlap, what is kept.

use punctual_core::{job as rule, limits, retry};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::error::Error;
use crate::text::{Percent, Span};

/// An enum of plain words that mirrors one of `core`.
macro_rules! words {
    ($name:ident = $core:path { $($variant:ident),+ }) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum $name {
            $($variant),+
        }

        impl From<$name> for $core {
            fn from(word: $name) -> Self {
                match word {
                    $($name::$variant => Self::$variant),+
                }
            }
        }

        impl From<$core> for $name {
            fn from(rule: $core) -> Self {
                match rule {
                    $(<$core>::$variant => $name::$variant),+
                }
            }
        }
    };
}

pub(super) use words;

words!(Overlap = rule::Overlap { Skip, Queue, QueueOne, Replace, Allow });
words!(MisfirePolicy = rule::MisfirePolicy { Skip, Once, All });
words!(Backoff = retry::Backoff { Fixed, Linear, Exponential });

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { attempts: 3, delay: 10s }")]
pub struct Retry {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_delay: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Percent>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
}

impl Retry {
    pub(crate) fn into_core(self) -> retry::Retry {
        let default = retry::Retry::default();
        retry::Retry {
            attempts: self.attempts.unwrap_or(default.attempts),
            delay: self.delay.map_or(default.delay, |span| span.0),
            backoff: self.backoff.map_or(default.backoff, Into::into),
            max_delay: self.max_delay.map_or(default.max_delay, |span| span.0),
            jitter_percent: self.jitter.map_or(default.jitter_percent, |share| share.0),
            priority: self.priority,
        }
    }

    pub(crate) fn of(retry: &retry::Retry) -> Retry {
        Retry {
            attempts: Some(retry.attempts),
            delay: Some(Span(retry.delay)),
            backoff: Some(retry.backoff.into()),
            max_delay: Some(Span(retry.max_delay)),
            jitter: Some(Percent(retry.jitter_percent)),
            priority: retry.priority,
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { policy: once }")]
pub struct Misfire {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<MisfirePolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace: Option<Span>,
}

impl Misfire {
    pub(super) fn into_core(self) -> rule::Misfire {
        let default = rule::Misfire::default();
        rule::Misfire {
            policy: self.policy.map_or(default.policy, Into::into),
            window: self.window.map_or(default.window, |span| span.0),
            grace: self.grace.map_or(default.grace, |span| span.0),
        }
    }

    pub(super) fn of(misfire: &rule::Misfire) -> Misfire {
        Misfire {
            policy: Some(misfire.policy.into()),
            window: Some(Span(misfire.window)),
            grace: Some(Span(misfire.grace)),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { running: 1 }")]
pub struct Limits {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<u32>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { key: \"order-17\", for: 24h }")]
pub struct Unique {
    pub key: Option<String>,
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    pub kept: Option<Span>,
}

impl Unique {
    pub(crate) fn into_core(self) -> Result<rule::Unique, Error> {
        let key = self.key.ok_or_else(|| Error::invalid("unique.key", "say which key must be unique"))?;
        Ok(rule::Unique { key, kept: self.kept.map_or(limits::KEY_KEPT, |span| span.0) })
    }

    pub(super) fn of(unique: &rule::Unique) -> Unique {
        Unique { key: Some(unique.key.clone()), kept: Some(Span(unique.kept)) }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { runs: 1000, days: 30 }")]
pub struct Keep {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub days: Option<u32>,
}

impl Keep {
    pub(super) fn into_core(self) -> rule::Keep {
        let default = rule::Keep::default();
        rule::Keep { runs: self.runs.unwrap_or(default.runs), days: self.days.unwrap_or(default.days) }
    }

    pub(super) fn of(keep: &rule::Keep) -> Keep {
        Keep { runs: Some(keep.runs), days: Some(keep.days) }
    }
}
