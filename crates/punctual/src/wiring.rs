//! Assembles a node: the only place that connects clock, store, node, worker and endpoints.
//!
//! `punctual dev`, `punctual server`, embedded nodes and test nodes are all started by [`start`]. They differ
//! only in their [`Settings`] and in the [`Parts`] that they pass.

mod open_files;
mod worker;

use std::net::SocketAddr;
use std::sync::Arc;

use punctual_core::ids::SessionId;
use punctual_core::limits::AD_HOC_KEPT;
use punctual_core::time::Clock;
use punctual_node::AttemptKeys;
use punctual_node::attempt_key::OFFER_BYTES;
use punctual_node::handle::Status;
use punctual_node::node::{Config, Node};
use punctual_node::retention::{self, PACE};
use punctual_server::{Admission, Console, Endpoints, Gate, NodesToo, ProgressQueue, Tls, Workers};
use punctual_store::memory::Memory;
use punctual_store::{Opened, Store, sqlite};
use punctual_worker::Egress;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::alerts::Channels;
pub use crate::clock::now;
use crate::clock::{SystemClock, Watcher};
use crate::cluster::{self, Joined, Joining};
use crate::settings::Settings;
pub use open_files::files_wanted;
use worker::LocalWorker;
pub use worker::{Connection, OWN_BINARY, Observer, Remote, Worker, stopped, work};

/// Concurrent transactions on a store with several writers.
pub const LANES_SHARED: usize = 2;
/// The URL of a store in memory, for tests and first steps with an embedded node.
pub(crate) const MEMORY: &str = "memory:";

/// What a node is assembled from, besides its settings.
#[derive(Debug)]
pub struct Parts {
    pub name: String,
    /// A new one for each start.
    pub session: SessionId,
    pub store: Arc<dyn Store>,
    /// `None` means that the node is alone on its store.
    pub joining: Option<Joining>,
    /// The clock of a node that is alone. The nodes of a cluster use the store's clock.
    pub clock: Arc<dyn Clock>,
    /// `None` means that no attempt runs in this process.
    pub worker: Option<Worker>,
    /// `None` means that no client can connect: the node is embedded.
    pub access: Option<Access>,
}

impl Parts {
    /// The parts of `punctual dev`: alone on its store, without access control.
    pub fn new(name: &str, session: SessionId, store: Arc<dyn Store>, settings: &Settings) -> Parts {
        Parts {
            name: name.to_owned(),
            session,
            store,
            joining: None,
            clock: Arc::new(SystemClock::new()),
            worker: (settings.slots > 0).then(|| Worker::of_a_server(settings)),
            access: Some(Access::default()),
        }
    }
}

/// How the endpoints are protected, and the console that they serve.
#[derive(Debug)]
pub struct Access {
    pub gate: Gate,
    /// `None` means without TLS.
    pub tls: Option<Tls>,
    /// The page for browsers.
    pub console: Console,
}

impl Access {
    fn protect(self, endpoints: Endpoints) -> Endpoints {
        let endpoints = endpoints.behind(self.gate).with_console(self.console);
        match self.tls {
            Some(tls) => endpoints.over(tls),
            None => endpoints,
        }
    }
}

impl Default for Access {
    fn default() -> Access {
        Access { gate: Gate::open(), tls: None, console: Console::default() }
    }
}

/// A running node in this process, with its endpoints and its worker.
#[derive(Debug)]
pub struct Running {
    pub(crate) clock: Arc<dyn Clock>,
    node: Node,
    worker: LocalWorker,
    egress: Arc<Egress>,
    endpoints: Endpoints,
    stop: watch::Sender<bool>,
    /// Sends workers the addresses of nodes.
    nodes: Arc<watch::Sender<Vec<String>>>,
    /// The pruner, the mail, and the tasks of the worker.
    tasks: JoinSet<()>,
    /// The consumer of the queue for progress reports. It ends before the node, because it is in the middle of reports.
    progress: JoinSet<()>,
    /// Stops on drop.
    _watcher: Watcher,
}

impl Running {
    pub fn endpoints(&self) -> Endpoints {
        self.endpoints.clone()
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        self.node.store()
    }

    pub fn handle(&self) -> &punctual_node::Handle {
        &self.endpoints.handle
    }

    /// Tells the node that its clock was set.
    pub(crate) fn clock_was_set(&self) {
        self.node.nudge().clock_was_set();
    }

    /// Tells workers the address, and forbids tasks to call it.
    pub fn announce(&self, address: SocketAddr) {
        self.forbid_calls_to(address);
        self.nodes.send_replace(vec![address.to_string()]);
    }

    /// Forbids tasks to call a further address of this node, such as its endpoint for queues.
    pub fn forbid_calls_to(&self, address: SocketAddr) {
        self.egress.listens_on(address);
    }

    /// Waits until the node is ready, and its worker too if it has one.
    pub async fn ready(&self) -> anyhow::Result<()> {
        let workers = usize::from(!matches!(self.worker, LocalWorker::None));
        let ready = |status: &Status| status.ready && status.workers >= workers;
        self.handle().wait_until(|status| status.failed.is_some() || ready(status)).await;
        anyhow::ensure!(ready(&self.handle().status()), "the node did not become ready");
        Ok(())
    }

    /// Waits until the node fails, and returns why.
    pub async fn failed(&self) -> String {
        let handle = self.handle();
        if handle.wait_until(|status| status.failed.is_some()).await {
            handle.status().failed.unwrap_or_default()
        } else {
            "the node has stopped".to_owned()
        }
    }

