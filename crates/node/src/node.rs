//! A scheduling node: the event loop that runs the driver on its own thread, and the background tasks beside it.
//!
//! The loop's thread applies events; store calls and background tasks run on tokio. The loop sleeps until the next due
//! time, which may be a day away. If the wall clock is set meanwhile, that sleep is wrong: call
//! [`Nudge::clock_was_set`].
//!
//! links ──▶ event_loop ──▶ driver
//!               └──▶ store

mod links;
mod event_loop;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use punctual_core::limits::COMMIT_BATCH_MAX;
use punctual_core::time::Clock;
use punctual_store::Store;
use tokio::sync::{Notify, mpsc, watch};
use tracing::warn;

use self::event_loop::{Channels, EventLoop};
pub use self::links::{Link, Links, Reporter};
use crate::attempt_key::AttemptKeys;
use crate::background::BackgroundTasks;
use crate::calendar_keeper::Keeper;
use crate::calendars::Calendars;
use crate::cluster::Cluster;
use crate::courier::Courier;
use crate::driver::{Driver, Settings};
use crate::followers::Followers;
use crate::handle::{ASKS_MAX, Handle, LOOKS_MAX, Status};
use crate::leaders::{Forwarding, Leader, Leaders};
use crate::notifier::{AlertChannels, Notifier};

/// Maximum number of worker messages (joins, batches of reports) waiting for the loop, over all workers.
const REPORTS_MAX: usize = 256;

#[derive(Debug)]
pub struct Config {
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    pub lanes: usize,
    pub attempt_lease: Duration,
    /// See [`punctual_engine::Settings::records`].
    pub records: bool,
    pub shard_lease: Duration,
    /// `None` means a single node that leads every shard.
    pub cluster: Option<Cluster>,
    /// `None` means that attempts get no key, and that no key is accepted.
    pub attempt_keys: Option<AttemptKeys>,
    /// Sends notifications of alerts. `None` means that they wait in the store.
    pub channels: Option<Arc<dyn AlertChannels>>,
}

/// A scheduling node. Without a cluster it leads every shard of the store.
#[derive(Debug)]
pub struct Node {
    handle: Handle,
    links: Links,
    nudge: Nudge,
    stop: watch::Sender<bool>,
    thread: Option<std::thread::JoinHandle<()>>,
    /// Applies calendar edits to the jobs that use them.
    keeper: tokio::task::JoinHandle<()>,
    /// Runs tasks that must finish even if their caller has gone.
    background: tokio::task::JoinHandle<()>,
    /// Carries notices between runs and queues.
    courier: tokio::task::JoinHandle<()>,
    /// Sends notifications of alerts.
    notifier: tokio::task::JoinHandle<()>,
}

/// Tells a node that the wall clock was set, so that it evaluates its due times again.
#[derive(Debug, Clone, Default)]
pub struct Nudge(Arc<Notify>);

impl Nudge {
    pub fn clock_was_set(&self) {
        self.0.notify_one();
    }
}

impl Node {
    /// Starts a single node, or a node of a cluster that learns by itself which node leads each shard.
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

    /// Starts a node whose caller supplies the leader of each shard.
    pub fn start_in(forwarding: Forwarding, config: Config) -> std::io::Result<Node> {
        Node::start_with(forwarding, None, config)
    }

