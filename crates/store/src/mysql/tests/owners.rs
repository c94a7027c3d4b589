//! A node takes shards over from their former owner, which is alive, paused or gone.

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use tokio::time::timeout;

use super::*;
use crate::conformance::given::{OTHER, SHARD, deletes, history_row, inserts, succeeded};
use crate::{Claim, Error};

const FENCE: &str = "UPDATE shards SET commit_no = commit_no + 1 WHERE shard = 3";

async fn two_nodes() -> (Mysql, Mysql) {
    let address = Server::shared().database();
    (open(&address, of_node(1)).await, open(&address, of_node(2)).await)
}

#[tokio::test]
async fn a_stopped_owner_s_open_transaction_does_not_delay_a_takeover() {
    let (old, new) = two_nodes().await;
    let acquired = old.acquire(Some(SessionId(1)), &[Claim::any_epoch(SHARD)]).await.unwrap();
    let mut stopped = old.commits[1].take().await.unwrap();
    stopped.step("START TRANSACTION").await.unwrap();
    stopped.step(FENCE).await.unwrap();
    let claims = [Claim { shard: SHARD, expected_epoch: Some(acquired[0].1) }];
    let taken = timeout(NOT_HELD_UP, new.acquire(Some(SessionId(2)), &claims))
        .await
        .expect("the takeover waited for a stopped owner")
        .unwrap();
    assert_eq!(taken.len(), 1);
    let loaded = new.load(SHARD, taken[0].1).await.unwrap();
    assert_eq!(loaded.commit, 2, "what was open has been rolled back");
    assert!(stopped.step("COMMIT").await.is_err(), "its connection was ended");
    drop(stopped);

    // Awake again it connects anew, and is fenced.
    let mut leader = Leader { epoch: acquired[0].1, commit: 1, ..Leader::of(&new, OTHER).await.unwrap() };
    leader.shard = SHARD;
    let late = leader.commit(&old, punctual_core::change::Changes::default()).await;
    assert!(matches!(late, Err(Error::Fenced { shard: SHARD, .. })), "{late:?}");
}

#[tokio::test]
async fn an_owner_that_gave_its_shard_up_is_left_alone() {
    let (old, new) = two_nodes().await;
    let acquired = old.acquire(Some(SessionId(1)), &[Claim::any_epoch(SHARD)]).await.unwrap();
    let mut connection = old.commits[0].take().await.unwrap();
    connection.step("START TRANSACTION").await.unwrap();
    old.release(&acquired, Some(SessionId(2))).await.unwrap();
    new.acquire(Some(SessionId(2)), &[Claim::any_epoch(SHARD)]).await.unwrap();
    connection.step("COMMIT").await.expect("its connections live on");
}

#[tokio::test]
async fn an_owner_that_acquires_its_own_shard_again_ends_nothing() {
    let (node, _) = two_nodes().await;
    node.acquire(Some(SessionId(1)), &[Claim::any_epoch(SHARD)]).await.unwrap();
    let mut connection = node.commits[0].take().await.unwrap();
    connection.step("START TRANSACTION").await.unwrap();
    node.acquire(Some(SessionId(1)), &[Claim::any_epoch(SHARD)]).await.unwrap();
    connection.step("COMMIT").await.expect("its connections live on");
}

#[tokio::test]
async fn what_cannot_be_ended_is_waited_for_and_then_seen() {
    let (stranger, ()) = open_for_suite().await;
    let store = Mysql::open(&Server::shared().address(&stranger.database), options()).await.unwrap();
    let mut lost = stranger.commits[0].take().await.unwrap();
    lost.step("START TRANSACTION").await.unwrap();
    lost.step(FENCE).await.unwrap();
    let claims = [Claim::any_epoch(SHARD)];
    let mut acquiring = std::pin::pin!(store.acquire(None, &claims));
    assert!(timeout(A_MOMENT, &mut acquiring).await.is_err(), "it did not wait for the lock");
    lost.step("COMMIT").await.unwrap();
    let acquired = timeout(SOON, acquiring).await.unwrap().unwrap();
    assert_eq!(store.load(SHARD, acquired[0].1).await.unwrap().commit, 2);
}

/// A connection that is no store's.
async fn stranger(database: &str) -> Conn {
    Conn::from_url(Server::shared().address(database)).await.unwrap()
}

