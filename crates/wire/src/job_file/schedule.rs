//! `schedule:`, one map or a list of maps.

use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::name::Name;
use punctual_core::queue::QueueName;
use punctual_core::schedule::{self as rule, Language, ScheduleCalendar, Weekdays, When};
use punctual_core::topic::{self, Ends, Gather, OnEvent, Topic};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::one_or_many::{Entry, OneOrMany};
use crate::error::Error;
use crate::schema::{self, one_of};
use crate::text::{Instant, Span, Text};

pub type Schedules = OneOrMany<Schedule>;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { every: 30s }")]
pub struct Schedule {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Weekdays>)]
    pub weekdays: Option<Weekdays>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_finish: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Instant>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manual: Option<bool>,
    /// Starts when a run of another job ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<After>,
    /// Starts when an event is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<EventSchedule>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<Instant>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<Instant>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_runs: Option<u32>,
    /// The calendar whose days it keeps to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Name>)]
    pub calendar: Option<Name>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { job: load, on: succeeded }")]
pub struct After {
    /// A job of the same namespace.
    #[schema(value_type = schema::Name)]
    pub job: Name,
    /// `succeeded` (default), `failed` or `ended`.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schema(value_type = Option<schema::Ends>)]
    pub on: Ends,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { name: order-paid }")]
pub struct EventSchedule {
    /// The name of the event. Either this or `queue`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Name>)]
    pub name: Option<Name>,
    /// A queue of the same namespace: each message in it is an event, and is acknowledged when its run is stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::QueueName>)]
    pub queue: Option<QueueName>,
    /// A condition on `event`, such as `event.params.amount > 100`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// Only events with this key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// One run for events that follow each other closely: it has the last one, and starts when none has come for this
    /// long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub debounce: Option<Span>,
    /// One run for many events: it has all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<EventBatch>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { max: 100, within: 10s }")]
pub struct EventBatch {
    /// The run starts as soon as it has so many events.
    pub max: u32,
    /// It starts this long after its first event.
    pub within: Span,
}

impl EventSchedule {
    fn into_core(self) -> Result<OnEvent, Error> {
        let gather = match (self.debounce, self.batch) {
            (None, None) => None,
            (Some(Span(quiet)), None) => Some(Gather::Debounce(quiet)),
            (None, Some(EventBatch { max, within: Span(within) })) => Some(Gather::Batch { max, within }),
            _ => return Err(Error::invalid("event.batch", "give either `debounce` or `batch`, not both")),
        };
        let topic = match (self.name, self.queue) {
            (Some(name), None) => Topic::Event(name),
            (None, Some(_)) if self.key.is_some() => {
                return Err(Error::invalid("event.key", "messages of a queue have no such key; remove it"));
            }
            (None, Some(queue)) => Topic::Queue(queue),
            _ => return Err(Error::invalid("event", "write either `name` or `queue`")),
        };
        Ok(OnEvent { topic, when: self.when, key: self.key.map(Into::into), gather })
    }

    fn of(event: &OnEvent) -> EventSchedule {
        let OnEvent { topic, when, key, gather } = event.clone();
        let (name, queue) = match topic {
            Topic::Queue(queue) => (None, Some(queue)),
            Topic::Event(name) | Topic::Job(name) => (Some(name), None),
        };
        let (debounce, batch) = match gather {
            None => (None, None),
            Some(Gather::Debounce(quiet)) => (Some(Span(quiet)), None),
            Some(Gather::Batch { max, within }) => (None, Some(EventBatch { max, within: Span(within) })),
        };
        let key = key.map(|key| key.as_ref().to_owned());
        EventSchedule { name, queue, when, key, debounce, batch }
    }
}

fn is_default(on: &Ends) -> bool {
    *on == Ends::default()
}

schema::by_hand!(Schedules as "Schedules": one_of([schema::of::<Schedule>(), schema::list_of::<Schedule>()]); Schedule);

impl Entry for Schedule {
    const EXAMPLE: &str = "{ every: 30s }";
}

impl Schedules {
    pub(super) fn into_core(self, spread_key: &str) -> Result<Vec<rule::Schedule>, Error> {
        self.convert("schedule", |schedule| schedule.into_core(spread_key))
    }

    /// A description, one line per schedule. `None` means that a schedule cannot be parsed, as from a newer server.
    pub fn describe(&self, spread_key: &str, language: Language) -> Option<String> {
        let schedules = self.clone().into_core(spread_key).ok()?;
        let lines: Vec<String> = schedules.iter().map(|schedule| schedule.describe(language)).collect();
        Some(lines.join("\n"))
    }

    /// The shortest pause of all `after_finish` schedules. `None` means that there is no such schedule.
    pub fn after_finish(&self) -> Option<Duration> {
        self.as_slice().iter().filter_map(|schedule| schedule.after_finish.map(|pause| pause.0)).min()
    }
}

impl Schedule {
    fn into_core(self, spread_key: &str) -> Result<rule::Schedule, Error> {
        let when = self.when(spread_key)?;
        let schedule = rule::Schedule {
            when,
            start: self.start.map(|start| start.0),
            end: self.end.map(|end| end.0),
            jitter: self.jitter.map(|jitter| jitter.0).unwrap_or_default(),
            max_runs: self.max_runs,
            calendar: self.keeping()?,
        };
        match schedule.check() {
            Ok(()) => Ok(schedule),
            Err(error) => Err(Error::invalid(self.field_of(&error), error.to_string())),
        }
    }

