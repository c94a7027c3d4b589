//! Jobs that are started by the end of another job, or by an event.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::attempt::Outcome;
use punctual_core::command::{Answer, Command, Refusal};
use punctual_core::cross_shard::CrossShardRequest;
use punctual_core::ids::RunId;
use punctual_core::job::{Definition, Overlap};
use punctual_core::limits::{
    CHAIN_MAX, EVENT_BYTES_MAX, EVENT_COPIES_BYTES_MAX, LINKS_MAX, LISTENERS_MAX, QUEUE_LISTENERS_MAX,
};
use punctual_core::name::Namespace;
use punctual_core::queue::{Add, Ask, Body, Content, NewMessage, QueueKey, Said};
use punctual_core::run::{Reason, Run, Status, Trigger};
use punctual_core::schedule::{Schedule, When};
use punctual_core::task::Params;
use punctual_core::topic::{After, Ends, Gather, Listener, NewEvent, OnEvent, Topic, TopicKey};

use crate::support::{Rig, delete, manual, name, on, pause, put, resume};

/// Four shards, so that jobs and events have different ones.
fn rig() -> Rig {
    Rig::with(4, 8, punctual_engine::Settings::default())
}

fn after(job: &str, ends: Ends) -> Definition {
    let schedule = Schedule::new(When::After(After { job: name(job), on: ends }));
    Definition { overlap: Overlap::Allow, ..on([schedule]) }
}

fn on_event(event: OnEvent) -> Definition {
    Definition { overlap: Overlap::Allow, ..on([Schedule::new(When::Event(Box::new(event)))]) }
}

fn paid() -> OnEvent {
    OnEvent { topic: Topic::Event(name("paid")), when: None, key: None, gather: None }
}

impl Rig {
    fn apply_job(&mut self, job: &str, definition: Definition) {
        self.put(job, definition);
        self.run_requests();
    }

    /// Runs a job to its end, with this output.
    fn run_through(&mut self, job: &str, output: &str) -> RunId {
        let run = self.start(job);
        let token = self.run(run).token;
        self.report_outcome(run, token, Outcome { output: output.into(), ..Outcome::succeeded(self.now) });
        run
    }

