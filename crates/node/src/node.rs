//! The loop that carries the driver: one thread applies, tokio does the waiting.
//!
//! It selects, then handles: everything that has arrived is handed to the driver, which settles down once, and its
//! outputs are carried out. Store calls come back as inputs; nothing here blocks.
//!
//! It sleeps until something is due, for a day if need be. A clock that is set meanwhile makes that wrong, so whoever
//! learns of it says so through a [`Nudge`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Waker};
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::attempt::{Order, Report};
use punctual_core::change::Batch;
use punctual_core::command::{Answer, Command};
use punctual_core::ids::{RunId, SessionId, ShardId, Token, WorkerId};
use punctual_core::limits::COMMIT_BATCH_MAX;
use punctual_core::name::Namespace;
use punctual_core::queue::{self, Act, Delivered, Errand, Said, Verb};
use punctual_core::time::{Clock, Moment};
use punctual_core::worker::Announcement;
use punctual_engine::Ticket;
use punctual_failpoint::{Point, hit};
use punctual_store::{Error, Session, Store};
use rustc_hash::FxHashMap;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tracing::{error, warn};

use crate::busy::Busy;
use crate::calendars::{Calendars, Held, Keeper};
use crate::cluster::Cluster;
use crate::courier::Courier;
use crate::driver::{self, Driver, Input, Output, Settings};
use crate::errands::Errands;
use crate::followers::Followers;
use crate::handle::{ASKS_MAX, Ask, Failure, Handle, LOOKS_MAX, Look, Status, WorkerStatus};
use crate::leaders::{Forwarding, Leader, Leaders};
use crate::metrics::Metrics;
use crate::peers;

/// Asks and reports handed to the driver before it settles down.
const TURN_MAX: usize = 4096;
/// Batches of reports that wait to be taken, from all workers together.
const REPORTS_MAX: usize = 256;
/// A timer of tokio's is late by up to this much.
const TICK: Duration = Duration::from_millis(1);
/// A clock that went further than this since the last look is looked at again before it is believed.
const LEAP: Duration = Duration::from_secs(60);
/// How long a stopping node waits for the commit that is under way.
const PARTING_MAX: Duration = Duration::from_secs(10);

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

/// A worker's connection to this node.
#[derive(Debug)]
pub struct Link {
    pub worker: WorkerId,
    pub announced: Announcement,
    /// What it still has in hand from before; all else that was given to it is lost.
    pub holding: Vec<(RunId, Token)>,
    /// Never more than what the worker's slots and its unacknowledged outcomes amount to.
    pub orders: mpsc::UnboundedSender<Vec<Order>>,
}

/// Where workers are linked to a node.
#[derive(Debug, Clone)]
pub struct Links {
    links: mpsc::Sender<Linked>,
    count: Arc<AtomicU64>,
}

impl Links {
    /// A worker that was linked already is linked anew: its older link hears and says nothing more.
    pub async fn link(&self, link: Link) -> Reporter {
        let number = self.count.fetch_add(1, Relaxed);
        let reporter = Reporter { worker: link.worker.clone(), number, reports: self.links.clone() };
        drop(self.links.send(Linked::Joined(number, link)).await);
        reporter
    }
}

/// How a linked worker speaks.
#[derive(Debug, Clone)]
pub struct Reporter {
    worker: WorkerId,
    /// Which link of it this is.
    number: u64,
    reports: mpsc::Sender<Linked>,
}

impl Reporter {
    /// Waits for its turn; false: the node has stopped.
    pub async fn send(&self, reports: Vec<Report>) -> bool {
        self.reports.send(Linked::Reports(self.number, self.worker.clone(), reports)).await.is_ok()
    }

    /// The worker takes no more orders. What it has in hand it keeps until its lease ends.
    pub async fn leave(&self) {
        drop(self.reports.send(Linked::Left(self.number, self.worker.clone())).await);
    }

