//! Decides what follows from each poll of accepted work. It does no I/O. What a service tells by itself counts as a poll.
//!
//! ```text
//!  first attempt ──────────────────────────▶ start ──▶ watching ──▶ succeeded, failed
//!  later attempt ──▶ asking ──unknown, failed──▶ ┘        ▲
//!                       └──running, succeeded─────────────┘
//! ```
//!
//! A later attempt asks first, because the work of an earlier one may still run: its worker was lost, or could not reach
//! the receiver.

use punctual_core::limits::HTTP_POLLS_FAILED_MAX;
use punctual_core::progress::Progress;
use punctual_wire::execution::{Execution, Status};
use serde_json::Value;

/// Follows one execution.
#[derive(Debug)]
pub(super) struct Watch {
    /// Whether the work of an earlier attempt is looked for.
    is_asking: bool,
    /// Failed polls in a row.
    failed: u32,
    /// The newest report that was passed on.
    reported: Option<Progress>,
}

/// What a poll brought.
#[derive(Debug, Clone)]
pub(in crate::executor) enum Poll {
    Told(Execution),
    /// The receiver does not know the execution; in words.
    Unknown(String),
    /// There was no answer, or it was not understood; in words.
    Failed(String),
}

/// What to do next.
#[derive(Debug, PartialEq)]
pub(super) enum Next {
    Start,
    /// Poll again later.
    Wait,
    Succeeded {
        output: String,
    },
    Failed {
        error: String,
        output: String,
    },
}

/// What follows from a poll.
#[derive(Debug, PartialEq)]
pub(super) struct Step {
    pub(super) report: Option<Progress>,
    /// A line for the log.
    pub(super) note: Option<String>,
    pub(super) next: Next,
}

impl Watch {
    /// For the attempt with this number.
    pub(super) fn new(attempt: u32) -> Watch {
        Watch { is_asking: attempt > 1, failed: 0, reported: None }
    }

    /// Whether the work of an earlier attempt is looked for before it is started.
    pub(super) fn is_asking(&self) -> bool {
        self.is_asking
    }

    /// The receiver has accepted the work.
    pub(super) fn started(&mut self) {
        self.is_asking = false;
    }

    pub(super) fn take(&mut self, poll: Poll) -> Step {
        match poll {
            Poll::Unknown(_) if self.is_asking => Step::to(Next::Start),
            Poll::Unknown(why) | Poll::Failed(why) => self.count(&why),
            Poll::Told(Execution { status: Status::Failed, .. }) if self.is_asking => Step::to(Next::Start),
            Poll::Told(execution) => self.told(execution),
        }
    }

    fn count(&mut self, why: &str) -> Step {
        self.failed += 1;
        if self.failed < HTTP_POLLS_FAILED_MAX {
            return Step { note: Some(format!("a poll failed: {why}")), ..Step::to(Next::Wait) };
        }
        let error = format!("{HTTP_POLLS_FAILED_MAX} polls in a row failed, the last one: {why}");
        Step::to(Next::Failed { error, output: String::new() })
    }

    fn told(&mut self, execution: Execution) -> Step {
        self.failed = 0;
        let is_adopted = std::mem::take(&mut self.is_asking);
        let Execution { status, progress, message, result } = execution;
        let report = progress.filter(|progress| self.reported.as_ref() != Some(progress));
        if report.is_some() {
            self.reported.clone_from(&report);
        }
        let output = result.map(in_text).unwrap_or_default();
        let next = match status {
            Status::Running => Next::Wait,
            Status::Succeeded => Next::Succeeded { output },
            Status::Failed => {
                let error = message.unwrap_or_else(|| "the receiver says that the work failed".to_owned());
                Next::Failed { error, output }
            }
        };
        let note = is_adopted.then(|| "follows the work that an earlier attempt started".to_owned());
        Step { report, note, next }
    }
}

impl Step {
    pub(super) fn to(next: Next) -> Step {
        Step { report: None, note: None, next }
    }
}

