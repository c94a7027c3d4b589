//! Runs as people read them: one run with its attempts and events, or a table of runs.

use std::slice;
use std::time::Duration;

use comfy_table::Cell;
use punctual_core::Timestamp;
use punctual_core::run::Status;
use punctual_core::run::Trigger;
use punctual_wire::job_file::{Route, Strategy};
use punctual_wire::rest::{Attempt, BackfillSpan, Child, Event, Run, Shard};

use crate::cli::output::{Output, fields_with_state, one_line, text, tone};
use crate::cli::time;
use crate::wiring;

pub(crate) fn describe(output: Output, run: &Run) -> String {
    let now = wiring::now();
    let job = run.job.as_ref().map(|job| {
        let revision = run.revision.map(|revision| format!(", revision {revision}")).unwrap_or_default();
        format!("{}/{job}{revision}", run.namespace)
    });
    let facts = [
        ("run", Some(run.id.to_string())),
        ("job", job.or_else(|| Some(format!("none, in {}", run.namespace)))),
        ("state", Some(run.state.to_string())),
        ("reason", run.reason.clone()),
        ("trigger", Some(trigger(run))),
        ("due", Some(time::both(run.due_at.0, now))),
        ("created", Some(time::both(run.created_at.0, now))),
        ("started", run.started_at.map(|at| time::both(at.0, now))),
        ("finished", run.finished_at.map(|at| time::both(at.0, now))),
        ("late by", late(run)),
        ("took", took(run)),
        ("attempt", Some(run.attempt.to_string())),
        ("worker", run.worker.clone()),
        ("progress", progress(run, now)),
        (
            "checkpoint",
            run.checkpoint.as_ref().map(|kept| format!("{}, {}", kept.value, time::both(kept.at.0, now))),
        ),
        ("key", run.key.clone()),
        ("route", run.route.as_ref().map(route)),
        ("backfill", run.backfill.as_ref().map(backfill)),
        ("child of", run.parent.map(|parent| format!("run {parent}"))),
        ("shard", run.shard.map(|Shard { index, total }| format!("{index} of {total}, counted from 0"))),
        ("retry of", run.retry_of.map(|run| run.to_string())),
        ("by hand", by_hand(run, now)),
        ("exit code", run.exit_code.map(|code| code.to_string())),
        ("error", run.error.clone()),
        ("output", run.output.clone()),
    ];
    let facts = fields_with_state(&facts, output, tone(run.state.0));
    let attempts = run.attempts.as_deref().filter(|attempts| attempts.len() > 1);
    let attempts = attempts.map(|_| attempts_table(output, slice::from_ref(run)));
    let story = run.events.as_deref().filter(|events| !events.is_empty()).map(|events| story(output, events));
    let children = run.children.as_deref().map(|children| children_table(output, children));
    [Some(facts), children, attempts, story].into_iter().flatten().collect::<Vec<_>>().join("\n\n")
}

fn backfill(span: &BackfillSpan) -> String {
    format!("{} due times from {} to {}", span.total, span.from, span.to)
}

