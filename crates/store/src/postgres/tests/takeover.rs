//! A shard is taken from a leader that is still in the midst of something.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::ids::SessionId;

use super::*;
use crate::conformance::given::{OTHER, SHARD, inserts, wait_until};
use crate::{Claim, Error};

const OLD: SessionId = SessionId(0x01d);
const NEW: SessionId = SessionId(-2);
/// A takeover that does not wait for an idle transaction is done before the server ends that transaction, after 2 s.
const NOT_HELD_UP: Duration = Duration::from_millis(1900);
/// What a commit begins with.
const FENCE: &str = "BEGIN; UPDATE punctual.shards SET commit_no = commit_no + 1 WHERE shard = 3";

async fn waits_for_lock(stranger: &tokio_postgres::Client) -> Result<bool> {
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
         AND datname = current_database()";
    Ok(stranger.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) > 0)
}

#[tokio::test]
async fn a_leader_stopped_inside_its_transaction_holds_nobody_up() {
    let address = Server::shared().database();
    let (old, new) = (open_as(&address, OLD).await, open_as(&address, NEW).await);
    old.acquire(Some(OLD), &[Claim::any_epoch(SHARD)]).await.unwrap();
    let stopped = stranger(&address, &format!("punctual/{OLD}")).await;
    stopped.batch_execute(FENCE).await.unwrap();
    let claims = [Claim::any_epoch(SHARD)];
    let taken = tokio::time::timeout(NOT_HELD_UP, new.acquire(Some(NEW), &claims)).await;
    assert_eq!(taken.expect("the taker waited for the stopped leader").unwrap().len(), 1);
    assert!(stopped.batch_execute("COMMIT").await.is_err(), "the stopped leader could still commit");
}

#[tokio::test]
async fn only_those_who_lose_a_shard_have_their_transactions_ended() {
    let address = Server::shared().database();
    let (old, new) = (open_as(&address, OLD).await, open_as(&address, NEW).await);
    let acquired = old.acquire(Some(OLD), &[SHARD, OTHER].map(Claim::any_epoch)).await.unwrap();
    old.release(&acquired, Some(NEW)).await.unwrap();
    let released = stranger(&address, &format!("punctual/{OLD}")).await;
    released.batch_execute("BEGIN; CREATE TABLE punctual.something_else (a int)").await.unwrap();
    new.acquire(Some(NEW), &[Claim::any_epoch(SHARD)]).await.unwrap();
    released.batch_execute("COMMIT").await.unwrap();
}

#[tokio::test]
async fn an_acquisition_waits_for_what_it_may_not_end() {
    let address = Server::shared().database();
    let store = Arc::new(open_as(&address, NEW).await);
    // A transaction of ours whose connection we lost: the shard is our own, so nobody's session is ended.
    store.acquire(Some(NEW), &[Claim::any_epoch(SHARD)]).await.unwrap();
    let lost = stranger(&address, "other").await;
    lost.batch_execute(FENCE).await.unwrap();
    let acquiring = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.acquire(Some(NEW), &[Claim::any_epoch(SHARD)]).await }
    });
    let watcher = stranger(&address, "watcher").await;
    wait_until("the acquisition waits", async || waits_for_lock(&watcher).await).await.unwrap();
    lost.batch_execute("COMMIT").await.unwrap();
    let acquired = acquiring.await.unwrap().unwrap();
    let loaded = store.load(SHARD, acquired[0].1).await.unwrap();
    assert_eq!(loaded.commit, 3, "two acquisitions, and the commit that landed between them");
}

#[tokio::test]
async fn an_epoch_taken_while_a_commit_waits_for_it_wins() {
    let address = Server::shared().database();
    let store = Arc::new(open(&address).await);
    let mut leader = Leader::of(&*store, SHARD).await.unwrap();
    let taker = stranger(&address, "taker").await;
    taker.batch_execute("BEGIN; UPDATE punctual.shards SET epoch = epoch + 1 WHERE shard = 3").await.unwrap();
    let run = leader.ad_hoc(at(0));
    let batches = Arc::new(vec![leader.batch(inserts([run_row(&run)]))]);
    let committing = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.commit(batches).await }
    });
    let watcher = stranger(&address, "watcher").await;
    wait_until("the commit waits", async || waits_for_lock(&watcher).await).await.unwrap();
    taker.batch_execute("COMMIT").await.unwrap();
    let result = committing.await.unwrap();
    assert!(matches!(result, Err(Error::Fenced { shard: SHARD, .. })), "{result:?}");
    assert_eq!(runs(&store).await, 0);
}

#[tokio::test]
async fn of_several_shards_the_one_whose_rows_are_held_is_named() {
    let address = Server::shared().database();
    let store = open(&address).await;
    let (mut free, mut held) =
        (Leader::of(&store, SHARD).await.unwrap(), Leader::of(&store, OTHER).await.unwrap());
    let holder = stranger(&address, "holder").await;
    holder.batch_execute("BEGIN; SELECT 1 FROM punctual.shards WHERE shard = 5 FOR UPDATE").await.unwrap();
    let (first, second) = (free.ad_hoc(at(0)), held.ad_hoc(at(0)));
    let both =
        Arc::new(vec![free.batch(inserts([run_row(&first)])), held.batch(inserts([run_row(&second)]))]);
    let blocked = store.commit(Arc::clone(&both)).await;
    assert!(matches!(blocked, Err(Error::Blocked { shard: OTHER })), "{blocked:?}");
    assert_eq!(runs(&store).await, 0, "all of it was rolled back");
    holder.batch_execute("ROLLBACK").await.unwrap();
    store.commit(both).await.unwrap();
    assert_eq!(runs(&store).await, 2);
}

#[tokio::test]
async fn a_lock_that_is_not_had_in_time_is_known_to_be_rolled_back() {
    let address = Server::shared().database();
    let store = open(&address).await;
    let mut leader = Leader::of(&store, SHARD).await.unwrap();
    let holder = stranger(&address, "holder").await;
    holder.batch_execute("BEGIN; SELECT 1 FROM punctual.shards WHERE shard = 3 FOR UPDATE").await.unwrap();
    let held = commit_one_run(&store, &mut leader).await;
    assert!(matches!(held, Err(Error::Blocked { shard: SHARD })), "{held:?}");
    holder.batch_execute("ROLLBACK").await.unwrap();
    commit_one_run(&store, &mut leader).await.unwrap();
    assert_eq!(runs(&store).await, 1);
}
