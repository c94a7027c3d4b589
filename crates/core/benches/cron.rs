//! How long the next occurrence of a cron takes to find: `cargo bench -p punctual-core --bench cron`.
//!
//! Each expression is asked from many instants of its own run of fires, in a zone whose clocks change; beside it stands
//! croner, asked the same in the same run, because a figure by itself says more about the machine than about the code.
//! The slowest question counts, not the mean: a search that is fast on average may still walk forty years once.
//! With `--bench` a figure over its bar fails the run.

#![expect(clippy::unwrap_used, reason = "a benchmark may stop at the first surprise")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use croner::parser::CronParser;
use jiff::Zoned;
use jiff::tz::TimeZone;
use punctual_core::Timestamp;
use punctual_core::schedule::{Cron, Language};

const ZONE: &str = "America/New_York";
const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);
/// What any expression may take, and what the rarest may.
const BAR: Duration = Duration::from_micros(20);
const BAR_SPARSE: Duration = Duration::from_micros(200);

/// An expression, whether it is sparse, and whether croner reads it too.
const ROWS: [(&str, bool, bool); 17] = [
    ("* * * * * *", false, true),
    ("* * * * *", false, true),
    ("*/5 * * * *", false, true),
    ("*/7 9-17 * * MON-FRI", false, true),
    ("30 2 * * *", false, true),
    ("0 1 * * *", false, true),
    ("0 0 13 * FRI", false, true),
    ("0 0 L * *", false, true),
    ("0 0 LW * *", false, true),
    ("0 0 15W * *", false, true),
    ("0 9 * * 5#5", false, true),
    ("0 0 L-3W 2,6 *", false, false),
    ("0 0 29 2 *", false, true),
    // 29 February on a Monday: the 5th Monday of a February.
    ("0 0 ? 2 MON#5", true, true),
    // The same by every minute, which follows elapsed time from one change of the clocks to the next.
    ("* * ? 2 MON#5", true, true),
    // Over long ago, and not yet for long.
    ("0 0 0 1 1 ? 2020", false, false),
    ("0 0 0 29 2 ? 2096", false, false),
];

fn main() {
    // `cargo test --benches` only wants to know that it runs.
    let is_bench = std::env::args().any(|arg| arg == "--bench");
    let questions = if is_bench { 2_000 } else { 20 };
    println!("{:<22} {:>12} {:>12} {:>12} {:>8}", "next() of", "median", "slowest", "croner", "times");
    let mut over = Vec::new();
    for (text, sparse, shared) in ROWS {
        let cron = Cron::parse(text, ZONE).unwrap();
        let ours = measure(&instants(&cron, questions), |at| {
            black_box(cron.next(black_box(*at)));
        });
        let theirs = shared.then(|| croners(text, &cron, questions / 10));
        let ratio = theirs.map_or("-".to_owned(), |theirs| {
            format!("{:.1}", theirs.as_secs_f64() / ours.median.as_secs_f64())
        });
        let theirs = theirs.map_or("-".to_owned(), |theirs| format!("{theirs:.2?}"));
        let (median, slowest) = (format!("{:.2?}", ours.median), format!("{:.2?}", ours.slowest));
        println!("{text:<22} {median:>12} {slowest:>12} {theirs:>12} {ratio:>8}");
        let bar = if sparse { BAR_SPARSE } else { BAR };
        if ours.slowest > bar {
            over.push(format!("`{text}` took {slowest}, the bar is {bar:?}"));
        }
    }
    let cron = Cron::parse("*/10 8-18 * 6-8 MON-FRI", ZONE).unwrap();
    let words = measure(&vec![(); questions], |()| {
        black_box(cron.describe(Language::English));
    });
    println!("{:<22} {:>12}", "describe()", format!("{:.2?}", words.median));
    assert!(!is_bench || over.is_empty(), "{}", over.join("; "));
}

/// Instants to ask from: each fire, and each middle between two.
fn instants(cron: &Cron, count: usize) -> Vec<Timestamp> {
    let mut at = START;
    let mut instants = Vec::new();
    while instants.len() < count {
        let due = cron.next(at).unwrap_or(START);
        let middle = Timestamp::from_millis(i64::midpoint(at.as_millis(), due.as_millis()));
        instants.extend([at, middle]);
        at = due;
    }
    instants
}

struct Timings {
    median: Duration,
    slowest: Duration,
}

/// Asks every question several times and keeps its best time: slower times are noise of the machine.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures")]
fn measure<T>(questions: &[T], mut ask: impl FnMut(&T)) -> Timings {
    let mut taken: Vec<Duration> = vec![Duration::MAX; questions.len()];
    for _ in 0..5 {
        for (best, question) in taken.iter_mut().zip(questions) {
            let start = Instant::now();
            ask(question);
            *best = (*best).min(start.elapsed());
        }
    }
    taken.sort_unstable();
    Timings { median: taken[taken.len() / 2], slowest: taken[taken.len() - 1] }
}

fn croners(text: &str, ours: &Cron, questions: usize) -> Duration {
    let theirs = CronParser::new().parse(text).unwrap();
    let zone = TimeZone::get(ZONE).unwrap();
    let zoned = |at: &Timestamp| Zoned::new((*at).into(), zone.clone());
    let questions: Vec<Zoned> = instants(ours, questions).iter().map(zoned).collect();
    let ask = |at: &Zoned| {
        let _ = black_box(theirs.find_next_occurrence(black_box(at), false));
    };
    measure(&questions, ask).median
}
