//! Parses and prints times for people.

use std::str::FromStr;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::schedule::{format_duration, parse_duration};

/// An instant, or how long ago: `2026-12-01T08:00:00Z` or `1h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Since {
    Instant(Timestamp),
    Ago(Duration),
}

impl Since {
    pub(crate) fn at(self, now: Timestamp) -> Timestamp {
        match self {
            Since::Instant(at) => at,
            Since::Ago(span) => now.before(span),
        }
    }
}

impl FromStr for Since {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let ago = parse_duration(text).map(Since::Ago);
        ago.or_else(|_| text.parse().map(Since::Instant))
            .map_err(|_| "write how long ago, like 1h, or an instant, like 2026-12-01T08:00:00Z".to_owned())
    }
}

/// Parses the duration of an option.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).map_err(|error| error.to_string())
}

/// `2026-12-01 08:00:05Z, 3m ago`: exact to the second and relative to now.
pub(crate) fn both(at: Timestamp, now: Timestamp) -> String {
    format!("{}, {}", exact(at), relative(at, now))
}

/// For a table: with the day only if it is not today.
pub(crate) fn short(at: Timestamp, now: Timestamp) -> String {
    let (text, today) = (exact(at), exact(now));
    let (day, clock) = text.split_once(' ').unwrap_or(("", &text));
    let clock = clock.trim_end_matches('Z');
    if today.starts_with(day) {
        format!("{clock} ({})", relative(at, now))
    } else {
        format!("{day} {clock} ({})", relative(at, now))
    }
}

fn exact(at: Timestamp) -> String {
    let text = at.to_string().replace('T', " ");
    let seconds = text.split('.').next().unwrap_or_default();
    format!("{seconds}Z")
}

pub(crate) fn relative(at: Timestamp, now: Timestamp) -> String {
    if at.since(now) >= Duration::from_secs(1) {
        format!("in {}", rough(at.since(now)))
    } else if now.since(at) >= Duration::from_secs(1) {
        format!("{} ago", rough(now.since(at)))
    } else {
        "now".to_owned()
    }
}

/// The largest unit and, if there are fewer than ten of it, the next smaller one.
fn rough(span: Duration) -> String {
    let seconds = span.as_secs();
    let (size, next) = match seconds {
        86_400.. => (86_400, 3600),
        3600.. => (3600, 60),
        60.. => (60, 1),
        _ => (1, 1),
    };
    let grain = if seconds / size >= 10 { size } else { next };
    format_duration(Duration::from_secs(seconds / grain * grain)).replace('w', "w ").trim_end().to_owned()
}

/// How long something took.
pub(crate) fn took(from: Timestamp, to: Timestamp) -> String {
    span(to.since(from))
}

pub(crate) fn span(span: Duration) -> String {
    if span >= Duration::from_secs(10) { rough(span) } else { format_duration(span) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    #[test]
    fn a_time_is_relative_and_exact() {
        assert_eq!(both(NOW.before(Duration::from_secs(185)), NOW), "2027-01-15 07:56:55Z, 3m5s ago");
        assert_eq!(short(NOW.before(Duration::from_secs(1)), NOW), "07:59:59 (1s ago)");
        assert_eq!(short(NOW + Duration::from_secs(90_000), NOW), "2027-01-16 09:00:00 (in 1d1h)");
        assert_eq!(relative(NOW + Duration::from_millis(900), NOW), "now");
        assert_eq!(relative(NOW.before(Duration::from_secs(40 * 86_400)), NOW), "40d ago");
        assert_eq!(relative(NOW.before(Duration::from_secs(660)), NOW), "11m ago");
    }

    #[test]
    fn since_is_an_instant_or_a_span() {
        assert_eq!("1h".parse::<Since>().unwrap().at(NOW), NOW.before(Duration::from_secs(3600)));
        assert_eq!("2027-01-15T08:00:00Z".parse::<Since>().unwrap().at(NOW), NOW);
        assert!("yesterday".parse::<Since>().is_err());
    }
}
