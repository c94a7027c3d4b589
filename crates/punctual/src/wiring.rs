//! The wiring: the only place that creates the real clock, store and worker, and connects them.

mod remote;

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use punctual_core::attempt::Order;
use punctual_core::ids::{SessionId, WorkerId};
use punctual_core::limits::AD_HOC_KEPT;
use punctual_core::log::Chunk;
use punctual_core::time::Clock;
use punctual_core::worker::{Announcement, Kinds};
use punctual_node::node::{Config, Link, Node};
use punctual_node::retention::{self, PACE};
use punctual_server::{Admission, Endpoints, NodesToo, Workers};
use punctual_store::{Opened, Store, sqlite};
use punctual_worker::function::Functions;
use punctual_worker::{Egress, LogSink};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tracing::warn;

pub(crate) use crate::clock::now;
use crate::clock::{SystemClock, Watcher};
use crate::settings::{Durability, Settings};
use punctual::cluster::{self, Joined, Joining};
pub(crate) use remote::{Remote, work};

/// Concurrent transactions on a store with several writers.
pub(crate) const LANES_SHARED: usize = 2;

/// The running binary, even if its file was replaced: the guardian must be of the same version.
pub(crate) const OURSELVES: &str = "/proc/self/exe";
/// File descriptors of the store, the runtime and the listener, with some reserve.
const FILES_OF_OUR_OWN: usize = 64;
/// File descriptors of an attempt: its pipes and its process.
const FILES_PER_SLOT: usize = 6;

/// A running node in this process, with its endpoints and its worker.
#[derive(Debug)]
pub(crate) struct Running {
    node: Node,
    /// `None` means that this node does not have the role `work`.
    worker: Option<punctual_worker::Handle>,
    egress: Arc<Egress>,
    endpoints: Endpoints,
    stop: watch::Sender<bool>,
    /// Sends workers the addresses of nodes.
    nodes: Arc<watch::Sender<Vec<String>>>,
    /// The worker, the two directions of its link, and the pruner.
    tasks: JoinSet<()>,
    /// Stops on drop.
    _watcher: Watcher,
}

impl Running {
    pub(crate) fn endpoints(&self) -> Endpoints {
        self.endpoints.clone()
    }

    /// Tells workers the address, and forbids tasks to call it.
    pub(crate) fn listens_on(&self, place: SocketAddr) {
        self.egress.listens_on(place);
        self.nodes.send_replace(vec![place.to_string()]);
    }

    /// Also forbids tasks to call the endpoint for queues.
    pub(crate) fn also_listens_on(&self, place: SocketAddr) {
        self.egress.listens_on(place);
    }

    /// Waits until the node fails, and returns why.
    pub(crate) async fn failed(&self) -> String {
        let handle = self.node.handle();
        if handle.wait_until(|status| status.failed.is_some()).await {
            handle.status().failed.unwrap_or_default()
        } else {
            "the node has stopped".to_owned()
        }
    }

    /// Stops running attempts. This does not count as their failure: the next start tries them again.
    pub(crate) async fn shut_down(self) {
        let Running { node, worker, stop, mut tasks, .. } = self;
        if let Some(worker) = &worker {
            worker.shut_down();
        }
        stop.send_replace(true);
        // The link to the worker ends when its last handle is dropped.
        drop(worker);
        node.shut_down().await;
        while tasks.join_next().await.is_some() {}
    }
}

/// A node as `dev` starts it: without access control.
pub(crate) async fn start(settings: &Settings) -> anyhow::Result<Running> {
    let store = open_store(settings, SessionId(0)).await?.store;
    start_on(store, settings, "dev", None, |endpoints| endpoints).await
}

