//! Runs whose task is a message for a queue: delivered once, and ended with their message.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use punctual_core::cross_shard::CrossShardRequest;
use punctual_core::ids::RunId;
use punctual_core::job::{Definition, Overlap};
use punctual_core::name::Namespace;
use punctual_core::queue::{
    Act, Ask, Delivered, END_NOTICES, MessageId, Pause, QueueKey, QueueName, Said, Take, Verb,
};
use punctual_core::retry::Retry;
use punctual_core::run::{Reason, Status, What};
use punctual_core::task::{Enqueue, Task};
use punctual_engine::Settings;

use crate::support::{Rig, cancel, name, span};

const JOB: &str = "order";

/// Two shards and no worker.
fn rig() -> Rig {
    Rig::with(2, 0, Settings::default())
}

/// A queue that belongs to the other shard than the job.
fn queue() -> QueueKey {
    let of_job = punctual_core::job::shard_of(&Namespace::default(), &name(JOB), 2);
    let mut keys = (0..).map(|number| {
        let name: QueueName = format!("q{number}").parse().expect("a name");
        QueueKey { namespace: Namespace::default(), name }
    });
    keys.find(|key| key.shard(2) != of_job).expect("there are many names")
}

fn task() -> Enqueue {
    let body = Some("{{ run.id }}/{{ run.attempt }}".to_owned());
    Enqueue { body, retry: Some(span("30s")), ttl: Some(span("1h")), ..Enqueue::of(queue().name) }
}

fn job(task: Enqueue) -> Definition {
    let retry = Retry { attempts: 1, ..Retry::default() };
    Definition { overlap: Overlap::Allow, retry, ..Definition::of(Task::Queue(Box::new(task))) }
}

fn again(attempts: u32) -> Retry {
    Retry { attempts, delay: span("10s"), jitter_percent: 0, ..Retry::default() }
}

impl Rig {
    /// A run of a job, with its message in the queue.
    fn sent(&mut self, definition: Definition) -> RunId {
        self.put(JOB, definition);
        let run = self.start(JOB);
        self.run_requests();
        run
    }

    fn consume(&mut self) -> Vec<Delivered> {
        match self.said(Ask::Take(Take { queue: queue(), count: 10, waiter: None })) {
            Said::Taken(taken) => taken,
            other => panic!("{other:?}"),
        }
    }

    fn consume_one(&mut self) -> Delivered {
        let mut taken = self.consume();
        assert_eq!(taken.len(), 1);
        taken.remove(0)
    }

    /// Messages of the queue, queued or not, and end notices.
    fn left(&self) -> (usize, usize) {
        let (notices, messages): (Vec<_>, Vec<_>) =
            self.message_rows().into_iter().partition(|message| message.id.queue == END_NOTICES);
        (messages.len(), notices.len())
    }
}

fn whose(taken: &Delivered) -> String {
    String::from_utf8_lossy(&taken.body).into_owned()
}

#[test]
fn a_run_succeeds_when_its_message_is_acknowledged() {
    let mut rig = rig();
    let run = rig.sent(job(task()));
    let row = rig.run(run);
    assert_eq!((row.status(), row.attempt), (Status::Running, 1));
    assert_eq!(row.assignee.as_ref().map(ToString::to_string), Some(format!("queue {}", queue().name)));
    let taken = rig.consume_one();
    assert_eq!(whose(&taken), format!("{run}/1"));
    rig.advance("2s");
    assert_eq!(rig.run(run).entries.last().map(|entry| entry.what), Some(What::Delivered));
    assert_eq!(rig.act(Verb::Ack, taken.id), 1);
    rig.run_requests();
    let row = rig.run(run);
    assert_eq!((row.status(), &*row.error), (Status::Succeeded, ""));
    assert!(row.output.contains("\"message\":\"D-"), "{}", row.output);
    assert_eq!(rig.left(), (0, 0));
}

