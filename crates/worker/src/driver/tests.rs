use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::ids::Token;
use punctual_core::job::Definition;
use punctual_core::name::Namespace;
use punctual_core::run::{Cause, Part, Trigger};
use punctual_core::task::Params;

use super::*;

mod accepted;

const LEASE: Duration = Duration::from_secs(15);
const WALL: Timestamp = Timestamp::from_millis(7);
const A: LinkId = LinkId(1);
const B: LinkId = LinkId(2);

fn assignment(run: i64, token: u64) -> Assignment {
    Assignment {
        run: RunId(run),
        token: Token(token),
        attempt: 1,
        namespace: Namespace::default(),
        job: None,
        revision: None,
        trigger: Trigger::Manual,
        key: None,
        due: WALL,
        late_from: WALL,
        definition: Arc::new(Definition::of(Task::Shell("true".to_owned()))),
        params: Params::default(),
        checkpoint: None,
        attempt_key: None,
        step: None,
        part: Part::default(),
        lease: LEASE,
        grace: None,
        again: false,
    }
}

fn again(run: i64, token: u64) -> Assignment {
    Assignment { again: true, ..assignment(run, token) }
}

fn key(run: i64, token: u64) -> Key {
    (RunId(run), Token(token))
}

fn finished(run: i64, token: u64) -> Report {
    Report::Finished { run: RunId(run), token: Token(token), outcome: Outcome::succeeded(WALL) }
}

/// The report of an attempt that its worker gave up.
fn given_up(run: i64, token: u64) -> Report {
    let outcome = Outcome { end: End::Yielded, ..Outcome::failed(WALL, "stopped") };
    Report::Finished { run: RunId(run), token: Token(token), outcome }
}

/// A worker that the nodes A and B have admitted.
struct Rig {
    driver: Driver,
    now: Duration,
}

impl Rig {
    fn new(slots: usize) -> Rig {
        let mut rig = Rig { driver: Driver::new(slots, Kinds::ALL, HEARTBEAT), now: Duration::from_secs(1) };
        let links = [(A, "a"), (B, "b")];
        for (link, name) in links {
            assert_eq!(rig.driver.add_node(&format!("http://{name}:7400")), Some(link));
        }
        for (link, name) in links {
            rig.connect(link, name);
        }
        rig
    }

    fn connect(&mut self, link: LinkId, name: &str) -> Vec<Output> {
        let members = vec!["a:7400".to_owned(), "b:7400".to_owned()];
        let welcome = Welcome { node: name.to_owned(), heartbeat: HEARTBEAT, members };
        let announced = self.step(Input::Welcomed { link, welcome });
        assert!(matches!(announced[0], Output::Announce { to, .. } if to == link), "{announced:?}");
        self.step(Input::Admitted { link })
    }

    fn step(&mut self, input: Input) -> Vec<Output> {
        self.driver.step(input, Now { wall: WALL, elapsed: self.now })
    }

    fn order(&mut self, link: LinkId, order: Order) -> Vec<Output> {
        self.step(Input::Orders { link, orders: vec![order] })
    }

    fn assign(&mut self, link: LinkId, assignment: Assignment) -> Vec<Output> {
        self.order(link, Order::Assign(assignment))
    }

    fn cancel(&mut self, run: i64, token: u64, cause: Cause) -> Vec<Output> {
        self.order(A, Order::Cancel { run: RunId(run), token: Token(token), cause })
    }

    fn acknowledge(&mut self, run: i64, token: u64) -> Vec<Output> {
        self.order(A, Order::Acknowledge { run: RunId(run), token: Token(token) })
    }

    fn end(&mut self, run: i64) -> Vec<Output> {
        self.end_with(run, Outcome::succeeded(WALL))
    }

    fn end_with(&mut self, run: i64, outcome: Outcome) -> Vec<Output> {
        self.step(Input::Ended { run: RunId(run), outcome, stopped: None })
    }

    /// An execution has ended because it was told to stop.
    fn stopped(&mut self, run: i64, why: Stop) -> Vec<Output> {
        let outcome = Outcome::failed(WALL, "stopped");
        self.step(Input::Ended { run: RunId(run), outcome, stopped: Some(why) })
    }

    fn pass(&mut self, time: Duration) -> Vec<Output> {
        self.now += time;
        self.step(Input::Clock)
    }