    fn keeping(&self) -> Result<Option<ScheduleCalendar>, Error> {
        let Some(name) = &self.calendar else { return Ok(None) };
        let zone = self.timezone.as_deref().unwrap_or("UTC");
        let keeping = ScheduleCalendar::named(name.clone(), zone);
        keeping.map(Some).map_err(|error| Error::invalid("timezone", error.to_string()))
    }

    fn when(&self, spread_key: &str) -> Result<When, Error> {
        let manual = self.manual.filter(|manual| *manual);
        let mut said: Vec<When> = Vec::new();
        if let Some(expression) = &self.cron {
            said.push(self.cron(expression, spread_key)?);
        } else if self.timezone.is_some() && self.calendar.is_none() {
            let message = "is allowed only together with `cron` or `calendar`; remove it: an instant has its own offset";
            return Err(Error::invalid("timezone", message));
        } else if self.weekdays.is_some() {
            return Err(Error::invalid("weekdays", "is allowed only together with `cron`; remove it"));
        }
        said.extend(self.every.map(|span| When::Every(span.0)));
        said.extend(self.after_finish.map(|span| When::AfterFinish(span.0)));
        said.extend(self.at.map(|instant| When::At(instant.0)));
        said.extend(manual.map(|_| When::Manual));
        said.extend(
            self.after
                .as_ref()
                .map(|after| When::After(topic::After { job: after.job.clone(), on: after.on })),
        );
        if let Some(event) = &self.event {
            said.push(When::Event(Box::new(event.clone().into_core()?)));
        }
        let choice = "cron, every, after_finish, at, after, event or manual: true";
        match (said.pop(), said.is_empty()) {
            (Some(when), true) => Ok(when),
            (None, _) => Err(Error::invalid("", format!("write one of {choice}"))),
            _ => Err(Error::invalid("", format!("only one of {choice}; write a list for several"))),
        }
    }

    fn cron(&self, expression: &str, spread_key: &str) -> Result<When, Error> {
        let zone = self.timezone.as_deref().unwrap_or("UTC");
        read_cron(expression, zone, self.weekdays.unwrap_or_default(), Some(spread_key))
    }

    fn field_of(&self, error: &rule::Error) -> &'static str {
        let outside = |instant: Option<Instant>| {
            instant.is_some_and(|Text(at)| !(Timestamp::MIN..=Timestamp::MAX).contains(&at))
        };
        match error {
            rule::Error::PeriodTooShort if self.every.is_some() => "every",
            rule::Error::PeriodTooShort => "after_finish",
            rule::Error::EndBeforeStart { .. } => "end",
            rule::Error::NoRuns => "max_runs",
            rule::Error::NoDaysToKeep => "calendar",
            rule::Error::DayOut { .. } => "at",
            rule::Error::NoJitter => "jitter",
            rule::Error::EventCondition(_) => "event.when",
            rule::Error::Gather { field, .. } => field,
            rule::Error::InstantOutOfRange if outside(self.at) => "at",
            rule::Error::InstantOutOfRange if outside(self.start) => "start",
            rule::Error::InstantOutOfRange => "end",
            _ => "",
        }
    }

    pub(super) fn of(schedule: &rule::Schedule) -> Schedule {
        let mut form = Schedule {
            jitter: (!schedule.jitter.is_zero()).then_some(Span(schedule.jitter)),
            start: schedule.start.map(Text),
            end: schedule.end.map(Text),
            max_runs: schedule.max_runs,
            calendar: schedule.calendar.as_ref().map(|keeping| keeping.name.clone()),
            timezone: schedule.calendar.as_ref().map(|keeping| keeping.zone().to_owned()),
            ..Schedule::default()
        };
        match &schedule.when {
            When::Cron(cron) => {
                form.cron = Some(cron.expression().to_owned());
                form.timezone = Some(cron.zone().to_owned());
                form.weekdays = Some(cron.weekdays()).filter(|numbering| *numbering != Weekdays::default());
            }
            When::Every(period) => form.every = Some(Span(*period)),
            When::AfterFinish(pause) => form.after_finish = Some(Span(*pause)),
            When::At(at) => form.at = Some(Text(*at)),
            When::Manual => form.manual = Some(true),
            When::After(after) => form.after = Some(After { job: after.job.clone(), on: after.on }),
            When::Event(event) => {
                form.event = Some(EventSchedule::of(event));
            }
        }
        form
    }
}

/// Parses the value of `cron`; the error names `cron` or `timezone`.
pub fn read_cron(
    expression: &str,
    zone: &str,
    weekdays: Weekdays,
    spread_key: Option<&str>,
) -> Result<When, Error> {
    When::parse_cron(expression, zone, weekdays, spread_key).map_err(|error| {
        let field = match &error {
            rule::Error::UnknownZone(_) => "timezone",
            rule::Error::TooLong { .. } if expression.len() <= rule::EXPRESSION_MAX => "timezone",
            _ => "cron",
        };
        Error::invalid(field, error.to_string())
    })
}
