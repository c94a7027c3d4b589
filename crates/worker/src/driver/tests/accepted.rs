//! Cancels of attempts whose service may work on.

use punctual_core::task::{Accept, Http, Method};

use super::*;

/// An attempt of work that a service accepts, with this number.
fn accepted_elsewhere(run: i64, token: u64, attempt: u32) -> Assignment {
    let accept = Some(Accept { poll: Duration::from_secs(5), all: None });
    let http = Http { method: Method::Post, accept, ..Http::get("http://example.com") };
    let definition = Arc::new(Definition::of(Task::Http(Box::new(http))));
    Assignment { attempt, definition, ..assignment(run, token) }
}

/// The runs that are executed or stopped, in order.
fn executed_or_stopped(outputs: &[Output]) -> Vec<(RunId, Option<Stop>)> {
    let orders = outputs.iter().filter_map(|output| match output {
        Output::Execute { assignment, .. } => Some((assignment.run, None)),
        Output::Stop { run, why } => Some((*run, Some(*why))),
        _ => None,
    });
    orders.collect()
}

#[test]
fn a_cancelled_attempt_in_line_cancels_the_work_of_an_earlier_one() {
    for cause in [Cause::User, Cause::Timeout, Cause::Replaced, Cause::JobDeleted] {
        let mut rig = Rig::new(1);
        rig.assign(A, assignment(1, 1));
        assert!(executed(&rig.assign(A, accepted_elsewhere(2, 2, 2))).is_empty(), "the worker is full");
        let outputs = rig.cancel(2, 2, cause);
        let stopped = [(RunId(2), None), (RunId(2), Some(Stop::Cancelled(cause)))];
        assert_eq!(executed_or_stopped(&outputs), stopped, "beyond the slots");
        let ended = rig.stopped(2, Stop::Cancelled(cause));
        assert_eq!((outcomes(&ended).len(), executed(&ended)), (1, vec![]));
    }
}

#[test]
fn a_cancelled_attempt_waits_for_the_end_of_the_older_one() {
    let mut rig = Rig::new(2);
    rig.assign(A, accepted_elsewhere(1, 5, 1));
    rig.assign(A, accepted_elsewhere(1, 6, 2));
    let user = Stop::Cancelled(Cause::User);
    assert!(executed_or_stopped(&rig.cancel(1, 6, Cause::User)).is_empty());
    assert!(executed_or_stopped(&rig.cancel(1, 6, Cause::Timeout)).is_empty());
    let ended = rig.end(1);
    assert_eq!(executed_or_stopped(&ended), [(RunId(1), None), (RunId(1), Some(user))]);
    assert_eq!(rig.holding(), [key(1, 6)]);
}

#[test]
fn a_cancelled_attempt_that_has_no_work_to_cancel_does_not_start() {
    for (assigned, cause) in [
        (accepted_elsewhere(2, 1, 1), Cause::User),
        (accepted_elsewhere(2, 1, 2), Cause::UserNow),
        (accepted_elsewhere(2, 1, 2), Cause::Moved),
        (Assignment { attempt: 2, ..assignment(2, 1) }, Cause::User),
    ] {
        let mut rig = Rig::new(1);
        rig.assign(A, assignment(1, 1));
        rig.assign(A, assigned);
        let outputs = rig.cancel(2, 1, cause);
        assert_eq!((outcomes(&outputs).len(), executed(&outputs)), (1, vec![]), "{cause:?}");
    }
}

#[test]
fn a_worker_that_stops_gives_back_a_cancelled_attempt_too() {
    let mut rig = Rig::new(1);
    rig.assign(A, accepted_elsewhere(1, 5, 1));
    rig.assign(A, accepted_elsewhere(1, 6, 2));
    rig.cancel(1, 6, Cause::User);
    let declined = Report::Declined { run: RunId(1), token: Token(6) };
    assert!(rig.step(Input::Stop).contains(&Output::Say { to: A, report: declined }));
    assert!(executed(&rig.end(1)).is_empty());
}
