//! Every command, answer and failure comes through as it went. A variant without a sample does not compile, or is missed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::attempt::Outcome as Ended;
use punctual_core::command::{
    ActOnSteps, BackfillJob, Backfilled, CancelCall, Expect, Key, LeftOut, Made, PutJob, RetryRun, RunJob,
    StepsAct, Submit,
};
use punctual_core::hold::{Fires, Hold, Scope};
use punctual_core::ids::{Epoch, JobId, RunId, ShardId, Token, WorkerId};
use punctual_core::job::{
    Cursor, Definition, Invalid, Job, Keep, Limit, Misfire, MisfirePolicy, Overlap, Pause, Share, Unique,
};
use punctual_core::name::{Name, Namespace};
use punctual_core::progress::Progress;
use punctual_core::queue;
use punctual_core::retry::{Backoff, Retry};
use punctual_core::run::{Caller, Event, Origin, Run, Status, Trigger};
use punctual_core::schedule::calendar::{Calendar, Days, Weekday};
use punctual_core::schedule::{Schedule, ScheduleCalendar, Weekdays, When};
use punctual_core::task::{Body, Enqueue, Grpc, Http, Params, Process, Task};
use punctual_core::topic::{self, Happening, Listener, NewEvent, Topic, TopicKey, Wake};
use punctual_core::workflow::{RetryFrom, StepKey, StepParams};

use super::*;

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_123);
/// The largest id and token there can be: JSON numbers must not round them.
const RUN: RunId = RunId(i64::MAX);
const TOKEN: Token = Token(u64::MAX);

fn namespace() -> Namespace {
    "payments/clearing".parse().unwrap()
}

fn name() -> Name {
    "nightly-settlement".parse().unwrap()
}

fn a_step() -> StepKey {
    StepKey { run: RUN, step: 3, item: None }
}

fn a_topic() -> TopicKey {
    TopicKey { namespace: namespace(), topic: Topic::Event(name()) }
}