#[test]
fn without_a_body_the_parameters_are_the_message() {
    let mut rig = rig();
    let params = punctual_core::task::Params(r#"{"a":1}"#.into());
    rig.sent(Definition { params, ..job(Enqueue { body: None, ..task() }) });
    assert_eq!(whose(&rig.consume_one()), r#"{"a":1}"#);
}

#[test]
fn a_refused_message_fails_its_attempt() {
    let mut rig = rig();
    let run = rig.sent(Definition { retry: again(2), ..job(task()) });
    let first = rig.consume_one();
    assert_eq!(rig.act(Verb::Nack { delay: span("1h") }, first.id), 1);
    rig.run_requests();
    assert_eq!((rig.status(run), rig.left()), (Status::Waiting, (0, 0)));
    assert_eq!(&*rig.run(run).error, "the message was refused by its consumer");
    rig.advance("10s");
    rig.run_requests();
    let second = rig.consume_one();
    assert_eq!((whose(&second), second.nacks), (format!("{run}/2"), 0));
    rig.act(Verb::Nack { delay: Duration::ZERO }, second.id);
    rig.run_requests();
    assert_eq!(rig.status(run), Status::Failed);
    assert!(rig.is_dead_letter(run));
}

#[test]
fn a_message_whose_life_is_over_times_its_run_out() {
    let mut rig = rig();
    let run = rig.sent(job(task()));
    rig.consume_one();
    rig.advance("1h");
    rig.run_requests();
    let row = rig.run(run);
    assert_eq!((row.status(), rig.left()), (Status::TimedOut, (0, 0)));
    assert_eq!(&*row.error, "the message was not acknowledged within its time to live");
}

#[test]
fn a_deleted_message_fails_its_run_and_says_so() {
    let mut rig = rig();
    let run = rig.sent(job(task()));
    let id = rig.consume_one().id;
    assert_eq!(rig.act(Verb::Delete, id), 1);
    let other = rig.start(JOB);
    rig.run_requests();
    assert_eq!(rig.said(Ask::Flush { queue: queue(), limit: 10 }), Said::Flushed(1));
    rig.run_requests();
    for run in [run, other] {
        let row = rig.run(run);
        assert_eq!((row.status(), &*row.error), (Status::Failed, "the message was deleted from its queue"));
    }
}

#[test]
fn a_consumer_that_takes_too_long_gets_it_again_in_the_same_attempt() {
    let mut rig = rig();
    let run = rig.sent(job(task()));
    let first = rig.consume_one();
    rig.advance("30s");
    let second = rig.consume_one();
    assert_eq!((second.id, second.redeliveries), (first.id, 1));
    rig.act(Verb::Ack, second.id);
    rig.run_requests();
    assert_eq!((rig.status(run), rig.run(run).attempt), (Status::Succeeded, 1));
}

#[test]
fn a_message_that_is_delivered_once_at_most_can_still_be_refused() {
    let mut rig = rig();
    let run = rig.sent(job(Enqueue { retry: Some(Duration::ZERO), ..task() }));
    let taken = rig.consume_one();
    rig.advance("30m");
    assert!(rig.consume().is_empty());
    assert_eq!(rig.act(Verb::Nack { delay: Duration::ZERO }, taken.id), 1);
    rig.run_requests();
    assert_eq!(rig.status(run), Status::Failed);
}

#[test]
fn a_cancelled_run_takes_its_message_out_of_the_queue() {
    let mut rig = rig();
    let run = rig.sent(job(task()));
    rig.ask(cancel(run)).expect("it can be cancelled");
    assert_eq!(rig.status(run), Status::Running, "until its message is gone");
    rig.run_requests();
    assert_eq!((rig.status(run), rig.left()), (Status::Cancelled, (0, 0)));
    assert!(rig.consume().is_empty());
}

#[test]
fn a_run_cancelled_before_its_delivery_delivers_no_message() {
    let mut rig = rig();
    rig.put(JOB, job(task()));
    let run = rig.start(JOB);
    let late = rig.requests();
    rig.ask(cancel(run)).expect("it can be cancelled");
    rig.run_requests();
    assert_eq!(rig.status(run), Status::Cancelled);
    late.into_iter().for_each(|request| rig.run_request(request));
    assert!(rig.consume().is_empty());
    assert_eq!(rig.left(), (0, 0));
}

#[test]
fn what_was_acknowledged_before_the_cancel_came_has_succeeded() {
    let mut rig = rig();
    let run = rig.sent(job(task()));
    let taken = rig.consume_one();
    rig.act(Verb::Ack, taken.id);
    let mut requests = rig.requests();
    rig.ask(cancel(run)).expect("it can be cancelled");
    // The withdrawal overtakes the end notice.
    requests.splice(0..0, rig.requests());
    requests.into_iter().for_each(|request| rig.run_request(request));
    assert_eq!(rig.status(run), Status::Succeeded);
}

#[test]
fn a_run_at_its_timeout_takes_its_message_back() {
    let mut rig = rig();
    let run = rig.sent(Definition { timeout: Some(span("1m")), ..job(task()) });
    rig.consume_one();
    rig.advance("1m");
    rig.run_requests();
    assert_eq!((rig.status(run), rig.left()), (Status::TimedOut, (0, 0)));
    assert_eq!(
        rig.run(run).reason,
        Some(Reason::Cancelled(punctual_core::run::Cause::Timeout)),
        "and the consumer has nothing to acknowledge any more"
    );
}

#[test]
fn a_queue_that_lets_nothing_in_fails_the_attempt() {
    let mut rig = rig();
    let pause = Pause { input: true, output: false };
    rig.said(Ask::Pause { queue: queue(), pause: Some(pause) });
    let run = rig.sent(job(task()));
    let row = rig.run(run);
    assert_eq!(
        (row.status(), &*row.error),
        (Status::Failed, "the queue is paused in input; try again later")
    );
}

#[test]
fn to_everybody_else_an_ended_message_is_gone() {
    let mut rig = rig();
    rig.sent(job(task()));
    let taken = rig.consume_one();
    rig.act(Verb::Ack, taken.id);
    assert_eq!(rig.left(), (0, 1), "its sender has not heard yet");
    let id = taken.id;
    assert_eq!(rig.act(Verb::Ack, id), 0);
    assert_eq!(rig.said(Ask::Show { namespace: Namespace::default(), id }), Said::Shown(None));
    let Said::Stat(Some(stat)) = rig.said(Ask::Stat { queue: queue() }) else { panic!("no stat") };
    assert_eq!((stat.len, stat.messages), (0, 0));
    for notice in rig.message_rows() {
        let act = Act { namespace: Namespace::default(), verb: Verb::Ack, ids: vec![notice.id] };
        assert!(matches!(rig.said(Ask::Act(act)), Said::Acted(acted) if acted.count == 0));
    }
}

#[test]
fn what_a_crash_kept_from_being_told_is_told_after_it() {
    let mut rig = rig();
    let run = rig.sent(job(task()));
    let taken = rig.consume_one();
    rig.act(Verb::Ack, taken.id);
    assert!(!rig.requests().is_empty(), "lost with the node");
    rig.reload();
    rig.run_requests();
    assert_eq!((rig.status(run), rig.left()), (Status::Succeeded, (0, 0)));
    assert!(rig.consume().is_empty());
}

#[test]
fn a_delivery_after_a_crash_adds_one_message() {
    let mut rig = rig();
    rig.put(JOB, job(task()));
    let run = rig.start(JOB);
    assert_eq!(rig.requests().len(), 1, "lost with the node");
    for _ in 0..3 {
        rig.reload();
        rig.run_requests();
    }
    let taken = rig.consume_one();
    rig.reload();
    rig.act(Verb::Ack, taken.id);
    let notices = rig.requests();
    // Its leader does not know yet that it has ended, and has it delivered again.
    rig.reload();
    let requests = rig.requests();
    assert!(requests.iter().any(|request| matches!(request, CrossShardRequest::Deliver(_))), "{requests:?}");
    requests.into_iter().chain(notices).for_each(|request| rig.run_request(request));
    assert_eq!(rig.status(run), Status::Succeeded);
    assert!(rig.consume().is_empty());
}

#[test]
fn a_cancel_that_a_crash_interrupted_is_carried_out_after_it() {
    let mut rig = rig();
    let run = rig.sent(job(task()));
    rig.ask(cancel(run)).expect("it can be cancelled");
    rig.requests();
    rig.reload();
    rig.run_requests();
    assert_eq!((rig.status(run), rig.left()), (Status::Cancelled, (0, 0)));
}

#[test]
fn a_worker_is_neither_needed_nor_asked() {
    let mut rig = Rig::with(2, 3, Settings::default());
    let run = rig.sent(job(task()));
    assert!(rig.assigned().is_empty());
    assert_eq!((rig.pool.roster().attempts_held(), rig.pool.ready_runs(), rig.pool.running()), (0, 0, 1));
    rig.lose_worker();
    rig.reload();
    rig.run_requests();
    assert_eq!(rig.pool.running(), 1);
    assert_eq!((rig.status(run), rig.pool.roster().attempts_held()), (Status::Running, 0));
    let taken = rig.consume_one();
    rig.act(Verb::Ack, taken.id);
    rig.run_requests();
    assert_eq!((rig.status(run), rig.pool.running()), (Status::Succeeded, 0));
}

#[test]
fn the_overlap_policy_holds_for_messages_too() {
    let mut rig = rig();
    let first = rig.sent(Definition { overlap: Overlap::Queue, ..job(task()) });
    let second = rig.start(JOB);
    rig.run_requests();
    assert_eq!((rig.status(second), rig.left().0), (Status::Waiting, 1));
    let taken = rig.consume_one();
    rig.act(Verb::Ack, taken.id);
    rig.run_requests();
    assert_eq!((rig.status(first), rig.status(second)), (Status::Succeeded, Status::Running));
    assert_eq!(whose(&rig.consume_one()), format!("{second}/1"));
}

#[derive(Debug, Clone)]
enum Step {
    Start {
        once: bool,
    },
    /// A request that has left is run, and may be again.
    Run(prop::sample::Index),
    /// The same of any that ever left: a node that was given up has just come to it.
    RunOld(prop::sample::Index),
    Consume,
    Ack(prop::sample::Index),
    Nack(prop::sample::Index),
    Cancel(prop::sample::Index),
    Pass(u64),
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    let which = any::<prop::sample::Index>;
    prop_oneof![
        4 => any::<bool>().prop_map(|once| Step::Start { once }),
        8 => which().prop_map(Step::Run),
        2 => which().prop_map(Step::RunOld),
        5 => Just(Step::Consume),
        4 => which().prop_map(Step::Ack),
        2 => which().prop_map(Step::Nack),
        1 => which().prop_map(Step::Cancel),
        3 => (1..40u64).prop_map(Step::Pass),
        2 => Just(Step::Crash),
    ]
}

/// What was seen from outside.
#[derive(Debug, Default)]
struct Seen {
    /// How often each message came, by what it says.
    came: BTreeMap<String, u32>,
    in_hand: Vec<(MessageId, String)>,
    acked: BTreeSet<String>,
    once: BTreeSet<RunId>,
    ended: BTreeMap<RunId, Status>,
}

impl Seen {
    fn consume(&mut self, rig: &mut Rig) {
        for taken in rig.consume() {
            let whose = whose(&taken);
            assert!(!self.acked.contains(&whose), "{whose} was acknowledged, and came again");
            *self.came.entry(whose.clone()).or_default() += 1;
            self.in_hand.push((taken.id, whose));
        }
    }

    /// A run that has ended stays as it ended.
    fn check(&mut self, rig: &Rig) {
        for run in rig.all_runs() {
            if let Some(ended) = self.ended.get(&run.id) {
                assert_eq!(run.status(), *ended, "run {} ended twice", run.id);
            } else if run.status().is_terminal() {
                self.ended.insert(run.id, run.status());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// Requests are lost, doubled and late. Every run ends once, no acknowledged message comes again, a message without
    /// retry is delivered at most once, and no row is left.
    #[test]
    fn any_history_of_deliveries_ends_every_run_once(steps in proptest::collection::vec(step(), 1..100)) {
        let mut rig = rig();
        let (once, often) = ("once", JOB);
        let retry = again(3);
        rig.put(often, Definition { retry: retry.clone(), ..job(task()) });
        rig.put(once, Definition { retry, ..job(Enqueue { retry: Some(Duration::ZERO), ..task() }) });
        let (mut seen, mut runs) = (Seen::default(), Vec::new());
        let (mut open, mut old): (Vec<CrossShardRequest>, Vec<CrossShardRequest>) = (Vec::new(), Vec::new());
        for step in steps {
            match step {
                Step::Start { once: is_once } => {
                    let run = rig.start(if is_once { once } else { often });
                    runs.push(run);
                    if is_once {
                        seen.once.insert(run);
                    }
                }
                Step::Run(which) if !open.is_empty() => rig.run_request(open.remove(which.index(open.len()))),
                Step::RunOld(which) if !old.is_empty() => rig.run_request(old[which.index(old.len())].clone()),
                Step::Consume => seen.consume(&mut rig),
                Step::Ack(which) if !seen.in_hand.is_empty() => {
                    let (id, whose) = seen.in_hand[which.index(seen.in_hand.len())].clone();
                    if rig.act(Verb::Ack, id) == 1 {
                        prop_assert!(seen.acked.insert(whose), "acknowledged twice");
                    }
                }
                Step::Nack(which) if !seen.in_hand.is_empty() => {
                    let (id, _) = seen.in_hand[which.index(seen.in_hand.len())].clone();
                    rig.act(Verb::Nack { delay: Duration::ZERO }, id);
                }
                Step::Cancel(which) if !runs.is_empty() => drop(rig.ask(cancel(runs[which.index(runs.len())]))),
                Step::Pass(seconds) => rig.advance_by(Duration::from_secs(seconds)),
                Step::Crash => {
                    open.clear();
                    rig.requests();
                    rig.reload();
                }
                _ => {}
            }
            let left = rig.requests();
            old.extend(left.iter().cloned());
            open.extend(left);
            seen.check(&rig);
        }
        open.into_iter().for_each(|request| rig.run_request(request));
        // Three attempts, each of them delivered, given up by its consumers and over.
        for _ in 0..12 {
            rig.run_requests();
            seen.consume(&mut rig);
            rig.advance("1h");
            seen.check(&rig);
        }
        rig.run_requests();
        seen.check(&rig);
        for run in &runs {
            prop_assert!(rig.status(*run).is_terminal(), "{:?}", rig.run(*run));
        }
        prop_assert_eq!(rig.left(), (0, 0), "messages and end notices");
        for (whose, came) in &seen.came {
            let run: RunId = whose.split('/').next().and_then(|id| id.parse().ok()).expect("an id");
            prop_assert!(!seen.acked.contains(whose) || rig.status(run) == Status::Succeeded, "{} was done", whose);
            prop_assert!(*came == 1 || !seen.once.contains(&run), "{} came {} times", whose, came);
        }
    }
}
