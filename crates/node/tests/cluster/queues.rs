//! A consumer waits at a queue that another node leads.

use std::time::Duration;

use punctual_core::name::Namespace;
use punctual_core::queue::{Add, Ask, Body, NewMessage, QueueKey, Said, Verb};

use crate::rig::{LONG, Told, at, leading, passing_on, store};

fn key() -> QueueKey {
    QueueKey { namespace: Namespace::default(), name: "q".parse().unwrap() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_waits_at_another_node_and_one_that_goes_away_takes_nothing_with_it() {
    let store = store();
    let (leader, _lead) = leading(&store).await;
    let (passing, lead) = passing_on(&store, Told::new(leader.handle(), &[]), LONG);
    lead.send_replace(at("leader:1"));
    let there = passing.handle();
    for round in 0..10 {
        let handle = there.clone();
        let consumer = tokio::spawn(async move { handle.take(&[key()], 5, Some(Some(LONG))).await });
        loop {
            let stat = there.queue(Ask::Stat { queue: key() }).await.unwrap();
            if matches!(stat, Said::Stat(Some(stat)) if stat.waiting == 1) {
                break;
            }
            tokio::task::yield_now().await;
        }
        if round % 2 == 0 {
            consumer.abort();
        }
        let new = NewMessage {
            body: Body::from(&b"x"[..]),
            delay: Duration::ZERO,
            retry: Duration::ZERO,
            ttl: LONG,
            priority: 4,
            max_len: None,
            key: None,
        };
        there.queue(Ask::Add(Add { queue: key(), messages: vec![new] })).await.unwrap();
        let taken = match consumer.await {
            Ok(taken) => taken.unwrap(),
            Err(_) => there.take(&[key()], 1, Some(Some(LONG))).await.unwrap(),
        };
        let ids = taken.iter().map(|(_, one)| one.id).collect();
        assert_eq!(there.act(&Namespace::default(), Verb::Ack, ids).await, Ok(1));
    }
    passing.shut_down().await;
    leader.shut_down().await;
}
