//! `alerts:`, one map or a list of maps.

use punctual_core::alert::{self as rule, Condition, Deadline, REPEAT};
use punctual_core::name::Name;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::one_or_many::{Entry, OneOrMany};
use crate::error::Error;
use crate::schema::{self, one_of};
use crate::text::Span;

pub type Alerts = OneOrMany<Alert>;

/// The kind of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AlertOn {
    Failed,
    Late,
    Long,
    Deadline,
    DeadLetter,
    Missing,
}

/// A condition under which people are notified.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { on: failed, after: 2 }")]
pub struct Alert {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on: Option<AlertOn>,
    /// `failed`: how many runs in a row. The default is 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u32>,
    /// `failed`: how many runs within `in`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<u32>,
    #[serde(rename = "in", skip_serializing_if = "Option::is_none")]
    pub within_last: Option<Span>,
    /// `late`, `long`: by how much.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Span>,
    /// `deadline`: a time of day, such as `06:00`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 5)]
    pub at: Option<String>,
    /// `deadline`: the time zone of `at`. The default is UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 64)]
    pub timezone: Option<String>,
    /// `missing`: the longest time between two runs that succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<Span>,
    /// The channels to notify. The default is `default` under `[alerts]` in the settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<schema::Name>>)]
    pub to: Option<Vec<Name>>,
    /// The time after which an open incident is notified again. The default is 24h.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeat: Option<Span>,
}

impl Entry for Alert {
    const EXAMPLE: &str = "{ on: failed }";
}

schema::by_hand!(Alerts as "Alerts": one_of([schema::of::<Alert>(), schema::list_of::<Alert>()]); Alert);

impl Alert {
    pub(super) fn into_core(self) -> Result<rule::Alert, Error> {
        let on = self.on.ok_or_else(|| {
            Error::invalid("on", "name a condition: failed, late, long, deadline, dead_letter or missing")
        })?;
        self.has_only_fields_of(on)?;
        let span = |span: Option<Span>, field: &'static str, example: &str| {
            let message = format!("this condition needs `{field}`; write it like {example}");
            span.map(|span| span.0).ok_or_else(|| Error::invalid(field, message))
        };
        let condition = match on {
            AlertOn::Failed => match (self.of, self.within_last) {
                (None, None) => Condition::Failed { after: self.after.unwrap_or(1) },
                (Some(of), Some(within)) => Condition::FailedOften { of, within: within.0 },
                (Some(_), None) => return Err(Error::invalid("in", "belongs to `of`; write both or none")),
                (None, Some(_)) => return Err(Error::invalid("of", "belongs to `in`; write both or none")),
            },
            AlertOn::Late => Condition::Late { by: span(self.by, "by", "1m")? },
            AlertOn::Long => Condition::Long { by: span(self.by, "by", "30m")? },
            AlertOn::Missing => Condition::Missing { within: span(self.within, "within", "26h")? },
            AlertOn::DeadLetter => Condition::DeadLetter,
            AlertOn::Deadline => {
                let at = self.at.ok_or_else(|| {
                    Error::invalid("at", "this condition needs a time of day; write it like 06:00")
                })?;
                Condition::Deadline(Box::new(Deadline::parse(
                    &at,
                    self.timezone.as_deref().unwrap_or("UTC"),
                )?))
            }
        };
        let repeat = self.repeat.map_or(REPEAT, |span| span.0);
        Ok(rule::Alert { on: condition, to: self.to.unwrap_or_default(), repeat })
    }

    /// A field of another condition would be ignored, so it is refused.
    fn has_only_fields_of(&self, on: AlertOn) -> Result<(), Error> {
        let counts_within = self.of.is_some() || self.within_last.is_some();
        let fields = [
            ("after", self.after.is_some(), on == AlertOn::Failed && !counts_within),
            ("of", self.of.is_some(), on == AlertOn::Failed),
            ("in", self.within_last.is_some(), on == AlertOn::Failed),
            ("by", self.by.is_some(), matches!(on, AlertOn::Late | AlertOn::Long)),
            ("at", self.at.is_some(), on == AlertOn::Deadline),
            ("timezone", self.timezone.is_some(), on == AlertOn::Deadline),
            ("within", self.within.is_some(), on == AlertOn::Missing),
        ];
        match fields.iter().find(|(_, is_given, belongs)| *is_given && !belongs) {
            Some((field, ..)) => Err(Error::invalid(*field, "belongs to another condition; remove it")),
            None => Ok(()),
        }
    }

    pub fn of(alert: &rule::Alert) -> Alert {
        let mut file = Alert {
            to: (!alert.to.is_empty()).then(|| alert.to.clone()),
            repeat: Some(Span(alert.repeat)),
            ..Alert::condition(&alert.on)
        };
        file.repeat = file.repeat.filter(|repeat| repeat.0 != REPEAT);
        file
    }

    /// Only the condition.
    pub fn condition(on: &Condition) -> Alert {
        let nothing = Alert::default();
        match on {
            Condition::Failed { after } => {
                Alert { on: Some(AlertOn::Failed), after: Some(*after), ..nothing }
            }
            Condition::FailedOften { of, within } => Alert {
                on: Some(AlertOn::Failed),
                of: Some(*of),
                within_last: Some(Span(*within)),
                ..nothing
            },
            Condition::Late { by } => Alert { on: Some(AlertOn::Late), by: Some(Span(*by)), ..nothing },
            Condition::Long { by } => Alert { on: Some(AlertOn::Long), by: Some(Span(*by)), ..nothing },
            Condition::Deadline(deadline) => Alert {
                on: Some(AlertOn::Deadline),
                at: Some(deadline.at()),
                timezone: Some(deadline.timezone().to_owned()),
                ..nothing
            },
            Condition::DeadLetter => Alert { on: Some(AlertOn::DeadLetter), ..nothing },
            Condition::Missing { within } => {
                Alert { on: Some(AlertOn::Missing), within: Some(Span(*within)), ..nothing }
            }
        }
    }
}
