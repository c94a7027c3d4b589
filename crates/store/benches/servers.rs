//! How fast a store on a server takes the row changes of runs:
//! `BENCH_STORE=postgres://user@host/database cargo bench -p punctual-store --bench servers`, or `mysql://…`.
//!
//! A run is what it costs the store: an insert of the live row, its delete, an insert of the history row. Two lanes commit
//! at once, each over its half of 64 shards, in batches of 1, 100 and 1,000 runs, made beforehand. Beside it stands what
//! the same server does with two clients that insert single rows. `BENCH_RUNS` is the number of runs at most.

#![expect(clippy::unwrap_used, reason = "a benchmark may stop at the first surprise")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable;
use punctual_core::Timestamp;
use punctual_core::attempt::Outcome;
use punctual_core::change::{Batch, Changes, Row, RowKey};
use punctual_core::ids::{Epoch, IdMaker, RunId, ShardId, WorkerId};
use punctual_core::job::Definition;
use punctual_core::name::Namespace;
use punctual_core::run::{Event, Origin, Run, Trigger};
use punctual_core::task::Task;
use punctual_store::mysql::Mysql;
use punctual_store::postgres::Postgres;
use punctual_store::{Claim, ServerOptions, Store};
use tokio::task::JoinSet;

const LANES: usize = 2;
const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);
/// How long single rows are inserted.
const BASELINE: Duration = Duration::from_secs(5);
/// Commits of one lane with batches of one: enough to see a steady rate.
const COMMITS_MAX: usize = 2_000;

fn main() {
    let Ok(address) = std::env::var("BENCH_STORE") else {
        println!("nothing to measure: BENCH_STORE names no server");
        return;
    };
    let runs = std::env::var("BENCH_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(200_000);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        println!("single rows, two clients: {:.0} commits/s", baseline(&address).await);
        for size in [1, 100, 1000] {
            measure(open(&address).await, size, runs).await;
        }
    });
}

async fn open(address: &str) -> Arc<dyn Store> {
    if address.starts_with("postgres") {
        Arc::new(Postgres::open(address, ServerOptions::default()).await.unwrap())
    } else {
        Arc::new(Mysql::open(address, ServerOptions::default()).await.unwrap())
    }
}

struct Shard {
    epoch: Epoch,
    commit: u64,
    ids: IdMaker,
}

async fn measure(store: Arc<dyn Store>, size: usize, runs: usize) {
    let claims: Vec<Claim> = (0..store.shards()).map(ShardId).map(Claim::any_epoch).collect();
    let mut lanes: Vec<Vec<Shard>> = (0..LANES).map(|_| Vec::new()).collect();
    for (shard, epoch) in store.acquire(None, &claims).await.unwrap() {
        let loaded = store.load(shard, epoch).await.unwrap();
        let ids = IdMaker::new(shard, loaded.last_id);
        lanes[usize::from(shard.0) % LANES].push(Shard { epoch, commit: loaded.commit, ids });
    }
    let commits = (runs / size / LANES).clamp(1, COMMITS_MAX);
    let lanes: Vec<_> = lanes.into_iter().map(|mut shards| batches(&mut shards, size, commits)).collect();
    let start = now();
    let mut committing = JoinSet::new();
    for batches in lanes {
        let store = Arc::clone(&store);
        committing.spawn(async move {
            let mut slowest = Duration::ZERO;
            for batch in batches {
                let start = now();
                store.commit(batch).await.unwrap();
                slowest = slowest.max(start.elapsed());
            }
            slowest
        });
    }
    let slowest = committing.join_all().await.into_iter().max().unwrap_or_default();
    let per_second = (commits * size * LANES) as f64 / start.elapsed().as_secs_f64();
    println!("two lanes, {size} runs a commit: {per_second:.0} runs/s, slowest commit {slowest:.1?}");
}

