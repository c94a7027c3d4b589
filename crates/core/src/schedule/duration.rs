//! Durations as users write them: `1h30m`, `90s`, `500ms`.
//!
//! Largest unit first, each at most once, whole numbers only: there is one way to write a duration, and `1.5h` or
//! a bare `90` is refused.

use std::fmt::Write as _;
use std::time::Duration;

use super::Error;

/// Bytes of a duration: far more than any real one, few enough to repeat in an error.
pub const DURATION_MAX: usize = 64;

/// Name and milliseconds of each unit, the largest first.
const UNITS: [(&str, u64); 6] =
    [("w", 604_800_000), ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

pub fn parse_duration(text: &str) -> Result<Duration, Error> {
    if text.len() > DURATION_MAX {
        return Err(Error::TooLong { what: "duration", len: text.len(), max: DURATION_MAX });
    }
    let refuse = |why| Error::Duration { text: text.to_owned(), why };
    if text.is_empty() {
        return Err(refuse("it is empty"));
    }
    let mut units = UNITS.iter();
    let mut total: u64 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let (number, after) = split_where(rest, |c| !c.is_ascii_digit());
        let (name, after) = split_where(after, |c| !c.is_ascii_alphabetic());
        if number.is_empty() {
            return Err(refuse("a whole number was expected"));
        }
        if name.is_empty() {
            return Err(refuse("a number has no unit"));
        }
        if !UNITS.iter().any(|(unit, _)| *unit == name) {
            return Err(refuse("the units are w, d, h, m, s and ms"));
        }
        // The iterator only moves forward, so a unit that was passed is not found again.
        let Some((_, size)) = units.find(|(unit, _)| *unit == name) else {
            return Err(refuse("each unit stands once, the largest first"));
        };
        let part = number.parse::<u64>().ok().and_then(|count| count.checked_mul(*size));
        total = part.and_then(|part| total.checked_add(part)).ok_or_else(|| refuse("it is too long"))?;
        rest = after;
    }
    Ok(Duration::from_millis(total))
}

/// The text that `parse_duration` reads back to the same value, to the millisecond: zero parts are left
/// out, and weeks are used only if the duration is a whole number of weeks.
pub fn format_duration(duration: Duration) -> String {
    let mut rest = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let mut text = String::new();
    for (name, size) in UNITS {
        if rest >= size && (name != "w" || rest.is_multiple_of(size)) {
            // Writing to a String cannot fail.
            let _ = write!(text, "{}{name}", rest / size);
            rest %= size;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

fn split_where(text: &str, ends: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(ends).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, millis: u64) {
        assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
    }

    #[track_caller]
    fn check_refused(text: &str, message: &str) {
        assert_eq!(parse_duration(text).unwrap_err().to_string(), message);
    }

    #[test]
    fn units_add_up() {
        check("1h30m", 5_400_000);
        check("90s", 90_000);
        check("500ms", 500);
        check("2d", 172_800_000);
        check("1w", 604_800_000);
        check("1w2d3h4m5s6ms", 788_645_006);
        check("0s", 0);
    }

    #[test]
    fn what_is_ambiguous_is_refused_with_the_way_out() {
        let hint = "write it like 1h30m, 90s or 500ms";
        check_refused("", &format!("`` is not a duration: it is empty; {hint}"));
        check_refused("90", &format!("`90` is not a duration: a number has no unit; {hint}"));
        check_refused("1.5h", &format!("`1.5h` is not a duration: a number has no unit; {hint}"));
        check_refused("h", &format!("`h` is not a duration: a whole number was expected; {hint}"));
        check_refused("-1s", &format!("`-1s` is not a duration: a whole number was expected; {hint}"));
        check_refused(
            "5min",
            &format!("`5min` is not a duration: the units are w, d, h, m, s and ms; {hint}"),
        );
        check_refused(
            "1m1h",
            &format!("`1m1h` is not a duration: each unit stands once, the largest first; {hint}"),
        );
        check_refused(
            "1s1s",
            &format!("`1s1s` is not a duration: each unit stands once, the largest first; {hint}"),
        );
        check_refused(
            "99999999999999999999w",
            &format!("`99999999999999999999w` is not a duration: it is too long; {hint}"),
        );
        check_refused(&"1".repeat(65), "duration is 65 bytes long; at most 64 are allowed");
    }

    #[test]
    fn a_duration_is_written_in_the_largest_units_that_fit() {
        let written = |millis| format_duration(Duration::from_millis(millis));
        assert_eq!(written(5_400_000), "1h30m");
        assert_eq!(written(90_000), "1m30s");
        assert_eq!(written(1_209_600_000), "2w");
        assert_eq!(written(864_000_000), "10d");
        assert_eq!(written(1_001), "1s1ms");
        assert_eq!(written(0), "0s");
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back_the_same(millis in any::<u64>()) {
            let duration = Duration::from_millis(millis);
            prop_assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC{0,70}|[0-9wdhms ]{0,20}") {
            let _ = parse_duration(&text);
        }
    }
}
