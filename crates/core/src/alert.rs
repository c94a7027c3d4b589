//! Alerts of a job, or of a step of a workflow: the conditions under which people are notified.
//!
//! A condition that begins to hold opens an [`Incident`], in the commit of its cause. People are notified when the
//! incident opens, when its error changes, every [`Alert::repeat`], and when it is over. Each notification is a notice
//! for a channel, written in the same commit, with an id of its own.
//!
//! ```text
//!  end of a run, deadline ──▶ condition ──▶ incident ──notice──▶ channel
//! ```

mod act;
mod incident;
mod watch;

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::invalid::Invalid;
use crate::job::Definition;
use crate::limits::{
    ALERT_CHANNELS_MAX, ALERT_FAILURES_MAX, ALERT_REPEAT_MIN, ALERT_SPAN_MIN, ALERTS_MAX, DURATION_MAX,
};
use crate::name::Name;
use crate::schedule::{Cron, format_duration};

pub use act::{ActOnIncident, IncidentAct, NoteChannel};
pub use incident::{Incident, Notification, Occasion, Silence, Subject, fingerprint, without_numbers};
pub use watch::Watch;

/// The time after which an open incident is notified again, unless the alert sets it.
pub const REPEAT: Duration = Duration::from_secs(24 * 3600);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alert {
    pub on: Condition,
    /// The channels to notify. Empty means the default channels of the settings.
    pub to: Vec<Name>,
    /// The time between two notifications of an incident that goes on.
    pub repeat: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// So many runs have failed in a row.
    Failed { after: u32 },
    /// So many runs have failed within a span of time.
    FailedOften { of: u32, within: Duration },
    /// A run has not started so long after its due time.
    Late { by: Duration },
    /// A run takes longer than this.
    Long { by: Duration },
    /// At this time of each day, the newest due time has no run that has succeeded.
    Deadline(Box<Deadline>),
    /// A run has become a dead letter.
    DeadLetter,
    /// No run has succeeded for so long.
    Missing { within: Duration },
}

/// A time of each day, in a time zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deadline {
    pub hour: u8,
    pub minute: u8,
    cron: Cron,
}

impl Deadline {
    /// `at` is written like `06:00`.
    pub fn parse(at: &str, timezone: &str) -> Result<Deadline, Invalid> {
        let time = at.split_once(':').and_then(|(hour, minute)| {
            let digits = |text: &str| text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
            let number = |text: &str| digits(text).then(|| text.parse::<u8>().ok()).flatten();
            Some((number(hour)?, number(minute)?))
        });
        let Some((hour, minute)) = time.filter(|(hour, minute)| *hour < 24 && *minute < 60) else {
            return Err(Invalid::new("at", format!("`{at}` is not a time of day; write it like 06:00")));
        };
        let cron = Cron::parse(&format!("{minute} {hour} * * *"), timezone)
            .map_err(|error| Invalid::new("timezone", error.to_string()))?;
        Ok(Deadline { hour, minute, cron })
    }

    pub fn timezone(&self) -> &str {
        self.cron.zone()
    }

    /// The time of day, such as `06:00`.
    pub fn at(&self) -> String {
        format!("{:02}:{:02}", self.hour, self.minute)
    }

    fn next(&self, after: Timestamp) -> Option<Timestamp> {
        self.cron.next(after)
    }
}

impl Condition {
    /// Its name in job files and at endpoints.
    pub fn word(&self) -> &'static str {
        match self {
            Condition::Failed { .. } | Condition::FailedOften { .. } => "failed",
            Condition::Late { .. } => "late",
            Condition::Long { .. } => "long",
            Condition::Deadline(_) => "deadline",
            Condition::DeadLetter => "dead_letter",
            Condition::Missing { .. } => "missing",
        }
    }

    fn check(&self) -> Result<(), Invalid> {
        let times = |field: &'static str, times: u32| {
            let is_possible = (1..=ALERT_FAILURES_MAX).contains(&times);
            let message = format!("must be 1 to {ALERT_FAILURES_MAX}");
            if is_possible { Ok(()) } else { Err(Invalid::new(field, message)) }
        };
        let span = |field: &'static str, span: Duration| {
            let is_possible = (ALERT_SPAN_MIN..=DURATION_MAX).contains(&span);
            let message = format!("must be {} to ten years", format_duration(ALERT_SPAN_MIN));
            if is_possible { Ok(()) } else { Err(Invalid::new(field, message)) }
        };
        match self {
            Condition::Failed { after } => times("after", *after),
            Condition::FailedOften { of, within } => times("of", *of).and(span("in", *within)),
            Condition::Late { by } | Condition::Long { by } => span("by", *by),
            Condition::Missing { within } => span("within", *within),
            Condition::Deadline(_) | Condition::DeadLetter => Ok(()),
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let span = |span: &Duration| format_duration(*span);
        match self {
            Condition::Failed { after: 1 } => write!(f, "a run failed"),
            Condition::Failed { after } => write!(f, "{after} runs failed in a row"),
            Condition::FailedOften { of, within } => write!(f, "{of} runs failed within {}", span(within)),
            Condition::Late { by } => write!(f, "a run is late by {}", span(by)),
            Condition::Long { by } => write!(f, "a run takes longer than {}", span(by)),
            Condition::Deadline(deadline) => {
                write!(f, "no run succeeded by {} {}", deadline.at(), deadline.timezone())
            }
            Condition::DeadLetter => write!(f, "a run is a dead letter"),
            Condition::Missing { within } => write!(f, "no run succeeded for {}", span(within)),
        }
    }
}

