//! Queues, used through a handle: waiting consumers get messages, and a consumer that has gone loses none.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use punctual_core::name::Namespace;
use punctual_core::queue::{Add, Ask, Body, NewMessage, QueueKey, Said, Verb, Wait};
use punctual_core::time::ManualClock;
use punctual_node::Handle;
use punctual_store::memory::Memory;

use super::rig::{LONG, NOW, node, node_with};

fn key(name: &str) -> QueueKey {
    QueueKey { namespace: Namespace::default(), name: name.parse().expect("this is a name") }
}

async fn add(handle: &Handle, queue: &str, bodies: &[&str]) {
    add_with(handle, queue, bodies, Duration::ZERO).await;
}

async fn add_with(handle: &Handle, queue: &str, bodies: &[&str], retry: Duration) {
    let messages = bodies.iter().map(|body| NewMessage {
        body: Body::from(body.as_bytes()),
        delay: Duration::ZERO,
        retry,
        ttl: Duration::from_secs(3600),
        priority: 4,
        max_len: None,
        key: None,
    });
    let add = Add { queue: key(queue), messages: messages.collect() };
    assert!(
        matches!(handle.queue(Ask::Add(add)).await, Ok(Said::Added(added)) if added.iter().all(Result::is_ok))
    );
}

async fn take(handle: &Handle, queues: &[&str], count: u32, wait: Option<Duration>) -> Vec<String> {
    let queues: Vec<QueueKey> = queues.iter().map(|name| key(name)).collect();
    let taken =
        handle.take(&queues, count, wait.map_or(Wait::No, Wait::For)).await.expect("a take is answered");
    taken.iter().map(|(_, one)| String::from_utf8_lossy(&one.body).into_owned()).collect()
}

