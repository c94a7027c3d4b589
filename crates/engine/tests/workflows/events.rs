//! Steps that wait for an event, which may belong to another shard.

use punctual_core::command::{ActOnSteps, StepsAct};
use punctual_core::limits::LISTENERS_MAX;
use punctual_core::topic::{Listener, NewEvent, Topic, TopicKey};
use punctual_core::workflow::{EventWait, StepKey};

use super::*;
use crate::support::name;

fn rig() -> Rig {
    Rig::with(4, 4, punctual_engine::Settings::default())
}

/// A workflow that waits for the payment of an order, and then has a step that sees the event.
fn waiting() -> Definition {
    let key = Some("order-{{ params.order }}".to_owned());
    let event = EventWait { name: name("paid"), key, within: Some(Duration::from_secs(3600)) };
    let wait = Step::of(name("paid"), Work::Wait(Wait::Event(Box::new(event))));
    let when = Some("steps.paid.output.params.amount > 100".to_owned());
    let ship = Step { when, ..step("ship", &["paid"]) };
    Definition { params: Params(r#"{"order":7}"#.into()), ..job(workflow(vec![wait, ship], vec![])) }
}

impl Rig {
    fn pay(&mut self, order: &str, amount: u32) {
        let params = Params(format!(r#"{{"amount":{amount}}}"#).into());
        let event = NewEvent { key: Some(format!("order-{order}").into()), params };
        self.ask(Command::SendEvent { namespace: Namespace::default(), name: name("paid"), event })
            .expect("an event is always taken");
        self.run_requests();
    }

    #[track_caller]
    fn leaves_nothing(&self) {
        let listeners = self.rows.all().filter(|row| matches!(row, Row::Listener(_))).count();
        assert_eq!((listeners, self.message_rows().len()), (0, 0), "listeners and notices");
    }
}

#[test]
fn a_step_waits_for_the_event_with_its_key() {
    let mut rig = rig();
    let run = rig.start_workflow(waiting());
    assert_eq!(rig.step_rows(run)[0].listener, None, "the shard of the event has not heard of it yet");
    rig.run_requests();
    assert!(rig.step_rows(run)[0].listener.is_some());
    rig.pay("8", 900);
    assert_eq!(rig.rows_of(run), ["0 active"]);
    rig.pay("7", 120);
    assert_eq!(rig.rows_of(run), ["0 succeeded", "1 active"]);
    rig.end_step(run, "ship", End::Succeeded);
    assert_eq!(rig.status(run), Status::Succeeded);
    rig.leaves_nothing();
}

#[test]
fn a_step_whose_event_does_not_come_in_time_fails_and_listens_no_more() {
    let mut rig = rig();
    let run = rig.start_workflow(waiting());
    rig.run_requests();
    rig.advance("61m");
    assert_eq!(rig.rows_of(run), ["0 failed (no event in time)", "1 skipped (skipped: rule)"]);
    rig.run_requests();
    rig.leaves_nothing();
}

#[test]
fn a_step_that_is_skipped_before_it_listens_leaves_nothing() {
    let mut rig = rig();
    let run = rig.start_workflow(waiting());
    let (namespace, act) = (Namespace::default(), StepsAct::Skip(name("paid")));
    rig.ask(Command::ActOnSteps(ActOnSteps { namespace, run, act, by: None, comment: Box::default() }))
        .expect("it waits");
    rig.run_requests();
    rig.leaves_nothing();
}

#[test]
fn a_crash_at_any_moment_loses_no_wait_and_no_event() {
    for crash in 0..3 {
        let mut rig = rig();
        let crash_at = |rig: &mut Rig, moment: u32| {
            if moment == crash {
                rig.crash(4);
            }
        };
        let run = rig.start_workflow(waiting());
        crash_at(&mut rig, 0);
        rig.run_requests();
        crash_at(&mut rig, 1);
        let event = NewEvent { key: Some("order-7".into()), params: Params(r#"{"amount":120}"#.into()) };
        rig.ask(Command::SendEvent { namespace: Namespace::default(), name: name("paid"), event }).unwrap();
        crash_at(&mut rig, 2);
        rig.run_requests();
        assert_eq!(rig.rows_of(run), ["0 succeeded", "1 active"], "crash {crash}");
    }
}

#[test]
fn a_wait_that_is_registered_again_ends_with_one_event() {
    let mut rig = rig();
    let run = rig.start_workflow(waiting());
    let requests = rig.requests();
    requests.iter().chain(&requests).for_each(|request| rig.run_request(request.clone()));
    rig.pay("7", 120);
    for request in requests {
        rig.run_request(request);
    }
    assert_eq!(rig.rows_of(run), ["0 succeeded", "1 active"]);
    rig.leaves_nothing();
}

#[test]
fn a_step_fails_if_its_event_has_too_many_listeners() {
    let mut rig = rig();
    let topic = TopicKey { namespace: Namespace::default(), topic: Topic::Event(name("paid")) };
    for step in 0..LISTENERS_MAX {
        let step = StepKey { run: RunId(1), step: u32::try_from(step).unwrap(), item: None };
        let listen = Command::Listen { topic: topic.clone(), listener: Listener::Step(step), key: None };
        rig.ask(listen).expect("there is room");
    }
    let run = rig.start_workflow(waiting());
    rig.run_requests();
    assert_eq!(rig.rows_of(run)[0], "0 failed (too_many_listeners)");
}
