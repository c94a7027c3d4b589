//! A message that is written is read back unchanged, and an invalid message is refused with the name of its field.

use std::sync::Arc;
use std::time::Duration;

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use prost::Message;
use punctual_core::Timestamp;
use punctual_core::attempt::{Assignment, End, Order, Outcome, Report, StepValues};
use punctual_core::ids::{RunId, Token, WorkerId};
use punctual_core::job::Definition;
use punctual_core::limits::WORKER_SLOTS_MAX;
use punctual_core::log::{Chunk, Stream};
use punctual_core::name::Namespace;
use punctual_core::progress::Progress;
use punctual_core::retry::Failed;
use punctual_core::run::{Cause, Part, Trigger};
use punctual_core::task::{CarriedSchema, Grpc, Kind, NamedDescriptor, Params, Process, Task};
use punctual_core::worker::Announcement;

use super::*;

fn attempts() -> impl Strategy<Value = (RunId, Token)> {
    (0i64..=i64::MAX, 0..=i64::MAX as u64).prop_map(|(run, token)| (RunId(run), Token(token)))
}

fn instants() -> impl Strategy<Value = Timestamp> {
    (0..=Timestamp::MAX.as_millis()).prop_map(Timestamp::from_millis)
}

fn outcomes() -> impl Strategy<Value = Outcome> {
    let end = prop_oneof![Just(End::Succeeded), Just(End::Failed), Just(End::TimedOut), Just(End::Yielded)];
    let failed =
        prop_oneof![Just(Failed::Error), Just(Failed::Timeout), any::<u16>().prop_map(Failed::Status)];
    (end, instants(), option::of(any::<i32>()), ".{0,40}", ".{0,40}", failed).prop_map(
        |(end, started_at, exit_code, output, error, failed)| Outcome {
            end,
            started_at,
            exit_code,
            output: output.into(),
            error: error.into(),
            failed,
        },
    )
}

fn reports() -> impl Strategy<Value = Report> {
    prop_oneof![
        (attempts(), instants()).prop_map(|((run, token), at)| Report::Started { run, token, at }),
        (attempts(), progresses()).prop_map(|((run, token), progress)| Report::Progress {
            run,
            token,
            progress
        }),
        vec(attempts(), 0..20).prop_map(|attempts| Report::Alive { attempts }),
        (attempts(), outcomes()).prop_map(|((run, token), outcome)| Report::Finished { run, token, outcome }),
        attempts().prop_map(|(run, token)| Report::Declined { run, token }),
        any::<bool>().prop_map(|on| Report::Draining { on }),
        any::<u64>().prop_map(|total| Report::Lent { total }),
        any::<u32>().prop_map(|credits| Report::Recall { credits }),
        (0u8..=100, 0u8..=100)
            .prop_map(|(cpu_percent, memory_percent)| Report::Load { cpu_percent, memory_percent }),
    ]
}

fn tasks() -> impl Strategy<Value = Task> {
    let words = vec("[a-z{} ]{1,12}", 1..5);
    prop_oneof![
        Just(Task::Noop),
        ".{1,60}".prop_map(Task::Shell),
        option::of((any::<u32>(), vec(any::<u8>(), 0..9))).prop_map(|carried| {
            let carried = carried.map(|(version, set)| CarriedSchema { version, set: set.into() });
            let descriptor = Some(NamedDescriptor { name: "shop".parse().unwrap(), carried });
            Task::Grpc(Box::new(Grpc { descriptor, ..Grpc::call("shop:1", "shop.v1.Orders/Settle") }))
        }),
        Just(Task::Grpc(Box::new(Grpc::work("shop:1")))),
        "[a-z_][a-z_.]{0,19}".prop_map(|name| Task::Function(name.parse().unwrap())),
        (words, btree_map("[A-Z]{1,8}", ".{0,20}", 0..4), option::of("/[a-z]{1,9}"))
            .prop_map(|(command, env, dir)| Task::Process(Process { command, env, dir })),
    ]
}