fn in_text(result: Value) -> String {
    match result {
        Value::Null => String::new(),
        Value::String(text) => text,
        json => json.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Poll {
        Poll::Told(Execution::parse(text.as_bytes()).unwrap())
    }

    fn lost() -> Poll {
        Poll::Failed("no answer".to_owned())
    }

    fn unknown() -> Poll {
        Poll::Unknown("status 404".to_owned())
    }

    #[test]
    fn progress_is_reported_when_it_changes() {
        let mut watch = Watch::new(1);
        watch.started();
        let step = watch.take(told(r#"{"status": "running", "progress": 10}"#));
        assert_eq!((step.report, step.next), (Some(Progress::percent(10)), Next::Wait));
        assert_eq!(watch.take(told(r#"{"status": "running", "progress": 10}"#)), Step::to(Next::Wait));
        assert_eq!(watch.take(told(r#"{"status": "running"}"#)), Step::to(Next::Wait));
        let step = watch.take(told(r#"{"status": "succeeded", "progress": 100, "result": {"rows": 7}}"#));
        assert_eq!(step.report, Some(Progress::percent(100)));
        assert_eq!(step.next, Next::Succeeded { output: r#"{"rows":7}"#.to_owned() });
    }

    #[test]
    fn work_that_failed_ends_with_its_message_and_its_result() {
        let mut watch = Watch::new(1);
        watch.started();
        let next = watch.take(told(r#"{"status": "failed", "message": "no space", "result": "row 3"}"#)).next;
        assert_eq!(next, Next::Failed { error: "no space".to_owned(), output: "row 3".to_owned() });
    }

    #[test]
    fn five_failed_polls_in_a_row_fail_the_attempt() {
        let mut watch = Watch::new(1);
        watch.started();
        for _ in 0..2 {
            for poll in [lost(), unknown(), lost(), lost()] {
                assert_eq!(watch.take(poll).next, Next::Wait);
            }
            // An answer in between begins the row anew.
            assert_eq!(watch.take(told(r#"{"status": "running"}"#)).next, Next::Wait);
        }
        for _ in 0..4 {
            assert_eq!(watch.take(lost()).note.as_deref(), Some("a poll failed: no answer"));
        }
        let Next::Failed { error, .. } = watch.take(unknown()).next else { panic!("it goes on") };
        assert_eq!(error, "5 polls in a row failed, the last one: status 404");
    }

    #[test]
    fn a_later_attempt_adopts_work_that_still_runs() {
        let mut watch = Watch::new(2);
        assert!(watch.is_asking());
        let step = watch.take(told(r#"{"status": "running", "progress": 40}"#));
        assert_eq!((step.report, step.next), (Some(Progress::percent(40)), Next::Wait));
        assert_eq!(step.note.as_deref(), Some("follows the work that an earlier attempt started"));
        assert!(!watch.is_asking());
        assert_eq!(watch.take(unknown()).next, Next::Wait, "it is not started again");
    }

    #[test]
    fn a_later_attempt_takes_the_result_of_work_that_has_succeeded() {
        let next = Watch::new(2).take(told(r#"{"status": "succeeded", "result": "done"}"#)).next;
        assert_eq!(next, Next::Succeeded { output: "done".to_owned() });
    }

    #[test]
    fn a_later_attempt_starts_work_that_failed_or_never_began() {
        for poll in [unknown(), told(r#"{"status": "failed"}"#)] {
            assert_eq!(Watch::new(2).take(poll), Step::to(Next::Start));
        }
    }

    #[test]
    fn nothing_is_started_while_the_receiver_cannot_be_asked() {
        let mut watch = Watch::new(2);
        for _ in 0..4 {
            assert_eq!(watch.take(lost()).next, Next::Wait);
        }
        assert!(matches!(watch.take(lost()).next, Next::Failed { .. }));
        assert!(!Watch::new(1).is_asking());
    }
}