/// Starts a node on an open store, with customised endpoints; as a member of a cluster if `joining` is given.
pub(crate) async fn start_on(
    store: Arc<dyn Store>,
    settings: &Settings,
    name: &str,
    joining: Option<Joining>,
    wanted: impl FnOnce(Endpoints) -> Endpoints,
) -> anyhow::Result<Running> {
    let joined = match joining {
        Some(joining) => Some(joining.join(&store, name, settings.shard_lease).await?),
        None => None,
    };
    let (cluster, key, post) = match joined {
        Some(Joined { cluster, key, post }) => (Some(cluster), Some(key), Some(post)),
        None => (None, None, None),
    };
    let clock: Arc<dyn Clock> = match &cluster {
        Some(cluster) => Arc::clone(&cluster.clock) as Arc<dyn Clock>,
        None => Arc::new(SystemClock::new()),
    };
    let node = Node::start(Config {
        store: Arc::clone(&store),
        clock: Arc::clone(&clock),
        lanes: if cluster.is_some() { LANES_SHARED } else { 1 },
        attempt_lease: settings.attempt_lease,
        shard_lease: settings.shard_lease,
        cluster,
    })?;
    let watcher = Watcher::start(node.nudge(), settings.look)?;
    let (stop, stopped) = watch::channel(false);
    let mut tasks = JoinSet::new();
    tasks.spawn(retention::run(node.handle(), Arc::clone(&clock), PACE, AD_HOC_KEPT, stopped.clone()));
    if let Some(post) = &post {
        tasks.spawn(post.clone().carry(node.handle()));
    }
    let egress = Arc::new(Egress::new(settings.egress.clone()));
    let worker = match settings.slots {
        0 => None,
        _ => {
            let (clock, egress) = (Arc::clone(&clock), Arc::clone(&egress));
            Some(start_worker(settings, &node, clock, egress, &mut tasks).await?)
        }
    };
    let (nodes, dialled) = watch::channel(Vec::new());
    let nodes = Arc::new(nodes);
    if key.is_some() {
        tasks.spawn(cluster::tell_workers(node.handle(), Arc::clone(&nodes), stopped));
    }
    let endpoints = Endpoints::new(node.handle(), clock, name, endpoint_settings(settings));
    let endpoints = wanted(if worker.is_some() { endpoints } else { endpoints.without_work() });
    let gate = Arc::clone(&endpoints.gate) as Arc<dyn Admission>;
    let (endpoints, admission) = match key.zip(post) {
        Some((key, post)) => {
            let nodes_too = NodesToo { key: key.clone(), others: gate };
            (endpoints.with_peers(key, post), Arc::new(nodes_too) as Arc<dyn Admission>)
        }
        None => (endpoints, gate),
    };
    let workers = Workers {
        links: node.links(),
        admission,
        node: format!("{name}@{}", remote::life()).into(),
        lease: settings.attempt_lease,
        nodes: dialled,
    };
    let endpoints = endpoints.with_workers(workers);
    Ok(Running { node, worker, egress, endpoints, stop, nodes, tasks, _watcher: watcher })
}

/// Limits connections to the available file descriptors, after those for the store and the attempts.
fn endpoint_settings(settings: &Settings) -> punctual_server::Settings {
    let mut server = settings.server.clone();
    let needed = FILES_OF_OUR_OWN + settings.slots * FILES_PER_SLOT;
    let queues = if settings.resp.listen.is_some() { settings.resp.connections } else { 0 };
    let files = files_up_to(needed + server.connections + queues);
    // Keep at least half for connections, so that a client can still ask why attempts fail.
    let fitting = files - needed.min(files / 2);
    if fitting < server.connections {
        warn!(files, connections = fitting, "few file descriptors: fewer connections than were asked for");
        server.connections = fitting;
    }
    server
}

/// The number of files this process may open, after raising the limit as far as needed.
fn files_up_to(wanted: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let within =
        |most: Option<u64>| most.map_or(wanted, |most| usize::try_from(most).unwrap_or(wanted).min(wanted));
    let (now, most) = (within(limit.current), within(limit.maximum));
    let raised = Rlimit { current: u64::try_from(most).ok(), maximum: limit.maximum };
    if now < most && setrlimit(Resource::Nofile, raised).is_ok() { most } else { now }
}

pub(crate) async fn open_store(settings: &Settings, session: SessionId) -> anyhow::Result<Opened> {
    let durability = match settings.durability {
        Durability::Full => punctual_store::Durability::Full,
        Durability::Relaxed => punctual_store::Durability::Relaxed,
    };
    let options = sqlite::Options { shards: settings.shards, durability };
    Ok(punctual_store::open(&settings.store, &settings.data, options, session).await?)
}

/// Starts a worker in this process and passes its orders and reports on.
async fn start_worker(
    settings: &Settings,
    node: &Node,
    clock: Arc<dyn Clock>,
    egress: Arc<Egress>,
    tasks: &mut JoinSet<()>,
) -> anyhow::Result<punctual_worker::Handle> {
    let id = WorkerId::new("local", u64::try_from(clock.now().as_millis()).unwrap_or(0));
    let config = punctual_worker::Config {
        id: id.clone(),
        slots: settings.slots,
        clock,
        logs: Arc::new(StoredLogs(node.handle())),
        scratch: settings.data.join("worker"),
        guardian: Some(OURSELVES.into()),
        heartbeat: settings.attempt_lease / 3,
        grace: punctual_worker::GRACE,
        egress,
        kinds: Kinds::ALL,
        functions: Functions::default(),
    };
    let (reports_in, mut reports) = mpsc::channel(64);
    let (handle, worker) = punctual_worker::Worker::open(config, reports_in).await?;
    let (orders_in, mut orders) = mpsc::unbounded_channel::<Vec<Order>>();
    let announced = Announcement { node_local: true, ..Announcement::of(settings.slots) };
    let link = Link { worker: id, announced, holding: Vec::new(), orders: orders_in };
    let reporter = node.link(link).await;
    let ordering = handle.clone();
    tasks.spawn(async move {
        let mut batches = Vec::new();
        // Send all waiting batches as one.
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

/// Writes output to the store, apart from the runs.
#[derive(Debug)]
struct StoredLogs(punctual_node::Handle);

#[async_trait]
impl LogSink for StoredLogs {
    async fn append(&self, chunk: Chunk) {
        self.0.keep_output(vec![chunk]).await;
    }
}