fn assignments() -> impl Strategy<Value = Assignment> {
    let trigger = proptest::sample::select(Trigger::ALL.to_vec());
    let job = option::of(("[a-z]{1,9}", any::<u32>()));
    let part = (any::<u32>(), any::<u32>()).prop_map(|(index, total)| Part { index, total });
    let rest = (instants(), tasks(), "\\{\"a\":[0-9]{1,3}\\}", 0u64..1_000_000, any::<bool>(), part);
    (attempts(), any::<u32>(), job, trigger, option::of(".{0,20}"), rest).prop_map(
        |((run, token), attempt, job, trigger, key, (due, task, params, lease, again, part))| Assignment {
            run,
            token,
            attempt,
            namespace: Namespace::default(),
            revision: job.as_ref().map(|(_, revision)| *revision),
            job: job.map(|(name, _)| name.parse().unwrap()),
            trigger,
            key: key.map(Arc::from),
            due,
            late_from: due,
            definition: Arc::new(Definition::of(task)),
            checkpoint: again.then(|| Arc::from(params.as_str())),
            attempt_key: again.then(|| Arc::from("pck_1_2_3")),
            params: Params(params.into()),
            part,
            step: again.then(|| {
                let item = (lease % 2 == 0).then(|| (attempt, "7".into()));
                Box::new(StepValues { steps: Some("{\"load\":{}}".into()), item })
            }),
            lease: Duration::from_millis(lease),
            grace: (lease % 2 == 0).then(|| Duration::from_millis(lease % 600_000)),
            again,
        },
    )
}

fn progresses() -> impl Strategy<Value = Progress> {
    let checkpoint = option::of("\\{\"row\":[1-9][0-9]{0,8}\\}");
    let rebalance = option::of(option::of(Just(Params("{\"a\":null}".into()))));
    (0u8..=100, option::of(".{0,20}"), checkpoint, option::of(any::<u64>()), rebalance).prop_map(
        |(percent, message, checkpoint, seq, rebalance)| Progress {
            percent: Some(percent),
            message: message.map(Into::into),
            checkpoint: checkpoint.map(Into::into),
            seq,
            rebalance: rebalance.is_some(),
            params: rebalance.flatten(),
        },
    )
}

fn orders() -> impl Strategy<Value = Order> {
    let cause = prop_oneof![
        Just(Cause::User),
        Just(Cause::UserNow),
        Just(Cause::Moved),
        Just(Cause::Timeout),
        Just(Cause::Replaced),
        Just(Cause::JobDeleted),
        Just(Cause::Outdated)
    ];
    prop_oneof![
        assignments().prop_map(Order::Assign),
        (attempts(), cause).prop_map(|((run, token), cause)| Order::Cancel { run, token, cause }),
        attempts().prop_map(|(run, token)| Order::Acknowledge { run, token }),
        Just(Order::Resend),
        any::<bool>().prop_map(|on| Order::Drain { on }),
        any::<u64>().prop_map(|total| Order::GaveBack { total }),
        (option::of(0u8..=9), any::<u32>()).prop_map(|(priority, runs)| Order::Waiting { priority, runs }),
    ]
}

proptest! {
    #[test]
    fn a_report_is_read_as_it_was_written(said in reports()) {
        let bytes = report(said.clone()).encode_to_vec();
        prop_assert_eq!(read_report(v1::Report::decode(&*bytes).unwrap()), Ok(Some(said)));
    }

    #[test]
    fn orders_are_read_as_they_were_written(said in vec(orders(), 0..8)) {
        let (mut writer, mut reader) = (OrderWriter::default(), OrderReader::default());
        for order in said {
            let bytes = writer.write(order.clone()).encode_to_vec();
            prop_assert_eq!(reader.read(v1::Order::decode(&*bytes).unwrap()), Ok(Some(order)));
        }
    }

    #[test]
    fn a_chunk_is_read_as_it_was_written(
        (run, token) in attempts(),
        number: u32,
        at in instants(),
        stream in prop_oneof![Just(Stream::Out), Just(Stream::Err), Just(Stream::Note)],
        bytes: Vec<u8>,
    ) {
        let said = Chunk { run, token, number, at, stream, bytes };
        let bytes = chunk(said.clone()).encode_to_vec();
        prop_assert_eq!(read_chunk(v1::LogChunk::decode(&*bytes).unwrap()), Ok(said));
    }

    #[test]
    fn an_announcement_is_read_as_it_was_written(
        name in "[a-z0-9._-]{1,40}",
        life: u64,
        slots in 1..=WORKER_SLOTS_MAX,
        labels in btree_map("[a-z]{1,9}", "[a-z0-9]{0,9}", 0..5),
        kinds in proptest::sample::subsequence(Kind::ALL.to_vec(), 1..=Kind::ALL.len()),
        functions in proptest::collection::btree_set("[a-z_-][a-z_.-]{0,19}", 0..4),
        weight in 1u32..,
        holding in vec(attempts(), 0..20),
    ) {
        let functions = functions.iter().map(|name| name.parse().unwrap()).collect();
        let kinds = kinds.into_iter().collect();
        let said = Announcement { slots, labels, kinds, functions, weight, node_local: false };
        let bytes = announcement(&name, life, "0.1.0", &said, &holding).encode_to_vec();
        let read = read_announcement(v1::Announce::decode(&*bytes).unwrap());
        prop_assert_eq!(read, Ok((WorkerId::new(&name, life), said, holding)));
    }

    /// A stranger may send anything: it is refused or understood, and nothing else happens.
    #[test]
    fn any_bytes_are_refused_or_understood(bytes: Vec<u8>) {
        if let Ok(message) = v1::FromWorker::decode(&*bytes) {
            message.reports.into_iter().for_each(|report| drop(read_report(report)));
            message.logs.into_iter().for_each(|chunk| drop(read_chunk(chunk)));
            message.announce.into_iter().for_each(|said| drop(read_announcement(said)));
        }
        if let Ok(message) = v1::FromNode::decode(&*bytes) {
            let mut reader = OrderReader::default();
            message.orders.into_iter().for_each(|order| drop(reader.read(order)));
        }
    }
}

