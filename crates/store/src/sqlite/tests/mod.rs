//! What only a store on disk can be asked.

mod damage;
mod files;
mod message_log;
mod plans;
mod room;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use punctual_core::change::{Batch, Changes};
use punctual_core::run::Run;
use tempfile::TempDir;

use super::{Durability, Options, Sqlite, backup, restore};
use crate::conformance::given::{Leader, SHARD, at, inserts, ready, run_row};
use crate::{Reads, RunFilter, Shards, Store};

fn options(durability: Durability) -> Options {
    Options { shards: 8, durability }
}

fn open_temporary() -> (Sqlite, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let store = Sqlite::open(dir.path(), options(Durability::Relaxed)).unwrap();
    (store, dir)
}

async fn open_for_suite() -> (Sqlite, TempDir) {
    open_temporary()
}

crate::conformance!(suite, open_for_suite);

/// Every message becomes a row with the next commit.
async fn open_for_suite_without_log() -> (Sqlite, TempDir) {
    let (store, dir) = open_temporary();
    store.message_log.write().limit(0);
    (store, dir)
}

crate::conformance!(suite_without_log, open_for_suite_without_log);
crate::sessions_conformance!(sessions, open_for_suite);

fn open(dir: &Path) -> crate::Result<Sqlite> {
    Sqlite::open(dir, options(Durability::Full))
}

fn refusal(dir: &Path) -> String {
    match open(dir) {
        Ok(_) => panic!("the store was opened"),
        Err(error) => error.to_string(),
    }
}

/// Commits so many runs, one by one.
async fn commit_runs(store: &Sqlite, count: i64) -> Vec<Run> {
    let mut leader = Leader::of(store, SHARD).await.unwrap();
    let mut runs = Vec::new();
    for n in 0..count {
        runs.push(ready(&leader.ad_hoc_made_at(at(n), at(n))));
        leader.insert(store, [run_row(&runs[runs.len() - 1])]).await.unwrap();
    }
    runs
}

async fn stored_runs(store: &Sqlite) -> Vec<Run> {
    let filter = RunFilter { oldest_first: true, ..RunFilter::default() };
    let runs = store.runs(&filter, None, 100_000).await.unwrap();
    runs.iter().map(|run| run.as_ref().clone()).collect()
}

/// The files as a process leaves them that is killed now.
fn as_if_killed(dir: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for file in ["punctual.db", "punctual.db-wal", "logs.db", "logs.db-wal", "acknowledged"] {
        if dir.join(file).exists() {
            fs::copy(dir.join(file), copy.path().join(file)).unwrap();
        }
    }
    copy
}