    /// Starts the loop on its own thread, and the background tasks on the caller's runtime.
    fn start_with(
        forwarding: Forwarding,
        leaders: Option<watch::Sender<Leaders>>,
        config: Config,
    ) -> std::io::Result<Node> {
        let (asks_in, asks) = mpsc::channel(ASKS_MAX);
        let (looks_in, looks) = mpsc::channel(LOOKS_MAX);
        let (idles_in, idles) = mpsc::channel(LOOKS_MAX);
        let (links_in, links) = mpsc::channel(REPORTS_MAX);
        let (status_in, status) = watch::channel(Status::default());
        let (stop_in, stop) = watch::channel(false);
        let (courier, requests) = mpsc::unbounded_channel();
        // The sender has been dropped, so the leaders never change: this is a single node.
        let is_alone = forwarding.leaders.has_changed().is_err();
        let (calendars, edits, settled) = Calendars::new(is_alone);
        let (background, runner) = BackgroundTasks::new();
        let (notices_in, notices) = mpsc::unbounded_channel();
        let driver = new_driver(&config, forwarding.schedules);
        let handle = Handle {
            asks: asks_in,
            looks: looks_in,
            idles: idles_in,
            status,
            store: Arc::clone(&config.store),
            clock: Arc::clone(&config.clock),
            spread: Arc::default(),
            calendars,
            followers: Arc::new(Followers::new(forwarding.leaders.clone())),
            allowance: Arc::default(),
            attempt_keys: config.attempt_keys.clone(),
            metrics: Arc::default(),
            cluster_news: Arc::default(),
            leaders: forwarding.leaders,
            peers: forwarding.peers,
            patience: forwarding.patience,
            background,
            watched: Arc::default(),
            channels: config.channels.clone(),
            waiters: Arc::new(AtomicU64::new(first_waiter(config.cluster.as_ref()))),
        };
        let clock = Arc::clone(&config.clock);
        let keeper = Keeper::new(handle.clone(), Arc::clone(&clock), edits, settled, stop.clone());
        let courier_task = Courier::new(handle.clone(), clock, requests).run(stop.clone());
        let (keeper, courier_task) = (tokio::spawn(keeper.run()), tokio::spawn(courier_task));
        let notifier = Notifier::new(handle.clone(), config.channels.clone(), notices);
        let notifier = tokio::spawn(notifier.run(stop.clone()));
        let background = tokio::spawn(runner.run(stop.clone()));
        let nudge = Nudge::default();
        let channels = Channels {
            asks,
            looks,
            idles,
            links,
            nudge: nudge.clone(),
            stop,
            status: status_in,
            leaders,
            courier,
            notifier: notices_in,
        };
        let thread = start_thread(EventLoop::new(config, driver, &handle, channels))?;
        Ok(Node {
            handle,
            links: Links::new(links_in),
            nudge,
            stop: stop_in,
            thread: Some(thread),
            keeper,
            background,
            courier: courier_task,
            notifier,
        })
    }

    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// The whole store, for the owner of the node. Endpoints get a part of it from the handle.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.handle.store
    }

    pub fn nudge(&self) -> Nudge {
        self.nudge.clone()
    }

    pub async fn link(&self, link: Link) -> Reporter {
        self.links.link(link).await
    }

    /// For endpoints that accept worker connections.
    pub fn links(&self) -> Links {
        self.links.clone()
    }

    /// Stops accepting input, waits for the commit in flight, and ends.
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
        if (&mut self.background).await.is_err() {
            warn!("a background task ended in a panic");
        }
        if (&mut self.courier).await.is_err() {
            warn!("the courier between runs and queues ended in a panic");
        }
        if (&mut self.notifier).await.is_err() {
            warn!("the task that sends notifications ended in a panic");
        }
    }
}

fn new_driver(config: &Config, schedules: bool) -> Driver {
    let settings = Settings {
        shards: if schedules { config.store.shards() } else { 0 },
        lanes: config.lanes,
        shard_lease: config.shard_lease,
        session: config.cluster.as_ref().map(|cluster| cluster.session.clone()),
        commit_batch: COMMIT_BATCH_MAX,
        engine: punctual_engine::Settings {
            attempt_lease: config.attempt_lease,
            records: config.records,
            ..Default::default()
        },
    };
    let mut driver = Driver::new(settings, config.clock.moment());
    if let Some(channels) = &config.channels {
        driver.set_channels(channels.defaults());
    }
    if let Some(cluster) = &config.cluster {
        driver.set_load_limit(cluster.load_limit);
    }
    driver
}

fn start_thread(event_loop: EventLoop) -> std::io::Result<std::thread::JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let thread = std::thread::Builder::new().name("driver".to_owned());
    thread.spawn(move || runtime.block_on(event_loop.run()))
}

/// The first waiter number of this node. Nodes that ask the same leader must not share numbers.
fn first_waiter(cluster: Option<&Cluster>) -> u64 {
    cluster.map_or(0, |cluster| cluster.session.id.0.cast_unsigned() << 20)
}
