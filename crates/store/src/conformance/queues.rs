//! Queues: what is loaded and listed of them, and their names.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::change::{Row, RowKey};
use punctual_core::job::limit::Rate;
use punctual_core::limits::QUEUE_NAME_BYTES_MAX;
use punctual_core::queue::{Pause, QueueKey, QueueName, QueueNumber, QueueRecord, QueueSettings};

use super::given::*;
use super::messages::plain;
use crate::{Result, Store};

/// A load has all queues of the shard and none of their messages.
pub async fn a_load_brings_every_queue_with_its_counts(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let mut other = Leader::of(store, OTHER).await?;
    let mut queues: Vec<QueueRecord> = (0..50)
        .map(|n| QueueRecord {
            queued: u64::from(n),
            messages: u64::from(n) * 3,
            pause: Pause { input: n % 2 == 0, output: n % 3 == 0 },
            unacked: u64::from(n) * 2,
            settings: (n % 4 == 0).then(|| Arc::new(settings(n))),
            ..leader.queue_in(store, "default", &format!("queue {n}"), n)
        })
        .collect();
    leader.insert(store, queues.iter().rev().cloned().map(Row::Queue)).await?;
    other.insert(store, [Row::Queue(other.queue(store, 1))]).await?;
    assert_eq!(leader.load(store).await?.queues, queues);

    (queues[7].queued, queues[7].unacked) = (1 << 40, 1 << 41);
    queues[7].settings = Some(Arc::new(settings(7)));
    queues[8].settings = None;
    let mut changes = updates([7, 8].map(|n: usize| Row::Queue(queues[n].clone())));
    changes.delete(RowKey::Queue(queues.remove(9).number));
    changes.insert(message_row(&leader.message(7, 5)));
    leader.commit(store, changes).await?;
    assert_eq!(leader.load(store).await?.queues, queues);
    Ok(())
}

fn settings(n: u32) -> QueueSettings {
    QueueSettings {
        running: Some(n + 1),
        rate: Some(Rate { count: 100, span: Duration::from_secs(60), burst: 1 }),
        hold: Some(Duration::from_millis(1500)),
        max_deliveries: Some(3),
        dead_letter: "dead \0 \"letters\"".parse().ok(),
    }
}

/// Numbers are reused: one batch deletes two queues and adds them with each other's numbers.
pub async fn queues_may_exchange_their_numbers(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let (first, second) = (leader.queue(store, 1), leader.queue_in(store, "default", "other", 2));
    leader.insert(store, [&first, &second].map(|queue| Row::Queue(queue.clone()))).await?;
    let mut changes = deletes([RowKey::Queue(first.number), RowKey::Queue(second.number)]);
    let first = QueueRecord { number: second.number, ..first };
    let second = QueueRecord { number: QueueNumber(1), ..second };
    changes.insert(Row::Queue(first.clone()));
    changes.insert(Row::Queue(second.clone()));
    leader.commit(store, changes).await?;
    assert_eq!(leader.load(store).await?.queues, [second, first]);
    Ok(())
}

/// A name may be any text, and is compared byte by byte.
pub async fn any_text_is_the_name_of_a_queue(store: &dyn Store) -> Result<()> {
    let texts = ["a", "a ", "A", "ä", "\0", "a\0b", "', --", "%_", "очередь", "🦀"];
    let mut names: Vec<QueueName> = texts.iter().filter_map(|text| text.parse().ok()).collect();
    names.extend("x".repeat(QUEUE_NAME_BYTES_MAX).parse::<QueueName>());
    names.sort();
    let mut expected = Vec::new();
    for (number, name) in (0..).map(QueueNumber).zip(names) {
        let key = QueueKey { namespace: namespace("default"), name };
        let mut leader = Leader::of(store, key.shard(store.shards())).await?;
        let queue = QueueRecord { key, number, ..leader.queue(store, 0) };
        let message = leader.message(number.0, 5);
        leader.insert(store, [Row::Queue(queue.clone()), message_row(&message)]).await?;
        expected.push((queue, message));
    }
    let queues: Vec<QueueRecord> = expected.iter().map(|(queue, _)| queue.clone()).collect();
    assert_eq!(store.queues(None, None, 100).await?, queues);
    for (queue, message) in expected {
        assert_eq!(plain(&store.messages(&queue.key, None, 10).await?), [message], "{:?}", queue.key);
    }
    Ok(())
}

/// Queues of all shards, in order of namespace and name.
pub async fn queues_are_listed_by_namespace_and_name(store: &dyn Store) -> Result<()> {
    let mut expected = Vec::new();
    for shard in [SHARD, OTHER] {
        let mut leader = Leader::of(store, shard).await?;
        for (number, of) in (0..).zip(["b", "a", "a/c", "a-b"]) {
            let queue = leader.queue_in(store, of, "queue", number);
            leader.insert(store, [Row::Queue(queue.clone())]).await?;
            expected.push(queue);
        }
    }
    expected.sort_by(|a, b| a.key.cmp(&b.key));
    assert_eq!(store.queues(None, None, 100).await?, expected);
    for (index, queue) in expected.iter().enumerate() {
        let after = store.queues(None, Some(&queue.key), 2).await?;
        assert_eq!(after, expected[index + 1..(index + 3).min(expected.len())]);
    }
    let wanted = namespace("a-b");
    let of_one: Vec<QueueRecord> =
        expected.iter().filter(|queue| queue.key.namespace == wanted).cloned().collect();
    assert_eq!(of_one.len(), 2);
    assert_eq!(store.queues(Some(&wanted), None, 100).await?, of_one);
    assert_eq!(store.queues(Some(&wanted), Some(&of_one[0].key), 100).await?, of_one[1..]);
    let (first, last) = (&expected[0].key, &expected[expected.len() - 1].key);
    assert_eq!(store.queues(Some(&wanted), Some(first), 1).await?, of_one[..1]);
    assert_eq!(store.queues(Some(&wanted), Some(last), 100).await?, []);
    assert_eq!(store.queues(Some(&namespace("nobody")), None, 100).await?, []);
    Ok(())
}