    /// The worker says good-bye: what it still has in hand will not be finished, and is given elsewhere at once.
    pub async fn part(&self) {
        drop(self.reports.send(Linked::Parted(self.number, self.worker.clone())).await);
    }
}

#[derive(Debug)]
enum Linked {
    Joined(u64, Link),
    Reports(u64, WorkerId, Vec<Report>),
    Left(u64, WorkerId),
    Parted(u64, WorkerId),
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
        let carrier = Carrier {
            driver: Driver::new(settings, moment),
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
        let links = Links { links: links_in, count: Arc::default() };
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

/// Waits so long, or for ever.
async fn pass(span: Option<Duration>) {
    match span {
        Some(span) => tokio::time::sleep(span).await,
        None => std::future::pending().await,
    }
}

/// Where it may matter that we die: before a store call, and before its result is known here. None: it is no call.
fn ends_of(output: &Output) -> Option<(Point, Point)> {
    match output {
        Output::Acquire { .. } => Some((Point::NodeAcquireBegun, Point::NodeAcquireDone)),
        Output::Renew { .. } => Some((Point::NodeRenewBegun, Point::NodeRenewDone)),
        Output::Release { .. } => Some((Point::NodeReleaseBegun, Point::NodeReleaseDone)),
        Output::Load { .. } => Some((Point::NodeLoadBegun, Point::NodeLoadDone)),
        Output::Commit { .. } => Some((Point::NodeCommitBegun, Point::NodeCommitDone)),
        Output::Fetch { .. } => Some((Point::NodeFetchBegun, Point::NodeFetchDone)),
        Output::Page { .. } | Output::Backlog { .. } => Some((Point::NodePageBegun, Point::NodePageDone)),
        Output::EndSession { .. }
        | Output::Answer { .. }
        | Output::Order { .. }
        | Output::Errand(_)
        | Output::Fail { .. } => None,
    }
}

/// Begins a call at once and waits for its end on the loop's own thread, which its answer wakes directly: a commit that is
/// passed through other threads takes as long to be passed as to be made durable.
fn begin_here(call: impl Future<Output = ()> + Send + 'static) {
    let mut call = Box::pin(call);
    if call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
        tokio::spawn(call);
    }
}

/// Commits, and counts what became durable.
async fn commit(store: &dyn Store, batches: Arc<Vec<Batch>>, metrics: &Metrics) -> Result<(), Error> {
    let sent = tokio::time::Instant::now();
    let result = store.commit(Arc::clone(&batches)).await;
    if result.is_ok() {
        metrics.committed(&batches, sent.elapsed());
    }
    result
}

struct Carrier {
    driver: Driver,
    cluster: Option<Cluster>,
    /// Where it is said who leads what; none: it never changes, or someone else says it.
    leaders: Option<watch::Sender<Leaders>>,
    cluster_news: Arc<Notify>,
    followers: Arc<Followers>,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    /// What the clock said at the last look.
    seen: Timestamp,
    nudge: Nudge,
    runtime: tokio::runtime::Handle,
    metrics: Arc<Metrics>,
    results_in: mpsc::UnboundedSender<Input>,
    results: mpsc::UnboundedReceiver<Input>,
    asks: mpsc::Receiver<Ask>,
    looks: mpsc::Receiver<Look>,
    links: mpsc::Receiver<Linked>,
    status: watch::Sender<Status>,
    stop: watch::Receiver<bool>,
    stopping: bool,
    /// Until when, by elapsed time, it waits for the commit that is under way.
    parting: Option<Duration>,
    tickets: FxHashMap<Ticket, Asker>,
    next_ticket: u64,
    /// The newest link of each worker.
    workers: FxHashMap<WorkerId, (u64, mpsc::UnboundedSender<Vec<Order>>)>,
    /// Never more than the runs and the letters in memory.
    courier: mpsc::UnboundedSender<Errand>,
    /// Commits under way.
    in_flight: usize,
    busy: Busy,
    failed: Option<String>,
    /// The driver was given something while its outputs were carried out.
    stirred: bool,
    /// Something of the status has changed since whoever waits for it was last woken.
    untold: bool,
}

/// Who waits for an answer, and what stays as it is until then.
struct Asker {
    reply: oneshot::Sender<Result<Answer, Failure>>,
    _held: Option<Held>,
    /// Of what namespace it takes messages; none: it takes none.
    taker: Option<Namespace>,
}

enum Arrived {
    Asks(Vec<Ask>),
    Look(Look),
    Linked(Linked),
    Result(Input),
    News,
    Time,
    Stop,
}

impl Carrier {
    async fn run(mut self) {
        loop {
            let moment = self.look();
            self.driver.settle_down(moment);
            self.carry_out();
            while std::mem::take(&mut self.stirred) {
                self.driver.settle_down(moment);
                self.carry_out();
            }
            self.tell_status();
            self.tell_leaders();
            if self.failed.is_some() || (self.stopping && self.in_flight == 0 && self.has_parted()) {
                return self.leave().await;
            }
            if self.stopping {
                let until = *self.parting.get_or_insert(moment.elapsed + PARTING_MAX);
                if moment.elapsed >= until {
                    warn!("stopping with a commit still under way; its outcome is found at the next start");
                    return self.leave().await;
                }
            }
            self.busy.rests(self.clock.elapsed());
            let first = self.next_arrival().await;
            self.busy.wakes(self.clock.elapsed());
            self.handle(first);
            self.drain();
        }
    }

