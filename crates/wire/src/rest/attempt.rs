//! The attempts of a run, each with its times, its worker and its result.

use punctual_core::Timestamp;
use punctual_core::run::{self as rule, Run, What};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;
use crate::text::{Instant, Text};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Attempt {
    /// From 1.
    pub number: u32,
    #[schema(value_type = schema::Id)]
    pub token: Text<u64>,
    pub worker: Option<String>,
    pub assigned_at: Instant,
    /// When the worker reported its start. `null` means it has not.
    pub started_at: Option<Instant>,
    /// `null` means the attempt has not ended.
    pub finished_at: Option<Instant>,
    /// `null` means the attempt has not ended.
    pub result: Option<AttemptResult>,
    pub exit_code: Option<i32>,
    pub error: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AttemptResult {
    Succeeded,
    Failed,
    TimedOut,
    Cancelled,
    /// Its worker vanished.
    Lost,
    /// Its worker gave it back before it had begun.
    Moved,
}

impl AttemptResult {
    pub fn as_str(self) -> &'static str {
        match self {
            AttemptResult::Succeeded => "succeeded",
            AttemptResult::Failed => "failed",
            AttemptResult::TimedOut => "timed_out",
            AttemptResult::Cancelled => "cancelled",
            AttemptResult::Lost => "lost",
            AttemptResult::Moved => "moved",
        }
    }
}

/// The traces of one attempt in its run.
struct Left<'a> {
    worker: Option<String>,
    started_at: Option<Timestamp>,
    exit_code: Option<i32>,
    error: &'a str,
}

impl Attempt {
    /// Every attempt of a run, in order.
    pub fn all(run: &Run) -> Vec<Attempt> {
        let assigned = run.entries.iter().filter(|entry| entry.what == What::Assigned);
        assigned.enumerate().map(|(index, entry)| Attempt::nth(run, index, entry)).collect()
    }

    fn nth(run: &Run, index: usize, assigned: &rule::Entry) -> Attempt {
        let end = end_of(run, assigned);
        let result = end.map(|end| result_of(run, end));
        let left = left_by(run, index);
        // Use exit code and error only if the attempt reported an end: a lost attempt reported nothing, and
        // the run still has the values of an earlier one.
        let told = result.is_some_and(|result| !matches!(result, AttemptResult::Lost | AttemptResult::Moved));
        Attempt {
            number: u32::try_from(index).unwrap_or(u32::MAX).saturating_add(1),
            token: Text(assigned.token.0),
            worker: left.worker,
            assigned_at: Text(assigned.at),
            started_at: left.started_at.filter(|at| *at >= assigned.at).map(Text),
            finished_at: end.map(|end| Text(end.at)),
            result,
            exit_code: left.exit_code.filter(|_| told),
            error: (told && !left.error.is_empty()).then(|| left.error.to_owned()),
        }
    }
}

fn end_of<'a>(run: &'a Run, assigned: &rule::Entry) -> Option<&'a rule::Entry> {
    let ends = |what| matches!(what, What::Ended | What::Failed | What::Lost | What::Moved);
    run.entries.iter().find(|entry| entry.token == assigned.token && ends(entry.what))
}

fn result_of(run: &Run, end: &rule::Entry) -> AttemptResult {
    // A stopped attempt that is retried can only have been stopped by its timeout.
    let stopped =
        || run.entries.iter().any(|entry| entry.token == end.token && entry.what == What::CancelAsked);
    match (end.what, end.to) {
        (What::Lost, _) => AttemptResult::Lost,
        (What::Moved, _) => AttemptResult::Moved,
        (_, rule::Status::Succeeded) => AttemptResult::Succeeded,
        (_, rule::Status::TimedOut) => AttemptResult::TimedOut,
        (_, rule::Status::Cancelled) => AttemptResult::Cancelled,
        (What::Failed, _) if stopped() => AttemptResult::TimedOut,
        _ => AttemptResult::Failed,
    }
}