/// Who asked for the run, paused it, resumed it and cancelled it, one line for each.
fn by_hand(run: &Run, now: Timestamp) -> Option<String> {
    let told = run.by_hand.iter().flatten().filter_map(|event| {
        let by_hand = event.by_hand.as_ref()?;
        let what = match event.what.as_str() {
            "created" if run.trigger.0 == Trigger::Backfill => "asked for",
            "created" => "retried",
            "cancel_asked" => "cancelled",
            other => other,
        };
        Some(format!("{what} {}, {}", by_hand.told(), time::both(by_hand.at.0, now)))
    });
    let lines: Vec<String> = told.collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// What its attempt last reported, and when.
fn progress(run: &Run, now: Timestamp) -> Option<String> {
    let (words, at) = (progress_words(run)?, run.progress_at?);
    Some(format!("{words} ({})", time::both(at.0, now)))
}

pub(super) fn progress_words(run: &Run) -> Option<String> {
    how_far(run.progress, run.progress_message.as_deref())
}

/// The percentage as a bar and a number, and the message.
pub(super) fn how_far(percent: Option<u8>, message: Option<&str>) -> Option<String> {
    let percent = percent.map(|percent| {
        let done = usize::from(percent.min(100) / 10);
        format!("{}{} {percent}%", "█".repeat(done), "░".repeat(10 - done))
    });
    let words: Vec<String> = [percent, message.map(str::to_owned)].into_iter().flatten().collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// The strategy of a route, and its selector.
fn route(route: &Route) -> String {
    let strategy = route.strategy.map(word).unwrap_or_default();
    let labels = route.selector.iter().flatten().map(|(name, value)| format!("{name}={value}"));
    let labels: Vec<String> = labels.collect();
    let selector = (!labels.is_empty()).then(|| format!("workers with {}", labels.join(", ")));
    let shards = route.shards.map(|shards| format!("{shards} shards"));
    [Some(strategy), selector, shards].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

pub(super) fn word(strategy: Strategy) -> String {
    let word = serde_json::to_value(strategy).ok();
    word.as_ref().and_then(|word| word.as_str()).unwrap_or_default().to_owned()
}

fn children_table(output: Output, children: &[Child]) -> String {
    let has_dues = children.iter().any(|child| child.due_at.is_some());
    let titles = ["CHILD", "RUN", "STATE", "WORKER", "DUE (UTC)"];
    let mut table = output.table(&titles[..if has_dues { 5 } else { 4 }]);
    for child in children {
        let due = child.due_at.map(Cell::new);
        let cells = [
            Cell::new(child.index),
            Cell::new(child.run),
            child.state.map_or_else(|| Cell::new("-"), |state| output.state(state.0)),
            Cell::new(child.worker.as_deref().unwrap_or("-")),
        ];
        table.add_row(cells.into_iter().chain(due));
    }
    text(table)
}

fn story(output: Output, events: &[Event]) -> String {
    let mut table = output.table(&["EVENT", "AT (UTC)", "WHAT", "STATE", "TOKEN"]);
    for event in events {
        table.add_row([
            Cell::new(event.seq),
            Cell::new(event.at),
            Cell::new(event.what.replace('_', " ")),
            output.state(event.to.0),
            Cell::new(event.token.map_or("-".to_owned(), |token| token.to_string())),
        ]);
    }
    text(table)
}

pub(super) fn table(output: Output, runs: &[Run], now: Timestamp) -> String {
    let titles = ["ID", "JOB", "STATE", "TRIGGER", "DUE (UTC)", "LATE", "TOOK", "ATTEMPT", "RESULT"];
    let spare = ["ATTEMPT", "TRIGGER", "LATE", "TOOK", "RESULT", "DUE (UTC)"];
    let mut table = output.table(&titles).sparing(&spare);
    for run in runs {
        table.add_row([
            Cell::new(run.id),
            Cell::new(job(run)),
            output.state(run.state.0),
            Cell::new(trigger(run)),
            Cell::new(output.time(run.due_at.0, now)),
            Cell::new(late(run).unwrap_or_else(|| "-".to_owned())),
            Cell::new(took(run).unwrap_or_else(|| "-".to_owned())),
            Cell::new(run.attempt),
            Cell::new(result(run)),
        ]);
    }
    text(table)
}

/// Every attempt of the runs, newest run first.
pub(super) fn attempts_table(output: Output, runs: &[Run]) -> String {
    let mut table = output.table(&["RUN", "ATTEMPT", "WORKER", "ASSIGNED (UTC)", "TOOK", "RESULT", "ERROR"]);
    for run in runs {
        for attempt in run.attempts.iter().flatten() {
            table.add_row(attempt_row(run, attempt));
        }
    }
    text(table)
}

fn attempt_row(run: &Run, attempt: &Attempt) -> [String; 7] {
    let none = || "-".to_owned();
    let begun = attempt.started_at.unwrap_or(attempt.assigned_at);
    let result = match (attempt.result, attempt.exit_code) {
        (None, _) => "under way".to_owned(),
        (Some(result), Some(code)) if code != 0 => format!("{} ({code})", result.as_str()),
        (Some(result), _) => result.as_str().to_owned(),
    };
    [
        run.id.to_string(),
        attempt.number.to_string(),
        attempt.worker.clone().unwrap_or_else(none),
        attempt.assigned_at.to_string(),
        attempt.finished_at.map_or_else(none, |end| time::took(begun.0, end.0)),
        result,
        attempt.error.as_deref().map_or_else(none, |error| one_line(error, 60)),
    ]
}

/// How late a run started.
fn late(run: &Run) -> Option<String> {
    run.lateness_ms.map(|millis| time::span(Duration::from_millis(millis)))
}

/// The job of a run; for a child run also its part.
pub(super) fn job(run: &Run) -> String {
    let name = run.job.as_ref().map_or("-".to_owned(), ToString::to_string);
    match run.shard {
        Some(Shard { index, total }) => format!("{name} [{index}/{total}]"),
        None => name,
    }
}

/// From the start of the first attempt to the end of the run, as in `job log`.
fn took(run: &Run) -> Option<String> {
    let late = Duration::from_millis(run.lateness_ms?);
    let late_from = match run.trigger.0 {
        Trigger::Schedule | Trigger::Misfire => run.due_at.0,
        _ => run.due_at.0.max(run.created_at.0),
    };
    Some(time::took(late_from + late, run.finished_at?.0))
}

fn trigger(run: &Run) -> String {
    run.trigger.to_string()
}

/// The result of a run on one line: the reason, else how far it is, else the error, else the output.
pub(super) fn result(run: &Run) -> String {
    let far = if run.state.0 == Status::Running { progress_words(run) } else { None };
    let said = run.reason.as_ref().or(far.as_ref()).or(run.error.as_ref()).or(run.output.as_ref());
    match (said, run.exit_code) {
        (Some(said), _) => one_line(said, 60),
        (None, Some(code)) => format!("exit code {code}"),
        (None, None) => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use punctual_wire::Text;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_run_took_from_its_first_start_to_its_end() {
        let ended = json!({
            "id": "7", "namespace": "default", "job": "a", "trigger": "schedule", "state": "succeeded", "attempt": 2,
            "due_at": "2027-01-15T08:00:00Z", "created_at": "2027-01-15T08:00:00Z", "lateness_ms": 1000,
            "started_at": "2027-01-15T08:00:30Z", "finished_at": "2027-01-15T08:00:31Z",
        });
        let ended: Run = serde_json::from_value(ended).unwrap();
        assert_eq!(took(&ended).as_deref(), Some("30s"), "the first attempt and the delay count");
        let asked = Run { trigger: Text(Trigger::Retry), due_at: Text(Timestamp::from_millis(0)), ..ended };
        assert_eq!(took(&asked).as_deref(), Some("30s"), "it was asked for later than due");
        assert_eq!(took(&Run { lateness_ms: None, ..asked }), None);
    }
}
