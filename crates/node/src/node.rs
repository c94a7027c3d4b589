//! A node that leads shards: the loop that carries the driver, on a thread of its own, and what runs beside it.
//!
//! One thread applies, tokio does the waiting. The loop sleeps until something is due, for a day if need be. A clock that is set
//! meanwhile makes that wrong, so whoever learns of it says so through a [`Nudge`].
//!
//! links ──▶ carrier ──▶ driver
//!              └──▶ calls ──▶ store

mod links;
mod carrier;
mod calls;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use punctual_core::limits::COMMIT_BATCH_MAX;
use punctual_core::time::Clock;
use punctual_store::Store;
use rustc_hash::FxHashMap;
use tokio::sync::{Notify, mpsc, watch};
use tracing::warn;

use self::carrier::Carrier;
pub use self::links::{Link, Links, Reporter};
use crate::busy::Busy;
use crate::calendars::{Calendars, Keeper};
use crate::cluster::Cluster;
use crate::courier::Courier;
use crate::driver::{Driver, Settings};
use crate::errands::Errands;
use crate::followers::Followers;
use crate::handle::{ASKS_MAX, Handle, LOOKS_MAX, Status};
use crate::leaders::{Forwarding, Leader, Leaders};
use crate::metrics::Metrics;

/// Batches of reports that wait to be taken, from all workers together.
const REPORTS_MAX: usize = 256;

#[derive(Debug)]
pub struct Config {
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    pub lanes: usize,
    pub attempt_lease: Duration,
    pub shard_lease: Duration,
    /// None: this node is alone with its store, and leads every shard.
    pub cluster: Option<Cluster>,
}

/// A node that leads shards of a store: all of them when it is alone.
#[derive(Debug)]
pub struct Node {
    handle: Handle,
    links: Links,
    nudge: Nudge,
    stop: watch::Sender<bool>,
    thread: Option<std::thread::JoinHandle<()>>,
    /// Keeps the calendars.
    keeper: tokio::task::JoinHandle<()>,
    /// Runs what outlives whoever began it.
    errands: tokio::task::JoinHandle<()>,
    /// Brings word between runs and queues.
    courier: tokio::task::JoinHandle<()>,
}

/// How a node is told that it had better look at its clock.
#[derive(Debug, Clone, Default)]
pub struct Nudge(Arc<Notify>);

impl Nudge {
    pub fn clock_was_set(&self) {
        self.0.notify_one();
    }
}

impl Node {
    /// Starts a node that is alone, or one of a cluster that finds its place in it by itself.
    pub fn start(config: Config) -> std::io::Result<Node> {
        let shards = config.store.shards();
        let Some(cluster) = &config.cluster else {
            return Node::start_with(Forwarding::alone(shards), None, config);
        };
        let (say, leaders) = watch::channel(Leaders::all(shards, &Leader::Nobody));
        let (peers, patience) = (Arc::clone(&cluster.peers), cluster.patience);
        let forwarding = Forwarding { leaders, peers, patience, schedules: true };
        Node::start_with(forwarding, Some(say), config)
    }

    /// Starts a node that is told by someone else who leads what.
    pub fn start_in(forwarding: Forwarding, config: Config) -> std::io::Result<Node> {
        Node::start_with(forwarding, None, config)
    }

