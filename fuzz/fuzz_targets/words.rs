//! The small words: durations, zones, instants and names. Each is read or refused with a message, and what was read is
//! written in a form that reads back the same. A schedule that was read can be said in words.
//!
//! Input: one byte for the kind of word, then the word.
#![no_main]

use libfuzzer_sys::fuzz_target;
use punctual_core::Timestamp;
use punctual_core::name::{Name, Namespace};
use punctual_core::schedule::{Cron, Language, Weekdays, When, format_duration, parse_duration};

fuzz_target!(|input: &[u8]| {
    let Some((kind, text)) = input.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    match kind % 6 {
        0 => {
            if let Ok(span) = parse_duration(text) {
                assert_eq!(parse_duration(&format_duration(span)), Ok(span), "{text:?}");
            }
        }
        1 => {
            if let Ok(cron) = Cron::parse("0 1 * * *", text) {
                assert_eq!(Cron::parse("0 1 * * *", cron.zone()).as_ref(), Ok(&cron), "{text:?}");
                assert!(cron.local(Timestamp::from_millis(0)).len() >= "1970-01-01T00:00:00Z".len());
            }
        }
        2 => {
            if let Ok(instant) = text.parse::<Timestamp>()
                && (Timestamp::MIN..=Timestamp::MAX).contains(&instant)
            {
                assert_eq!(instant.to_string().parse::<Timestamp>().ok(), Some(instant), "{text:?}");
            }
        }
        3 => {
            if let Ok(name) = text.parse::<Name>() {
                assert_eq!(name.to_string(), text);
            }
        }
        4 => {
            if let Ok(namespace) = text.parse::<Namespace>() {
                assert_eq!(Namespace::from_dotted(&namespace.dotted()).as_ref(), Ok(&namespace));
            }
        }
        _ => {
            for weekdays in [Weekdays::Unix, Weekdays::Quartz] {
                if let Ok(when) = When::parse_cron(text, "Europe/Berlin", weekdays, Some("default/job")) {
                    assert!(!when.describe(Language::English).is_empty());
                    assert!(!when.describe(Language::Chinese).is_empty());
                }
            }
        }
    }
});
