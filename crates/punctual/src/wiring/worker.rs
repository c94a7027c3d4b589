//! Starts workers: the worker of a node in this process, and workers without a node beside them, as `punctual worker`.
//!
//! A node's worker is connected in one of two ways ([`Connection`]). Channels are the fastest, but reach only
//! the node of this process. Streams also reach the other nodes of the cluster, for which an embedded node
//! works.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::attempt::Order;
use punctual_core::ids::{SessionId, WorkerId};
use punctual_core::log::Chunk;
use punctual_core::time::Clock;
use punctual_core::worker::{Announcement, Kinds};
use punctual_node::node::{Link, Node};
use punctual_server::{Nearby, Workers};
use punctual_wire::grpc::v1;
use punctual_worker::function::Functions;
use punctual_worker::session::{self, Authorities, Ended, Near, Saying, Status};
use punctual_worker::{Config, Egress, GRACE, HEARTBEAT, LogSink, Rule};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tonic::Streaming;
use tracing::{error, warn};

use crate::clock::{SystemClock, now};
use crate::settings::Settings;

/// The running binary, even if its file was replaced: the guardian must be of the same version.
pub const OWN_BINARY: &str = "/proc/self/exe";
/// The name of a worker that only the node of its own process knows.
const LOCAL: &str = "local";

/// The worker of a node.
#[derive(Debug)]
pub struct Worker {
    pub kinds: Kinds,
    pub functions: Functions,
    /// A folder for this worker alone.
    pub scratch: PathBuf,
    /// The binary that guards child processes. `None` means that the worker starts no programs.
    pub guardian: Option<PathBuf>,
    /// How long a stopped attempt may take to end.
    pub grace: Duration,
    pub connection: Connection,
}

#[derive(Debug)]
pub enum Connection {
    /// Channels to the node of this process. `None` means that nothing observes them.
    Channels(Option<Arc<dyn Observer>>),
    /// Streams to the node of this process, without a network, and to the other nodes of its cluster.
    Streams {
        /// How long running attempts may take to finish at a stop.
        drain: Duration,
        /// Certificates in PEM to trust besides the system's. `None` means that the other nodes do not use TLS.
        trusted: Option<Vec<u8>>,
    },
}

/// Sees the orders of a node to its worker.
pub trait Observer: Send + Sync + fmt::Debug {
    /// Called before the orders are passed on.
    fn ordered(&self, orders: &[Order]);
}

/// What the worker of a node is connected with.
pub(super) struct Beside<'a> {
    pub(super) node: &'a Node,
    pub(super) workers: &'a Workers,
    pub(super) clock: &'a Arc<dyn Clock>,
    pub(super) egress: &'a Arc<Egress>,
    /// Admits the worker to the other nodes of the cluster.
    pub(super) token: Option<String>,
    pub(super) name: &'a str,
    pub(super) session: SessionId,
}

/// A started worker.
#[derive(Debug)]
pub(super) enum LocalWorker {
    None,
    Channels {
        handle: punctual_worker::Handle,
        /// Closed when its last reports were passed on.
        reporting: oneshot::Receiver<()>,
    },
    Streams {
        stop: watch::Sender<bool>,
        /// The one task of the worker; aborted on drop.
        task: JoinSet<Result<(), Ended>>,
        near: Box<Nearby>,
    },
}

impl LocalWorker {
    /// Waits until the worker has stopped its attempts and the node knows that: none of them counts as failed or lost.
    pub(super) async fn shut_down(self) {
        match self {
            LocalWorker::None => {}
            LocalWorker::Channels { handle, reporting } => {
                handle.shut_down();
                // Nothing is ever sent: an error means that the task has ended.
                drop(reporting.await);
            }
            LocalWorker::Streams { stop, mut task, near } => {
                stop.send_replace(true);
                while let Some(ended) = task.join_next().await {
                    match ended {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => warn!(%error, "the worker did not end in peace"),
                        Err(error) => error!(%error, "the worker ended in a panic"),
                    }
                }
                near.close().await;
            }
        }
    }
}

impl Worker {
    /// The worker of `punctual dev` and `punctual server`: it executes every kind of task.
    pub(super) fn of_a_server(settings: &Settings) -> Worker {
        Worker {
            kinds: Kinds::ALL,
            functions: Functions::default(),
            scratch: settings.data.join("worker"),
            guardian: Some(OWN_BINARY.into()),
            grace: GRACE,
            connection: Connection::Channels(None),
        }
    }

    pub(super) async fn start(
        self,
        settings: &Settings,
        beside: Beside<'_>,
        tasks: &mut JoinSet<()>,
    ) -> anyhow::Result<LocalWorker> {
        let Worker { kinds, functions, scratch, guardian, grace, connection } = self;
        let announced =
            Announcement { kinds, functions: functions.names(), ..Announcement::of(settings.slots) };
        let (name, life) = match &connection {
            Connection::Channels(_) => (LOCAL.to_owned(), millis(beside.clock.now())),
            // Two embedded nodes of one program are two workers, even if they have the same name.
            Connection::Streams { .. } => {
                (format!("{}-{}", beside.name, beside.session), beside.session.0.unsigned_abs())
            }
        };
        let config = Config {
            id: WorkerId::new(&name, life),
            slots: settings.slots,
            clock: Arc::clone(beside.clock),
            logs: Arc::new(StoredLogs(beside.node.handle())),
            scratch,
            guardian,
            heartbeat: settings.attempt_lease / 3,
            grace,
            egress: Arc::clone(beside.egress),
            kinds,
            functions,
        };
        match connection {
            Connection::Channels(observer) => {
                let announced = Announcement { node_local: true, ..announced };
                by_channels(config, announced, beside.node, observer, tasks).await
            }
            Connection::Streams { drain, trusted } => {
                let near = Nearby::new(beside.workers.clone(), beside.node.handle());
                let in_process = InProcess { near: near.clone(), over_tls: trusted.is_some() };
                let settings = session::Settings {
                    near: Some(Arc::new(in_process)),
                    token: beside.token,
                    ca: trusted.map(Authorities::Given),
                    ..session_settings(name, life, announced, drain)
                };
                let (stop, stop_seen) = watch::channel(false);
                let (status, _) = watch::channel(Status::default());
                let mut task = JoinSet::new();
                task.spawn(session::run(settings, config, status, stopped(stop_seen)));
                Ok(LocalWorker::Streams { stop, task, near: Box::new(near) })
            }
        }
    }
}