    /// Every heartbeat is heard by these nodes while the time passes.
    fn pass_heard(&mut self, time: Duration, by: &[LinkId]) -> Vec<Output> {
        let (until, mut outputs) = (self.now + time, Vec::new());
        while self.now < until {
            let said = self.pass(HEARTBEAT.min(until - self.now));
            let beats = said.iter().filter_map(|output| match output {
                Output::Heartbeat { to, beat, .. } if by.contains(to) => Some((*to, *beat)),
                _ => None,
            });
            let beats: Vec<_> = beats.collect();
            outputs.extend(said);
            for (link, beat) in beats {
                outputs.extend(self.step(Input::Heard { link, beat }));
            }
        }
        outputs
    }

    fn holding(&self) -> Vec<Key> {
        self.driver.attempts.holding()
    }
}

fn executed(outputs: &[Output]) -> Vec<Key> {
    let executed = outputs.iter().filter_map(|output| match output {
        Output::Execute { assignment, .. } => Some((assignment.run, assignment.token)),
        _ => None,
    });
    executed.collect()
}

fn stopped(outputs: &[Output]) -> Vec<(RunId, Stop)> {
    let stopped = outputs.iter().filter_map(|output| match output {
        Output::Stop { run, why } => Some((*run, *why)),
        _ => None,
    });
    stopped.collect()
}

/// Outcomes and who is told.
fn outcomes(outputs: &[Output]) -> Vec<(LinkId, Report)> {
    let told = outputs.iter().filter_map(|output| match output {
        Output::Say { to, report: report @ Report::Finished { .. } } => Some((*to, report.clone())),
        _ => None,
    });
    told.collect()
}

#[test]
fn an_attempt_that_is_assigned_again_is_not_started_again() {
    let mut rig = Rig::new(4);
    assert_eq!(executed(&rig.assign(A, assignment(1, 5))), [key(1, 5)]);
    assert_eq!(executed(&rig.assign(A, again(1, 5))), [], "it runs");
    assert_eq!(outcomes(&rig.end(1)), [(A, finished(1, 5))]);
    let ended = rig.assign(B, again(1, 5));
    assert_eq!((executed(&ended), outcomes(&ended)), (vec![], vec![(B, finished(1, 5))]), "it has ended");
    rig.acknowledge(1, 5);
    assert!(executed(&rig.assign(A, again(1, 5))).is_empty(), "it is settled");
    assert!(executed(&rig.assign(A, again(1, 4))).is_empty(), "a newer one is settled");
    assert!(rig.holding().is_empty());
    assert_eq!(executed(&rig.assign(A, assignment(1, 6))), [key(1, 6)]);
}

#[test]
fn a_newer_token_stops_the_older_attempt_and_starts_when_that_has_ended() {
    let mut rig = Rig::new(4);
    rig.assign(A, assignment(1, 5));
    let newer = rig.assign(A, assignment(1, 6));
    assert_eq!((executed(&newer), stopped(&newer)), (vec![], vec![(RunId(1), Stop::Superseded)]));
    assert_eq!(rig.holding(), [key(1, 6)]);
    assert!(rig.assign(A, assignment(1, 7)).iter().all(|output| !matches!(output, Output::Stop { .. })));
    let ended = rig.end(1);
    assert_eq!((outcomes(&ended), executed(&ended)), (vec![], vec![key(1, 7)]));
}

#[test]
fn more_attempts_than_slots_wait_their_turn_and_a_noop_does_not() {
    let mut rig = Rig::new(1);
    rig.assign(A, assignment(1, 1));
    assert!(executed(&rig.assign(A, again(2, 1))).is_empty());
    assert!(executed(&rig.assign(A, again(3, 1))).is_empty());
    let noop = Assignment { definition: Arc::new(Definition::of(Task::Noop)), ..again(4, 1) };
    assert_eq!(outcomes(&rig.assign(A, noop)), [(A, finished(4, 1))]);
    assert_eq!(executed(&rig.end(1)), [key(2, 1)]);
}

#[test]
fn a_cancelled_attempt_that_has_not_started_never_does() {
    let mut rig = Rig::new(1);
    rig.assign(A, assignment(1, 1));
    rig.assign(A, again(2, 1));
    for run in [2, 3] {
        let outcome = Outcome::failed(WALL, "cancelled on request before it started");
        let report = Report::Finished { run: RunId(run), token: Token(1), outcome };
        assert_eq!(outcomes(&rig.cancel(run, 1, Cause::User)), [(A, report.clone())]);
        assert_eq!(outcomes(&rig.assign(A, again(run, 1))), [(A, report)]);
        assert!(outcomes(&rig.cancel(run, 1, Cause::User)).is_empty());
    }
    assert!(executed(&rig.end(1)).is_empty());
}

