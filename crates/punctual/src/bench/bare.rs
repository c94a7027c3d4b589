//! Baselines for the run benchmark: a bare writer of the same rows, and single-row commits on a database server.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use mysql_async::prelude::Queryable;
use punctual_core::Timestamp;
use punctual_core::attempt::Outcome;
use punctual_core::change::{Batch, Changes, Loaded, Row, RowKey};
use punctual_core::ids::{Epoch, IdMaker, RunId, ShardId, Token, WorkerId};
use punctual_core::job::Definition;
use punctual_core::name::Namespace;
use punctual_core::run::{Event, Origin, Run, Trigger};
use punctual_core::task::Task;
use punctual_store::{Claim, Store};
use tokio::task::JoinSet;

use super::data_folder::Stopwatch;
use crate::wiring;

/// Runs in one batch.
const BATCH: usize = 1000;
/// How long single-row commits are measured.
const SINGLE_ROWS: Duration = Duration::from_secs(2);
/// Bytes of a single row, about the size of a run.
const ROW_BYTES: usize = 100;

/// Runs per second when their rows are only written: first the running run, then its history row. The rows
/// are made beforehand; every lane writes its own shard.
#[expect(clippy::cast_precision_loss, reason = "a number of runs fits")]
pub(super) async fn writer(store: Arc<dyn Store>, lanes: u16, count: usize) -> anyhow::Result<f64> {
    let claims: Vec<Claim> = (0..lanes).map(ShardId).map(Claim::any_epoch).collect();
    let mut work = Vec::new();
    for (shard, epoch) in store.acquire(None, &claims).await? {
        let loaded = store.load(shard, epoch).await?;
        work.push(batches(&loaded, count / usize::from(lanes)));
    }
    let watch = Stopwatch::start();
    let mut writing = JoinSet::new();
    for batches in work {
        let store = Arc::clone(&store);
        writing.spawn(async move {
            for batch in batches {
                store.commit(Arc::new(vec![batch])).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(written) = writing.join_next().await {
        written??;
    }
    Ok(count as f64 / watch.seconds())
}

fn batches(loaded: &Loaded, count: usize) -> Vec<Batch> {
    let now = wiring::now();
    let Loaded { shard, epoch, mut commit, last_id, .. } = *loaded;
    let mut ids = IdMaker::new(shard, last_id);
    let definition = Arc::new(Definition::of(Task::Noop));
    let mut batches = Vec::new();
    let mut left = count;
    while left > 0 {
        let size = left.min(BATCH);
        left -= size;
        let runs: Vec<(Run, Run)> =
            (0..size).map(|_| life(RunId(ids.next(now)), &definition, epoch, now)).collect();
        let (mut born, mut ended) = (Changes::default(), Changes::default());
        for (running, done) in runs {
            ended.delete(RowKey::Run(running.id));
            born.insert(Row::Run(Arc::new(running)));
            ended.insert(Row::History(Arc::new(done)));
        }
        for changes in [born, ended] {
            batches.push(Batch { shard, epoch, commit, last_id: ids.last(), changes });
            commit += 1;
        }
    }
    batches
}

/// A run as the engine writes it: running, and ended.
fn life(id: RunId, definition: &Arc<Definition>, epoch: Epoch, now: Timestamp) -> (Run, Run) {
    let origin = Origin::AdHoc(Arc::clone(definition));
    let mut run = Run::new(id, Namespace::default(), origin, Trigger::Submit, now, now);
    let token = Token::default().next(epoch);
    let worker = WorkerId::new("local", 1_800_000_000_000);
    let legal = "a run comes due, is assigned and ends";
    run.apply(Event::Due, definition, now).expect(legal);
    run.apply(Event::Assigned { worker, token }, definition, now).expect(legal);
    let running = run.clone();
    run.apply(Event::Reported { token, outcome: Outcome::succeeded(now) }, definition, now).expect(legal);
    (running, run)
}

/// Commits per second of clients that repeatedly insert one row, like `pgbench` with a script of one insert.
#[expect(clippy::cast_precision_loss, reason = "a number of rows fits")]
pub(super) async fn single_rows(url: &str, clients: usize) -> anyhow::Result<f64> {
    // Cut off Punctual's own parameters, which the driver does not know.
    let url = url.split('?').next().unwrap_or(url);
    let mut inserting = JoinSet::new();
    for client in 0..clients {
        let (url, table) = (url.to_owned(), format!("punctual_bench_{client}"));
        inserting.spawn(async move {
            match url.strip_prefix("mariadb:") {
                Some(rest) => in_mysql(&format!("mysql:{rest}"), &table).await,
                None if url.starts_with("mysql:") => in_mysql(&url, &table).await,
                None => in_postgres(&url, &table).await,
            }
        });
    }
    let mut rows = 0_i64;
    while let Some(inserted) = inserting.join_next().await {
        rows += inserted?.context("cannot measure commits of single rows")?;
    }
    Ok(rows as f64 / SINGLE_ROWS.as_secs_f64())
}

async fn in_postgres(url: &str, table: &str) -> anyhow::Result<i64> {
    let (database, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
    let carrying = tokio::spawn(connection);
    let make =
        format!("DROP TABLE IF EXISTS {table}; CREATE TABLE {table} (id int8 PRIMARY KEY, body bytea)");
    database.batch_execute(&make).await?;
    let insert = database.prepare(&format!("INSERT INTO {table} VALUES ($1, $2)")).await?;
    let (watch, body, mut rows) = (Stopwatch::start(), vec![7_u8; ROW_BYTES], 0_i64);
    while watch.elapsed() < SINGLE_ROWS {
        database.execute(&insert, &[&rows, &body]).await?;
        rows += 1;
    }
    database.batch_execute(&format!("DROP TABLE {table}")).await?;
    drop(database);
    carrying.await??;
    Ok(rows)
}

async fn in_mysql(url: &str, table: &str) -> anyhow::Result<i64> {
    let mut database = mysql_async::Conn::from_url(url).await?;
    database.query_drop(format!("DROP TABLE IF EXISTS {table}")).await?;
    let make = format!("CREATE TABLE {table} (id BIGINT PRIMARY KEY, body BLOB) ENGINE = InnoDB");
    database.query_drop(make).await?;
    let insert = database.prep(format!("INSERT INTO {table} VALUES (?, ?)")).await?;
    let (watch, body, mut rows) = (Stopwatch::start(), vec![7_u8; ROW_BYTES], 0_i64);
    while watch.elapsed() < SINGLE_ROWS {
        database.exec_drop(&insert, (rows, &body)).await?;
        rows += 1;
    }
    database.query_drop(format!("DROP TABLE {table}")).await?;
    database.disconnect().await?;
    Ok(rows)
}