    /// Whether no shard is led here any more; a node that is alone keeps its own.
    fn has_parted(&self) -> bool {
        self.cluster.is_none() || self.driver.leads_nothing()
    }

    /// Tells the others at once that this node is gone.
    async fn leave(&self) {
        let Some(cluster) = self.cluster.clone() else { return };
        let members = self.driver.members().to_vec();
        let leaving = self.runtime.spawn(async move {
            hit(Point::NodeLeaveBegun);
            let left = tokio::time::timeout(PARTING_MAX, cluster.leave(&members)).await;
            hit(Point::NodeLeaveDone);
            if !matches!(left, Ok(Ok(()))) {
                warn!("could not say good-bye: the others notice it when the session ends");
            }
        });
        drop(leaving.await);
    }

    /// One wrong reading would fire everything up to it; a clock that was really set says so twice.
    fn look(&mut self) -> Moment {
        let mut moment = self.clock.moment();
        if moment.now.since(self.seen) > LEAP {
            moment.now = moment.now.min(self.clock.now());
        }
        self.seen = moment.now;
        moment
    }

    /// How long nothing is to be done; none: until something arrives.
    fn rest(&self) -> Option<Duration> {
        let elapsed = self.clock.elapsed();
        let rest = self.driver.next_wake().sleep(|due| self.clock.until(due), elapsed);
        rest.into_iter().chain(self.parting.map(|until| until.saturating_sub(elapsed))).min()
    }

    async fn next_arrival(&mut self) -> Arrived {
        let rest = self.rest();
        let mut asks = Vec::new();
        let takes_asks = self.driver.has_room() && !self.stopping;
        if let Some(rest) = rest.filter(|rest| *rest < TICK)
            && (rest.is_zero() || self.in_flight == 0)
        {
            // Nobody waits for us, and something is due within the tick: the thread itself wakes on time.
            std::thread::sleep(rest);
            // Calls that were begun on this thread go on only while we wait.
            tokio::task::yield_now().await;
            return Arrived::Time;
        }
        tokio::select! {
            biased;
            Some(result) = self.results.recv() => Arrived::Result(result),
            Some(linked) = self.links.recv() => Arrived::Linked(linked),
            count = self.asks.recv_many(&mut asks, TURN_MAX), if takes_asks => {
                if count == 0 { Arrived::Stop } else { Arrived::Asks(asks) }
            }
            changed = self.stop.changed(), if !self.stopping => {
                if changed.is_err() || *self.stop.borrow() { Arrived::Stop } else { Arrived::Time }
            }
            Some(look) = self.looks.recv() => Arrived::Look(look),
            () = self.cluster_news.notified() => Arrived::News,
            () = self.nudge.0.notified() => Arrived::Time,
            () = pass(rest.map(|rest| rest.checked_sub(TICK).unwrap_or(rest))) => Arrived::Time,
        }
    }