#[tokio::test]
async fn an_epoch_taken_while_a_commit_waits_for_it_wins() {
    let (store, ()) = open_for_suite().await;
    let mut leaders = [Leader::of(&store, SHARD).await.unwrap(), Leader::of(&store, OTHER).await.unwrap()];
    let batches = leaders.each_mut().map(|leader| {
        let run = one_run(leader);
        leader.batch(inserts([run_row(&run)]))
    });
    let mut taker = stranger(&store.database).await;
    taker.query_drop("START TRANSACTION; UPDATE shards SET epoch = epoch + 1 WHERE shard = 5").await.unwrap();
    let mut committing = std::pin::pin!(store.commit(Arc::new(batches.to_vec())));
    assert!(timeout(A_MOMENT, &mut committing).await.is_err(), "it did not wait for the fence");
    taker.query_drop("COMMIT").await.unwrap();
    let late = timeout(SOON, committing).await.unwrap();
    assert!(matches!(late, Err(Error::Fenced { shard: OTHER, .. })), "{late:?}");
    assert_eq!(stored_runs(&store).await, 0);
    store.commit(Arc::new(batches[..1].to_vec())).await.unwrap();
}

#[tokio::test]
async fn of_several_shards_the_one_whose_rows_are_held_is_named() {
    let (store, ()) = open_for_suite().await;
    let (mut held, mut free) =
        (Leader::of(&store, SHARD).await.unwrap(), Leader::of(&store, OTHER).await.unwrap());
    let mut holder = stranger(&store.database).await;
    holder.query_drop(format!("START TRANSACTION; {FENCE}")).await.unwrap();
    let (first, second) = (one_run(&mut free), one_run(&mut held));
    let both =
        Arc::new(vec![free.batch(inserts([run_row(&first)])), held.batch(inserts([run_row(&second)]))]);
    let blocked = store.commit(Arc::clone(&both)).await;
    assert!(matches!(blocked, Err(Error::Blocked { shard: SHARD })), "{blocked:?}");
    assert_eq!(stored_runs(&store).await, 0, "all of it was rolled back");
    holder.query_drop("ROLLBACK").await.unwrap();
    store.commit(both).await.unwrap();
    assert_eq!(stored_runs(&store).await, 2);
}

#[tokio::test]
async fn a_lock_that_is_not_had_in_time_is_known_to_be_rolled_back() {
    let (store, ()) = open_for_suite().await;
    let mut leader = Leader::of(&store, SHARD).await.unwrap();
    let run = one_run(&mut leader);
    let mut holder = stranger(&store.database).await;
    holder.query_drop(format!("START TRANSACTION; {FENCE}")).await.unwrap();
    let waited = store.commit(batch_of(&leader, &run)).await;
    assert!(matches!(waited, Err(Error::Blocked { shard: SHARD })), "{waited:?}");
    holder.query_drop("ROLLBACK").await.unwrap();
    store.commit(batch_of(&leader, &run)).await.unwrap();
    assert_eq!(stored_runs(&store).await, 1);
}

#[tokio::test]
async fn a_transaction_in_which_nothing_happens_is_ended_by_the_server() {
    let (stopped, ()) = open_for_suite().await;
    let store = Mysql::open(&Server::shared().address(&stopped.database), options()).await.unwrap();
    let mut connection = stopped.commits[0].take().await.unwrap();
    connection.step("START TRANSACTION").await.unwrap();
    connection.step(FENCE).await.unwrap();
    let acquired = store.acquire(None, &[Claim::any_epoch(SHARD)]).await.unwrap();
    assert_eq!(store.load(SHARD, acquired[0].1).await.unwrap().commit, 1);
    assert!(connection.step("COMMIT").await.is_err());
}

#[tokio::test]
async fn a_commit_does_not_wait_for_the_rows_of_another() {
    let (store, ()) = open_for_suite().await;
    let mut leader = Leader::of(&store, SHARD).await.unwrap();
    let runs: Vec<Run> = (0..40).map(|_| leader.ad_hoc(at(0))).collect();
    leader.insert(&store, runs.iter().map(run_row)).await.unwrap();
    let mut other = store.commits[0].take().await.unwrap();
    other.step("START TRANSACTION").await.unwrap();
    for table in ["runs (place, shard, status", "history (place, status, finished_at"] {
        let values = if table.starts_with("runs") { "1, 0, 1" } else { "1, 3, 1" };
        let insert = format!("INSERT INTO {table}, namespace, body) VALUES ({values}, 'a', '')");
        other.step(&insert).await.unwrap();
    }
    // Nearly all rows of a small table go: left to itself an optimizer would scan it.
    let mut changes = deletes(runs.iter().map(|run| punctual_core::change::RowKey::Run(run.id)));
    runs.iter().for_each(|run| changes.insert(history_row(&succeeded(run, at(1)))));
    let committed = timeout(NOT_HELD_UP, leader.commit(&store, changes)).await;
    committed.expect("it waited for the other commit").unwrap();
}