#[test]
fn the_first_reason_to_stop_is_the_one_that_counts() {
    let mut rig = Rig::new(1);
    rig.assign(A, assignment(1, 1));
    assert_eq!(stopped(&rig.cancel(1, 1, Cause::Timeout)), [(RunId(1), Stop::Cancelled(Cause::Timeout))]);
    assert!(stopped(&rig.step(Input::Stop)).is_empty());
}

#[test]
fn a_stopping_worker_gives_back_what_waits() {
    let mut rig = Rig::new(1);
    rig.assign(A, assignment(1, 1));
    rig.assign(A, again(2, 7));
    let outputs = rig.step(Input::Stop);
    let declined = Report::Declined { run: RunId(2), token: Token(7) };
    assert!(outputs.contains(&Output::Say { to: A, report: declined }), "{outputs:?}");
    assert_eq!(stopped(&outputs), [(RunId(1), Stop::Shutdown)]);
    let yielded = rig.stopped(1, Stop::Shutdown);
    assert_eq!(outcomes(&yielded), [(A, given_up(1, 1))]);
    assert_eq!(rig.holding(), [key(1, 1)], "it is kept until it is acknowledged");
    let outputs = rig.assign(A, assignment(3, 1));
    let declined = Report::Declined { run: RunId(3), token: Token(1) };
    assert!(executed(&outputs).is_empty() && outputs.contains(&Output::Say { to: A, report: declined }));
}

#[test]
fn a_drained_worker_yields_what_runs_and_declines_the_rest() {
    let mut rig = Rig::new(1);
    rig.driver = rig.driver.with_drain_time(LEASE / 3);
    rig.assign(A, assignment(1, 1));
    rig.assign(A, again(2, 1));
    let outputs = rig.order(B, Order::Drain { on: true });
    for to in [A, B] {
        assert!(outputs.contains(&Output::Say { to, report: Report::Draining { on: true } }), "{outputs:?}");
    }
    let declined = |run| Output::Say { to: A, report: Report::Declined { run: RunId(run), token: Token(1) } };
    assert!(outputs.contains(&declined(2)) && stopped(&outputs).is_empty(), "{outputs:?}");
    assert!(rig.assign(A, again(3, 1)).contains(&declined(3)));
    assert!(rig.connect(B, "b").contains(&Output::Say { to: B, report: Report::Draining { on: true } }));
    let outputs = rig.pass_heard(LEASE / 3, &[A, B]);
    assert_eq!(stopped(&outputs), [(RunId(1), Stop::Drained)]);
    assert_eq!(outcomes(&rig.stopped(1, Stop::Drained)), [(A, given_up(1, 1))]);
    let outputs = rig.order(A, Order::Drain { on: false });
    assert!(outputs.contains(&Output::Say { to: B, report: Report::Draining { on: false } }), "{outputs:?}");
    assert_eq!(executed(&rig.assign(A, again(4, 1))), [key(4, 1)]);
}

/// A run that is executed at most once would start again elsewhere.
#[test]
fn a_drained_worker_does_not_decline_what_it_has_executed() {
    let mut rig = Rig::new(1);
    rig.assign(A, assignment(1, 1));
    rig.end(1);
    rig.acknowledge(1, 1);
    rig.order(A, Order::Drain { on: true });
    assert_eq!(rig.assign(A, again(1, 1)), []);
}

#[test]
fn a_cancel_without_grace_follows_any_other_stop() {
    let mut rig = Rig::new(1);
    rig.assign(A, assignment(1, 1));
    let rows = [(Cause::User, true), (Cause::Moved, false), (Cause::UserNow, true), (Cause::UserNow, false)];
    for (cause, stops) in rows {
        let expected = stops.then_some((RunId(1), Stop::Cancelled(cause)));
        assert_eq!(stopped(&rig.cancel(1, 1, cause)), Vec::from_iter(expected));
    }
}

#[test]
fn an_attempt_is_stopped_when_its_lease_ends() {
    let mut rig = Rig::new(2);
    rig.assign(A, assignment(1, 1));
    rig.assign(A, assignment(2, 1));
    rig.end(2);
    assert!(stopped(&rig.pass_heard(2 * LEASE, &[A, B])).is_empty(), "it is heard");
    rig.step(Input::Gone { link: A });
    let outputs = rig.pass_heard(LEASE, &[B]);
    assert_eq!(stopped(&outputs), [(RunId(1), Stop::Unheard)], "A is listed by B, so it lives and leads");
    assert_eq!(rig.holding(), [key(2, 1)], "an outcome is kept");
    assert!(outcomes(&rig.end(1)).is_empty() && executed(&rig.assign(B, again(1, 1))).is_empty());
}