    /// Takes along what else has arrived, so that it shares the next batch.
    fn drain(&mut self) {
        while let Ok(result) = self.results.try_recv() {
            self.handle(Arrived::Result(result));
        }
        for _ in 0..REPORTS_MAX {
            let Ok(linked) = self.links.try_recv() else { break };
            self.handle(Arrived::Linked(linked));
        }
        for _ in 0..LOOKS_MAX {
            let Ok(look) = self.looks.try_recv() else { break };
            self.handle(Arrived::Look(look));
        }
        for _ in 0..TURN_MAX {
            if self.stopping || !self.driver.has_room() {
                break;
            }
            let Ok(ask) = self.asks.try_recv() else { break };
            self.ask(ask);
        }
    }

    fn handle(&mut self, arrived: Arrived) {
        match arrived {
            Arrived::Asks(asks) => asks.into_iter().for_each(|ask| self.ask(ask)),
            Arrived::Linked(linked) => self.linked(linked),
            Arrived::Result(result) => {
                if matches!(result, Input::Committed { .. } | Input::Released) {
                    self.in_flight -= 1;
                }
                if matches!(result, Input::Renewed { .. }) {
                    let load = self.busy.percent(self.clock.elapsed());
                    self.step(Input::Load(load));
                }
                self.step(result);
                // What a commit sets free leaves before the next batch is applied: workers and callers wait for it.
                self.carry_out();
            }
            Arrived::Time => {
                hit(Point::NodeTimerTaken);
                self.step(Input::Wake);
                hit(Point::NodeTimerApplied);
            }
            // Whoever looked may have gone.
            Arrived::Look(look) => drop(look.send(self.workers())),
            Arrived::News => self.step(Input::ClusterChanged),
            Arrived::Stop => {
                self.stopping = true;
                self.step(Input::Stop);
            }
        }
    }

    /// Only the newest link of a worker counts: what an older one still says is out of date.
    fn linked(&mut self, linked: Linked) {
        match linked {
            Linked::Joined(number, link) => {
                let Link { worker, announced, holding, orders } = link;
                self.workers.insert(worker.clone(), (number, orders));
                self.step(Input::Joined { worker, announced, holding });
            }
            Linked::Reports(number, worker, reports) if self.is_newest(number, &worker) => {
                hit(Point::NodeReportTaken);
                self.step(Input::Reports { worker, reports });
                hit(Point::NodeReportApplied);
            }
            Linked::Left(number, worker) if self.is_newest(number, &worker) => {
                self.workers.remove(&worker);
                self.step(Input::Left { worker });
            }
            Linked::Parted(number, worker) if self.is_newest(number, &worker) => {
                self.workers.remove(&worker);
                self.step(Input::Parted { worker });
            }
            Linked::Reports(..) | Linked::Left(..) | Linked::Parted(..) => {}
        }
    }

    fn is_newest(&self, number: u64, worker: &WorkerId) -> bool {
        self.workers.get(worker).is_some_and(|(newest, _)| *newest == number)
    }

    fn ask(&mut self, ask: Ask) {
        self.next_ticket += 1;
        let ticket = Ticket(self.next_ticket);
        let taker = match &ask.command {
            Command::Queue(queue::Ask::Take(take)) => Some(take.queue.namespace.clone()),
            _ => None,
        };
        self.tickets.insert(ticket, Asker { reply: ask.reply, _held: ask.held, taker });
        hit(Point::NodeCommandTaken);
        self.step(Input::Command { ticket, command: ask.command });
        hit(Point::NodeCommandApplied);
    }

