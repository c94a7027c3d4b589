//! A consumer waits on a queue that another node leads.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::name::Namespace;
use punctual_core::queue::{Add, Ask, Body, NewMessage, QueueKey, Said, Verb, Wait};

use punctual_node::{Handle, Leaders, QueueWatch};

use crate::rig::{GONE, LONG, SHARDS, Told, at, leading, passing_on, store};

fn key() -> QueueKey {
    QueueKey { namespace: Namespace::default(), name: "q".parse().unwrap() }
}

/// A message that is delivered at most once.
fn once() -> NewMessage {
    NewMessage {
        body: Body::from(&b"x"[..]),
        delay: Duration::ZERO,
        retry: Duration::ZERO,
        ttl: LONG,
        priority: 4,
        max_len: None,
        key: None,
    }
}

async fn wait_until_waited_for(handle: &Handle, count: u64) {
    loop {
        let stat = handle.queue(Ask::Stat { queue: key() }).await.unwrap();
        if matches!(stat, Said::Stat(Some(stat)) if stat.waiting == count) {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_waits_on_the_queue_of_another_node() {
    let store = store();
    let (leader, _lead) = leading(&store).await;
    let (passing, lead) = passing_on(&store, Told::new(leader.handle(), &[]), LONG);
    lead.send_replace(at("leader:1"));
    let there = passing.handle();
    for round in 0..10 {
        let handle = there.clone();
        let consumer = tokio::spawn(async move { handle.take(&[key()], 5, Wait::For(LONG)).await });
        wait_until_waited_for(&there, 1).await;
        if round % 2 == 0 {
            consumer.abort();
        }
        there.queue(Ask::Add(Add { queue: key(), messages: vec![once()] })).await.unwrap();
        let taken = match consumer.await {
            Ok(taken) => taken.unwrap(),
            Err(_) => there.take(&[key()], 1, Wait::For(LONG)).await.unwrap(),
        };
        let ids = taken.iter().map(|(_, one)| one.id).collect();
        assert_eq!(there.act(&Namespace::default(), Verb::Ack, ids).await, Ok(1));
    }
    passing.shut_down().await;
    leader.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_leader_is_asked_a_few_times_a_second() {
    let store = store();
    let peers = Arc::new(Told::default());
    let (passing, lead) = passing_on(&store, peers.clone(), LONG);
    lead.send_replace(at(GONE));
    let taken = passing.handle().take(&[key()], 1, Wait::For(Duration::from_secs(1))).await.unwrap();
    assert!(taken.is_empty());
    let asked = peers.asked().len();
    // Each try asks to wait, and then to stop waiting.
    assert!((2..=20).contains(&asked), "{asked} times");
    passing.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_consumer_moves_to_the_next_leader() {
    let store = store();
    let (leader, _lead) = leading(&store).await;
    let peers = Told::new(leader.handle(), &[]);
    let (passing, lead) = passing_on(&store, peers.clone(), LONG);
    lead.send_replace(at("former:1"));
    let there = passing.handle();
    let handle = there.clone();
    let consumer = tokio::spawn(async move { handle.take(&[key()], 1, Wait::For(LONG)).await });
    wait_until_waited_for(&leader.handle(), 1).await;
    lead.send_replace(at("newer:2"));
    while !peers.asked().iter().any(|address| address == "newer:2") {
        tokio::task::yield_now().await;
    }
    wait_until_waited_for(&leader.handle(), 1).await;
    there.queue(Ask::Add(Add { queue: key(), messages: vec![once()] })).await.unwrap();
    assert_eq!(consumer.await.unwrap().unwrap().len(), 1);
    passing.shut_down().await;
    leader.shut_down().await;
}

async fn hears(watch: &mut QueueWatch) -> bool {
    tokio::time::timeout(Duration::from_millis(50), watch.news()).await.is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_leader_hears_of_messages_that_were_left() {
    let store = store();
    let (leader, lead) = leading(&store).await;
    let handle = leader.handle();
    let mut watch = handle.watch_queue(&key()).expect("nothing is watched yet");
    assert!(handle.watch_queue(&key()).is_none(), "a node watches one queue");
    assert!(hears(&mut watch).await, "it leads from now on");
    assert!(!hears(&mut watch).await, "nobody has added a message");
    let other = QueueKey { name: "other".parse().unwrap(), ..key() };
    for (queue, is_heard) in [(other, false), (key(), true)] {
        handle.queue(Ask::Add(Add { queue, messages: vec![once()] })).await.unwrap();
        assert_eq!(hears(&mut watch).await, is_heard);
    }
    lead.send_replace(at("other:1"));
    assert!(!hears(&mut watch).await && !watch.leads());
    lead.send_replace(Leaders::alone(SHARDS));
    assert!(hears(&mut watch).await, "the other node may have left messages");
    leader.shut_down().await;
}
