//! Schedules without due times: a job starts when a run of another job ends, at an event, or at a message in a queue.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Error;
use crate::invalid::Invalid;
use crate::limits::{BATCH_EVENTS_MAX, GATHER_MAX};
use crate::name::Name;
use crate::queue::QueueName;
use crate::template::{self, Condition, Scope, Value, Values};

/// What starts a job without a clock, see [`crate::topic`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Topic {
    /// The ends of the runs of this job.
    Job(Name),
    /// The events of this name.
    Event(Name),
    /// The messages of this queue. Its listeners consume them.
    Queue(QueueName),
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Topic::Job(name) => write!(f, "job `{name}`"),
            Topic::Event(name) => write!(f, "event `{name}`"),
            Topic::Queue(name) => write!(f, "queue `{name}`"),
        }
    }
}

/// Which ends of the upstream job's runs start a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct After {
    pub job: Name,
    pub on: Ends,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ends {
    #[default]
    Succeeded,
    /// Every end but success; a skipped run has not begun, and does not count.
    Failed,
    /// Both.
    Ended,
}

impl Ends {
    pub const ALL: [Ends; 3] = [Ends::Succeeded, Ends::Failed, Ends::Ended];

    pub fn as_str(self) -> &'static str {
        match self {
            Ends::Succeeded => "succeeded",
            Ends::Failed => "failed",
            Ends::Ended => "ended",
        }
    }
}

/// Which events start a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnEvent {
    /// The event, or the queue whose messages are the events.
    pub topic: Topic,
    /// A condition on `event`. `None` means every event.
    pub when: Option<String>,
    /// Only events with this key. `None` means all.
    pub key: Option<Arc<str>>,
    /// `None` means that each event starts a run.
    pub gather: Option<Gather>,
}

/// How several events start one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gather {
    /// The run has the last event, and starts when no other has come for this long.
    Debounce(Duration),
    /// The run has all events, and starts this long after the first of them, or as soon as it has the most.
    Batch { max: u32, within: Duration },
}

impl Gather {
    /// How long a run with these events gathers further ones, from now on. `None` means that the first event has decided
    /// it.
    pub(crate) fn further(self, events: usize) -> Option<Duration> {
        match self {
            Gather::Debounce(quiet) => Some(quiet),
            Gather::Batch { max, .. } if events >= usize::try_from(max).unwrap_or(usize::MAX) => {
                Some(Duration::ZERO)
            }
            Gather::Batch { within, .. } => (events == 1).then_some(within),
        }
    }

    fn check(self) -> Result<(), Error> {
        let (field, span) = match self {
            Gather::Debounce(quiet) => ("event.debounce", quiet),
            Gather::Batch { within, .. } => ("event.batch.within", within),
        };
        if span.is_zero() || span > GATHER_MAX {
            let message = "longer than nothing, and at most a day".to_owned();
            return Err(Error::Gather { field, message });
        }
        if let Gather::Batch { max, .. } = self
            && !(1..=BATCH_EVENTS_MAX).contains(&max)
        {
            let message = format!("1 to {BATCH_EVENTS_MAX}");
            return Err(Error::Gather { field: "event.batch.max", message });
        }
        Ok(())
    }
}

impl OnEvent {
    pub(super) fn check(&self) -> Result<(), Error> {
        self.gather.map_or(Ok(()), Gather::check)?;
        let Some(when) = &self.when else { return Ok(()) };
        match Condition::parse_in(when, &Scope::EVENT) {
            Ok(_) => Ok(()),
            Err(error) => Err(Error::EventCondition(error.in_text(when))),
        }
    }

    /// Whether an event with this key starts the job.
    pub fn takes(&self, key: Option<&Arc<str>>, value: Value) -> Result<bool, Invalid> {
        if self.key.is_some() && self.key.as_ref() != key {
            return Ok(false);
        }
        let Some(when) = &self.when else { return Ok(true) };
        let refused = |error: template::Error| Invalid::new("schedule.event.when", error.in_text(when));
        let condition = Condition::parse_in(when, &Scope::EVENT).map_err(refused)?;
        condition.holds(&Values::default().with("event", value)).map_err(refused)
    }
}
