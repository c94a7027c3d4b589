//! No room, failing disks, and a log that has to stay short.

use super::*;
use crate::conformance::given::history_row;
use crate::conformance::given::succeeded;
use crate::{Claim, Error};
use punctual_core::task::Params;

/// Lets the database grow to so many pages and no further.
async fn limit_pages(store: &Sqlite, pages: i64) {
    let set = move |writer: &mut crate::sqlite::writer::Writer| {
        writer.connection().pragma_update_and_check(None, "max_page_count", pages, |_| Ok(())).unwrap();
        Ok(())
    };
    store.writer.ask(set).await.unwrap();
}

fn large(run: &Run) -> Run {
    Run { params: Some(Params(Arc::from("x".repeat(60_000)))), ..run.clone() }
}

#[tokio::test]
async fn a_full_store_takes_nothing_and_goes_on_when_there_is_room() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let mut leader = Leader::of(&store, SHARD).await.unwrap();
    limit_pages(&store, 90).await;
    let mut stored = Vec::new();
    let refused = loop {
        let run = large(&ready(&leader.ad_hoc(at(0))));
        match leader.insert(&store, [run_row(&run)]).await {
            Ok(()) => stored.push(run),
            Err(error) => {
                assert!(matches!(error, Error::Full(_)), "{error}");
                break run;
            }
        }
    };
    assert!(!stored.is_empty());
    assert_eq!(stored_runs(&store).await, stored, "reads go on, and nothing of the refused commit is there");
    limit_pages(&store, 1_000_000).await;
    leader.insert(&store, [run_row(&refused)]).await.unwrap();
    stored.push(refused);
    assert_eq!(stored_runs(&store).await, stored);
    drop(store);
    assert_eq!(stored_runs(&open(dir.path()).unwrap()).await, stored);
}

#[tokio::test]
async fn after_a_failed_sync_nothing_more_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let runs = commit_runs(&store, 3).await;
    let mut leader = Leader::of(&store, SHARD).await.unwrap();
    store.health.fail("disk I/O error");
    for _ in 0..2 {
        let error = leader.commit(&store, Changes::default()).await.unwrap_err();
        assert!(matches!(&error, Error::Unusable(why) if why.contains("restart")), "{error}");
    }
    assert!(matches!(store.acquire(None, &[Claim::any_epoch(SHARD)]).await, Err(Error::Unusable(_))));
    assert_eq!(stored_runs(&store).await, runs, "what is stored can still be read");
    drop(store);
    assert!(dir.path().join("punctual.db-wal").exists(), "the log was touched after the failure");
    assert_eq!(stored_runs(&open(dir.path()).unwrap()).await, runs);
}

#[tokio::test]
async fn the_log_stays_short_however_much_is_written() {
    let (store, dir) = open_temporary();
    let mut leader = Leader::of(&store, SHARD).await.unwrap();
    let (mut written, mut longest) = (0, 0);
    while written < 200 {
        let runs: Vec<Run> = (0..16).map(|_| large(&succeeded(&leader.ad_hoc(at(0)), at(1)))).collect();
        leader.insert(&store, runs.iter().map(history_row)).await.unwrap();
        longest = longest.max(fs::metadata(dir.path().join("punctual.db-wal")).unwrap().len() >> 20);
        written += 1;
    }
    let size = fs::metadata(dir.path().join("punctual.db")).unwrap().len() >> 20;
    assert!(size > 100, "only {size} MiB were copied into the database");
    assert!(longest < 128, "the log grew to {longest} MiB");
}
