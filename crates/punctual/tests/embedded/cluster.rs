//! Several instances of a program on one store, and no server: R27.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use punctual::{Context, Submit};
use tokio::sync::watch;

use crate::scene::{Book, instance, leads, shared_store, submitted, succeeded, tick, until, within};

/// A lease that does not end while a busy machine stands still for a moment.
const CALM: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread")]
async fn two_instances_share_the_work_and_every_fire_happens_once() {
    let (store, book) = (shared_store(), Book::default());
    let calm = |name| instance(&store, name, &book).shard_lease(CALM).attempt_lease(CALM).job(tick());
    let a = calm("a").start().await.unwrap();
    let b = calm("b").start().await.unwrap();
    // What one of them leads and the other is asked for goes by mail: with this many keys there is some of both.
    for number in 0..24 {
        let submit =
            || Submit::function("note").key(format!("key-{number}")).delay(Duration::from_secs(3600));
        let id = submitted(&a, submit).await;
        assert_eq!(submitted(&b, submit).await, id, "whichever is asked");
    }
    leads(&a, |shards| shards > 0 && shards < 8).await;
    leads(&b, |shards| shards > 0 && shards < 8).await;
    for number in 24..48 {
        let submit = || Submit::function("note").key(format!("key-{number}"));
        let id = submitted(&a, submit).await;
        assert_eq!(submitted(&b, submit).await, id);
        succeeded(&b, id).await;
    }
    let ran = book.all();
    assert!(["a", "b"].iter().all(|who| ran.iter().any(|(ran, _)| ran == who)), "both work: {ran:?}");
    a.stop().await;
    b.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newcomer_gets_its_share_and_no_call_is_doubled() {
    let (store, book) = (shared_store(), Book::default());
    let (end, ended) = watch::channel(false);
    let calls = Arc::new(AtomicUsize::new(0));
    let a = instance(&store, "a", &book).function("hold", {
        let calls = Arc::clone(&calls);
        move |_: Context| {
            let mut ended = ended.clone();
            calls.fetch_add(1, Ordering::Relaxed);
            async move {
                ended.wait_for(|ended| *ended).await?;
                Ok(().into())
            }
        }
    });
    let a = a.shard_lease(CALM).attempt_lease(CALM).slots(64).start().await.unwrap();
    let mut runs = Vec::new();
    // With this many keys every shard has some.
    for number in 0..48 {
        runs.push(submitted(&a, || Submit::function("hold").key(format!("key-{number}"))).await);
    }
    until("all are called", || calls.load(Ordering::Relaxed) == runs.len()).await;
    let b = instance(&store, "b", &book).shard_lease(CALM).start().await.unwrap();
    // Longer than a newcomer has to stay before the others make room for it.
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert_eq!(b.handle().status().shards_led, 0, "all are under way");
    end.send_replace(true);
    for run in &runs {
        assert_eq!(succeeded(&a, *run).await.attempt, 1);
    }
    leads(&b, |shards| shards > 0 && shards < 8).await;
    assert_eq!(calls.load(Ordering::Relaxed), runs.len());
    a.stop().await;
    b.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_stops_or_is_dropped_costs_no_fire() {
    let (store, book) = (shared_store(), Book::default());
    let a = instance(&store, "a", &book).job(tick()).start().await.unwrap();
    let b = instance(&store, "b", &book).job(tick()).start().await.unwrap();
    book.has(2).await;
    // One of the two leads the job's shard.
    a.stop().await;
    let seen = book.all().len();
    book.has(seen + 3).await;
    let c = instance(&store, "c", &book).start().await.unwrap();
    // What it is doing when it is dropped is done again.
    let is_idle = |status: &punctual_node::handle::Status| status.running_runs == 0;
    assert!(within("nothing runs", b.handle().wait_until(is_idle)).await);
    drop(b);
    let seen = book.all().len();
    book.has(seen + 3).await;
    leads(&c, |shards| shards == 8).await;
    book.has_every_second().await;
    c.stop().await;
    book.assert_nothing_twice();
}
