//! Any expression either parses or is refused with a message, and one that parses has a next occurrence that
//! is later than asked and that `previous` finds again.
//!
//! Input: eight bytes of instant, one of zone and dialect, then the expression.
#![no_main]

use libfuzzer_sys::fuzz_target;
use punctual_core::Timestamp;
use punctual_core::schedule::{Cron, Weekdays};

/// Plain, with gaps at midnight, with half-hour folds, and one that skipped a day.
const ZONES: [&str; 6] =
    ["UTC", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Australia/Lord_Howe", "Pacific/Apia"];

fuzz_target!(|input: &[u8]| {
    let Some((instant, rest)) = input.split_first_chunk::<8>() else { return };
    let Some((choice, expression)) = rest.split_first() else { return };
    let Ok(expression) = std::str::from_utf8(expression) else { return };
    let zone = ZONES[usize::from(*choice) % ZONES.len()];
    let weekdays = if *choice < 128 { Weekdays::Unix } else { Weekdays::Quartz };

    let cron = match Cron::parse_with(expression, zone, weekdays, Some("default/job")) {
        Ok(cron) => cron,
        Err(refused) => {
            assert!(!refused.to_string().is_empty());
            return;
        }
    };
    let after = i64::from_le_bytes(*instant).rem_euclid(Timestamp::MAX.as_millis());
    let after = Timestamp::from_millis(after);
    if let Some(next) = cron.next(after) {
        assert!(next > after, "{cron:?} after {after} gave {next}");
        assert_eq!(cron.previous(next), Some(next), "{cron:?} after {after}");
    }
});