    /// Messages that were taken for somebody who is no longer there go back to where they were.
    fn give_back(&mut self, namespace: Namespace, taken: &[Delivered]) {
        if taken.is_empty() {
            return;
        }
        self.next_ticket += 1;
        let ids = taken.iter().map(|delivered| delivered.id).collect();
        let act = Act { namespace, verb: Verb::Return, ids };
        // Nobody waits for what becomes of it.
        let (ticket, command) = (Ticket(self.next_ticket), Command::Queue(queue::Ask::Act(act)));
        self.step(Input::Command { ticket, command });
        self.stirred = true;
    }

    fn step(&mut self, input: Input) {
        let moment = self.look();
        self.driver.step(input, moment);
    }

    fn carry_out(&mut self) {
        let mut orders: FxHashMap<WorkerId, Vec<Order>> = FxHashMap::default();
        for output in self.driver.outputs() {
            match output {
                Output::Answer { ticket, answer } => {
                    if let Some(asker) = self.tickets.remove(&ticket) {
                        // Whoever asked may have gone: what was decided stands all the same.
                        hit(Point::NodeAnswerBegun);
                        let unheard = asker.reply.send(answer).err();
                        hit(Point::NodeAnswerDone);
                        if let (Some(Ok(Answer::Queue(Said::Taken(taken)))), Some(namespace)) =
                            (unheard, asker.taker)
                        {
                            self.give_back(namespace, &taken);
                        }
                    }
                }
                Output::Order { worker, order } => {
                    self.metrics.ordered(&order, self.clock.now());
                    orders.entry(worker).or_default().push(order);
                }
                Output::Errand(errand) => {
                    if let Errand::Deliver(assignment) = &errand {
                        self.metrics.began(assignment, self.clock.now());
                    }
                    // A courier that has ended did so with the node: whoever leads the shard next has it done again.
                    drop(self.courier.send(errand));
                }
                Output::Fail { why } => {
                    error!(%why, "the store cannot be used any more");
                    self.failed = Some(why);
                }
                Output::EndSession { session } => self.end_earlier_life(session),
                call => self.call(call),
            }
        }
        for (worker, orders) in orders {
            if let Some((_, link)) = self.workers.get(&worker) {
                // A closed link is a worker that left: its attempts are given up when its lease ends.
                hit(Point::NodeOrderBegun);
                drop(link.send(orders));
                hit(Point::NodeOrderDone);
            }
        }
    }

    fn end_earlier_life(&self, session: SessionId) {
        let Some(cluster) = self.cluster.clone() else { return };
        self.runtime.spawn(async move {
            if let Err(error) = cluster.sessions.leave(session).await {
                warn!(%error, "the session of an earlier life of this node ends by itself");
            }
        });
    }

