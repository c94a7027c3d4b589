//! Tests what cron expressions mean, in several ways.
//!
//! `dialect`, `refusals`, `clocks` and `written` have hand-written cases; `oracle` is a slow search that is
//! easy to read; and `properties`, `changes` and `croner` compare the fast search with it and with the
//! `croner` crate, for generated expressions from `made_up`.

mod changes;
mod clocks;
mod croner;
mod dialect;
mod made_up;
mod oracle;
mod properties;
mod leap;
mod new_rules;
mod refusals;
mod words;
mod written;

use super::Cron;
use crate::time::Timestamp;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// The occurrences after an instant, one by one; and the same ones backwards, because nobody may skip one
/// by asking from the other side.
#[track_caller]
fn check_cron(cron: &Cron, after: &str, expected: &[&str]) {
    let mut due = at(after);
    let mut found = Vec::new();
    for _ in expected {
        due = cron.next(due).unwrap();
        found.push(due);
    }
    let expected: Vec<_> = expected.iter().map(|text| at(text)).collect();
    assert_eq!(found, expected, "{cron:?} after {after}: {}", list(&found));
    for pair in expected.windows(2) {
        let before = Timestamp::from_millis(pair[1].as_millis() - 1);
        assert_eq!(cron.previous(before), Some(pair[0]), "{cron:?} before {}", pair[1]);
        assert_eq!(cron.previous(pair[1]), Some(pair[1]), "{cron:?} at {}", pair[1]);
    }
}

/// Whether the long form is wanted (`FULL=1`): it takes minutes instead of seconds.
fn full() -> bool {
    std::env::var_os("FULL").is_some_and(|value| value == "1")
}

fn list(instants: &[Timestamp]) -> String {
    instants.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
