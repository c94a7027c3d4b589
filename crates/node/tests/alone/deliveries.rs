//! Runs whose task is a message, through a handle: the run in one shard, the queue in another.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::command::{Answer, Command, Expect, PutJob, RunJob};
use punctual_core::ids::{RunId, Token};
use punctual_core::job::{self, Definition};
use punctual_core::name::{Name, Namespace};
use punctual_core::queue::{
    Acted, Ask, Body, Deliver, Delivered, NewMessage, QueueKey, QueueName, Said, Sender, Verb, Wait,
};
use punctual_core::retry::Retry;
use punctual_core::run::{Run, Status};
use punctual_core::task::{Enqueue, Task};
use punctual_node::Handle;
use punctual_store::memory::Memory;

use super::rig::{LONG, node};

const SHARDS: u16 = 2;

fn job() -> Name {
    "order".parse().expect("this is a name")
}

/// A queue of the job's own shard, or of the other.
fn queue_of(is_own: bool) -> QueueKey {
    let of_job = job::shard_of(&Namespace::default(), &job(), SHARDS);
    let mut keys = (0..).map(|number| {
        let name: QueueName = format!("q{number}").parse().expect("this is a name");
        QueueKey { namespace: Namespace::default(), name }
    });
    keys.find(|key| (key.shard(SHARDS) == of_job) == is_own).expect("there are many names")
}

/// A queue of the other shard.
fn queue() -> QueueKey {
    queue_of(false)
}

/// Starts a run that delivers into the queue, and is tried once.
async fn start(handle: &Handle) -> RunId {
    let retry = Retry { attempts: 1, ..Retry::default() };
    let task = Task::Queue(Box::new(Enqueue::of(queue().name)));
    let put = PutJob {
        namespace: Namespace::default(),
        name: job(),
        definition: Arc::new(Definition { retry, ..Definition::of(task) }),
        expect: Expect::Anything,
    };
    handle.command(Command::PutJob(put)).await.expect("the job is put");
    let run = RunJob {
        namespace: Namespace::default(),
        name: job(),
        params: None,
        due: None,
        key: None,
        caller: None,
    };
    match handle.command(Command::RunJob(run)).await {
        Ok(Answer::Run(run)) => run.id,
        other => panic!("{other:?}"),
    }
}

async fn consume(handle: &Handle) -> Delivered {
    let mut taken = handle.take(&[queue()], 1, Wait::For(LONG)).await.expect("a take is answered");
    taken.remove(0).1
}

async fn act(handle: &Handle, verb: Verb, taken: &Delivered) {
    assert_eq!(handle.act(&Namespace::default(), verb, vec![taken.id]).await, Ok(1));
}

/// Waits until the run has ended.
async fn end_of(handle: &Handle, run: RunId) -> Arc<Run> {
    loop {
        let found = handle
            .reads()
            .run(&Namespace::default(), run)
            .await
            .expect("a store answers")
            .expect("the run exists");
        if found.run.status().is_terminal() {
            return found.run;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_succeeds_or_fails_with_its_message() {
    let store = Arc::new(Memory::new(SHARDS));
    let node = node(&store).await;
    let handle = node.handle();
    for (verb, status) in [(Verb::Ack, Status::Succeeded), (Verb::Nack { delay: LONG }, Status::Failed)] {
        let run = start(&handle).await;
        act(&handle, verb, &consume(&handle).await).await;
        assert_eq!(end_of(&handle, run).await.status(), status);
    }
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_run_leaves_nothing_in_the_queue() {
    let store = Arc::new(Memory::new(SHARDS));
    let node = node(&store).await;
    let handle = node.handle();
    // Some runs are stopped before their message is delivered, some after.
    for _ in 0..50 {
        let run = start(&handle).await;
        handle
            .command(Command::CancelRun {
                namespace: Namespace::default(),
                run,
                now: false,
                by: None,
                comment: Box::default(),
            })
            .await
            .expect("the run exists");
        assert_eq!(end_of(&handle, run).await.status(), Status::Cancelled);
        assert!(handle.take(&[queue()], 1, Wait::No).await.expect("a take is answered").is_empty());
    }
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_node_learns_how_a_delivered_message_ended() {
    let store = Arc::new(Memory::new(SHARDS));
    let first = node(&store).await;
    let run = start(&first.handle()).await;
    let taken = consume(&first.handle()).await;
    first.shut_down().await;
    let second = node(&store).await;
    act(&second.handle(), Verb::Ack, &taken).await;
    assert_eq!(end_of(&second.handle(), run).await.status(), Status::Succeeded);
    assert!(second.handle().take(&[queue()], 1, Wait::No).await.expect("a take is answered").is_empty());
    second.shut_down().await;
}

/// Holds for a queue in the run's shard and for a queue in another shard.
#[tokio::test(flavor = "multi_thread")]
async fn a_withdrawal_repeated_after_a_restart_has_the_same_answer() {
    let store = Arc::new(Memory::new(SHARDS));
    let sender = Sender { run: RunId(0), token: Token(7) };
    let queues = [queue_of(true), queue_of(false)];
    for _ in 0..2 {
        let node = node(&store).await;
        let handle = node.handle();
        for queue in &queues {
            let withdrawn = handle.queue(Ask::Withdraw { queue: queue.clone(), sender }).await;
            assert_eq!(withdrawn, Ok(Said::Acted(Acted { count: 0 })));
        }
        node.shut_down().await;
    }
    let node = node(&store).await;
    for queue in queues {
        let message = NewMessage {
            body: Body::from(b"late".as_slice()),
            delay: Duration::ZERO,
            retry: LONG,
            ttl: LONG,
            priority: 5,
            max_len: None,
            key: None,
        };
        let late = node.handle().queue(Ask::Deliver(Deliver { queue, sender, message })).await;
        assert_eq!(late, Ok(Said::Added(Vec::new())), "a late delivery adds no message");
    }
    node.shut_down().await;
}