#[test]
fn the_node_that_re_offers_an_attempt_gets_its_reports() {
    let mut rig = Rig::new(2);
    rig.assign(A, assignment(1, 1));
    rig.pass_heard(LEASE / 3, &[A, B]);
    rig.assign(B, again(1, 1));
    assert!(stopped(&rig.pass_heard(2 * LEASE, &[B])).is_empty());
    assert_eq!(outcomes(&rig.end(1)), [(B, finished(1, 1))]);
}

#[test]
fn a_first_offer_that_comes_late_takes_no_attempt_back() {
    let mut rig = Rig::new(2);
    rig.assign(B, again(1, 1));
    rig.assign(A, assignment(1, 1));
    assert_eq!(outcomes(&rig.end(1)), [(B, finished(1, 1))], "A does not lead its shard any more");
}

#[test]
fn an_assignment_read_after_its_lease_is_not_started() {
    let mut rig = Rig::new(2);
    let unused = rig.driver.lender.unused();
    rig.now += LEASE - Duration::from_millis(1);
    assert_eq!(executed(&rig.assign(A, assignment(1, 1))), [key(1, 1)]);
    rig.now += Duration::from_millis(1);
    let outputs = rig.assign(A, assignment(2, 1));
    assert!(executed(&outputs).is_empty(), "it may run elsewhere");
    assert!(outputs.contains(&Output::HangUp { link: A }), "{outputs:?}");
    assert!(rig.driver.lender.unused() <= unused, "{unused}");
}

#[test]
fn an_assignment_uses_its_credit_after_a_re_offer() {
    let mut rig = Rig::new(2);
    let unused = |rig: &Rig| rig.driver.lender.unused();
    let before = unused(&rig);
    rig.assign(B, again(1, 1));
    assert_eq!(unused(&rig), before, "an offer that is made again uses none");
    rig.assign(A, assignment(1, 1));
    assert_eq!(unused(&rig), before - 1, "otherwise a slot stays lent that no node can fill");
}

#[test]
fn an_outcome_is_sent_again_until_it_is_acknowledged() {
    let mut rig = Rig::new(1);
    rig.assign(A, assignment(1, 1));
    assert_eq!(outcomes(&rig.end(1)), [(A, finished(1, 1))]);
    assert!(outcomes(&rig.pass_heard(HEARTBEAT, &[A, B])).is_empty());
    let again = outcomes(&rig.pass_heard(HEARTBEAT, &[A, B]));
    assert_eq!(again, [(A, finished(1, 1)), (B, finished(1, 1))]);
    assert_eq!(outcomes(&rig.order(B, Order::Resend)), [(B, finished(1, 1))]);
    rig.acknowledge(1, 1);
    assert!(outcomes(&rig.pass_heard(3 * HEARTBEAT, &[A, B])).is_empty());
}

#[test]
fn a_node_that_hears_nothing_is_not_sent_the_same_outcomes_over_and_over() {
    let mut rig = Rig::new(1);
    rig.assign(A, assignment(1, 1));
    rig.end(1);
    assert!(outcomes(&rig.pass_heard(LEASE - Duration::from_secs(1), &[])).is_empty());
}

#[test]
fn an_outcome_waits_for_its_output_but_not_for_ever() {
    let mut rig = Rig::new(2);
    for run in [1, 2] {
        rig.assign(A, assignment(run, 1));
        rig.step(Input::Printed(key(run, 1)));
        rig.step(Input::Printed(key(run, 1)));
        assert!(outcomes(&rig.end(run)).is_empty());
        assert!(outcomes(&rig.step(Input::OutputKept(key(run, 1)))).is_empty());
    }
    assert_eq!(outcomes(&rig.step(Input::OutputKept(key(1, 1)))), [(A, finished(1, 1))]);
    assert_eq!(outcomes(&rig.pass_heard(OUTPUT_WAIT_MAX, &[A, B])), [(A, finished(2, 1))]);
}

#[test]
fn unacknowledged_large_outcomes_hold_back_new_starts() {
    let mut rig = Rig::new(100);
    let large = Outcome { output: "x".repeat(1 << 20).into(), ..Outcome::succeeded(WALL) };
    let mut run = 0;
    while !executed(&rig.assign(A, again(run, 1))).is_empty() {
        rig.end_with(run, large.clone());
        run += 1;
    }
    assert_eq!(run, 32, "so many mebibytes");
    assert_eq!(executed(&rig.acknowledge(7, 1)), [key(run, 1)]);
}