fn an_event() -> NewEvent {
    NewEvent { key: Some("order-7".into()), params: Params(r#"{"amount":1}"#.into()) }
}

fn calendar() -> Arc<Calendar> {
    let weekly = [Weekday::Monday, Weekday::Friday].into_iter().collect();
    let days = Days::new(
        weekly,
        vec!["2026-10-10".parse().unwrap()],
        vec!["2026-10-01..2026-10-07".parse().unwrap(), "12-25".parse().unwrap()],
    );
    Arc::new(Calendar { name: "cn-workdays".parse().unwrap(), version: u32::MAX, days })
}

fn schedules() -> Vec<Schedule> {
    let cron = When::parse_cron("H 1 * * MON#2", "Asia/Shanghai", Weekdays::default(), Some("a \"key\"\n"));
    let keeping = ScheduleCalendar::named("cn-workdays".parse().unwrap(), "Asia/Shanghai").unwrap();
    let whens = [
        cron.unwrap(),
        When::Every(Duration::from_millis(1500)),
        When::AfterFinish(Duration::from_secs(60)),
        When::At(NOW),
        When::Manual,
    ];
    let mut schedules: Vec<Schedule> = whens.into_iter().map(Schedule::new).collect();
    schedules[0] = Schedule {
        start: Some(NOW),
        end: Some(Timestamp::MAX),
        jitter: Duration::from_secs(30),
        max_runs: Some(3),
        calendar: Some(keeping.clone()),
        ..schedules[0].clone()
    };
    schedules[0].calendar.as_mut().unwrap().calendar = Some(calendar());
    // As an endpoint passes it on: the shard's leader looks the calendar up.
    schedules[1].calendar = Some(keeping);
    schedules
}

fn definition(task: Task) -> Arc<Definition> {
    Arc::new(Definition {
        schedules: schedules(),
        params: Params(r#"{"region":"東 \"east\"\u0000"}"#.into()),
        timeout: Some(Duration::from_nanos(1_500_000_001)),
        retry: Retry { backoff: Backoff::Linear, priority: Some(7), jitter_percent: 20, ..Retry::default() },
        at_most_once: true,
        overlap: Overlap::QueueOne,
        misfire: Misfire { policy: MisfirePolicy::All, ..Misfire::default() },
        priority: 9,
        limits: vec![Limit::of_running(2)],
        share: Some(Share { key: "{{ params.region }}".to_owned(), weight: 70 }),
        unique: Some(Unique { key: "{{ params.region }}".to_owned(), kept: Duration::from_secs(1) }),
        dead_letter: false,
        pause_after: Some(5),
        alerts: vec![an_alert()],
        keep: Keep { runs: 1, days: 2 },
        description: "line one\nline two \u{1F389}".to_owned(),
        ..Definition::of(task)
    })
}

fn key() -> Option<Key> {
    Some(Key { text: "a key".into(), kept: Duration::from_secs(86_400) })
}

/// Names every variant, so that a new one does not compile until it is named, and then fails until it has a sample.
macro_rules! named {
    ($names:ident: $type:ty => $($variant:pat => $name:literal,)+) => {
        /// The names of the samples, and those of all variants.
        pub(super) fn $names<'a>(samples: impl IntoIterator<Item = &'a $type>) -> (BTreeSet<&'static str>, BTreeSet<&'static str>) {
            let name = |sample: &$type| match sample {
                $($variant => $name,)+
            };
            (samples.into_iter().map(name).collect(), [$($name),+].into())
        }
    };
}

fn a_hold() -> Hold {
    let pause =
        Pause { reason: "the bank is closed".into(), by: Some("ops".into()), since: NOW, until: Some(NOW) };
    Hold { scope: Scope::Namespace(namespace()), pause, fires: Fires::Keep }
}

mod alerts;
mod failures;
mod locks;
mod queues;
mod tasks;

use alerts::{an_alert, an_incident, incident_commands};
use failures::{failure_names, failures, refusal_names, refusals};
use tasks::tasks;

fn commands() -> Vec<Command> {
    let (namespace, name) = (namespace(), name());
    let put = |task: Task, expect| {
        let (namespace, name) = (namespace.clone(), name.clone());
        Command::PutJob(PutJob { namespace, name, definition: definition(task), expect })
    };
    let expects = [Expect::Anything, Expect::Absent, Expect::Revision(7), Expect::Revision(u32::MAX)];
    let puts = tasks().into_iter().zip(expects).map(|(task, expect)| put(task, expect));
    let params = Some(Params(r#"{"a":1}"#.into()));
    let others = [
        Command::ReplanJob { namespace: namespace.clone(), name: name.clone(), calendar: Some(calendar()) },
        Command::DeleteJob { namespace: namespace.clone(), name: name.clone(), expect: Expect::Revision(1) },
        Command::PauseJob {
            namespace: namespace.clone(),
            name: name.clone(),
            reason: "the bank is closed".into(),
            by: Some("ops".into()),
            until: Some(NOW),
        },
        Command::ResumeJob { namespace: namespace.clone(), name: name.clone() },
        Command::RunJob(RunJob {
            namespace: namespace.clone(),
            name: name.clone(),
            params: params.clone(),
            due: Some(NOW),
            key: key(),
            caller: Some(Caller { sender: a_sender(), depth: 3 }),
        }),
        Command::Backfill(BackfillJob {
            namespace: namespace.clone(),
            name: name.clone(),
            from: NOW,
            to: NOW,
            params: params.clone(),
            running: Some(u32::MAX),
            newest_first: true,
            dry_run: true,
            by: Some("ops".into()),
        }),
        Command::CancelCall(CancelCall {
            sender: a_sender(),
            namespace: namespace.clone(),
            job: name.clone(),
            called: Some(RunId(8)),
            now: true,
        }),
        Command::Submit(Submit {
            namespace: namespace.clone(),
            definition: definition(Task::Noop),
            due: None,
            key: None,
            spread: u64::MAX,
        }),
        Command::CancelRun {
            namespace: namespace.clone(),
            run: RUN,
            now: true,
            by: Some("ops".into()),
            comment: "wrong day".into(),
        },
        Command::MoveRun { namespace: namespace.clone(), run: RUN, worker: Some("w".into()) },
        Command::RetryRun(RetryRun {
            namespace: namespace.clone(),
            run: RUN,
            params,
            due: Some(Timestamp::from_millis(1_799_913_600_000)),
            key: key(),
            resume: true,
            dead_letter: true,
            from: Some(RetryFrom::Steps(vec![name.clone()])),
            step_params: Some(StepParams::from([(name.clone(), Params::default())])),
            by: Some("ops".into()),
            comment: "the bank is open again".into(),
        }),
        Command::ActOnSteps(ActOnSteps {
            namespace: namespace.clone(),
            run: RUN,
            act: StepsAct::Approve(name.clone()),
            by: Some("release-manager".into()),
            comment: "looks good".into(),
        }),
        Command::DiscardDeadLetter { namespace: namespace.clone(), run: RUN },
        Command::Progress {
            namespace: namespace.clone(),
            run: RUN,
            token: TOKEN,
            progress: Progress {
                checkpoint: Some("{}".into()),
                seq: Some(7),
                rebalance: true,
                params: Some(Params::default()),
                ..Progress::percent(100)
            },
            durable: true,
        },
        Command::Tell { sender: a_sender(), news: queue::News::Undelivered { why: "it is paused".into() } },
        Command::Tell { sender: a_sender(), news: queue::News::Delivered(whereabouts()) },
        Command::Tell {
            sender: a_sender(),
            news: queue::News::Ended { whereabouts: whereabouts(), ending: queue::Ending::Withdrawn },
        },
        Command::Tell { sender: a_sender(), news: queue::News::Called { run: RUN, since: NOW } },
        Command::Wake(Box::new(Wake {
            topic: a_topic(),
            listener: Listener::Job(name.clone()),
            number: i64::MAX,
            happening: Happening { id: i64::MAX, at: NOW, depth: 2, what: topic::What::Event(an_event()) },
        })),
        Command::Listen { topic: a_topic(), listener: Listener::Step(a_step()), key: Some("a".into()) },
        Command::StepListens { step: a_step(), number: Some(i64::MAX) },
        Command::StopListening { topic: a_topic(), step: a_step() },
        Command::Unlisten { topic: a_topic(), listener: i64::MAX, notice: 7 },
        Command::SendEvent { namespace: namespace.clone(), name: name.clone(), event: an_event() },
        Command::Followers { namespace: namespace.clone(), name: name.clone() },
        Command::Hold { shard: ShardId(3), hold: Box::new(a_hold()) },
        Command::Release { shard: ShardId(3), scope: Scope::Everything, at: NOW },
    ];
    puts.chain(others).chain(queues::commands()).chain(locks::commands()).chain(incident_commands()).collect()
}

named! { command_names: Command =>
    Command::PutJob(_) => "put",
    Command::ReplanJob { .. } => "replan",
    Command::DeleteJob { .. } => "delete",
    Command::PauseJob { .. } => "pause",
    Command::ResumeJob { .. } => "resume",
    Command::RunJob(_) => "run",
    Command::Ping(_) => "ping",
    Command::Backfill(_) => "backfill",
    Command::Submit(_) => "submit",
    Command::CancelRun { .. } => "cancel",
    Command::MoveRun { .. } => "move",
    Command::RetryRun(_) => "retry",
    Command::ActOnSteps(_) => "act_on_steps",
    Command::DiscardDeadLetter { .. } => "discard",
    Command::ActOnIncident(_) => "act_on_incident",
    Command::NoteChannel(_) => "note_channel",
    Command::Progress { .. } => "progress",
    Command::CancelCall(_) => "cancel_call",
    Command::Wake(_) => "wake",
    Command::Listen { .. } => "listen",
    Command::Unlisten { .. } => "unlisten",
    Command::StepListens { .. } => "step_listens",
    Command::StopListening { .. } => "stop_listening",
    Command::SendEvent { .. } => "send_event",
    Command::Followers { .. } => "followers",
    Command::Tell { .. } => "tell",
    Command::Hold { .. } => "hold",
    Command::Release { .. } => "release",
    Command::Queue(_) => "queue",
    Command::Lock(_) => "lock",
}

fn a_queue() -> queue::QueueKey {
    queue::QueueKey { namespace: namespace(), name: "a queue/any text".parse().unwrap() }
}

fn a_sender() -> queue::Sender {
    queue::Sender { run: RUN, token: TOKEN }
}

fn whereabouts() -> queue::Whereabouts {
    let id = queue::MessageId { queue: queue::QueueNumber(u32::MAX), number: i64::MAX };
    queue::Whereabouts::of(id, Duration::from_secs(60), true)
}

fn a_message() -> queue::NewMessage {
    queue::NewMessage {
        body: queue::Body::from(&b"\x00\xff"[..]),
        delay: Duration::from_millis(1),
        retry: Duration::ZERO,
        ttl: Duration::from_secs(86_400),
        priority: 9,
        max_len: Some(u64::MAX),
        key: Some("a key".into()),
    }
}

fn answers() -> Vec<Answer> {
    let job = Job {
        id: JobId(i64::MAX),
        namespace: namespace(),
        name: name(),
        revision: 3,
        definition: definition(Task::Noop),
        pause: Some(Box::new(Pause {
            reason: "too slow".into(),
            by: Some("ops".into()),
            since: NOW,
            until: Some(NOW),
        })),
        failures: 4,
        watch: None,
        created_at: NOW,
        updated_at: NOW,
        cursor: Cursor {
            fired_through: NOW,
            next_due: Some(NOW),
            wake_at: Some(NOW),
            fires: [1, 2, 3].into_iter().collect(),
            zone_data: Some("2026a".into()),
        },
    };
    let jobs = [Made::Created, Made::Changed, Made::Unchanged]
        .map(|made| Answer::Job { job: Arc::new(job.clone()), made });
    let origin = Origin::Job { id: JobId(5), name: name(), revision: 3 };
    let mut run = Run::new(RUN, namespace(), origin, Trigger::Retry, NOW, NOW);
    let definition = definition(Task::Noop);
    let (worker, token) = (WorkerId::new("box", 7), Token::default().next(Epoch(u32::MAX)));
    run.apply(Event::Due, &definition, NOW).unwrap();
    run.apply(Event::Assigned { worker, token }, &definition, NOW).unwrap();
    let running = run.clone();
    let outcome = Ended { exit_code: Some(-9), output: "out".into(), ..Ended::failed(NOW, "killed") };
    run.apply(Event::Reported { token, outcome }, &definition, NOW).unwrap();
    let ad_hoc = Run::new(RUN, namespace(), Origin::AdHoc(definition), Trigger::Submit, NOW, NOW);
    let backfill = Backfilled {
        run: Some(Arc::new(running.clone())),
        total: u32::MAX,
        first: Some(NOW),
        last: None,
        left_out: vec![LeftOut { due: NOW, run: Some(RUN) }],
    };
    let runs = [running, run, ad_hoc].map(|run| Answer::Run(Arc::new(run)));
    let taken = queue::Delivered {
        id: queue::MessageId { queue: queue::QueueNumber(u32::MAX), number: i64::MAX },
        ttl: Duration::from_secs(1),
        at_most_once: true,
        body: queue::Body::from(&b"\x00\xff"[..]),
        nacks: 1,
        redeliveries: u32::MAX,
        until: Some(NOW),
    };
    let said = Answer::Queue(queue::Said::Taken(vec![taken]));
    let incident = Answer::Incident(Arc::new(an_incident()));
    let others = [
        Answer::Deleted,
        Answer::Existing(RUN),
        Answer::Discarded,
        Answer::Noted,
        Answer::Late,
        incident,
        said,
    ];
    let others = others.into_iter().chain([
        Answer::Event(i64::MAX),
        Answer::Listening(7),
        Answer::NotListening,
        Answer::Followers(vec![name()]),
        Answer::Released(true),
        Answer::Backfill(Box::new(backfill)),
    ]);
    jobs.into_iter().chain(runs).chain(others).chain(locks::answers()).collect()
}

named! { answer_names: Answer =>
    Answer::Job { .. } => "job",
    Answer::Deleted => "deleted",
    Answer::Run(_) => "run",
    Answer::Backfill(_) => "backfill",
    Answer::Existing(_) => "existing",
    Answer::Discarded => "discarded",
    Answer::Noted => "noted",
    Answer::Late => "late",
    Answer::Incident(_) => "incident",
    Answer::Event(_) => "event",
    Answer::Listening(_) => "listening",
    Answer::NotListening => "not_listening",
    Answer::Followers(_) => "followers",
    Answer::Released(_) => "released",
    Answer::Queue(_) => "queue",
    Answer::Lock(_) => "lock",
}

#[track_caller]
fn check_all((sampled, all): (BTreeSet<&str>, BTreeSet<&str>)) {
    assert_eq!(sampled, all, "a variant has no sample");
}

#[test]
fn every_command_comes_through_as_it_went() {
    check_all(command_names(&commands()));
    for sent in commands() {
        assert_eq!(command(&request(&sent).unwrap()).unwrap(), sent);
    }
}

#[test]
fn every_answer_and_every_failure_comes_through_as_it_went() {
    check_all(answer_names(&answers()));
    check_all(refusal_names(&refusals()));
    check_all(failure_names(&failures()));
    let all = answers().into_iter().map(Ok).chain(failures().into_iter().map(Err));
    for sent in all {
        assert_eq!(result(&response(&sent).unwrap()).unwrap(), sent);
    }
}

#[test]
fn fields_go_by_name_and_a_newer_node_may_say_more() {
    let text = br#"{"move_run":{"namespace":"default","run":7,"worker":null,"why":"because"}}"#;
    let read = command(&AskRequest { command: text.to_vec() }).unwrap();
    assert_eq!(read, Command::MoveRun { namespace: Namespace::default(), run: RunId(7), worker: None });
}

#[test]
fn what_is_no_message_is_refused_and_never_taken_for_another() {
    for text in
        ["", "{}", "null", r#""put_job""#, r#"{"fly":{}}"#, r#"{"cancel_run":{"namespace":"A","run":1}}"#]
    {
        let error = command(&AskRequest { command: text.as_bytes().to_vec() }).unwrap_err().to_string();
        assert!(error.contains("another version"), "{error}");
    }
    assert!(result(&AskResponse { result: None }).is_err());
}

#[test]
fn the_largest_job_there_can_be_fits_a_message() {
    use punctual_core::limits::{COMMAND_BYTES_MAX, HTTP_BODY_BYTES_MAX, PARAMS_BYTES_MAX, SCHEDULES_MAX};
    use punctual_core::schedule::calendar::{ENTRIES_MAX, Entry};
    // Every other day, so that no two make one span.
    let first = i64::try_from(ENTRIES_MAX).unwrap();
    let exclude: Vec<_> = (0..first).map(|day| Entry::Span { first: 2 * day, last: 2 * day }).collect();
    let days = Days::new([Weekday::Monday].into_iter().collect(), Vec::new(), exclude);
    let large = Arc::new(Calendar { days, ..(*calendar()).clone() });
    let mut schedules = vec![schedules()[0].clone(); SCHEDULES_MAX];
    for keeping in schedules.iter_mut().filter_map(|schedule| schedule.calendar.as_mut()) {
        keeping.calendar = Some(Arc::clone(&large));
    }
    // Six bytes each, as JSON writes them.
    let control = |bytes: usize| "\u{1}".repeat(bytes);
    let http = Http {
        body: Some(Body::Text(control(HTTP_BODY_BYTES_MAX))),
        headers: [("a".to_owned(), control(COMMAND_BYTES_MAX))].into(),
        ..Http::get("https://example.com")
    };
    let params = Params(control(PARAMS_BYTES_MAX).into());
    let definition = Definition { schedules, params, ..Definition::of(Task::Http(Box::new(http))) };
    let put = PutJob {
        namespace: namespace(),
        name: name(),
        definition: Arc::new(definition),
        expect: Expect::Anything,
    };
    let bytes = request(&Command::PutJob(put)).unwrap().command.len();
    assert!(bytes < MESSAGE_BYTES_MAX, "{bytes}");
}
