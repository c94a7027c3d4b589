//! `limits:`, one map or a list of maps.

use std::time::Duration;

use punctual_core::job::limit as rule;
use punctual_core::schedule::{format_duration, parse_duration};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::one_or_many::{Entry, OneOrMany};
use super::policy::words;
use crate::error::Error;
use crate::schema::{self, one_of};
use crate::text::Text;

pub type Limits = OneOrMany<Limit>;

words!(Beyond = rule::Beyond { Skip, Oldest });

/// A limit that must allow a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { running: 1 }")]
pub struct Limit {
    /// Runs that may be at work at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<u32>,
    /// How often runs may start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// How many runs may start at once after a pause. The default is 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
    /// Runs that may wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<u32>,
    /// The run that is skipped when too many wait: the new one (`skip`, the default) or the `oldest`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beyond: Option<Beyond>,
    /// A template of `params` and `due`: runs with the same value share the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per: Option<String>,
}

impl Entry for Limit {
    const EXAMPLE: &str = "{ running: 1 }";
}

schema::by_hand!(Limits as "Limits": one_of([schema::of::<Limit>(), schema::list_of::<Limit>()]); Limit);

/// So many runs, or deliveries of messages, in a time, such as `100/m` or `5/10s`.
pub type Rate = Text<Starts>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Starts {
    count: u32,
    span: Duration,
}

/// Bytes of a rate.
const RATE_MAX: usize = 40;

schema::by_hand!(Rate as "Rate": schema::text(
    "Runs, or deliveries of messages, in a time: a second, a minute, an hour, a day, or a duration.",
    "^[0-9]+/([smhd]|(?=.)([0-9]+w)?([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?)$",
    RATE_MAX,
    "100/m",
));

const UNITS: [(&str, Duration); 4] = [
    ("s", Duration::from_secs(1)),
    ("m", Duration::from_secs(60)),
    ("h", Duration::from_secs(3600)),
    ("d", Duration::from_secs(24 * 3600)),
];

impl Starts {
    pub(crate) fn of(rate: rule::Rate) -> Starts {
        Starts { count: rate.count, span: rate.span }
    }

    pub(crate) fn with_burst(self, burst: u32) -> rule::Rate {
        rule::Rate { count: self.count, span: self.span, burst }
    }
}

impl std::fmt::Display for Starts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match UNITS.iter().find(|(_, span)| *span == self.span) {
            Some((unit, _)) => write!(f, "{}/{unit}", self.count),
            None => write!(f, "{}/{}", self.count, format_duration(self.span)),
        }
    }
}

impl std::str::FromStr for Starts {
    type Err = String;

    fn from_str(text: &str) -> Result<Starts, String> {
        let wrong = || format!("`{text}` is no rate; write a number and a time, such as 100/m or 5/10s");
        let (count, span) = text.split_once('/').ok_or_else(wrong)?;
        let count = count.trim().parse().map_err(|_| wrong())?;
        let unit = UNITS.iter().find(|(unit, _)| *unit == span.trim()).map(|(_, span)| *span);
        let span = unit.or_else(|| parse_duration(span.trim()).ok()).ok_or_else(wrong)?;
        Ok(Starts { count, span })
    }
}

impl Limit {
    pub(super) fn into_core(self) -> Result<rule::Limit, Error> {
        if self.burst.is_some() && self.rate.is_none() {
            return Err(Error::invalid("burst", "belongs to a `rate`; write both or none"));
        }
        if self.beyond.is_some() && self.waiting.is_none() {
            return Err(Error::invalid("beyond", "belongs to `waiting`; write both or none"));
        }
        let burst = self.burst.unwrap_or(1);
        let beyond = self.beyond.unwrap_or(Beyond::Skip).into();
        Ok(rule::Limit {
            running: self.running,
            rate: self.rate.map(|Text(rate)| rate.with_burst(burst)),
            waiting: self.waiting.map(|max| rule::Waiting { max, beyond }),
            per: self.per,
        })
    }

    pub(super) fn of(limit: &rule::Limit) -> Limit {
        let rule::Limit { running, rate, waiting, per } = limit.clone();
        Limit {
            running,
            rate: rate.map(|rate| Text(Starts::of(rate))),
            burst: rate.map(|rate| rate.burst),
            waiting: waiting.map(|waiting| waiting.max),
            beyond: waiting.map(|waiting| waiting.beyond.into()),
            per,
        }
    }
}