fn a_worker() -> v1::Announce {
    announcement("a", 1, "0.1.0", &Announcement::of(4), &[])
}

#[track_caller]
fn check_announce(change: impl FnOnce(&mut v1::Announce), field: &str) {
    let mut said = a_worker();
    change(&mut said);
    assert_eq!(read_announcement(said).unwrap_err().field, field);
}

#[test]
fn an_announcement_that_promises_the_impossible_is_refused() {
    assert!(read_announcement(a_worker()).is_ok());
    check_announce(|said| said.slots = 1 << 31, "announce.slots");
    check_announce(|said| said.slots = 0, "announce.slots");
    check_announce(|said| said.name = "a@7".to_owned(), "announce.name");
    check_announce(|said| said.name = String::new(), "announce.name");
    check_announce(|said| said.name = "x".repeat(1000), "announce.name");
    check_announce(|said| said.kinds.clear(), "announce.kinds");
    check_announce(|said| said.functions = vec!["a b".to_owned()], "announce.functions");
    check_announce(|said| said.functions = vec!["f".to_owned(); 1025], "announce.functions");
    check_announce(|said| said.kinds = vec!["teleport".to_owned()], "announce.kinds");
    check_announce(|said| said.labels = [("a".to_owned(), "b\n".to_owned())].into(), "announce.labels");
    check_announce(
        |said| said.labels = (0..100).map(|n| (n.to_string(), String::new())).collect(),
        "announce.labels",
    );
    check_announce(|said| said.holding = vec![v1::Attempt { run: -1, token: 1 }], "attempt.run");
}

#[track_caller]
fn check_report(said: v1::report::Said, field: &str) {
    assert_eq!(read_report(v1::Report { said: Some(said) }).unwrap_err().field, field);
}

#[test]
fn a_report_that_cannot_be_true_is_refused() {
    use v1::report::Said;
    let attempt = Some(v1::Attempt { run: 7, token: 1 });
    check_report(
        Said::Progress(v1::Progress { attempt, percent: Some(255), ..v1::Progress::default() }),
        "progress.percent",
    );
    check_report(Said::Progress(v1::Progress { attempt, ..v1::Progress::default() }), "progress");
    let checkpoint = Some("{".to_owned());
    check_report(Said::Progress(v1::Progress { attempt, checkpoint, ..v1::Progress::default() }), "progress");
    check_report(Said::Started(v1::Started { attempt, at: -1 }), "started.at");
    check_report(Said::Started(v1::Started { attempt, at: i64::MAX }), "started.at");
    check_report(Said::Started(v1::Started { attempt: None, at: 0 }), "attempt");
    let future = Some(v1::Attempt { run: 7, token: u64::MAX });
    check_report(Said::Started(v1::Started { attempt: future, at: 0 }), "attempt.token");
    check_report(Said::Finished(v1::Finished { attempt, ..Default::default() }), "finished.end");
    check_report(Said::Load(v1::Load { cpu_percent: 101, memory_percent: 0 }), "load.cpu_percent");
}