    /// Starts the loop on a thread of its own; store calls run on the caller's runtime.
    fn start_with(
        forwarding: Forwarding,
        leaders: Option<watch::Sender<Leaders>>,
        config: Config,
    ) -> std::io::Result<Node> {
        let (asks_in, asks) = mpsc::channel(ASKS_MAX);
        let (looks_in, looks) = mpsc::channel(LOOKS_MAX);
        let (links_in, links) = mpsc::channel(REPORTS_MAX);
        let (status_in, status) = watch::channel(Status::default());
        let (stop_in, stop) = watch::channel(false);
        let (results_in, results) = mpsc::unbounded_channel();
        let news = Arc::new(Notify::new());
        // Alone: nobody is left who could name another leader.
        let is_alone = forwarding.leaders.has_changed().is_err();
        let (calendars, edits, settled) = Calendars::new(is_alone);
        let metrics = Arc::new(Metrics::default());
        let (errands, runner) = Errands::new();
        let handle = Handle {
            asks: asks_in,
            looks: looks_in,
            status,
            store: Arc::clone(&config.store),
            clock: Arc::clone(&config.clock),
            spread: Arc::new(AtomicU64::new(0)),
            calendars,
            followers: Arc::new(Followers::new(forwarding.leaders.clone())),
            allowance: Arc::default(),
            metrics: Arc::clone(&metrics),
            cluster_news: Arc::clone(&news),
            leaders: forwarding.leaders,
            peers: forwarding.peers,
            patience: forwarding.patience,
            errands,
            waiters: Arc::new(AtomicU64::new(first_waiter(config.cluster.as_ref()))),
        };
        let keeper = Keeper::new(handle.clone(), Arc::clone(&config.clock), edits, settled, stop.clone());
        let keeper = tokio::spawn(keeper.run());
        let errands = tokio::spawn(runner.run(stop.clone()));
        let (courier, letters) = mpsc::unbounded_channel();
        let bringing = Courier::new(handle.clone(), Arc::clone(&config.clock), letters);
        let bringing = tokio::spawn(bringing.run(stop.clone()));
        let settings = Settings {
            shards: if forwarding.schedules { config.store.shards() } else { 0 },
            lanes: config.lanes,
            shard_lease: config.shard_lease,
            session: config.cluster.as_ref().map(|cluster| cluster.session.clone()),
            commit_batch: COMMIT_BATCH_MAX,
            engine: punctual_engine::Settings { attempt_lease: config.attempt_lease, ..Default::default() },
        };
        let moment = config.clock.moment();
        let nudge = Nudge::default();
        let mut driver = Driver::new(settings, moment);
        if let Some(cluster) = &config.cluster {
            driver.set_hot(cluster.hot);
        }
        let carrier = Carrier {
            driver,
            seen: moment.now,
            nudge: nudge.clone(),
            followers: Arc::clone(&handle.followers),
            store: config.store,
            clock: config.clock,
            cluster: config.cluster,
            leaders,
            cluster_news: news,
            runtime: tokio::runtime::Handle::current(),
            metrics,
            results_in,
            results,
            asks,
            looks,
            links,
            status: status_in,
            stop,
            stopping: false,
            parting: None,
            tickets: FxHashMap::default(),
            next_ticket: 0,
            workers: FxHashMap::default(),
            courier,
            in_flight: 0,
            busy: Busy::default(),
            failed: None,
            stirred: false,
            untold: false,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let thread = std::thread::Builder::new().name("driver".to_owned()).spawn(move || {
            runtime.block_on(carrier.run());
        })?;
        let links = Links::new(links_in);
        Ok(Node {
            handle,
            links,
            nudge,
            stop: stop_in,
            thread: Some(thread),
            keeper,
            errands,
            courier: bringing,
        })
    }

    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    pub fn nudge(&self) -> Nudge {
        self.nudge.clone()
    }

    pub async fn link(&self, link: Link) -> Reporter {
        self.links.link(link).await
    }

    /// For doors that let workers in.
    pub fn links(&self) -> Links {
        self.links.clone()
    }

    /// Takes nothing more, waits for the commit that is under way, and ends.
    pub async fn shut_down(mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take()
            && tokio::task::spawn_blocking(move || thread.join()).await.is_err()
        {
            warn!("the driver ended in a panic");
        }
        if (&mut self.keeper).await.is_err() {
            warn!("the keeper of the calendars ended in a panic");
        }
        if (&mut self.errands).await.is_err() {
            warn!("an errand ended in a panic");
        }
        if (&mut self.courier).await.is_err() {
            warn!("the courier between runs and queues ended in a panic");
        }
    }
}

/// Where the numbers of the consumers that wait begin: nodes that ask the same leader must not use the same.
fn first_waiter(cluster: Option<&Cluster>) -> u64 {
    cluster.map_or(0, |cluster| cluster.session.id.0.cast_unsigned() << 20)
}
