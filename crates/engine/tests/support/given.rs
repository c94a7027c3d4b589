//! What tests are written in: jobs, schedules, spans and instants.

use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::job::Definition;
use punctual_core::schedule::{Schedule, When, parse_duration};
use punctual_core::task::Task;

/// When every test begins: 2030-01-01T00:00:00Z.
pub(crate) const START: Timestamp = Timestamp::from_millis(1_893_456_000_000);

pub(crate) fn span(text: &str) -> Duration {
    parse_duration(text).expect("a span as people write it")
}

/// So long after the beginning of the test.
pub(crate) fn at(text: &str) -> Timestamp {
    START + span(text)
}

/// Whole seconds since the beginning of the test.
pub(crate) fn seconds(instant: Timestamp) -> i64 {
    let millis = instant.as_millis() - START.as_millis();
    assert_eq!(millis % 1000, 0, "{instant} is not on a second");
    millis / 1000
}

/// A job that is only started by hand.
pub(crate) fn manual() -> Definition {
    Definition::of(Task::Noop)
}

pub(crate) fn on(schedules: impl IntoIterator<Item = Schedule>) -> Definition {
    Definition { schedules: schedules.into_iter().collect(), ..manual() }
}

pub(crate) fn every(period: &str) -> Schedule {
    Schedule::new(When::Every(span(period)))
}

pub(crate) fn once_at(offset: &str) -> Schedule {
    Schedule::new(When::At(at(offset)))
}

pub(crate) fn after_finish(pause: &str) -> Schedule {
    Schedule::new(When::AfterFinish(span(pause)))
}