    /// Starts a store call; its result comes back as an input.
    fn call(&mut self, output: Output) {
        let (store, results) = (Arc::clone(&self.store), self.results_in.clone());
        let followers = Arc::clone(&self.followers);
        let metrics = Arc::clone(&self.metrics);
        if matches!(output, Output::Commit { .. } | Output::Release { .. }) {
            self.in_flight += 1;
        }
        let cluster = self.cluster.clone();
        let heir = self.heir(&output);
        let news = Arc::clone(&self.cluster_news);
        let Some((begun, done)) = ends_of(&output) else { return };
        let is_local = store.is_local() && !matches!(output, Output::Renew { .. } | Output::Release { .. });
        let call = async move {
            hit(begun);
            let input = match output {
                Output::Acquire { by, claims } => {
                    let result = store.acquire(by, &claims).await;
                    Input::Acquired { claims, result }
                }
                Output::Renew { session, ttl } => {
                    let Some(cluster) = cluster else { return };
                    Input::Renewed { result: cluster.look(&*store, &session, ttl).await }
                }
                Output::Release { shards, heir: to } => {
                    if let Err(error) = store.release(&shards, to).await {
                        warn!(%error, "shards could not be given up: they are taken when the session ends");
                    } else if let (Some(cluster), Some((heir, members))) = (cluster, heir) {
                        hit(Point::NodeReleaseReleased);
                        if !cluster.wake_heir(&heir, &members).await {
                            news.notify_one();
                        }
                    }
                    Input::Released
                }
                Output::Load { shard, epoch } => {
                    Input::Loaded { shard, result: store.load(shard, epoch).await }
                }
                Output::Commit { lane, batches } => {
                    let result = commit(&*store, Arc::clone(&batches), &metrics).await;
                    if result.is_ok() {
                        followers.wake_changed(&batches);
                    }
                    Input::Committed { lane, result }
                }
                Output::Fetch { read, wants } => Input::Fetched { read, result: store.fetch(wants).await },
                Output::Page { read, shard, after, limit } => {
                    Input::Paged { read, shard, result: store.due(shard, after, limit).await }
                }
                Output::Backlog { read, shard, queue, after, limit } => {
                    let result = store.backlog(shard, queue, after, limit).await;
                    Input::Backlogged { read, shard, result }
                }
                Output::EndSession { .. }
                | Output::Answer { .. }
                | Output::Order { .. }
                | Output::Errand(_)
                | Output::Fail { .. } => return,
            };
            hit(done);
            // The loop may have ended: then nobody wants to know.
            drop(results.send(input));
        };
        if is_local {
            begin_here(call);
        } else {
            self.runtime.spawn(call);
        }
    }

    /// The node that shards are left to, and everyone who might have to take them in its stead.
    fn heir(&self, output: &Output) -> Option<(Session, Vec<Session>)> {
        let Output::Release { heir: Some(heir), .. } = output else { return None };
        let members = self.driver.members();
        let heir = members.iter().find(|member| member.id == *heir)?;
        Some((heir.clone(), members.to_vec()))
    }

    fn tell_leaders(&self) {
        let Some(leaders) = &self.leaders else { return };
        let members = self.driver.members();
        let address = |session| members.iter().find(|member| member.id == session).map(peers::address_of);
        let shards = (0..self.store.shards()).map(|shard| match self.driver.leader(ShardId(shard)) {
            driver::Leader::Here => Leader::Here,
            driver::Leader::Session(session) => address(session).map_or(Leader::Nobody, Leader::At),
            driver::Leader::Nobody => Leader::Nobody,
        });
        let now = Leaders { shards: shards.collect() };
        leaders.send_if_modified(|said| {
            *said != now && {
                *said = now;
                true
            }
        });
    }

    fn workers(&self) -> Vec<WorkerStatus> {
        let present = self.driver.pool().roster.present().into_iter();
        let told = present.map(|worker| WorkerStatus {
            id: worker.id.to_string(),
            slots: worker.announced.slots as usize,
            busy: worker.busy,
            announced: Arc::clone(worker.announced),
            load: worker.load,
        });
        told.collect()
    }

    fn tell_status(&mut self) {
        let pool = self.driver.pool();
        let counts = self.driver.counts();
        let status = Status {
            ready: self.driver.is_ready() && !self.stopping && self.failed.is_none(),
            shards_led: self.driver.shards_led(),
            live_runs: pool.live,
            messages: pool.messages,
            ready_runs: pool.line.len(),
            running_runs: pool.running(),
            commits: counts.commits,
            changes: counts.changes,
            stale_reports: pool.stale_reports,
            failed: self.failed.clone(),
            members: self.driver.members().to_vec(),
            workers: pool.roster.workers(),
        };
        // Counts move with every commit: whoever waits for them hears of it when none is under way.
        let is_quiet = self.in_flight == 0;
        let untold = &mut self.untold;
        self.status.send_if_modified(|old| {
            *untold |= *old != status;
            let is_news = old.is_news(&status) || (is_quiet && *untold);
            *old = status;
            *untold &= !is_news;
            is_news
        });
    }
}