/// Starts a worker and passes its orders and reports on.
async fn by_channels(
    config: Config,
    announced: Announcement,
    node: &Node,
    observer: Option<Arc<dyn Observer>>,
    tasks: &mut JoinSet<()>,
) -> anyhow::Result<LocalWorker> {
    let id = config.id.clone();
    let (reports_in, mut reports) = mpsc::channel(64);
    let (handle, worker) = punctual_worker::Worker::open(config, reports_in).await?;
    let (orders_in, mut orders) = mpsc::unbounded_channel::<Vec<Order>>();
    let link = Link { worker: id, announced, holding: Vec::new(), orders: orders_in };
    let reporter = node.link(link).await;
    let ordering = handle.clone();
    let (reporting_in, reporting) = oneshot::channel::<()>();
    tasks.spawn(async move {
        let mut batches = Vec::new();
        // Send all waiting batches as one.
        while orders.recv_many(&mut batches, 64).await > 0 {
            let batch: Vec<Order> = batches.drain(..).flatten().collect();
            observer.iter().for_each(|observer| observer.ordered(&batch));
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
        drop(reporting_in);
    });
    tasks.spawn(worker.run());
    Ok(LocalWorker::Channels { handle, reporting })
}

/// The configuration of a worker without a node beside it.
#[derive(Debug, Clone)]
pub struct Remote {
    pub servers: Vec<String>,
    pub token: Option<String>,
    pub ca: Option<Authorities>,
    pub name: String,
    pub announcement: Announcement,
    /// A folder for this worker alone.
    pub data: PathBuf,
    /// The binary that guards child processes. `None` means that the worker starts no programs.
    pub guardian: Option<PathBuf>,
    pub drain: Duration,
    pub egress: Vec<Rule>,
    pub functions: Functions,
}

/// Works until `stop` completes and running attempts have ended, or until it is refused.
pub async fn work(
    remote: Remote,
    status: watch::Sender<Status>,
    stop: impl Future<Output = ()>,
) -> Result<(), Ended> {
    // It must be hard to guess: with it, another process could act as this worker. Without random numbers, use the time.
    let life = getrandom::u64().unwrap_or_else(|_| millis(now())) >> 1;
    let config = Config {
        id: WorkerId::new(&remote.name, life),
        slots: remote.announcement.slots as usize,
        clock: Arc::new(SystemClock::new()),
        logs: Arc::new(Nowhere),
        scratch: remote.data,
        guardian: remote.guardian,
        heartbeat: HEARTBEAT,
        grace: GRACE,
        egress: Arc::new(Egress::new(remote.egress)),
        kinds: remote.announcement.kinds,
        functions: remote.functions,
    };
    let settings = session_settings(remote.name, life, remote.announcement, remote.drain);
    let settings =
        session::Settings { servers: remote.servers, token: remote.token, ca: remote.ca, ..settings };
    session::run(settings, config, status, stop).await
}

fn session_settings(
    name: String,
    life: u64,
    announcement: Announcement,
    drain: Duration,
) -> session::Settings {
    let (servers, version) = (Vec::new(), env!("CARGO_PKG_VERSION").to_owned());
    session::Settings { servers, near: None, token: None, ca: None, name, life, version, announcement, drain }
}

fn millis(instant: punctual_core::Timestamp) -> u64 {
    u64::try_from(instant.as_millis()).unwrap_or(0)
}

/// Completes when a stop is requested.
pub async fn stopped(mut stop: watch::Receiver<bool>) {
    // An error means that the sender is gone; that counts as a stop too.
    drop(stop.wait_for(|stop| *stop).await);
}

/// The node of this process, as a worker on streams reaches it.
#[derive(Debug)]
struct InProcess {
    near: Nearby,
    /// Whether nodes that can be dialled use TLS.
    over_tls: bool,
}

#[async_trait]
impl Near for InProcess {
    async fn session(&self, saying: Saying) -> Result<Streaming<v1::FromNode>, tonic::Status> {
        self.near.session(saying).await
    }

    fn over_tls(&self) -> bool {
        self.over_tls
    }
}

/// Writes output to the store, apart from the runs.
#[derive(Debug)]
struct StoredLogs(punctual_node::Handle);

#[async_trait]
impl LogSink for StoredLogs {
    async fn append(&self, chunk: Chunk) {
        self.0.keep_output(vec![chunk]).await;
    }
}

/// Discards output here: the session sends it to the node itself.
#[derive(Debug)]
struct Nowhere;

#[async_trait]
impl LogSink for Nowhere {
    async fn append(&self, _chunk: Chunk) {}
}
