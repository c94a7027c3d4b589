//! A worker on a folder of its own, with someone who listens.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use punctual_core::Timestamp;
use punctual_core::attempt::{Assignment, Outcome, Report};
use punctual_core::ids::{RunId, Token, WorkerId};
use punctual_core::job::Definition;
use punctual_core::log::{Chunk, Stream};
use punctual_core::name::Namespace;
use punctual_core::run::{Part, Trigger};
use punctual_core::task::{Params, Process, Task};
use punctual_core::time::ManualClock;
use punctual_core::worker::Kinds;
use punctual_worker::function::Functions;
use punctual_worker::{Config, Egress, GRACE, Handle, LogSink, Order, Worker};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Nothing here takes long; what takes this long has failed.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);
pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);
pub(crate) const TOKEN: Token = Token(1);

#[derive(Debug, Default)]
pub(crate) struct Logs(Mutex<Vec<Chunk>>);

#[async_trait]
impl LogSink for Logs {
    async fn append(&self, chunk: Chunk) {
        self.0.lock().push(chunk);
    }
}

impl Logs {
    pub(crate) fn chunks(&self) -> Vec<Chunk> {
        self.0.lock().clone()
    }

    pub(crate) fn text(&self, run: i64, stream: Stream) -> String {
        let chunks = self.chunks();
        let wanted = chunks.iter().filter(|chunk| chunk.run == RunId(run) && chunk.stream == stream);
        let bytes: Vec<u8> = wanted.flat_map(|chunk| chunk.bytes.clone()).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Waits until a run has printed so many lines, and gives them.
    pub(crate) async fn lines(&self, run: i64, count: usize) -> Vec<String> {
        let lines = || self.text(run, Stream::Out).lines().map(str::to_owned).collect::<Vec<String>>();
        until("the program prints", || lines().len() >= count).await;
        lines()
    }

    /// Waits until a run has printed the ids of so many processes.
    pub(crate) async fn pids(&self, run: i64, count: usize) -> Vec<u32> {
        self.lines(run, count).await.iter().map(|line| line.trim().parse().unwrap()).collect()
    }
}

/// Counts and forgets.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    pub(crate) bytes: AtomicU64,
    /// Each with the bytes that came before it.
    pub(crate) notes: Mutex<Vec<(u64, String)>>,
}

#[async_trait]
impl LogSink for Counter {
    async fn append(&self, chunk: Chunk) {
        match chunk.stream {
            Stream::Note => {
                let note = String::from_utf8(chunk.bytes).unwrap();
                self.notes.lock().push((self.bytes.load(Relaxed), note));
            }
            Stream::Out | Stream::Err => {
                self.bytes.fetch_add(chunk.bytes.len() as u64, Relaxed);
            }
        }
    }
}

pub(crate) struct Rig {
    pub(crate) scratch: TempDir,
    pub(crate) handle: Handle,
    pub(crate) logs: Arc<Logs>,
    pub(crate) batches: mpsc::Receiver<Vec<Report>>,
    heard: VecDeque<Report>,
    running: JoinHandle<()>,
}

pub(crate) fn config(scratch: &Path, logs: Arc<dyn LogSink>) -> Config {
    Config {
        id: WorkerId(Arc::from("w")),
        slots: 8,
        clock: Arc::new(ManualClock::at(NOW)),
        logs,
        scratch: scratch.to_owned(),
        guardian: crate::GUARDIAN.map(Into::into),
        heartbeat: Duration::from_millis(100),
        grace: GRACE,
        egress: Arc::new(Egress::default()),
        kinds: Kinds::ALL,
        functions: Functions::default(),
    }
}

impl Rig {
    pub(crate) async fn start() -> Rig {
        Rig::start_with(|_| {}).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(&mut Config)) -> Rig {
        let scratch = tempfile::tempdir().unwrap();
        let logs = Arc::new(Logs::default());
        let mut config = config(scratch.path(), logs.clone());
        change(&mut config);
        let (reports, batches) = mpsc::channel(16);
        let (handle, worker) = Worker::open(config, reports).await.unwrap();
        let running = tokio::spawn(worker.run());
        Rig { scratch, handle, logs, batches, heard: VecDeque::new(), running }
    }

    pub(crate) async fn assign(&self, run: i64, task: Task) {
        self.order(vec![Order::Assign(assignment(run, task))]).await;
    }

    pub(crate) async fn order(&self, orders: Vec<Order>) {
        self.handle.send(orders).await.unwrap();
    }

    /// Executes one task and gives what came of it.
    pub(crate) async fn outcome_of(&mut self, task: Task) -> Outcome {
        self.assign(1, task).await;
        self.finished(1).await
    }

    /// The next report.
    pub(crate) async fn report(&mut self) -> Report {
        while self.heard.is_empty() {
            let batch = within("a report", self.batches.recv()).await;
            self.heard.extend(batch.expect("the worker still reports"));
        }
        self.heard.pop_front().unwrap()
    }

    /// The next report of a certain kind; others are passed over.
    pub(crate) async fn report_where(&mut self, mut wanted: impl FnMut(&Report) -> bool) -> Report {
        within("a certain report", async {
            loop {
                let report = self.report().await;
                if wanted(&report) {
                    return report;
                }
            }
        })
        .await
    }

    pub(crate) async fn finished(&mut self, wanted: i64) -> Outcome {
        let report = self
            .report_where(|report| matches!(report, Report::Finished { run, .. } if *run == RunId(wanted)))
            .await;
        match report {
            Report::Finished { outcome, .. } => outcome,
            other => panic!("not an outcome: {other:?}"),
        }
    }

    /// Shuts the worker down, and gives the reports it sent meanwhile.
    pub(crate) async fn shut_down(mut self) -> Vec<Report> {
        self.handle.shut_down();
        let mut last: Vec<Report> = self.heard.drain(..).collect();
        within("the shutdown", async {
            while let Some(batch) = self.batches.recv().await {
                last.extend(batch);
            }
            self.running.await.unwrap();
        })
        .await;
        let records = std::fs::read_dir(self.scratch.path().join("groups")).unwrap();
        assert_eq!(records.count(), 0, "a process group is still on record");
        last
    }
}

pub(crate) fn assignment(run: i64, task: Task) -> Assignment {
    Assignment {
        run: RunId(run),
        token: TOKEN,
        attempt: 2,
        namespace: Namespace::default(),
        job: Some("nightly".parse().unwrap()),
        revision: Some(3),
        trigger: Trigger::Manual,
        key: None,
        due: NOW,
        late_from: NOW,
        definition: Arc::new(Definition::of(task)),
        params: Params::default(),
        checkpoint: None,
        attempt_key: None,
        step: None,
        part: Part::default(),
        lease: Duration::from_secs(15),
        grace: None,
        again: false,
    }
}

pub(crate) fn shell(text: &str) -> Task {
    Task::Shell(text.to_owned())
}

pub(crate) fn process(command: &[&str]) -> Process {
    let command = command.iter().map(|word| (*word).to_owned()).collect();
    Process { command, env: Default::default(), dir: None }
}

pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // A zombie has ended; whether its parent has noticed is not our concern.
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.starts_with(" Z"))
}

pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future).await.unwrap_or_else(|_| panic!("waited in vain for: {what}"))
}

pub(crate) async fn until(what: &str, is_so: impl Fn() -> bool) {
    within(what, async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}
