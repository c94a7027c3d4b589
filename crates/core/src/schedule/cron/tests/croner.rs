//! Against somebody else's crate, where the dialects agree. In UTC, because croner treats a list of fixed
//! times as an interval when clocks change.

use croner::parser::CronParser;
use jiff::civil::DateTime;
use jiff::tz::Offset;
use proptest::prelude::*;

use super::super::Cron;
use super::made_up::{Forms, expressions};
use crate::schedule::Error;
use crate::time::Timestamp;

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn croner_finds_the_same_occurrences(
        expression in expressions(Forms::Common),
        start in 1_577_836_800..2_524_608_000i64, // 2020 to 2050
    ) {
        let text = expression.to_string();
        let theirs = CronParser::new().parse(&text).unwrap();
        let ours = match Cron::parse(&text, "UTC") {
            Ok(cron) => cron,
            Err(error) => {
                prop_assert_eq!(error, Error::Never(text.clone()));
                return Ok(());
            }
        };
        let mut due = Timestamp::from_millis(start * 1000);
        for _ in 0..10 {
            let expected = theirs.find_next_occurrence(&civil(due), false).ok().map(instant);
            let found = ours.next(due);
            prop_assert_eq!(found, expected, "{} after {}", text, due);
            let Some(found) = found else { break };
            due = found;
        }
        let mut due = Timestamp::from_millis(start * 1000);
        for _ in 0..3 {
            let expected = theirs.find_previous_occurrence(&civil(due), true).ok().map(instant);
            let expected = expected.filter(|expected| *expected >= Timestamp::MIN);
            let found = ours.previous(due);
            prop_assert_eq!(found, expected, "{} until {}", text, due);
            let Some(found) = found else { break };
            due = Timestamp::from_millis(found.as_millis() - 1000);
        }
    }
}

fn civil(instant: Timestamp) -> DateTime {
    Offset::UTC.to_datetime(instant.into())
}

fn instant(civil: DateTime) -> Timestamp {
    Offset::UTC.to_timestamp(civil).unwrap().into()
}
