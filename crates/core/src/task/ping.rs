//! A task that a program outside Punctual executes, such as a line of a crontab. The program reports by pings.
//!
//! Its key is not stored: it is made of the id of the job, the number of the key, and a secret that the nodes share.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::alert::{Alert, Condition, REPEAT};
use crate::invalid::Invalid;
use crate::job::{Definition, Overlap};
use crate::limits::{ALERT_SPAN_MIN, DURATION_MAX};
use crate::schedule::format_duration;
use crate::task::Task;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ping {
    /// The usual time between two successes.
    pub period: Duration,
    /// How much later a success may come. `None` means a tenth of the period.
    pub grace: Option<Duration>,
    /// The number of its key. Another number gives another key, and the key before it opens nothing any more.
    pub key: u32,
}

impl Ping {
    /// How long there may be no success.
    pub fn within(&self) -> Duration {
        self.period.saturating_add(self.grace.unwrap_or(self.period / 10))
    }

    /// The alerts of its job, unless that has others for the same kind of condition.
    pub fn alerts(&self) -> [Alert; 2] {
        [Condition::Missing { within: self.within() }, Condition::Failed { after: 1 }].map(|on| Alert {
            on,
            to: Vec::new(),
            repeat: REPEAT,
        })
    }
}

impl Definition {
    /// `None` means that its task is not a ping.
    pub fn ping(&self) -> Option<&Ping> {
        match &self.task {
            Task::Ping(ping) => Some(ping),
            _ => None,
        }
    }

    /// Refuses what has no meaning for a program that Punctual neither starts nor stops.
    pub(crate) fn check_ping(&self, ping: &Ping) -> Result<(), Invalid> {
        if !(ALERT_SPAN_MIN..=DURATION_MAX).contains(&ping.period) {
            let message = format!("must be {} to ten years", format_duration(ALERT_SPAN_MIN));
            return Err(Invalid::new("task.ping.period", message));
        }
        if ping.within() > DURATION_MAX {
            return Err(Invalid::new("task.ping.grace", "at most ten years, together with the period"));
        }
        let default = Definition::of(Task::Noop);
        let given = [
            ("schedule", !self.schedules.is_empty()),
            ("retry", self.retry != default.retry),
            ("grace", self.grace.is_some()),
            ("at_most_once", self.at_most_once),
            ("overlap_grace", self.overlap_grace.is_some()),
            ("route", self.route != default.route),
            ("limits", !self.limits.is_empty()),
            ("share", self.share.is_some()),
            ("unique", self.unique.is_some()),
        ];
        if let Some((field, _)) = given.iter().find(|(_, is_given)| *is_given) {
            return Err(Invalid::new(*field, "a ping does not use it: Punctual does not start the program"));
        }
        if !matches!(self.overlap, Overlap::Skip | Overlap::Allow) {
            let message = "a ping has `allow`; without it, a start ends the run that has not ended yet";
            return Err(Invalid::new("overlap", message));
        }
        let is_met = |alert: &Alert| !matches!(alert.on, Condition::Late { .. } | Condition::DeadLetter);
        match self.alerts.iter().position(|alert| !is_met(alert)) {
            Some(index) => {
                let message =
                    "a ping has neither due times nor dead letters, so it never meets this condition";
                Err(Invalid::new(format!("alerts[{index}].on"), message))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Route;
    use crate::retry::Retry;
    use crate::schedule::{Schedule, When};

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn ping(period: Duration, grace: Option<Duration>) -> Definition {
        Definition::of(Task::Ping(Ping { period, grace, key: 1 }))
    }

    #[test]
    fn a_success_is_missing_after_the_period_and_its_grace() {
        let within = |grace| ping(DAY, grace).ping().map(Ping::within);
        assert_eq!(within(Some(Duration::from_secs(60))), Some(DAY + Duration::from_secs(60)));
        assert_eq!(within(None), Some(DAY + DAY / 10));
    }

    #[test]
    fn what_only_a_started_program_has_is_refused() {
        let field = |definition: Definition| definition.check().map_err(|invalid| invalid.field.into_owned());
        let good = ping(DAY, None);
        let alert = |on| vec![Alert { on, to: Vec::new(), repeat: REPEAT }];
        assert_eq!(field(good.clone()), Ok(()));
        assert_eq!(field(Definition { overlap: Overlap::Allow, ..good.clone() }), Ok(()));
        for (definition, expected) in [
            (ping(Duration::ZERO, None), "task.ping.period"),
            (ping(DAY, Some(DURATION_MAX)), "task.ping.grace"),
            (Definition { schedules: vec![Schedule::new(When::Manual)], ..good.clone() }, "schedule"),
            (Definition { retry: Retry { attempts: 2, ..Retry::default() }, ..good.clone() }, "retry"),
            (Definition { route: Route { shards: Some(2), ..Route::default() }, ..good.clone() }, "route"),
            (Definition { overlap: Overlap::Queue, ..good.clone() }, "overlap"),
            (Definition { alerts: alert(Condition::DeadLetter), ..good.clone() }, "alerts[0].on"),
        ] {
            assert_eq!(field(definition), Err(expected.to_owned()));
        }
        assert_eq!(good.check_alone().map_err(|invalid| invalid.field), Err("task.ping".into()));
    }
}
