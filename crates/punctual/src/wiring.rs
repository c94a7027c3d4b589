//! The wiring: the only place that names a real clock, a real store and a real worker, and ties them together.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use async_trait::async_trait;
use punctual_core::Timestamp;
use punctual_core::attempt::Order;
use punctual_core::ids::WorkerId;
use punctual_core::time::Clock;
use punctual_node::node::{Config, Link, Node};
use punctual_node::retention;
use punctual_server::Doors;
use punctual_store::sqlite::{self, Sqlite};
use punctual_store::{LogChunk, Store};
use punctual_worker::{LogPiece, LogSink};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tracing::warn;

use crate::settings::{Durability, Settings};

/// How often finished things that nobody keeps are let go.
const PRUNE_EVERY: Duration = Duration::from_secs(60);
/// How long runs without a job are kept.
const AD_HOC_KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

/// The machine's clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = since_epoch();
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn until(&self, instant: Timestamp) -> Duration {
        let at = Duration::from_millis(u64::try_from(instant.as_millis()).unwrap_or(0));
        at.saturating_sub(since_epoch())
    }
}

#[expect(clippy::disallowed_methods, reason = "someone has to look at the clock, and it is here")]
fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The time as this machine tells it: for what the command line says, never for what a node decides.
pub(crate) fn now() -> Timestamp {
    SystemClock.now()
}

/// A node that schedules, serves and works, in this process.
#[derive(Debug)]
pub(crate) struct Running {
    node: Node,
    worker: punctual_worker::Handle,
    doors: Doors,
    stop: watch::Sender<bool>,
    /// The worker, the two ends of its link, and the pruner.
    tasks: JoinSet<()>,
}

impl Running {
    pub(crate) fn doors(&self) -> Doors {
        self.doors.clone()
    }

    /// Waits until the node cannot go on, and says why.
    pub(crate) async fn failed(&self) -> String {
        let handle = self.node.handle();
        if handle.wait_until(|status| status.failed.is_some()).await {
            handle.status().failed.unwrap_or_default()
        } else {
            "the node has stopped".to_owned()
        }
    }

    /// What runs is stopped; it is not a failure of theirs, so the next start tries them again.
    pub(crate) async fn shut_down(self) {
        let Running { node, worker, stop, mut tasks, .. } = self;
        worker.shut_down();
        stop.send_replace(true);
        // The link to the worker ends when the last of these is gone.
        drop(worker);
        node.shut_down().await;
        while tasks.join_next().await.is_some() {}
    }
}

pub(crate) async fn start(settings: &Settings) -> anyhow::Result<Running> {
    std::fs::create_dir_all(&settings.data)
        .with_context(|| format!("cannot make the data folder {}", settings.data.display()))?;
    let store = open_store(settings).await?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let node = Node::start(Config {
        store: Arc::clone(&store),
        clock: Arc::clone(&clock),
        lanes: 1,
        attempt_lease: settings.attempt_lease,
        shard_lease: settings.shard_lease,
    })?;
    let (stop, stopped) = watch::channel(false);
    let mut tasks = JoinSet::new();
    tasks.spawn(retention::run(Arc::clone(&store), Arc::clone(&clock), PRUNE_EVERY, AD_HOC_KEPT, stopped));
    let worker = start_worker(settings, &node, store, Arc::clone(&clock), &mut tasks).await?;
    let doors = Doors { handle: node.handle(), clock, node: "dev".into() };
    Ok(Running { node, worker, doors, stop, tasks })
}

async fn open_store(settings: &Settings) -> anyhow::Result<Arc<dyn Store>> {
    let (dir, shards) = (settings.data.clone(), settings.shards);
    let durability = match settings.durability {
        Durability::Full => sqlite::Durability::Full,
        Durability::Relaxed => sqlite::Durability::Relaxed,
    };
    let opening =
        tokio::task::spawn_blocking(move || Sqlite::open(&dir, sqlite::Options { shards, durability }));
    Ok(Arc::new(opening.await??))
}

/// Starts a worker in this process and carries its orders and reports, as the network will.
async fn start_worker(
    settings: &Settings,
    node: &Node,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    tasks: &mut JoinSet<()>,
) -> anyhow::Result<punctual_worker::Handle> {
    let id = WorkerId::new("local", u64::try_from(clock.now().as_millis()).unwrap_or(0));
    let config = punctual_worker::Config {
        id: id.clone(),
        slots: settings.slots,
        clock,
        logs: Arc::new(StoredLogs(store)),
        scratch: settings.data.join("worker"),
        heartbeat: settings.attempt_lease / 3,
        grace: punctual_worker::GRACE,
    };
    let (reports_in, mut reports) = mpsc::channel(64);
    let (handle, worker) = punctual_worker::Worker::open(config, reports_in).await?;
    let (orders_in, mut orders) = mpsc::unbounded_channel::<Vec<Order>>();
    let link = Link { worker: id, slots: settings.slots, holding: Vec::new(), orders: orders_in };
    let reporter = node.link(link).await;
    let ordering = handle.clone();
    tasks.spawn(async move {
        let mut batches = Vec::new();
        // All that has piled up meanwhile goes as one batch.
        while orders.recv_many(&mut batches, 64).await > 0 {
            let batch = batches.drain(..).flatten().collect();
            if ordering.send(batch).await.is_err() {
                break;
            }
        }
    });
    tasks.spawn(async move {
        while let Some(batch) = reports.recv().await {
            if !reporter.send(batch).await {
                break;
            }
        }
        reporter.leave().await;
    });
    tasks.spawn(worker.run());
    Ok(handle)
}

/// Output goes to the store, apart from the hot rows.
#[derive(Debug)]
struct StoredLogs(Arc<dyn Store>);

#[async_trait]
impl LogSink for StoredLogs {
    async fn append(&self, piece: LogPiece) {
        let LogPiece { run, token, number, at, stream, bytes } = piece;
        let stream = match stream {
            punctual_worker::Stream::Out => punctual_store::Stream::Out,
            punctual_worker::Stream::Err => punctual_store::Stream::Err,
            punctual_worker::Stream::Note => punctual_store::Stream::Note,
        };
        let chunk = LogChunk { run, token, number, at, stream, bytes };
        if let Err(error) = self.0.append_logs(vec![chunk]).await {
            warn!(%run, %error, "output was lost");
        }
    }
}
