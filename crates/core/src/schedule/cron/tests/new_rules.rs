//! A country changes its mind: from one instant on the same expression is read under new rules of its zone, as after
//! an upgrade that brings new zone data.

use jiff::tz::TimeZone;

use super::super::Cron;
use super::changes::samples;
use super::oracle::Expression;
use crate::time::Timestamp;

/// Old rules and new ones, the second the news arrives: around the changes that one of them has.
const NEWS: [(&str, &str, i64); 5] = [
    // 2026-03-28T12:00Z: the coming summer time is called off.
    ("CET-1CEST,M3.5.0,M10.5.0/3", "CET-1", 1_774_699_200),
    // 2026-03-29T03:00Z: it is called off two hours after it began.
    ("CET-1CEST,M3.5.0,M10.5.0/3", "CET-1", 1_774_753_200),
    // 2026-03-28T12:00Z: it is introduced for the next day.
    ("CET-1", "CET-1CEST,M3.5.0,M10.5.0/3", 1_774_699_200),
    // 2026-03-29T02:30Z: the clock moves on for good.
    ("<-03>3", "<-02>2", 1_774_751_400),
    // 2026-03-29T02:30Z: the change moves to another week.
    ("CET-1CEST,M3.5.0,M10.5.0/3", "CET-1CEST,M4.1.0,M10.1.0/3", 1_774_751_400),
];
/// 2026-03-25 to 2026-04-09.
const FROM: i64 = 1_774_396_800;
const UNTIL: i64 = FROM + 15 * 86_400;

#[test]
fn after_the_news_every_fire_is_the_new_rules_and_before_it_the_old_ones() {
    let mut fires = 0;
    for (old, new, news) in NEWS {
        for expression in samples(12) {
            fires += check(&Expression { second: None, ..expression }, old, new, news);
        }
    }
    assert!(fires > 1000, "{fires}");
}

fn check(expression: &Expression, old: &str, new: &str, news: i64) -> usize {
    let Ok(cron) = Cron::parse(&expression.to_string(), "UTC") else { return 0 };
    let zone = |rules: &str| TimeZone::posix(rules).unwrap();
    let under = |rules: &str| Cron { zone: zone(rules), ..cron.clone() };
    let (before, after) = (under(old), under(new));

    let mut expected = expression.fires(&zone(old), FROM, news, 60);
    // The walk under the new rules starts in good time, as if they had always held.
    let later = expression.fires(&zone(new), FROM, UNTIL, 60);
    expected.extend(later.into_iter().filter(|second| *second > news));

    let mut found = Vec::new();
    let mut last = Timestamp::from_millis(FROM * 1000 - 1);
    loop {
        // What was fired under the old rules stays fired: only what comes after it is asked for.
        let due = before.next(last).filter(|due| *due <= Timestamp::from_millis(news * 1000));
        let due = due.or_else(|| after.next(last.max(Timestamp::from_millis(news * 1000))));
        let Some(due) = due.filter(|due| *due <= Timestamp::from_millis(UNTIL * 1000)) else { break };
        assert!(due > last);
        found.push(due.as_millis() / 1000);
        last = due;
    }
    assert_eq!(found, expected, "{expression:?} from {old} to {new}");
    found.len()
}