    /// Stops the worker, then the node, and waits until every task has ended. Attempts that are stopped do not
    /// count as failed: they are tried again, elsewhere or at the next start.
    pub async fn shut_down(self) {
        let Running { node, worker, endpoints, stop, mut tasks, mut progress, .. } = self;
        worker.shut_down().await;
        endpoints.handle.followers().close();
        stop.send_replace(true);
        while progress.join_next().await.is_some() {}
        node.shut_down().await;
        while tasks.join_next().await.is_some() {}
    }
}

/// Opens the store that the settings name.
pub async fn open_store(settings: &Settings, session: SessionId) -> punctual_store::Result<Opened> {
    let options = sqlite::Options { shards: settings.shards, durability: settings.durability.into() };
    punctual_store::open(&settings.store, &settings.data, options, session).await
}

/// The same for a program that embeds a node: `memory:` is a store, too.
pub(crate) async fn open_any_store(
    settings: &Settings,
    session: SessionId,
    clock: Option<Arc<dyn Clock>>,
) -> punctual_store::Result<Opened> {
    if settings.store != MEMORY {
        return open_store(settings, session).await;
    }
    let store = match clock {
        Some(clock) => Memory::with_clock(settings.shards, clock),
        None => Memory::new(settings.shards),
    };
    Ok(Opened { store: Arc::new(store), sessions: None })
}

/// Starts a node. It is a member of a cluster if its parts have `joining`.
pub async fn start(settings: &Settings, parts: Parts) -> anyhow::Result<Running> {
    let Parts { name, session, store, joining, clock, worker, access } = parts;
    let (cluster, peers) = match joining {
        Some(joining) => {
            let Joined { cluster, key, post } = joining.join(&store, &name, settings.shard_lease).await?;
            (Some(cluster), Some((key, post)))
        }
        None => (None, None),
    };
    let system_clock = clock;
    let clock = match &cluster {
        Some(cluster) => Arc::clone(&cluster.clock) as Arc<dyn Clock>,
        None => Arc::clone(&system_clock),
    };
    let attempt_keys = attempt_keys(&*store).await?;
    let egress = Arc::new(Egress::new(settings.egress.clone()));
    let channels = Channels::new(&settings.alerts, Arc::clone(&egress), Arc::clone(&clock));
    let node = Node::start(Config {
        store,
        clock: Arc::clone(&clock),
        lanes: if cluster.is_some() { LANES_SHARED } else { 1 },
        attempt_lease: settings.attempt_lease,
        records: settings.records,
        shard_lease: settings.shard_lease,
        cluster,
        attempt_keys: Some(attempt_keys),
        channels: Some(Arc::new(channels)),
    })?;
    let handle = node.handle();
    let watcher = Watcher::start(node.nudge(), settings.look)?;
    let (stop, stopped) = watch::channel(false);
    let (nodes, dialled) = watch::channel(Vec::new());
    let nodes = Arc::new(nodes);
    let mut tasks = JoinSet::new();
    tasks.spawn(retention::run(handle.clone(), Arc::clone(&clock), PACE, AD_HOC_KEPT, stopped.clone()));

    // A node that is embedded may lead the queue of a cluster whose servers ask for tokens.
    let is_open = access.as_ref().is_some_and(|access| access.gate.is_open());
    let server = if access.is_some() { open_files::limited(settings) } else { settings.server.clone() };
    let endpoints = Endpoints::new(handle.clone(), Arc::clone(&clock), &name, server);
    let mut endpoints = access.unwrap_or_default().protect(endpoints.with_system_clock(system_clock));
    if worker.is_none() {
        endpoints = endpoints.without_work();
    }
    let mut progress = JoinSet::new();
    if let Some(queue) = settings.progress_queue.clone() {
        progress.spawn(ProgressQueue::new(endpoints.clone(), queue, !is_open).run(stopped.clone()));
    }
    let mut admission = Arc::clone(&endpoints.gate) as Arc<dyn Admission>;
    let key = peers.as_ref().map(|(key, _)| key.clone());
    if let Some((key, post)) = peers {
        tasks.spawn(post.clone().carry(handle.clone()));
        tasks.spawn(cluster::tell_workers(handle.clone(), Arc::clone(&nodes), stopped));
        admission = Arc::new(NodesToo { key: key.clone(), others: admission });
        endpoints = endpoints.with_peers(key, post);
    }
    let id = format!("{name}@{session}").into();
    let workers =
        Workers { links: node.links(), admission, node: id, lease: settings.attempt_lease, nodes: dialled };
    let worker = match worker {
        Some(worker) => {
            let beside = worker::Beside {
                node: &node,
                workers: &workers,
                clock: &clock,
                egress: &egress,
                token: key.map(|key| key.as_token()),
                name: &name,
                session,
            };
            worker.start(settings, beside, &mut tasks).await?
        }
        None => LocalWorker::None,
    };
    let endpoints = endpoints.with_workers(workers);
    Ok(Running { clock, node, worker, egress, endpoints, stop, nodes, tasks, progress, _watcher: watcher })
}

/// The keys of attempts that all nodes of the store use.
async fn attempt_keys(store: &dyn Store) -> anyhow::Result<AttemptKeys> {
    let mut offer = [0; OFFER_BYTES];
    getrandom::fill(&mut offer)?;
    Ok(AttemptKeys::agree(store, &offer).await?)
}
