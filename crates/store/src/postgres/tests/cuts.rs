//! Connections that are lost, and what is known then.

use std::sync::Arc;

use punctual_core::change::{Row, Want};

use super::proxy::{Mode, Proxy};
use super::*;
use crate::Error;
use crate::conformance::given::{SHARD, inserts, key_of, ready, wait_until};

/// A store at the end of a wire that can be cut, with a leader that has committed once.
async fn wired() -> (Postgres, Proxy, Leader) {
    let server = Server::shared();
    let proxy = Proxy::start(server.port()).await;
    let address = server.database().replace(&server.port().to_string(), &proxy.address.port().to_string());
    let store = open(&address).await;
    let mut leader = Leader::of(&store, SHARD).await.unwrap();
    commit_one_run(&store, &mut leader).await.unwrap();
    (store, proxy, leader)
}

async fn commit_over_cut_wire(when: Mode) -> (Postgres, Leader, Proxy) {
    let (store, proxy, mut leader) = wired().await;
    let run = ready(&leader.ad_hoc(at(0)));
    let batches = Arc::new(vec![leader.batch(inserts([run_row(&run)]))]);
    proxy.cut(when);
    let result = store.commit(batches).await;
    assert!(matches!(result, Err(Error::Unknown(_))), "{result:?}");
    let after = Leader::of(&store, SHARD).await.unwrap();
    (store, after, proxy)
}

#[tokio::test]
async fn a_lost_answer_is_unknown_and_the_commit_is_found_after_acquire() {
    let (store, leader, _proxy) = commit_over_cut_wire(Mode::CutAfterCommit).await;
    assert_eq!(leader.load(&store).await.unwrap().runs.len(), 1);
    assert_eq!(runs(&store).await, 2);
}

#[tokio::test]
async fn a_lost_commit_is_unknown_and_absent_after_acquire() {
    let (store, mut leader, _proxy) = commit_over_cut_wire(Mode::CutBeforeRequest).await;
    assert!(leader.load(&store).await.unwrap().runs.is_empty());
    assert_eq!(runs(&store).await, 1);
    commit_one_run(&store, &mut leader).await.unwrap();
}

#[tokio::test]
async fn a_commit_over_a_cut_connection_is_whole_or_absent() {
    let (store, proxy, mut leader) = wired().await;
    let mut landed = 1;
    for round in 0..60 {
        // This commit makes a new connection, so that the cut hits the next commit.
        commit_one_run(&store, &mut leader).await.unwrap();
        let run = ready(&leader.ad_hoc(at(0)));
        let unique = key_of(&run, &format!("key-{round}"), at(1));
        let changes = inserts([run_row(&run), Row::Unique(unique)]);
        let batches = Arc::new(vec![leader.batch(changes)]);
        let mode = [Mode::CutInsideRequest, Mode::CutAfterCommit, Mode::CutBeforeRequest][round % 3];
        proxy.cut(mode);
        let result = store.commit(batches).await;
        assert!(matches!(result, Err(Error::Unknown(_))), "{mode:?}: {result:?}");
        leader = Leader::of(&store, SHARD).await.unwrap();
        let wants =
            vec![(SHARD, Want::Run(run.id)), (SHARD, Want::Unique(Arc::from(format!("key-{round}"))))];
        let found = store.fetch(wants).await.unwrap();
        let is_there = mode == Mode::CutAfterCommit;
        assert_eq!(
            (found.runs.len(), found.uniques.len()),
            (usize::from(is_there), usize::from(is_there)),
            "{mode:?}"
        );
        landed += 1 + usize::from(is_there);
    }
    assert_eq!(runs(&store).await, landed);
}

#[tokio::test]
async fn a_read_over_a_cut_wire_is_passing() {
    let (store, proxy, _) = wired().await;
    assert_eq!(runs(&store).await, 1);
    proxy.cut(Mode::CutBeforeRequest);
    let lost = store.runs(&RunFilter::default(), None, 10).await;
    assert!(matches!(lost, Err(Error::Unreachable(_))), "{lost:?}");
    assert_eq!(runs(&store).await, 1);
}

#[tokio::test]
async fn a_store_goes_on_after_its_server_has_crashed_and_come_back() {
    let server = Server::start(&["fsync=off"]);
    let store = open(&server.database()).await;
    let mut leader = Leader::of(&store, SHARD).await.unwrap();
    commit_one_run(&store, &mut leader).await.unwrap();
    server.stop();
    let run = leader.ad_hoc(at(0));
    let batches = Arc::new(vec![leader.batch(inserts([run_row(&run)]))]);
    let down = store.commit(Arc::clone(&batches)).await;
    assert!(matches!(down, Err(Error::Unreachable(_) | Error::Unknown(_))), "{down:?}");
    let down = store.leases().await;
    assert!(matches!(down, Err(Error::Unreachable(_))), "{down:?}");
    server.start_again();
    // The store pauses for a moment after a failed connection.
    wait_until("the store commits again", async || match store.commit(Arc::clone(&batches)).await {
        Ok(()) => Ok(true),
        Err(Error::Unreachable(_)) => Ok(false),
        Err(error) => Err(error),
    })
    .await
    .unwrap();
    wait_until("the store reads again", async || match store.stats().await {
        Ok(stats) => Ok(stats.live_runs == 2),
        Err(Error::Unreachable(_)) => Ok(false),
        Err(error) => Err(error),
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_commit_whose_session_was_ended_is_rolled_back() {
    let address = Server::shared().database();
    let store = Arc::new(open_as(&address, SessionId(5)).await);
    let mut leader = Leader::of(&*store, SHARD).await.unwrap();
    let other = stranger(&address, "another").await;
    // The commit waits for the lock on the shard's row, and its session is ended there.
    other.batch_execute("BEGIN; SELECT 1 FROM punctual.shards WHERE shard = 3 FOR UPDATE").await.unwrap();
    let run = leader.ad_hoc(at(0));
    let batches = Arc::new(vec![leader.batch(inserts([run_row(&run)]))]);
    let committing = tokio::spawn({
        let (store, batches) = (Arc::clone(&store), Arc::clone(&batches));
        async move { store.commit(batches).await }
    });
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
         AND datname = current_database() AND application_name = 'punctual/0000000000000005'";
    // A third connection, because a transaction sees the list of sessions as of its first read.
    let third = stranger(&address, "third").await;
    wait_until("its session is ended", async || {
        Ok(third.query_one(end, &[]).await.unwrap().get::<_, i64>(0) == 1)
    })
    .await
    .unwrap();
    let result = committing.await.unwrap();
    assert!(matches!(result, Err(Error::RolledBack(_))), "{result:?}");
    other.batch_execute("ROLLBACK").await.unwrap();
    store.commit(batches).await.unwrap();
    assert_eq!(runs(&store).await, 1);
}
