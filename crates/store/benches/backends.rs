//! How fast a store takes the row changes of runs, and gives them back: `cargo bench -p punctual-store`.
//!
//! A run is what it costs the store: an insert of the live row, its delete, an insert of the history row; runs come in
//! batches of a thousand over 64 shards, made beforehand and written by one thread. A message is an insert and a delete. `BENCH_DIR` names the folder, so
//! that a real disk is measured and not a temporary file system; `BENCH_RUNS` how many; `BENCH_ONLY` one of them.

#![expect(clippy::unwrap_used, reason = "a benchmark may stop at the first surprise")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use punctual_core::Timestamp;
use punctual_core::attempt::Outcome;
use punctual_core::change::{Batch, Changes, Revision, Row, RowKey, TimerPosition};
use punctual_core::ids::{Epoch, IdMaker, JobId, RunId, ShardId, WorkerId};
use punctual_core::job::{self, Cursor, Definition, Job};
use punctual_core::name::{Name, Namespace};
use punctual_core::queue::{Body, Message, MessageId, MessageStatus, QueueNumber};
use punctual_core::run::{Event, Origin, Run, Trigger};
use punctual_core::schedule::{Schedule, When};
use punctual_core::task::Task;
use punctual_store::sqlite::{Durability, Options, Sqlite};
use punctual_store::{Claim, JobFilter, Reads, RunFilter, Shards};

const SHARDS: u16 = 64;
const BATCH: usize = 1000;
const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);

