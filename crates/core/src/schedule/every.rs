//! Fires at a fixed interval.
//!
//! The instants are `origin + k * period`, computed by division: a late fire does not move the next one,
//! and an outage of years costs no more than one of a second.

use std::time::Duration;

use crate::time::Timestamp;

/// The instant that the interval counts from. `start` was asked for, so it is itself an occurrence (k = 0);
/// after the creation of a job the first occurrence is one period later (k = 1).
#[derive(Debug, Clone, Copy)]
pub(super) enum Origin {
    Start(Timestamp),
    Created(Timestamp),
}

pub(super) fn next(origin: Origin, period: Duration, after: Timestamp) -> Option<Timestamp> {
    let beat = Beat::new(origin, period)?;
    let count = (i128::from(after.as_millis()) - beat.origin).div_euclid(beat.period) + 1;
    beat.at(count.max(beat.first))
}

pub(super) fn previous(origin: Origin, period: Duration, until: Timestamp) -> Option<Timestamp> {
    let beat = Beat::new(origin, period)?;
    // There are no occurrences after `MAX`, so the last one before it is the answer for all later instants.
    let until = until.min(Timestamp::MAX);
    let count = (i128::from(until.as_millis()) - beat.origin).div_euclid(beat.period);
    if count < beat.first { None } else { beat.at(count) }
}

/// In 128 bits, because a very long period times a count must not wrap.
struct Beat {
    origin: i128,
    period: i128,
    first: i128,
}

impl Beat {
    /// `None` for a period below a millisecond, which `Schedule::check` refuses.
    fn new(origin: Origin, period: Duration) -> Option<Beat> {
        let (origin, first) = match origin {
            Origin::Start(start) => (start, 0),
            Origin::Created(created) => (created, 1),
        };
        let period = i128::from(u64::try_from(period.as_millis()).unwrap_or(u64::MAX));
        (period > 0).then_some(Beat { origin: i128::from(origin.as_millis()), period, first })
    }

    fn at(&self, count: i128) -> Option<Timestamp> {
        let millis = i64::try_from(self.origin + count * self.period).ok()?;
        (millis <= Timestamp::MAX.as_millis()).then_some(Timestamp::from_millis(millis))
    }
}