/// Refuses alerts that are invalid, too many, or equal to each other.
pub fn check(alerts: &[Alert]) -> Result<(), Invalid> {
    if alerts.len() > ALERTS_MAX {
        return Err(Invalid::new("alerts", format!("at most {ALERTS_MAX} alerts")));
    }
    for (index, alert) in alerts.iter().enumerate() {
        let under = |invalid: Invalid| invalid.under(&format!("alerts[{index}]"));
        alert.on.check().map_err(under)?;
        if alerts[..index].iter().any(|other| other.on == alert.on) {
            let message = "an earlier alert has the same condition; name all channels in its `to`";
            return Err(under(Invalid::new("on", message)));
        }
        let channels: BTreeSet<&Name> = alert.to.iter().collect();
        if alert.to.len() > ALERT_CHANNELS_MAX || channels.len() < alert.to.len() {
            return Err(under(Invalid::new(
                "to",
                format!("name at most {ALERT_CHANNELS_MAX} channels, each of them once"),
            )));
        }
        if !(ALERT_REPEAT_MIN..=DURATION_MAX).contains(&alert.repeat) {
            let message = format!("must be {} to ten years", format_duration(ALERT_REPEAT_MIN));
            return Err(under(Invalid::new("repeat", message)));
        }
    }
    Ok(())
}

/// Refuses conditions that a step cannot have. What is remembered of earlier runs belongs to the job, and so does the
/// dead letter.
pub fn check_of_step(alerts: &[Alert]) -> Result<(), Invalid> {
    for (index, alert) in alerts.iter().enumerate() {
        let field = match alert.on {
            Condition::Failed { after: 1 } | Condition::Late { .. } | Condition::Long { .. } => continue,
            Condition::Failed { .. } => "after",
            Condition::FailedOften { .. } => "of",
            Condition::Deadline(_) | Condition::DeadLetter | Condition::Missing { .. } => "on",
        };
        let message = "a step can have `failed` (without `after` and `of`), `late` and `long`; \
                       move this alert to the job";
        return Err(Invalid::new(format!("alerts[{index}].{field}"), message));
    }
    Ok(())
}

impl Definition {
    /// The alerts of the step at this path of its workflow. `None` means those of the job.
    pub fn alerts_of(&self, step: Option<&str>) -> &[Alert] {
        match step {
            None => &self.alerts,
            Some(path) => {
                let step = self.workflow().and_then(|workflow| workflow.at(path));
                step.map_or(&[][..], |step| step.alerts.as_slice())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alert(on: Condition) -> Alert {
        Alert { on, to: Vec::new(), repeat: REPEAT }
    }

    #[test]
    fn a_deadline_is_a_time_of_day_in_a_zone() {
        let deadline = Deadline::parse("06:05", "Asia/Shanghai").unwrap();
        assert_eq!((deadline.at(), deadline.timezone()), ("06:05".to_owned(), "Asia/Shanghai"));
        let after: Timestamp = "2030-01-01T00:00:00Z".parse().unwrap();
        assert_eq!(deadline.next(after), Some("2030-01-01T22:05:00Z".parse().unwrap()));
        for (at, zone, field) in [
            ("6:00", "UTC", "at"),
            ("24:00", "UTC", "at"),
            ("+6:00", "UTC", "at"),
            ("06:00", "Moon", "timezone"),
        ] {
            assert_eq!(Deadline::parse(at, zone).unwrap_err().field, field, "{at} {zone}");
        }
    }

    #[test]
    fn a_step_counts_no_runs() {
        let hour = Duration::from_secs(3600);
        let field = |on| check_of_step(&[alert(on)]).map_err(|invalid| invalid.field.into_owned());
        for on in [Condition::Failed { after: 1 }, Condition::Late { by: hour }, Condition::Long { by: hour }]
        {
            assert_eq!(field(on), Ok(()));
        }
        for (on, expected) in [
            (Condition::Failed { after: 2 }, "alerts[0].after"),
            (Condition::FailedOften { of: 2, within: hour }, "alerts[0].of"),
            (Condition::DeadLetter, "alerts[0].on"),
            (Condition::Missing { within: hour }, "alerts[0].on"),
        ] {
            assert_eq!(field(on), Err(expected.to_owned()));
        }
    }

    #[test]
    fn an_invalid_alert_is_refused_with_its_field() {
        let hour = Duration::from_secs(3600);
        let field = |alerts: &[Alert]| check(alerts).map_err(|invalid| invalid.field.into_owned());
        let failed = alert(Condition::Failed { after: 2 });
        assert_eq!(field(std::slice::from_ref(&failed)), Ok(()));
        for (alerts, expected) in [
            (vec![failed.clone(), alert(Condition::Failed { after: 0 })], "alerts[1].after"),
            (vec![alert(Condition::FailedOften { of: 3, within: Duration::ZERO })], "alerts[0].in"),
            (vec![alert(Condition::Late { by: Duration::ZERO })], "alerts[0].by"),
            (vec![alert(Condition::Missing { within: Duration::MAX })], "alerts[0].within"),
            (vec![failed.clone(), failed.clone()], "alerts[1].on"),
            (vec![Alert { repeat: Duration::ZERO, ..failed.clone() }], "alerts[0].repeat"),
            (vec![Alert { to: vec!["a".parse().unwrap(); 2], ..failed }], "alerts[0].to"),
            ((1..=11).map(|hours| alert(Condition::Long { by: hour * hours })).collect(), "alerts"),
        ] {
            assert_eq!(field(&alerts), Err(expected.to_owned()));
        }
    }
}