fn main() {
    // `cargo test --benches` only wants to know that it runs.
    let is_test = !std::env::args().any(|arg| arg == "--bench");
    let default = if is_test { 2_000 } else { 200_000 };
    let runs = std::env::var("BENCH_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(default);
    let repeats = if is_test { 1 } else { 3 };
    let only = std::env::var("BENCH_ONLY").ok();
    for repeat in 1..=repeats {
        println!("round {repeat} of {repeats}, {runs} runs, {} jobs", runs / 2);
        for (what, jobs) in
            [("ad hoc", 0), ("of one job a shard", usize::from(SHARDS)), ("of 1,000 jobs", 1000)]
        {
            if only.as_deref().is_none_or(|only| what.contains(only)) {
                bare_writer(what, runs, &jobs_over_shards(jobs));
            }
        }
        for lines in [1, SHARDS] {
            if only.as_deref().is_none_or(|only| only == "messages") {
                messages(runs, lines);
            }
        }
        if only.as_deref().is_none_or(|only| only == "reads") {
            jobs_and_reads(runs / 2);
        }
    }
}

/// A store in a folder that is gone afterwards.
struct Opened {
    store: Option<Sqlite>,
    dir: PathBuf,
    shards: Vec<Shard>,
    runtime: tokio::runtime::Runtime,
}

struct Shard {
    epoch: Epoch,
    commit: u64,
    ids: IdMaker,
}

impl Opened {
    fn new() -> Opened {
        let base = std::env::var_os("BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
        let dir = base.join(format!("punctual-bench-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        let options = Options { shards: SHARDS, durability: Durability::Full };
        let store = Sqlite::open(&dir, options).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let all: Vec<Claim> = (0..SHARDS).map(ShardId).map(Claim::any_epoch).collect();
        let acquired = runtime.block_on(store.acquire(None, &all)).unwrap();
        let shards = acquired.into_iter().map(|(shard, epoch)| {
            let loaded = runtime.block_on(store.load(shard, epoch)).unwrap();
            Shard { epoch, commit: loaded.commit, ids: IdMaker::new(shard, loaded.last_id) }
        });
        Opened { shards: shards.collect(), store: Some(store), dir, runtime }
    }

    fn store(&self) -> &Sqlite {
        self.store.as_ref().unwrap()
    }

    fn batches(&mut self, changes: Vec<Changes>) -> Arc<Vec<Batch>> {
        let with_changes = changes.into_iter().enumerate().filter(|(_, changes)| !changes.is_empty());
        let batches = with_changes.map(|(index, changes)| {
            let shard = &mut self.shards[index];
            shard.commit += 1;
            Batch {
                shard: ShardId(u16::try_from(index).unwrap()),
                epoch: shard.epoch,
                commit: shard.commit - 1,
                last_id: shard.ids.last(),
                changes,
            }
        });
        Arc::new(batches.collect())
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.store = None;
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures")]
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let value = work();
    (value, start.elapsed())
}

fn bare_writer(what: &str, runs: usize, jobs: &[Job]) {
    let mut opened = Opened::new();
    let batches = run_batches(&mut opened, runs, jobs);
    let mut slowest = Duration::ZERO;
    let ((), took) = timed(|| {
        for batch in batches {
            let (result, took) = timed(|| opened.store().commit_blocking(batch));
            result.unwrap();
            slowest = slowest.max(took);
        }
    });
    let per_second = runs as f64 / took.as_secs_f64();
    println!("  bare writer, runs {what}: {per_second:.0} runs/s, slowest commit {slowest:.1?}");
}

/// One batch more than there are thousands: the last settles what the one before made.
fn run_batches(opened: &mut Opened, runs: usize, jobs: &[Job]) -> Vec<Arc<Vec<Batch>>> {
    let mut settling: Vec<Run> = Vec::new();
    let mut batches = Vec::new();
    for first in (0..=runs).step_by(BATCH) {
        let mut changes = vec![Changes::default(); usize::from(SHARDS)];
        for run in settling.drain(..) {
            let changes = &mut changes[usize::from(run.shard().0)];
            changes.delete(RowKey::Run(run.id));
            changes.insert(Row::History(Arc::new(ended(run))));
        }
        let now = Timestamp::from_millis(START.as_millis() + i64::try_from(first / 100).unwrap());
        for index in first..(first + BATCH).min(runs) {
            let run = started(&mut opened.shards, index, now, jobs);
            changes[usize::from(run.shard().0)].insert(Row::Run(Arc::new(run.clone())));
            settling.push(run);
        }
        batches.push(opened.batches(changes));
    }
    batches
}

/// What most messages weigh.
const MESSAGE_BYTES: usize = 100;

/// Messages of one queue a shard, in so many shards. A batch adds a thousand and acknowledges those before: what a
/// message costs that is taken at once. Then the same in two parts, so that a line stands in between.
fn messages(count: usize, shards: u16) {
    let mut opened = Opened::new();
    let body = Body::from(vec![b'x'; MESSAGE_BYTES]);
    let chunks = (0..count).step_by(BATCH).map(|first| {
        let now = Timestamp::from_millis(START.as_millis() + i64::try_from(first / 100).unwrap());
        let numbers = first..(first + BATCH).min(count);
        numbers.map(|index| message(&mut opened.shards[index % usize::from(shards)], now, &body)).collect()
    });
    let chunks: Vec<Vec<Arc<Message>>> = chunks.collect();
    let add = |changes: &mut [Changes], chunk: &[Arc<Message>]| {
        for message in chunk {
            changes[usize::from(message.id.shard().0)].insert(Row::Message(Arc::clone(message)));
        }
    };
    let acknowledge = |changes: &mut [Changes], chunk: &[Arc<Message>]| {
        for message in chunk {
            let key = RowKey::Message(message.id.queue, message.position());
            changes[usize::from(message.id.shard().0)].delete(key);
        }
    };
    let none = || vec![Changes::default(); usize::from(SHARDS)];

    let mut passing = Vec::new();
    for index in 0..=chunks.len() {
        let mut changes = none();
        if let Some(before) = index.checked_sub(1) {
            acknowledge(&mut changes, &chunks[before]);
        }
        add(&mut changes, chunks.get(index).map_or(&[], Vec::as_slice));
        passing.push(opened.batches(changes));
    }
    report(&format!("messages through {shards} lines"), count, || write(&opened, passing));
    for (what, change) in
        [("into", &add as &dyn Fn(&mut [Changes], &[Arc<Message>])), ("out of", &acknowledge)]
    {
        let batches = chunks.iter().map(|chunk| {
            let mut changes = none();
            change(&mut changes, chunk);
            opened.batches(changes)
        });
        let batches = batches.collect();
        report(&format!("messages {what} {shards} lines"), count, || write(&opened, batches));
    }
}

fn message(shard: &mut Shard, now: Timestamp, body: &Body) -> Arc<Message> {
    Arc::new(Message {
        id: MessageId { queue: QueueNumber(0), number: shard.ids.next(now) },
        priority: 5,
        body: body.clone(),
        created_at: now,
        expires_at: now + Duration::from_secs(86_400),
        delay: Duration::ZERO,
        retry: Duration::from_secs(300),
        status: MessageStatus::Queued,
        nacks: 0,
        redeliveries: 0,
        key: None,
        sender: None,
    })
}

fn started(shards: &mut [Shard], index: usize, now: Timestamp, jobs: &[Job]) -> Run {
    let (shard, origin) = match jobs.get(index % jobs.len().max(1)) {
        Some(job) => {
            let origin = Origin::Job { id: job.id, name: job.name.clone(), revision: 1 };
            (usize::from(job.id.shard().0), origin)
        }
        None => (index % shards.len(), Origin::AdHoc(Arc::new(Definition::of(Task::Noop)))),
    };
    let id = RunId(shards[shard].ids.next(now));
    let mut run = Run::new(id, Namespace::default(), origin, Trigger::Submit, now, now);
    let definition = Definition::of(Task::Noop);
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

fn jobs_over_shards(count: usize) -> Vec<Job> {
    let mut ids: Vec<IdMaker> = (0..SHARDS).map(|shard| IdMaker::new(ShardId(shard), 0)).collect();
    let cron = When::parse_cron("0 3 * * *", "UTC", Default::default(), None).unwrap();
    let definition = Definition { schedules: vec![Schedule::new(cron)], ..Definition::of(Task::Noop) };
    let definition = Arc::new(definition);
    let jobs = (0..count).map(|index| {
        let name: Name = format!("bench-job-{index:07}").parse().unwrap();
        let shard = job::shard_of(&Namespace::default(), &name, SHARDS);
        let wake_at = Some(START + Duration::from_secs(index as u64 % 86_400));
        Job {
            id: JobId(ids[usize::from(shard.0)].next(START)),
            namespace: Namespace::default(),
            name,
            revision: 1,
            definition: Arc::clone(&definition),
            pause: None,
            failures: 0,
            watch: None,
            created_at: START,
            updated_at: START,
            cursor: Cursor { next_due: wake_at, wake_at, ..Cursor::default() },
        }
    });
    jobs.collect()
}

/// Jobs are made, fired, read back and listed.
fn jobs_and_reads(count: usize) {
    let mut opened = Opened::new();
    let mut jobs = jobs_over_shards(count);
    let made = job_batches(&mut opened, &jobs, |changes, job| {
        let revision = Revision {
            job: job.id,
            revision: 1,
            definition: Arc::clone(&job.definition),
            at: START,
            state: job.state(),
        };
        changes.insert(Row::Revision(Arc::new(revision)));
        changes.insert(Row::Job(Arc::new(job.clone())));
    });
    report("jobs made", count, || write(&opened, made));
    for job in &mut jobs {
        job.cursor.fired_through = START;
        job.cursor.wake_at = job.cursor.wake_at.map(|at| at + Duration::from_secs(86_400));
    }
    let fired =
        job_batches(&mut opened, &jobs, |changes, job| changes.update(Row::Job(Arc::new(job.clone()))));
    report("jobs fired (the cursor only)", count, || write(&opened, fired));

    let Opened { runtime, shards, .. } = &opened;
    report("shards loaded", usize::from(SHARDS), || {
        for (index, shard) in (0..SHARDS).zip(shards) {
            runtime.block_on(opened.store().load(ShardId(index), shard.epoch)).unwrap();
        }
    });
    report("timers read, 500 a page", count, || {
        for shard in (0..SHARDS).map(ShardId) {
            let mut after = TimerPosition::START;
            while let Some(end) = runtime.block_on(opened.store().due(shard, after, 500)).unwrap().end {
                after = end;
            }
        }
    });
    report("jobs listed, 100 a page", count, || {
        let mut after = None;
        loop {
            let page = runtime.block_on(opened.store().jobs(&JobFilter::default(), after, 100)).unwrap();
            after = page.last().map(|job| (job.namespace.clone(), job.name.clone()));
            if after.is_none() {
                break;
            }
        }
    });
    report("pages of 50 runs listed", 100, || {
        for _ in 0..100 {
            runtime.block_on(opened.store().runs(&RunFilter::default(), None, 50)).unwrap();
        }
    });
    let (dir, options) = (opened.dir.clone(), Options { shards: SHARDS, durability: Durability::Full });
    opened.store = None;
    report("store opened", 1, || opened.store = Some(Sqlite::open(&dir, options).unwrap()));
}

fn job_batches(
    opened: &mut Opened,
    jobs: &[Job],
    change: impl Fn(&mut Changes, &Job),
) -> Vec<Arc<Vec<Batch>>> {
    let chunks = jobs.chunks(BATCH).map(|chunk| {
        let mut changes = vec![Changes::default(); usize::from(SHARDS)];
        for job in chunk {
            change(&mut changes[usize::from(job.id.shard().0)], job);
        }
        changes
    });
    let chunks: Vec<_> = chunks.collect();
    chunks.into_iter().map(|changes| opened.batches(changes)).collect()
}

fn write(opened: &Opened, batches: Vec<Arc<Vec<Batch>>>) {
    for batch in batches {
        opened.store().commit_blocking(batch).unwrap();
    }
}

fn report(what: &str, count: usize, work: impl FnOnce()) {
    let ((), took) = timed(work);
    println!("  {what}: {:.0} per s ({took:.1?})", count as f64 / took.as_secs_f64());
}
