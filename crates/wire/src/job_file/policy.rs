//! The policies of a job: retries, overlap and retention.

use std::fmt;

use punctual_core::{job as rule, limits, retry};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use utoipa::ToSchema;

use super::task::{OneStatus, OneStatusVisitor, one_code};
use crate::error::Error;
use crate::schema;
use crate::text::{Percent, Span, small};

/// An enum of plain words that mirrors an enum of `core`.
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
    #[serde(default, deserialize_with = "small::option", skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// The failures that are tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on: Option<Vec<RetryOn>>,
    /// Whether an attempt after a failed one gets the last checkpoint. The default is true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume: Option<bool>,
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
            on: self.on.map_or(default.on, |on| on.into_iter().map(|on| on.0).collect()),
            resume: self.resume.unwrap_or(default.resume),
        }
    }

    /// The defaults of `on`, whose six entries would hide the other fields, and of `resume` are left out.
    pub(crate) fn of(retry: &retry::Retry) -> Retry {
        let is_usual = retry.on == retry::Retry::default().on;
        Retry {
            attempts: Some(retry.attempts),
            delay: Some(Span(retry.delay)),
            backoff: Some(retry.backoff.into()),
            max_delay: Some(Span(retry.max_delay)),
            jitter: Some(Percent(retry.jitter_percent)),
            priority: retry.priority,
            on: (!is_usual).then(|| retry.on.iter().copied().map(RetryOn).collect()),
            resume: (!retry.resume).then_some(false),
        }
    }
}

/// A failure that is retried: `error`, `timeout`, or a status like `429`, `5xx` or `500-504`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryOn(pub retry::On);

schema::by_hand!(RetryOn as "RetryOn": schema::one_of([one_code(), schema::text(
    "A kind of failure, a status, a hundred of them, or a range.",
    "^(error|timeout|[1-5][0-9]{2}|[1-5]xx|[1-5][0-9]{2}-[1-5][0-9]{2})$",
    "500-504".len(),
    "5xx",
)]));

impl Serialize for RetryOn {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            retry::On::Status(range) => OneStatus(range).serialize(serializer),
            word => serializer.collect_str(&word),
        }
    }
}

impl<'de> Deserialize<'de> for RetryOn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RetryOnVisitor;

        impl Visitor<'_> for RetryOnVisitor {
            type Value = RetryOn;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("error, timeout, or a status like 429, 5xx or 500-504")
            }

            fn visit_u64<E: de::Error>(self, code: u64) -> Result<RetryOn, E> {
                OneStatusVisitor.visit_u64(code).map(|one| RetryOn(retry::On::Status(one.0)))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<RetryOn, E> {
                match text {
                    "error" => Ok(RetryOn(retry::On::Error)),
                    "timeout" => Ok(RetryOn(retry::On::Timeout)),
                    _ => OneStatusVisitor
                        .visit_str(text)
                        .map(|one| RetryOn(retry::On::Status(one.0)))
                        .map_err(|_: E| E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }
        }
        deserializer.deserialize_any(RetryOnVisitor)
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
#[serde(deny_unknown_fields, expecting = "a map like { key: \"order-17\", for: 24h }")]
pub struct Unique {
    pub key: Option<String>,
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    pub kept: Option<Span>,
}

impl Unique {
    pub(crate) fn into_core(self) -> Result<rule::Unique, Error> {
        let key = self
            .key
            .ok_or_else(|| Error::invalid("unique.key", "is missing; write the key that must be unique"))?;
        Ok(rule::Unique { key, kept: self.kept.map_or(limits::KEY_KEPT, |span| span.0) })
    }

    pub(super) fn of(unique: &rule::Unique) -> Unique {
        Unique { key: Some(unique.key.clone()), kept: Some(Span(unique.kept)) }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { key: crawl, weight: 70 }")]
pub struct Share {
    /// Runs with the same key take turns together, beside the other keys of the namespace.
    pub key: Option<String>,
    /// How many turns the key has while a key of weight 1 has one. The default is 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
}

impl Share {
    pub(super) fn into_core(self) -> Result<rule::Share, Error> {
        let key = self.key.ok_or_else(|| {
            Error::invalid("share.key", "is missing; write the key that the runs share slots by")
        })?;
        Ok(rule::Share { key, weight: self.weight.unwrap_or(1) })
    }

    pub(super) fn of(share: &rule::Share) -> Share {
        Share { key: Some(share.key.clone()), weight: Some(share.weight) }
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
