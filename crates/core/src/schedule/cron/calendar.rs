//! Days counted from 1970-01-01 in the proleptic Gregorian calendar.
//!
//! Plain arithmetic (Howard Hinnant's `chrono`-compatible algorithms) instead of jiff's civil types, because a
//! search tries thousands of months and must not check a range for each.

pub(in crate::schedule) const DAY: i64 = 86_400;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::schedule) struct Month {
    pub(in crate::schedule) year: i64,
    /// 1 to 12.
    pub(in crate::schedule) month: u32,
}

impl Month {
    pub(in crate::schedule) fn len(self) -> u32 {
        const LEN: [u32; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        LEN[self.month as usize - 1] + u32::from(self.month == 2 && is_leap(self.year))
    }

    /// The number of its first day.
    pub(in crate::schedule) fn first_day(self) -> i64 {
        // Years begin in March here, so that the leap day is the last and the lengths of months repeat regularly.
        let year = self.year - i64::from(self.month <= 2);
        let era = year.div_euclid(400);
        let year_of_era = year.rem_euclid(400);
        let month = (i64::from(self.month) + 9) % 12;
        let day_of_year = (153 * month + 2) / 5;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        era * 146_097 + day_of_era - 719_468
    }

    /// The weekday of its first day, where 0 is Sunday.
    pub(super) fn first_weekday(self) -> u32 {
        // 1970-01-01 was a Thursday. The remainder is below 7, so the cast is exact.
        (self.first_day() + 4).rem_euclid(7) as u32
    }
}

/// The month of a day, and its day of the month from 1.
pub(in crate::schedule) fn month_of(day: i64) -> (Month, u32) {
    let day = day + 719_468;
    let era = day.div_euclid(146_097);
    let day_of_era = day.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day_of_month = (day_of_year - (153 * shifted + 2) / 5 + 1) as u32;
    let month = (if shifted < 10 { shifted + 3 } else { shifted - 9 }) as u32;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (Month { year, month }, day_of_month)
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

#[cfg(test)]
mod tests {
    use jiff::ToSpan;
    use jiff::civil::date;

    use super::*;

    #[test]
    fn every_day_of_two_centuries_is_named_as_jiff_names_it() {
        let mut expected = date(1969, 12, 1);
        for day in -31..73_500 {
            let (month, day_of_month) = month_of(day);
            let named = (month.year, month.month, day_of_month);
            let (year, m, d) = (expected.year(), expected.month(), expected.day());
            assert_eq!(named, (i64::from(year), m.cast_unsigned().into(), d.cast_unsigned().into()));
            assert_eq!(month.len(), u32::from(expected.days_in_month().cast_unsigned()));
            assert_eq!(month.first_day() + i64::from(day_of_month) - 1, day);
            let weekday = expected.first_of_month().weekday().to_sunday_zero_offset();
            assert_eq!(month.first_weekday(), u32::from(weekday.cast_unsigned()));
            expected += 1.day();
        }
    }
}
