//! Expressions in words: every one has some, and no two that mean something else have the same.

use std::collections::HashMap;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::super::walk::Pattern;
use super::super::{Cron, Weekdays};
use super::full;
use super::made_up::{Forms, expressions};
use super::oracle::Expression;
use crate::schedule::Language;

proptest! {
    #[test]
    fn every_expression_has_words_in_every_language(
        expression in expressions(Forms::Ours),
        zone in proptest::sample::select(&["UTC", "Asia/Shanghai", "America/New_York"][..]),
    ) {
        let Ok(cron) = Cron::parse(&expression.to_string(), zone) else { return Ok(()) };
        for language in [Language::English, Language::Chinese] {
            let words = cron.describe(language);
            prop_assert!(words.contains(zone) && !words.contains("  "), "{:?}: {}", cron, words);
        }
    }

    #[test]
    fn whatever_text_is_an_expression_has_words(
        text in "([-*/,0-9LWH#?]{1,5} ){4,6}[-*/,0-9LWH#?]{1,5}",
    ) {
        for numbering in [Weekdays::Unix, Weekdays::Quartz] {
            if let Ok(cron) = Cron::parse_with(&text, "UTC", numbering, Some("key")) {
                prop_assert!(!cron.describe(Language::English).is_empty());
                prop_assert!(!cron.describe(Language::Chinese).is_empty());
            }
        }
    }
}

#[test]
fn expressions_with_different_sets_do_not_read_the_same() {
    let mut known = Known::default();
    let samples = samples(if full() { 100_000 } else { 4_000 });
    for pair in samples.windows(2) {
        known.check(&pair[0]);
        // Neighbours differ in one field only: that is where words could fail to tell.
        for neighbour in neighbours(&pair[0], &pair[1]) {
            known.check(&neighbour);
        }
    }
    assert!(known.0.len() > samples.len(), "{}", known.0.len());
}

/// What was said so far, and about which sets.
#[derive(Default)]
struct Known(HashMap<String, (String, Pattern)>);

impl Known {
    fn check(&mut self, expression: &Expression) {
        let text = expression.to_string();
        let Ok(cron) = Cron::parse(&text, "UTC") else { return };
        // Whether a set was written as a step or as a list is no part of the set.
        let sets = Pattern { fixed: true, ..cron.pattern.clone() };
        for language in [Language::English, Language::Chinese] {
            let words = cron.describe(language);
            let (other, known) = self.0.entry(words.clone()).or_insert_with(|| (text.clone(), sets.clone()));
            assert_eq!(*known, sets, "`{other}` and `{text}` both read: {words}");
        }
    }
}

fn neighbours(one: &Expression, other: &Expression) -> Vec<Expression> {
    let other = other.clone();
    vec![
        Expression { second: other.second.clone().or(one.second.clone()), ..one.clone() },
        Expression { minute: other.minute, ..one.clone() },
        Expression { hour: other.hour, ..one.clone() },
        Expression { day: other.day, ..one.clone() },
        Expression { month: other.month, ..one.clone() },
        Expression { weekday: other.weekday, ..one.clone() },
    ]
}

fn samples(count: usize) -> Vec<Expression> {
    let mut runner = TestRunner::deterministic();
    (0..count).map(|_| expressions(Forms::Ours).new_tree(&mut runner).unwrap().current()).collect()
}