fn left_by(run: &Run, index: usize) -> Left<'_> {
    match run.earlier.get(index) {
        Some(earlier) => Left {
            worker: Some(earlier.assignee.to_string()),
            started_at: earlier.started_at,
            exit_code: earlier.exit_code,
            error: &earlier.error,
        },
        None => Left {
            worker: run.assignee.as_ref().map(ToString::to_string),
            started_at: run.started_at,
            exit_code: run.exit_code,
            error: &run.error,
        },
    }
}

/// The delay of the first start, from the due time, or from a manual request that came later.
pub(super) fn lateness_ms(run: &Run) -> Option<u64> {
    u64::try_from(run.first_start()?.since(run.late_from()).as_millis()).ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use punctual_core::attempt::Outcome;
    use punctual_core::ids::{Epoch, RunId, Token, WorkerId};
    use punctual_core::job::Definition;
    use punctual_core::name::Namespace;
    use punctual_core::retry::Retry;
    use punctual_core::run::{Cause, Event, Origin, Trigger};
    use punctual_core::task::Task;

    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000 + millis)
    }

    /// Fails, is stopped at its timeout, is lost, succeeds: each on another worker.
    fn storied() -> Run {
        let retry = Retry { attempts: 9, delay: Duration::ZERO, ..Retry::default() };
        let definition = Arc::new(Definition { retry, ..Definition::of(Task::Noop) });
        let origin = Origin::AdHoc(Arc::clone(&definition));
        let mut run = Run::new(RunId(7), Namespace::default(), origin, Trigger::Submit, at(0), at(0));
        let mut apply = |event, millis| run.apply(event, &definition, at(millis)).unwrap();
        let mut token = Token::default();
        let mut begin = |millis: i64, apply: &mut dyn FnMut(Event, i64)| {
            token = token.next(Epoch(1));
            apply(Event::Due, millis);
            let worker = WorkerId(Arc::from(format!("w{}", millis / 100)));
            apply(Event::Assigned { worker, token }, millis);
            token
        };
        let first = begin(100, &mut apply);
        let failed = Outcome { exit_code: Some(3), ..Outcome::failed(at(120), "it broke") };
        apply(Event::Reported { token: first, outcome: failed }, 150);
        let second = begin(200, &mut apply);
        apply(Event::CancelAsked(Cause::Timeout), 250);
        let outcome = Outcome::failed(at(220), "stopped");
        apply(Event::Reported { token: second, outcome }, 260);
        let third = begin(300, &mut apply);
        apply(Event::Lost { token: third }, 350);
        let fourth = begin(400, &mut apply);
        let outcome = Outcome { exit_code: Some(0), ..Outcome::succeeded(at(410)) };
        apply(Event::Reported { token: fourth, outcome }, 450);
        run
    }

    #[test]
    fn every_attempt_tells_its_times_its_worker_and_its_end() {
        let attempts = Attempt::all(&storied());
        let ends: Vec<_> = attempts.iter().map(|attempt| attempt.result.unwrap()).collect();
        use AttemptResult::{Failed, Lost, Succeeded, TimedOut};
        assert_eq!(ends, [Failed, TimedOut, Lost, Succeeded]);
        let workers: Vec<_> = attempts.iter().map(|attempt| attempt.worker.as_deref().unwrap()).collect();
        assert_eq!(workers, ["w1", "w2", "w3", "w4"]);
        let started: Vec<_> = attempts.iter().map(|attempt| attempt.started_at.map(|at| at.0)).collect();
        assert_eq!(started, [Some(at(120)), Some(at(220)), None, Some(at(410))]);
        let codes: Vec<_> = attempts.iter().map(|attempt| attempt.exit_code).collect();
        assert_eq!(codes, [Some(3), None, None, Some(0)]);
        assert_eq!(attempts[0].error.as_deref(), Some("it broke"));
        assert_eq!(attempts[2].error, None, "a lost attempt reported nothing");
        assert!(attempts.iter().zip(1..).all(|(attempt, number)| attempt.number == number));
    }

    #[test]
    fn a_run_is_late_by_its_first_start() {
        assert_eq!(lateness_ms(&storied()), Some(120));
        let retried = Run { trigger: Trigger::Retry, due: at(-86_400_000), ..storied() };
        assert_eq!(
            lateness_ms(&retried),
            Some(120),
            "a retry is late from its request, not from its due time"
        );
    }
}
