//! Several instances of a program on one store, and no server: R27.

use std::time::Duration;

use punctual::Submit;

use crate::scene::{Book, instance, leads, shared_store, succeeded, tick, within};

#[tokio::test(flavor = "multi_thread")]
async fn two_instances_share_the_work_and_every_fire_happens_once() {
    let (store, book) = (shared_store(), Book::default());
    let a = instance(&store, "a", &book).job(tick()).start().await.unwrap();
    let b = instance(&store, "b", &book).job(tick()).start().await.unwrap();
    // What one of them leads and the other is asked for goes by mail: with this many keys there is some of both.
    for number in 0..24 {
        let submit =
            || Submit::function("note").key(format!("key-{number}")).delay(Duration::from_secs(3600));
        let id = a.submit(submit()).await.unwrap();
        assert_eq!(b.submit(submit()).await.unwrap(), id, "whichever is asked");
    }
    leads(&a, |shards| shards > 0 && shards < 8).await;
    leads(&b, |shards| shards > 0 && shards < 8).await;
    for number in 24..48 {
        let submit = || Submit::function("note").key(format!("key-{number}"));
        let id = a.submit(submit()).await.unwrap();
        assert_eq!(b.submit(submit()).await.unwrap(), id);
        succeeded(&b, id).await;
    }
    let ran = book.all();
    assert!(["a", "b"].iter().all(|who| ran.iter().any(|(ran, _)| ran == who)), "both work: {ran:?}");
    a.stop().await;
    b.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_stops_or_is_dropped_costs_no_fire() {
    let (store, book) = (shared_store(), Book::default());
    let a = instance(&store, "a", &book).job(tick()).start().await.unwrap();
    let b = instance(&store, "b", &book).job(tick()).start().await.unwrap();
    book.has(2).await;
    // Whoever leads the job's shard, one of these two is it.
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