#[test]
fn a_worker_that_drains_lends_nothing_and_has_drained_when_all_is_settled() {
    let mut rig = Rig::new(2);
    rig.assign(A, assignment(1, 1));
    let drained = rig.step(Input::Drain(LEASE));
    assert!(drained.iter().any(|output| matches!(output, Output::Say { report: Report::Recall { .. }, .. })));
    let mut outputs = rig.end(1);
    for link in [A, B] {
        outputs.extend(rig.order(link, Order::GaveBack { total: 2 }));
    }
    assert!(!rig.driver.has_drained(rig.now));
    outputs.extend(rig.acknowledge(1, 1));
    assert!(rig.driver.has_drained(rig.now));
    assert!(!outputs.iter().any(|output| matches!(output, Output::Say { report: Report::Lent { .. }, .. })));
}

#[test]
fn a_node_that_is_dialled_anew_hears_what_it_may_have_missed() {
    let mut rig = Rig::new(3);
    rig.assign(A, assignment(1, 1));
    rig.assign(A, assignment(2, 1));
    rig.end(2);
    rig.step(Input::Gone { link: A });
    let outputs = rig.connect(A, "a");
    let started = Report::Started { run: RunId(1), token: Token(1), at: WALL };
    assert!(outputs.contains(&Output::Say { to: A, report: started }), "{outputs:?}");
    assert_eq!(outcomes(&outputs), [(A, finished(2, 1))]);
}

#[test]
fn a_worker_without_attempts_leaves_the_node_in_its_process_alone() {
    let mut driver = Driver::new(1, Kinds::ALL, HEARTBEAT);
    driver.join_in_process();
    let now = |seconds| Now { wall: WALL, elapsed: Duration::from_secs(seconds) };
    driver.step(Input::Clock, now(1));
    assert_eq!(driver.next_wake(), None);
    let orders = vec![Order::Assign(assignment(1, 1))];
    driver.step(Input::Orders { link: LinkId::IN_PROCESS, orders }, now(2));
    assert_eq!(driver.next_wake(), Some(Duration::from_secs(2) + HEARTBEAT));
    let late = driver.step(Input::Clock, now(3600));
    assert!(stopped(&late).is_empty(), "its node is never out of reach");
}

fn progress(run: i64, progress: Progress) -> Report {
    Report::Progress { run: RunId(run), token: Token(1), progress }
}

fn reports(outputs: &[Output]) -> Vec<Report> {
    let said = outputs.iter().filter_map(|output| match output {
        Output::Say { report: report @ (Report::Progress { .. } | Report::Finished { .. }), .. } => {
            Some(report)
        }
        _ => None,
    });
    said.cloned().collect()
}

#[test]
fn reports_of_several_attempts_are_sent_together() {
    let mut rig = Rig::new(3);
    rig.assign(A, assignment(1, 1));
    rig.assign(A, assignment(2, 1));
    let half = Progress { message: Some("half".into()), ..Progress::default() };
    for report in [progress(2, Progress::percent(10)), progress(1, Progress::percent(20)), progress(2, half)]
    {
        assert_eq!(reports(&rig.step(Input::Progress(report))), []);
    }
    assert_eq!(rig.driver.next_wake(), Some(rig.now + GATHER));
    let both = Progress { message: Some("half".into()), ..Progress::percent(10) };
    assert_eq!(reports(&rig.pass(GATHER)), [progress(1, Progress::percent(20)), progress(2, both)]);
    assert_eq!(reports(&rig.pass(GATHER)), [], "once");
}

#[test]
fn numbered_reports_are_gathered_and_late_ones_left_out() {
    let mut rig = Rig::new(3);
    rig.assign(A, assignment(1, 1));
    let numbered = |seq, percent| Progress { seq: Some(seq), ..Progress::percent(percent) };
    for (seq, percent) in [(1, 10), (3, 30), (2, 20)] {
        assert_eq!(reports(&rig.step(Input::Progress(progress(1, numbered(seq, percent))))), []);
    }
    assert_eq!(reports(&rig.pass(GATHER)), [progress(1, numbered(3, 30))]);
}

#[test]
fn a_checkpoint_and_an_outcome_are_sent_at_once_after_earlier_reports() {
    let mut rig = Rig::new(3);
    rig.assign(A, assignment(1, 1));
    let saved = Progress { checkpoint: Some("7".into()), ..Progress::default() };
    rig.step(Input::Progress(progress(1, Progress::percent(10))));
    let told = reports(&rig.step(Input::Progress(progress(1, saved.clone()))));
    assert_eq!(told, [progress(1, Progress::percent(10)), progress(1, saved)]);
    rig.step(Input::Progress(progress(1, Progress::percent(90))));
    assert_eq!(reports(&rig.end(1)), [progress(1, Progress::percent(90)), finished(1, 1)]);
}
