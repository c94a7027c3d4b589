//! Connections that are lost, and what may be said of what was on its way.

use super::proxy::{Cut, Proxy};
use super::*;
use crate::conformance::given::{SHARD, inserts, wait_until};
use crate::{Claim, Error, Result};

/// A store behind a proxy, and another that goes straight to the server.
async fn behind_proxy(options: ServerOptions) -> (Mysql, Proxy, Mysql) {
    let server = Server::shared();
    let direct = server.database();
    let proxy = Proxy::to(server.port()).await;
    let through = direct.replace(&format!(":{}/", server.port()), &format!(":{}/", proxy.port));
    (open(&through, options).await, proxy, open(&direct, super::options()).await)
}

#[tokio::test]
async fn a_commit_is_unknown_when_its_connection_is_cut() {
    for (cut, landed) in [(Cut::BeforeCommit, false), (Cut::AfterCommit, true)] {
        let (store, proxy, _) = behind_proxy(of_node(1)).await;
        let mut leader = Leader::of(&store, SHARD).await.unwrap();
        let run = one_run(&mut leader);
        proxy.cut(cut);
        let result = store.commit(batch_of(&leader, &run)).await;
        assert!(matches!(result, Err(Error::Unknown(_))), "{cut:?}: {result:?}");
        let next = Leader::of(&store, SHARD).await.unwrap();
        let loaded = next.load(&store).await.unwrap();
        assert_eq!(loaded.runs.len(), usize::from(landed), "{cut:?}");
        let late = store.commit(batch_of(&leader, &run)).await;
        assert!(matches!(late, Err(Error::Fenced { .. })), "{cut:?}: {late:?}");
    }
}

#[tokio::test]
async fn a_transaction_lost_before_commit_is_rolled_back_and_can_be_sent_again() {
    let (store, proxy, _) = behind_proxy(of_node(1)).await;
    let mut leader = Leader::of(&store, SHARD).await.unwrap();
    let run = one_run(&mut leader);
    proxy.cut(Cut::InTransaction);
    let batch = batch_of(&leader, &run);
    let lost = store.commit(Arc::clone(&batch)).await;
    assert!(matches!(lost, Err(Error::RolledBack(_))), "{lost:?}");
    // The server still believes in the lost connection, which has locked the shard: the next one ends it.
    tokio::time::timeout(SOON, store.commit(batch)).await.unwrap().unwrap();
    assert_eq!(stored_runs(&store).await, 1);
}

#[tokio::test]
async fn wherever_the_wire_is_cut_a_commit_is_whole_or_not_there() {
    let (store, proxy, _) = behind_proxy(of_node(1)).await;
    let mut landed = 0;
    for bytes in (0..2400).step_by(40) {
        let mut leader = Leader::of(&store, SHARD).await.unwrap();
        let runs = [one_run(&mut leader), one_run(&mut leader)];
        let batch = leader.batch(inserts(runs.iter().map(run_row)));
        proxy.cut(Cut::After(bytes));
        let result = store.commit(Arc::new(vec![batch])).await;
        let next = Leader::of(&store, SHARD).await.unwrap();
        let live = next.load(&store).await.unwrap().runs;
        let there = runs.iter().filter(|run| live.iter().any(|record| record.run.id == run.id)).count();
        match result {
            Ok(()) => assert_eq!(there, 2, "an acknowledged commit is missing after {bytes} bytes"),
            Err(Error::RolledBack(_)) => assert_eq!(there, 0, "after {bytes} bytes"),
            Err(Error::Unknown(_)) => assert!(there == 0 || there == 2, "half a commit after {bytes} bytes"),
            Err(error) => panic!("after {bytes} bytes: {error}"),
        }
        landed += usize::from(there == 2);
    }
    assert!((1..60).contains(&landed), "the wire was always cut too early or too late: {landed}");
}

#[tokio::test]
async fn commit_is_not_sent_when_a_fence_missed() {
    let (store, proxy, other) = behind_proxy(options()).await;
    let mut old = Leader::of(&store, SHARD).await.unwrap();
    let run = one_run(&mut old);
    other.acquire(None, &[Claim::any_epoch(SHARD)]).await.unwrap();
    let before = proxy.commits();
    assert!(matches!(store.commit(batch_of(&old, &run)).await, Err(Error::Fenced { .. })));
    assert_eq!(proxy.commits(), before);
    assert_eq!(stored_runs(&other).await, 0);
}

#[tokio::test]
async fn a_store_comes_back_after_the_server_was_restarted() {
    let server = Server::start(&[]);
    let store = open(&server.database(), ServerOptions { durability: Durability::Full, ..of_node(1) }).await;
    let mut leader = Leader::of(&store, SHARD).await.unwrap();
    let run = one_run(&mut leader);
    leader.insert(&store, [run_row(&run)]).await.unwrap();
    server.stop();
    let second = one_run(&mut leader);
    for _ in 0..2 {
        let down = store.commit(batch_of(&leader, &second)).await;
        assert!(matches!(down, Err(Error::RolledBack(_) | Error::Unreachable(_))), "{down:?}");
    }
    assert!(store.leases().await.is_err() && store.run(&run.namespace, run.id).await.is_err());
    server.start_again();
    let sent =
        wait_until("the store is back", async || Ok(store.commit(batch_of(&leader, &second)).await.is_ok()));
    sent.await.unwrap();
    let all: Result<()> = wait_until("every connection is back", async || {
        let read = store.runs(&RunFilter::default(), None, 10).await;
        Ok(store.leases().await.is_ok() && read.is_ok_and(|runs| runs.len() == 2))
    })
    .await;
    all.unwrap();
}
