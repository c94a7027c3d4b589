//! An instant, as Punctual counts it: milliseconds since the Unix epoch, in store time.
//!
//! Schedules and stores have a resolution of one millisecond, so the rules have the same. Zones and calendars are
//! handled in `schedule`.

mod manual;

use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use manual::{ManualClock, Sleep};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The last instant a schedule may name: the end of the year 9998, valid in every zone.
    pub const MAX: Timestamp = Timestamp(253_370_764_799_999);
    pub const MIN: Timestamp = Timestamp(0);

    pub const fn from_millis(millis: i64) -> Self {
        Timestamp(millis)
    }

    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// How long ago `earlier` was; zero if it is in the future.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// The instant that lies `span` earlier. Saturates instead of wrapping.
    pub fn before(self, span: Duration) -> Timestamp {
        Timestamp(self.0.saturating_sub(millis(span)))
    }
}

fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

impl Add<Duration> for Timestamp {
    type Output = Timestamp;

    /// Saturates at [`Timestamp::MAX`]: "in a million years" means never, not a wrapped past.
    fn add(self, span: Duration) -> Timestamp {
        Timestamp(self.0.saturating_add(millis(span)).min(Timestamp::MAX.0))
    }
}

impl Sub for Timestamp {
    type Output = Duration;

    fn sub(self, earlier: Timestamp) -> Duration {
        self.since(earlier)
    }
}

impl From<jiff::Timestamp> for Timestamp {
    fn from(instant: jiff::Timestamp) -> Self {
        Timestamp(instant.as_millisecond())
    }
}

impl From<Timestamp> for jiff::Timestamp {
    fn from(instant: Timestamp) -> Self {
        jiff::Timestamp::from_millisecond(instant.0.clamp(0, Timestamp::MAX.0))
            .unwrap_or(jiff::Timestamp::MAX)
    }
}

impl fmt::Display for Timestamp {
    /// RFC 3339, UTC, always three decimals: the form of every endpoint.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", jiff::Timestamp::from(*self))
    }
}

#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not an instant; write it like 2026-12-01T08:00:00+08:00")]
pub struct NotAnInstant(String);

impl FromStr for Timestamp {
    type Err = NotAnInstant;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let instant: jiff::Timestamp = text.parse().map_err(|_| NotAnInstant(text.to_owned()))?;
        Ok(instant.into())
    }
}

/// A point in elapsed time, in milliseconds from an arbitrary start. It follows the monotonic clock: deadlines and leases
/// are measured with it, so a change of the wall clock does not affect them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Elapsed(i64);

impl Elapsed {
    pub const fn from_millis(millis: i64) -> Self {
        Elapsed(millis)
    }

    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// The time since `earlier`; zero if that is in the future.
    pub fn since(self, earlier: Elapsed) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// The point that lies `span` earlier, perhaps before the start.
    pub fn before(self, span: Duration) -> Elapsed {
        Elapsed(self.0.saturating_sub(millis(span)))
    }
}

impl From<Duration> for Elapsed {
    fn from(since_start: Duration) -> Self {
        Elapsed::default() + since_start
    }
}

impl Add<Duration> for Elapsed {
    type Output = Elapsed;

    /// Saturates like a [`Timestamp`].
    fn add(self, span: Duration) -> Elapsed {
        Elapsed(self.0.saturating_add(millis(span)).min(Timestamp::MAX.0))
    }
}

/// One reading of a clock: the time of day and the monotonic time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    pub now: Timestamp,
    pub elapsed: Duration,
}

/// A source of time. Rules take `now`; loops hold a clock, and only the wiring names the real one.
pub trait Clock: Send + Sync + fmt::Debug {
    fn now(&self) -> Timestamp;

    /// Monotonic time from an arbitrary start: it measures spans even if `now` is set meanwhile. A clock that is never
    /// set may derive it from `now`.
    fn elapsed(&self) -> Duration {
        self.now().since(Timestamp::MIN)
    }

    fn moment(&self) -> Moment {
        Moment { now: self.now(), elapsed: self.elapsed() }
    }

    /// How long to sleep until `now` reaches an instant; finer than a millisecond if the clock is.
    fn until(&self, instant: Timestamp) -> Duration {
        instant.since(self.now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_written_in_utc_with_milliseconds() {
        let instant: Timestamp = "2026-12-01T08:00:00+08:00".parse().unwrap();
        assert_eq!(instant.to_string(), "2026-12-01T00:00:00.000Z");
        assert_eq!(instant.to_string().parse::<Timestamp>().unwrap(), instant);
    }

    #[test]
    fn a_far_future_stops_at_the_end_of_time() {
        assert_eq!(Timestamp::from_millis(5) + Duration::from_secs(u64::MAX), Timestamp::MAX);
        assert_eq!(Timestamp::from_millis(5).since(Timestamp::from_millis(9)), Duration::ZERO);
    }
}
