//! A cron expression explained: its description and its next occurrences.

use punctual_core::Timestamp;
use punctual_core::schedule::{Language, Schedule, When};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::text::{Instant, Text};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Explained {
    pub expression: String,
    pub timezone: String,
    pub description: String,
    /// The first occurrences after the instant asked about; fewer if there are no more within fifty years.
    pub next: Vec<Occurrence>,
    /// The last one at or before it.
    pub previous: Option<Occurrence>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Occurrence {
    pub due_at: Instant,
    /// The same instant by the clocks of the zone.
    pub local: String,
}

impl Explained {
    /// A period (`@every`) is counted from `from`.
    pub fn of(expression: &str, when: When, language: Language, from: Timestamp, count: usize) -> Explained {
        let schedule = Schedule::new(when);
        let occurrence = |due: Timestamp| Occurrence {
            due_at: Text(due),
            local: match &schedule.when {
                When::Cron(cron) => cron.local(due),
                _ => due.to_string(),
            },
        };
        let next = std::iter::successors(schedule.next(from, from), |due| schedule.next(*due, from));
        Explained {
            expression: expression.trim().to_owned(),
            timezone: match &schedule.when {
                When::Cron(cron) => cron.zone().to_owned(),
                _ => "UTC".to_owned(),
            },
            description: schedule.describe(language),
            next: next.take(count).map(occurrence).collect(),
            previous: schedule.previous(from, from).map(occurrence),
        }
    }
}