/// Waits until `count` consumers wait on a queue.
async fn until_waiting(handle: &Handle, queue: &str, count: u64) {
    loop {
        let Ok(Said::Stat(stat)) = handle.queue(Ask::Stat { queue: key(queue) }).await else {
            panic!("no stat")
        };
        if stat.map_or(0, |stat| stat.waiting) == count {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn several_queues_are_read_round_robin() {
    let store = Arc::new(Memory::new(4));
    let node = node(&store).await;
    let handle = node.handle();
    add(&handle, "a", &["a1", "a2", "a3", "a4"]).await;
    add(&handle, "b", &["b1"]).await;
    add(&handle, "c", &["c1", "c2"]).await;
    assert_eq!(take(&handle, &["a", "b", "a", "c"], 6, None).await, ["a1", "b1", "c1", "a2", "c2", "a3"]);
    let rest = handle.take(&[key("a")], 9, Wait::No).await.unwrap();
    let ids = rest.iter().map(|(_, one)| one.id).collect::<Vec<_>>();
    assert_eq!(handle.act(&Namespace::default(), Verb::Ack, ids.clone()).await, Ok(1));
    assert_eq!(handle.act(&Namespace::default(), Verb::Ack, ids).await, Ok(0));
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_of_several_queues_gets_the_first_message() {
    let store = Arc::new(Memory::new(4));
    let node = node(&store).await;
    let handle = node.handle();
    let consumer = tokio::spawn({
        let handle = handle.clone();
        async move { take(&handle, &["a", "b"], 5, Some(LONG)).await }
    });
    until_waiting(&handle, "a", 1).await;
    until_waiting(&handle, "b", 1).await;
    add(&handle, "b", &["b1"]).await;
    assert_eq!(consumer.await.unwrap(), ["b1"]);
    until_waiting(&handle, "a", 0).await;
    add(&handle, "a", &["a1"]).await;
    assert_eq!(take(&handle, &["a"], 5, None).await, ["a1"]);
    assert!(
        take(&handle, &["a", "b"], 5, Some(Duration::from_millis(1))).await.is_empty(),
        "the wait has ended without a message"
    );
    assert!(take(&handle, &["a"], 5, Some(Duration::from_millis(1))).await.is_empty(), "the wait has ended");
    node.shut_down().await;
}

/// As when a node is paused after the leader has answered, and continues after the message was given to another consumer.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_not_handed_over_after_its_retry() {
    let retry = Duration::from_secs(5);
    let clock = ManualClock::at(NOW);
    let node = node_with(&Arc::new(Memory::new(4)), Arc::new(clock.clone())).await;
    let handle = node.handle();
    let mut stopped = pin!(take(&handle, &["a"], 1, Some(LONG)));
    assert!(poll_once(stopped.as_mut()).await.is_none());
    until_waiting(&handle, "a", 1).await;
    add_with(&handle, "a", &["a1"], retry).await;
    until_waiting(&handle, "a", 0).await;
    clock.advance(retry + Duration::from_secs(1));
    node.nudge().clock_was_set();
    let other = handle.take(&[key("a")], 1, Wait::For(LONG)).await.unwrap();
    assert_eq!(handle.act(&Namespace::default(), Verb::Ack, vec![other[0].1.id]).await, Ok(1));
    assert_eq!(poll_once(stopped.as_mut()).await, None, "another consumer has acknowledged it");
    add_with(&handle, "a", &["a2"], retry).await;
    assert_eq!(stopped.await, ["a2"]);
    node.shut_down().await;
}

async fn poll_once<T>(mut future: Pin<&mut impl Future<Output = T>>) -> Option<T> {
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_message_of_a_consumer_that_has_gone_is_returned() {
    let store = Arc::new(Memory::new(4));
    let node = node(&store).await;
    let handle = node.handle();
    for round in 0..50 {
        let consumer = tokio::spawn({
            let handle = handle.clone();
            async move { take(&handle, &["a"], 5, Some(LONG)).await }
        });
        until_waiting(&handle, "a", 1).await;
        let gone = async {
            if round % 2 == 0 {
                tokio::task::yield_now().await;
            }
            consumer.abort();
            consumer.await
        };
        let body = round.to_string();
        let bodies = [body.as_str()];
        let (gone, ()) = tokio::join!(gone, add(&handle, "a", &bodies));
        // A message given to a consumer that has gone returns at once, even if it is delivered at most once.
        let taken = match gone {
            Ok(taken) => taken,
            Err(_) => take(&handle, &["a"], 5, Some(LONG)).await,
        };
        assert_eq!(taken, [round.to_string()]);
    }
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_is_kept_over_a_stop() {
    let store = Arc::new(Memory::new(4));
    let first = node(&store).await;
    add(&first.handle(), "a", &["a1", "a2"]).await;
    assert_eq!(take(&first.handle(), &["a"], 1, None).await, ["a1"]);
    first.shut_down().await;
    let second = node(&store).await;
    assert_eq!(take(&second.handle(), &["a"], 5, Some(LONG)).await, ["a2"]);
    second.shut_down().await;
}

/// The bodies that a peek returns.
async fn peek(handle: &Handle, queue: &str, count: u32, newest: bool) -> Vec<String> {
    let seen = handle.peek(&key(queue), count, newest).await.expect("a peek is answered");
    seen.iter().map(|one| String::from_utf8_lossy(&one.body).into_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peek_shows_as_many_live_messages_as_requested() {
    let store = Arc::new(Memory::new(4));
    let first = node(&store).await;
    let bodies: Vec<String> = (0..5000).map(|number| number.to_string()).collect();
    for chunk in bodies.chunks(1000) {
        add(&first.handle(), "a", &chunk.iter().map(String::as_str).collect::<Vec<_>>()).await;
    }
    // A new leader knows the length of the queue, but has none of its messages in memory.
    first.shut_down().await;
    let node = node(&store).await;
    let handle = node.handle();
    assert_eq!(peek(&handle, "a", 2, false).await, ["0", "1"]);
    assert_eq!(peek(&handle, "a", 2, true).await, ["4999", "4998"]);
    let taken = handle.take(&[key("a")], 3, Wait::No).await.unwrap();
    let ids = taken.iter().map(|(_, one)| one.id).take(2).collect::<Vec<_>>();
    assert_eq!(handle.act(&Namespace::default(), Verb::Ack, ids).await, Ok(2));
    assert_eq!(peek(&handle, "a", 1, false).await, ["3"]);
    assert_eq!(peek(&handle, "a", 4000, false).await, bodies[3..4003]);
    add(&handle, "a", &["last"]).await;
    assert_eq!(peek(&handle, "a", 2, true).await, ["last", "4999"]);
    assert_eq!(peek(&handle, "nobody", 2, true).await, Vec::<String>::new());
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peek_at_large_messages_shows_as_many_as_fit() {
    let store = Arc::new(Memory::new(4));
    let node = node(&store).await;
    let handle = node.handle();
    let heavy = "x".repeat(1024 * 1024);
    for _ in 0..8 {
        add(&handle, "a", &[&heavy]).await;
    }
    assert_eq!(peek(&handle, "a", 8, true).await.len(), 4);
    assert_eq!(peek(&handle, "a", 8, false).await.len(), 4);
    node.shut_down().await;
}