/// One commit more than there are thousands: the last settles what the one before made.
fn batches(shards: &mut [Shard], size: usize, commits: usize) -> Vec<Arc<Vec<Batch>>> {
    let (mut settling, mut next): (Vec<(usize, Run)>, usize) = (Vec::new(), 0);
    let mut all = Vec::new();
    for number in 0..=commits {
        let mut changes: Vec<Changes> = shards.iter().map(|_| Changes::default()).collect();
        for (shard, run) in settling.drain(..) {
            changes[shard].delete(RowKey::Run(run.id));
            changes[shard].insert(Row::History(Arc::new(ended(run))));
        }
        let now = START + Duration::from_millis(number as u64);
        for _ in 0..if number == commits { 0 } else { size } {
            let shard = next % shards.len();
            let run = started(&mut shards[shard].ids, now);
            changes[shard].insert(Row::Run(Arc::new(run.clone())));
            settling.push((shard, run));
            next += 1;
        }
        let touched = changes.into_iter().zip(&mut *shards).filter(|(changes, _)| !changes.is_empty());
        let batches = touched.map(|(changes, shard)| {
            shard.commit += 1;
            let last_id = shard.ids.last();
            let Shard { epoch, commit, .. } = *shard;
            Batch { shard: RunId(last_id).shard(), epoch, commit: commit - 1, last_id, changes }
        });
        all.push(Arc::new(batches.collect()));
    }
    all
}

fn started(ids: &mut IdMaker, now: Timestamp) -> Run {
    let definition = Arc::new(Definition::of(Task::Noop));
    let origin = Origin::AdHoc(Arc::clone(&definition));
    let id = RunId(ids.next(now));
    let mut run = Run::new(id, Namespace::default(), origin, Trigger::Submit, now, now);
    run.apply(Event::Due, &definition, now).unwrap();
    let token = run.token.next(Epoch(1));
    let worker = WorkerId(Arc::from("machine-1/worker"));
    run.apply(Event::Assigned { worker, token }, &definition, now).unwrap();
    run
}

fn ended(mut run: Run) -> Run {
    let now = run.created_at + Duration::from_millis(1);
    let outcome = Outcome { exit_code: Some(0), ..Outcome::succeeded(now) };
    run.apply(Event::Reported { token: run.token, outcome }, &Definition::of(Task::Noop), now).unwrap();
    run
}

/// What `pgbench` would measure with a script of one insert.
async fn baseline(address: &str) -> f64 {
    let address = address.split('?').next().unwrap_or(address);
    let mut inserting = JoinSet::new();
    for client in 0..2_i64 {
        let (address, table) = (address.to_owned(), format!("single_rows_{client}"));
        inserting.spawn(async move {
            if address.starts_with("postgres") {
                single_rows_in_postgres(&address, &table).await
            } else {
                single_rows_in_mysql(&address, &table).await
            }
        });
    }
    inserting.join_all().await.into_iter().sum()
}

async fn single_rows_in_postgres(address: &str, table: &str) -> f64 {
    let (database, connection) = tokio_postgres::connect(address, tokio_postgres::NoTls).await.unwrap();
    let carrying = tokio::spawn(connection);
    let make =
        format!("DROP TABLE IF EXISTS {table}; CREATE TABLE {table} (id int8 PRIMARY KEY, body bytea)");
    database.batch_execute(&make).await.unwrap();
    let insert = database.prepare(&format!("INSERT INTO {table} VALUES ($1, $2)")).await.unwrap();
    let (start, body, mut rows) = (now(), vec![7_u8; 100], 0_i64);
    while start.elapsed() < BASELINE {
        database.execute(&insert, &[&rows, &body]).await.unwrap();
        rows += 1;
    }
    database.batch_execute(&format!("DROP TABLE {table}")).await.unwrap();
    drop(database);
    let _ = carrying.await;
    rows as f64 / BASELINE.as_secs_f64()
}

async fn single_rows_in_mysql(address: &str, table: &str) -> f64 {
    let mut database = mysql_async::Conn::from_url(address).await.unwrap();
    let make = format!("CREATE OR REPLACE TABLE {table} (id BIGINT PRIMARY KEY, body BLOB) ENGINE = InnoDB");
    database.query_drop(make).await.unwrap();
    let insert = database.prep(format!("INSERT INTO {table} VALUES (?, ?)")).await.unwrap();
    let (start, body, mut rows) = (now(), vec![7_u8; 100], 0_i64);
    while start.elapsed() < BASELINE {
        database.exec_drop(&insert, (rows, &body)).await.unwrap();
        rows += 1;
    }
    database.query_drop(format!("DROP TABLE {table}")).await.unwrap();
    database.disconnect().await.unwrap();
    rows as f64 / BASELINE.as_secs_f64()
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures")]
fn now() -> Instant {
    Instant::now()
}