    fn send(&mut self, key: Option<&str>, params: &str) -> i64 {
        let event = NewEvent { key: key.map(Arc::from), params: Params(params.into()) };
        let (namespace, name) = (Namespace::default(), name("paid"));
        match self.ask(Command::SendEvent { namespace, name, event }) {
            Ok(Answer::Event(id)) => id,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn only_run(&self, job: &str) -> Arc<Run> {
        let mut runs = self.runs(job);
        assert_eq!(runs.len(), 1, "of {job}");
        runs.remove(0)
    }
}

#[test]
fn a_job_starts_after_another_with_what_that_gave() {
    let mut rig = rig();
    rig.apply_job("load", manual());
    rig.apply_job("settle", after("load", Ends::Succeeded));
    let upstream = rig.run_through("load", r#"{"rows":3}"#);
    assert!(rig.runs("settle").is_empty(), "the notice has not arrived yet");
    rig.run_requests();
    let run = rig.only_run("settle");
    assert_eq!((run.trigger, run.started_by(), run.depth()), (Trigger::After, Some(upstream), 1));
    let due = rig.run(upstream).due;
    let params = format!(
        r#"{{"upstream":{{"due":"{due}","output":{{"rows":3}},"run":"{upstream}","state":"succeeded"}}}}"#
    );
    assert_eq!(run.params.as_ref().map(|params| &*params.0), Some(params.as_str()));
    assert!(rig.message_rows().is_empty(), "no notice is left");
}

#[test]
fn only_the_ends_that_a_job_asks_for_start_it() {
    let mut rig = rig();
    rig.apply_job("load", manual());
    for ends in Ends::ALL {
        rig.apply_job(ends.as_str(), after("load", ends));
    }
    rig.run_through("load", "");
    rig.run_requests();
    assert_eq!(Ends::ALL.map(|ends| rig.runs(ends.as_str()).len()), [1, 0, 1]);
    let failed = rig.start("load");
    rig.fail(failed);
    rig.run_requests();
    assert_eq!(Ends::ALL.map(|ends| rig.runs(ends.as_str()).len()), [1, 1, 2]);
}

#[test]
fn a_notice_that_is_repeated_starts_one_run() {
    let mut rig = rig();
    rig.apply_job("load", manual());
    rig.apply_job("settle", after("load", Ends::Ended));
    rig.run_through("load", "");
    let requests = rig.requests();
    requests.iter().chain(&requests).for_each(|request| rig.run_request(request.clone()));
    rig.only_run("settle");
}

#[test]
fn a_crash_at_any_moment_loses_no_start() {
    for crash in 0..3 {
        let mut rig = rig();
        let crash_at = |rig: &mut Rig, moment: u32| {
            if moment == crash {
                rig.crash(8);
            }
        };
        rig.put("load", manual());
        rig.put("settle", after("load", Ends::Ended));
        crash_at(&mut rig, 0);
        rig.run_requests();
        crash_at(&mut rig, 1);
        rig.run_through("load", "");
        crash_at(&mut rig, 2);
        rig.run_requests();
        rig.only_run("settle");
    }
}

#[test]
fn links_end_with_a_job_and_return_with_it() {
    let mut rig = rig();
    rig.apply_job("load", manual());
    rig.apply_job("settle", after("load", Ends::Ended));
    rig.ask(delete("settle")).expect("it is there");
    rig.run_through("load", "");
    rig.run_requests();
    assert!(rig.runs("settle").is_empty());
    rig.apply_job("settle", after("load", Ends::Ended));
    rig.ask(delete("load")).expect("it is there");
    rig.apply_job("load", manual());
    rig.run_through("load", "");
    rig.run_requests();
    rig.only_run("settle");
}

#[test]
fn a_late_answer_does_not_end_a_link_that_came_back() {
    let mut rig = rig();
    rig.apply_job("load", manual());
    rig.apply_job("settle", after("load", Ends::Ended));
    rig.ask(delete("settle")).expect("it is there");
    rig.run_through("load", "");
    let late = rig.requests();
    // Its job is created again before the notice is refused, and so is the link.
    rig.apply_job("settle", manual());
    for request in late {
        rig.run_request(request);
    }
    rig.apply_job("settle", after("load", Ends::Ended));
    rig.run_through("load", "");
    rig.run_requests();
    rig.only_run("settle");
}

#[test]
fn a_paused_job_is_not_started() {
    let mut rig = rig();
    rig.apply_job("load", manual());
    rig.apply_job("settle", after("load", Ends::Ended));
    rig.ask(pause("settle")).expect("it is there");
    rig.run_through("load", "");
    rig.run_requests();
    assert!(rig.runs("settle").is_empty());
}

#[test]
fn too_many_listeners_of_a_topic_are_refused() {
    for (topic, most, field) in [
        (Topic::Job(name("load")), LINKS_MAX, "schedule.after.job"),
        (Topic::Event(name("paid")), LISTENERS_MAX, "schedule.event.name"),
        (Topic::Queue(orders().name), QUEUE_LISTENERS_MAX, "schedule.event.queue"),
    ] {
        let mut rig = rig();
        let topic = TopicKey { namespace: Namespace::default(), topic };
        let listen = |rig: &mut Rig, number: usize| {
            let listener = Listener::Job(name(&format!("job-{number}")));
            rig.ask(Command::Listen { topic: topic.clone(), listener, key: None })
        };
        for number in 0..most {
            assert!(matches!(listen(&mut rig, number), Ok(Answer::Listening(_))), "{field} {number}");
        }
        let refused = listen(&mut rig, most);
        assert!(matches!(&refused, Err(Refusal::Invalid(it)) if it.field == field), "{refused:?}");
        assert!(matches!(listen(&mut rig, 0), Ok(Answer::Listening(_))), "it listens already");
    }
}

#[test]
fn jobs_that_follow_each_other_end_with_chain_too_long() {
    let mut rig = rig();
    rig.apply_job("ping", after("pong", Ends::Ended));
    rig.apply_job("pong", after("ping", Ends::Ended));
    rig.start("ping");
    for _ in 0..CHAIN_MAX {
        rig.succeed_all();
        rig.run_requests();
    }
    rig.succeed_all();
    rig.run_requests();
    let mut runs = rig.runs("ping");
    runs.extend(rig.runs("pong"));
    let skipped: Vec<_> = runs.iter().filter(|run| run.status() == Status::Skipped).collect();
    assert_eq!((runs.len(), skipped.len()), (CHAIN_MAX as usize + 2, 1));
    assert_eq!(skipped[0].reason, Some(Reason::ChainTooLong));
}

#[test]
fn an_event_starts_the_jobs_that_listen_to_it() {
    let mut rig = rig();
    let params = Params(r#"{"bank":"a"}"#.into());
    rig.apply_job("settle", Definition { params, ..on_event(paid()) });
    rig.apply_job("notify", on_event(paid()));
    rig.apply_job("other", on_event(OnEvent { topic: Topic::Event(name("shipped")), ..paid() }));
    let id = RunId(rig.send(Some("order-7"), r#"{"amount":120}"#));
    let at = rig.now;
    rig.run_requests();
    let run = rig.only_run("settle");
    let event = format!(r#"{{"at":"{at}","id":"{id}","key":"order-7","name":"paid"}}"#);
    let params = format!(r#"{{"amount":120,"bank":"a","event":{event}}}"#);
    assert_eq!(
        (run.trigger, run.params.as_ref().map(|params| &*params.0)),
        (Trigger::Event, Some(params.as_str()))
    );
    rig.only_run("notify");
    assert!(rig.runs("other").is_empty());
}

#[test]
fn an_event_has_one_effect_per_key() {
    let mut rig = rig();
    rig.apply_job("settle", on_event(paid()));
    let first = rig.send(Some("order-7"), "{}");
    rig.run_requests();
    assert_eq!(rig.send(Some("order-7"), "{}"), first);
    rig.run_requests();
    rig.only_run("settle");
    assert_ne!(rig.send(None, "{}"), rig.send(None, "{}"));
    rig.run_requests();
    assert_eq!(rig.runs("settle").len(), 3);
    rig.advance("25h");
    assert_ne!(rig.send(Some("order-7"), "{}"), first, "a day later it counts again");
}

#[test]
fn the_copies_of_an_event_have_a_limit_together() {
    let mut rig = rig();
    let topic = TopicKey { namespace: Namespace::default(), topic: Topic::Event(name("paid")) };
    let most = EVENT_COPIES_BYTES_MAX / EVENT_BYTES_MAX;
    for number in 0..=most {
        let listener = Listener::Job(name(&format!("job-{number}")));
        let listen = Command::Listen { topic: topic.clone(), listener, key: None };
        assert!(matches!(rig.ask(listen), Ok(Answer::Listening(_))));
    }
    let params = |bytes: usize| Params(format!("{{\"x\":\"{}\"}}", "x".repeat(bytes - 8)).into());
    let send = |bytes: usize| Command::SendEvent {
        namespace: Namespace::default(),
        name: name("paid"),
        event: NewEvent { key: None, params: params(bytes) },
    };
    let refused = rig.ask(send(EVENT_BYTES_MAX));
    assert!(matches!(refused, Err(Refusal::Invalid(invalid)) if invalid.field == "params"));
    let accepted = rig.ask(send(EVENT_COPIES_BYTES_MAX / (most + 1)));
    assert!(matches!(accepted, Ok(Answer::Event(_))), "{accepted:?}");
}

#[test]
fn a_condition_and_a_key_choose_events() {
    let mut rig = rig();
    let when = Some("event.params.amount > 100".to_owned());
    rig.apply_job("large", on_event(OnEvent { when, ..paid() }));
    rig.apply_job("mine", on_event(OnEvent { key: Some("order-7".into()), ..paid() }));
    rig.send(Some("order-7"), r#"{"amount":50}"#);
    rig.send(Some("order-8"), r#"{"amount":150}"#);
    rig.send(Some("order-9"), r#"{"price":150}"#);
    rig.run_requests();
    assert_eq!(rig.only_run("large").params.as_ref().map(|params| params.0.contains("order-8")), Some(true));
    assert_eq!(rig.only_run("mine").params.as_ref().map(|params| params.0.contains("order-7")), Some(true));
}

#[test]
fn a_condition_that_cannot_be_read_is_refused() {
    let mut rig = rig();
    let when = Some("event.params.amount >".to_owned());
    assert!(matches!(rig.ask(put("settle", on_event(OnEvent { when, ..paid() }))), Err(Refusal::Invalid(_))));
}

/// The amounts in the parameters of each run that has started.
fn amounts(rig: &Rig, job: &str) -> Vec<Vec<u32>> {
    let amounts = |run: &Arc<Run>| {
        let parts = run.params.as_ref()?.0.split("\"amount\":").skip(1);
        let digits = parts.map(|part| part.split(|it: char| !it.is_ascii_digit()).next().unwrap_or_default());
        Some(digits.filter_map(|digits| digits.parse().ok()).collect())
    };
    rig.runs(job).iter().filter_map(amounts).collect()
}

fn pay(rig: &mut Rig, amounts: std::ops::RangeInclusive<u32>) {
    for amount in amounts {
        rig.send(None, &format!(r#"{{"amount":{amount}}}"#));
    }
    rig.run_requests();
}

#[test]
fn a_batch_starts_when_it_is_full_or_its_time_is_over() {
    let mut rig = rig();
    let gather = Some(Gather::Batch { max: 3, within: Duration::from_secs(10) });
    rig.apply_job("settle", on_event(OnEvent { gather, ..paid() }));
    pay(&mut rig, 1..=4);
    assert_eq!(amounts(&rig, "settle"), [[1, 2, 3]]);
    rig.advance("6s");
    pay(&mut rig, 5..=5);
    rig.advance("3s");
    assert_eq!(rig.runs("settle").last().map(|run| run.status()), Some(Status::Waiting));
    rig.advance("2s");
    assert_eq!(amounts(&rig, "settle"), [vec![1, 2, 3], vec![4, 5]]);
    assert_eq!(rig.runs("settle").last().map(|run| run.status()), Some(Status::Running));
}

#[test]
fn a_debounced_job_starts_once_with_the_last_event() {
    let mut rig = rig();
    rig.apply_job(
        "settle",
        on_event(OnEvent { gather: Some(Gather::Debounce(Duration::from_secs(5))), ..paid() }),
    );
    for amount in 1..=3 {
        pay(&mut rig, amount..=amount);
        rig.advance("4s");
        assert_eq!(rig.only_run("settle").status(), Status::Waiting);
    }
    rig.advance("2s");
    let run = rig.only_run("settle");
    let params = &run.params.as_ref().expect("it has those of the event").0;
    assert!(
        params.starts_with(r#"{"amount":3,"event":{"#) && params.contains(r#""name":"paid""#),
        "{params}"
    );
    assert_eq!(run.status(), Status::Running);
}

#[test]
fn a_crash_loses_no_event_that_was_gathered() {
    let mut rig = rig();
    let gather = Some(Gather::Batch { max: 100, within: Duration::from_secs(10) });
    rig.apply_job("settle", on_event(OnEvent { gather, ..paid() }));
    pay(&mut rig, 1..=2);
    rig.reload();
    rig.join(8);
    pay(&mut rig, 3..=3);
    rig.advance("11s");
    assert_eq!(amounts(&rig, "settle"), [[1, 2, 3]]);
}

#[test]
fn events_that_do_not_fit_into_one_run_start_two() {
    let mut rig = rig();
    let gather = Some(Gather::Batch { max: 100, within: Duration::from_secs(10) });
    rig.apply_job("settle", on_event(OnEvent { gather, ..paid() }));
    for amount in 1..=3 {
        let text = "x".repeat(100 * 1024);
        rig.send(None, &format!(r#"{{"amount":{amount},"text":"{text}"}}"#));
    }
    rig.run_requests();
    assert_eq!(amounts(&rig, "settle"), [[1, 2]]);
    rig.advance("11s");
    assert_eq!(amounts(&rig, "settle"), [vec![1, 2], vec![3]]);
}

/// A job that the messages of the queue `orders` start.
fn bound() -> Definition {
    on_event(OnEvent { topic: Topic::Queue("orders".parse().expect("a name")), ..paid() })
}

fn orders() -> QueueKey {
    QueueKey { namespace: Namespace::default(), name: "orders".parse().expect("a name") }
}

fn order(rig: &mut Rig, body: &str) {
    let message = NewMessage {
        body: Body::from(body.as_bytes()),
        delay: Duration::ZERO,
        retry: Duration::from_secs(30),
        ttl: Duration::from_secs(3600),
        priority: 4,
        max_len: None,
        key: None,
    };
    rig.said(Ask::Add(Add { queue: orders(), messages: vec![message] }));
}

fn queued(rig: &mut Rig) -> u64 {
    match rig.said(Ask::Stat { queue: orders() }) {
        Said::Stat(stat) => stat.map_or(0, |stat| stat.len),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_message_in_a_queue_starts_the_job_that_listens_to_it() {
    let mut rig = rig();
    order(&mut rig, r#"{"amount":7}"#);
    rig.apply_job("settle", bound());
    order(&mut rig, "eight");
    rig.run_requests();
    let params: Vec<String> =
        rig.runs("settle").iter().map(|run| run.params.as_ref().unwrap().0.to_string()).collect();
    assert!(
        params[0].starts_with(r#"{"amount":7,"event":{"at":"#) && params[0].contains(r#""queue":"orders""#),
        "{params:?}"
    );
    assert!(params[1].starts_with(r#"{"body":"eight","event":{"#), "{params:?}");
    assert_eq!((queued(&mut rig), rig.message_rows().len()), (0, 0), "they are acknowledged");
}

#[test]
fn messages_wait_while_the_job_is_paused_and_a_crash_loses_none() {
    let mut rig = rig();
    rig.apply_job("settle", bound());
    rig.ask(pause("settle")).expect("it is there");
    for number in 0..250 {
        order(&mut rig, &number.to_string());
    }
    let on_the_way = rig.requests();
    let Some(CrossShardRequest::Tell(notice)) = on_the_way.first() else { panic!("{on_the_way:?}") };
    let Content::Wake(wake) = notice.content.clone() else { panic!("{notice:?}") };
    assert_eq!(
        rig.ask(Command::Wake(wake)),
        Err(Refusal::JobPaused(name("settle"))),
        "it is tried again later"
    );
    assert_eq!((rig.runs("settle").len(), queued(&mut rig)), (0, 150), "a hundred are on the way");
    rig.crash(8);
    rig.ask(resume("settle")).expect("it is there");
    for _ in 0..10 {
        rig.run_requests();
    }
    assert_eq!((rig.runs("settle").len(), queued(&mut rig)), (250, 0));
}

#[test]
fn a_message_goes_back_to_its_queue_when_the_job_is_gone() {
    let mut rig = rig();
    rig.apply_job("settle", bound());
    rig.ask(delete("settle")).expect("it is there");
    order(&mut rig, "seven");
    let requests = rig.requests();
    requests.iter().chain(&requests).for_each(|request| rig.run_request(request.clone()));
    assert_eq!(queued(&mut rig), 1);
    order(&mut rig, "eight");
    assert_eq!(queued(&mut rig), 2, "nothing listens any more");
}

#[test]
fn a_message_that_is_too_long_for_a_run_stays_in_the_queue() {
    let mut rig = rig();
    rig.apply_job("settle", bound());
    order(&mut rig, &"x".repeat(300 * 1024));
    order(&mut rig, "eight");
    rig.run_requests();
    rig.only_run("settle");
    let Said::Stat(Some(stat)) = rig.said(Ask::Stat { queue: orders() }) else { panic!("the queue is gone") };
    assert_eq!((stat.len, stat.messages), (0, 1), "it is taken, and not acknowledged");
}
