//! The event loop. Each turn hands all arrived input to the driver, lets it settle once, and carries out its outputs.
//! The loop has its own thread; nothing blocks it except a sleep of less than a millisecond before a due time.

mod calls;
mod status;

use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::attempt::{Order, Report};
use punctual_core::command::{Answer, Command};
use punctual_core::cross_shard::CrossShardRequest;
use punctual_core::ids::WorkerId;
use punctual_core::name::Namespace;
use punctual_core::queue::{self, Act, Content, Delivered, EndNotice, Said, Verb};
use punctual_core::time::{Clock, Moment};
use punctual_engine::Ticket;
use punctual_failpoint::{Point, hit};
use punctual_store::Store;
use rustc_hash::FxHashMap;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tracing::{error, warn};

use super::links::{Link, Linked, Refusal};
use super::{Config, Nudge, REPORTS_MAX};
use crate::attempt_key::AttemptKeys;
use crate::busy::Busy;
use crate::calendars::SaveGuard;
use crate::cluster::Cluster;
use crate::driver::{Driver, Input, Output};
use crate::failure::Failure;
use crate::followers::Followers;
use crate::handle::{Ask, Handle, Idle, LOOKS_MAX, Look, Looked, Status, WhenIdle};
use crate::leaders::Leaders;
use crate::metrics::Metrics;
use crate::notifier::Notice;
use crate::watched::WatchedQueue;

/// Maximum number of asks and reports handed to the driver before it settles.
const TURN_MAX: usize = 4096;
/// Tokio's timers may fire this much late.
const TICK: Duration = Duration::from_millis(1);
/// If the wall clock moved further than this since the last reading, it is read again before the value is used.
const LEAP: Duration = Duration::from_secs(60);
/// How long a stopping node waits for the commit in flight.
const STOP_MAX: Duration = Duration::from_secs(10);

/// The ends of the channels between the loop and the rest of the node.
pub(super) struct Channels {
    pub(super) asks: mpsc::Receiver<Ask>,
    pub(super) looks: mpsc::Receiver<Look>,
    pub(super) idles: mpsc::Receiver<WhenIdle>,
    pub(super) links: mpsc::Receiver<Linked>,
    pub(super) nudge: Nudge,
    pub(super) stop: watch::Receiver<bool>,
    pub(super) status: watch::Sender<Status>,
    /// Publishes the leader of each shard. `None` means the leaders never change, or the caller publishes them.
    pub(super) leaders: Option<watch::Sender<Leaders>>,
    /// Its length is bounded by the runs and undelivered notices in memory.
    pub(super) courier: mpsc::UnboundedSender<CrossShardRequest>,
    /// Its length is bounded by the notices that are open.
    pub(super) notifier: mpsc::UnboundedSender<Notice>,
}

pub(super) struct EventLoop {
    driver: Driver,
    channels: Channels,
    cluster: Option<Cluster>,
    cluster_news: Arc<Notify>,
    attempt_keys: Option<AttemptKeys>,
    followers: Arc<Followers>,
    watched: Arc<WatchedQueue>,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    /// The wall clock at the last reading.
    seen: Timestamp,
    runtime: tokio::runtime::Handle,
    metrics: Arc<Metrics>,
    results_in: mpsc::UnboundedSender<Input>,
    results: mpsc::UnboundedReceiver<Input>,
    stopping: bool,
    /// The elapsed time until which a stopping node waits for the commit in flight. `None` means it is not stopping.
    stop_by: Option<Duration>,
    tickets: FxHashMap<Ticket, Asker>,
    next_ticket: u64,
    /// The newest link of each worker.
    workers: FxHashMap<WorkerId, Linkage>,
    /// Commits and releases in flight.
    in_flight: usize,
    /// Store calls whose result has not arrived.
    calls: usize,
    /// Orders sent to workers.
    orders: u64,
    busy: Busy,
    failed: Option<String>,
    /// The driver got new input while its outputs were carried out, so it must settle again.
    settle_again: bool,
    /// The status has changed since its watchers were last woken.
    has_unpublished: bool,
}

/// The newest link of a worker.
pub(super) struct Linkage {
    number: u64,
    orders: mpsc::UnboundedSender<Vec<Order>>,
    refusal: Refusal,
}

/// A caller that waits for an answer, and the guard that it holds until then.
pub(super) struct Asker {
    reply: oneshot::Sender<Result<Answer, Failure>>,
    _save: Option<SaveGuard>,
    /// The namespace from which it takes messages. `None` means it takes no messages.
    taker: Option<Namespace>,
}

enum Arrived {
    Asks(Vec<Ask>),
    Look(Look),
    Idle(WhenIdle),
    Linked(Linked),
    Result(Input),
    News,
    Time,
    Stop,
}

impl EventLoop {
    /// A loop whose store calls run on the caller's runtime.
    pub(super) fn new(config: Config, driver: Driver, handle: &Handle, channels: Channels) -> EventLoop {
        let seen = config.clock.now();
        let (results_in, results) = mpsc::unbounded_channel();
        EventLoop {
            driver,
            channels,
            cluster: config.cluster,
            cluster_news: Arc::clone(&handle.cluster_news),
            attempt_keys: config.attempt_keys,
            followers: Arc::clone(&handle.followers),
            watched: Arc::clone(&handle.watched),
            store: config.store,
            clock: config.clock,
            seen,
            runtime: tokio::runtime::Handle::current(),
            metrics: Arc::clone(&handle.metrics),
            results_in,
            results,
            stopping: false,
            stop_by: None,
            tickets: FxHashMap::default(),
            next_ticket: 0,
            workers: FxHashMap::default(),
            in_flight: 0,
            calls: 0,
            orders: 0,
            busy: Busy::default(),
            failed: None,
            settle_again: false,
            has_unpublished: false,
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            let moment = self.look();
            self.driver.settle_down(moment);
            self.carry_out();
            while std::mem::take(&mut self.settle_again) {
                self.driver.settle_down(moment);
                self.carry_out();
            }
            self.tell_status();
            self.tell_leaders();
            if self.failed.is_some() || (self.stopping && self.in_flight == 0 && self.has_handed_over()) {
                return self.leave().await;
            }
            if self.stopping {
                let until = *self.stop_by.get_or_insert(moment.elapsed + STOP_MAX);
                if moment.elapsed >= until {
                    warn!("stopping while a commit is in flight; its outcome is read at the next start");
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

    /// Whether this node no longer leads any shard. A single node keeps its shards.
    fn has_handed_over(&self) -> bool {
        self.cluster.is_none() || self.driver.leads_nothing()
    }

    /// Ends the session, so that the other nodes learn at once that this node is gone.
    async fn leave(&self) {
        let Some(cluster) = self.cluster.clone() else { return };
        let members = self.driver.members().to_vec();
        let leaving = self.runtime.spawn(async move {
            hit(Point::NodeLeaveBegun);
            let left = tokio::time::timeout(STOP_MAX, cluster.leave(&members)).await;
            hit(Point::NodeLeaveDone);
            if !matches!(left, Ok(Ok(()))) {
                warn!("this node's session could not be ended: the other nodes notice when it expires");
            }
        });
        drop(leaving.await);
    }

    /// Reads the clock. A big jump is read a second time, because one wrong reading would fire every timer before it.
    fn look(&mut self) -> Moment {
        let mut moment = self.clock.moment();
        if moment.now.since(self.seen) > LEAP {
            moment.now = moment.now.min(self.clock.now());
        }
        self.seen = moment.now;
        moment
    }

    /// Time until the driver has something to do. `None` means it waits for input.
    fn rest(&self) -> Option<Duration> {
        let elapsed = self.clock.elapsed();
        let rest = self.driver.next_wake().sleep(|due| self.clock.until(due), elapsed);
        rest.into_iter().chain(self.stop_by.map(|until| until.saturating_sub(elapsed))).min()
    }

    async fn next_arrival(&mut self) -> Arrived {
        let rest = self.rest();
        let mut asks = Vec::new();
        let takes_asks = self.driver.has_room() && !self.stopping;
        if let Some(rest) = rest.filter(|rest| *rest < TICK)
            && (rest.is_zero() || self.in_flight == 0)
        {
            // No commit is in flight and something is due within one tick: a thread sleep is more precise than tokio's
            // timer.
            std::thread::sleep(rest);
            // Calls begun on this thread make progress only when it yields.
            tokio::task::yield_now().await;
            return Arrived::Time;
        }
        tokio::select! {
            biased;
            Some(result) = self.results.recv() => Arrived::Result(result),
            Some(linked) = self.channels.links.recv() => Arrived::Linked(linked),
            count = self.channels.asks.recv_many(&mut asks, TURN_MAX), if takes_asks => {
                if count == 0 { Arrived::Stop } else { Arrived::Asks(asks) }
            }
            changed = self.channels.stop.changed(), if !self.stopping => {
                if changed.is_err() || *self.channels.stop.borrow() { Arrived::Stop } else { Arrived::Time }
            }
            Some(look) = self.channels.looks.recv() => Arrived::Look(look),
            () = self.cluster_news.notified() => Arrived::News,
            () = self.channels.nudge.0.notified() => Arrived::Time,
            // Last of all input: when it is answered there is no other input.
            Some(idle) = self.channels.idles.recv(), if self.calls == 0 => Arrived::Idle(idle),
            () = pass(rest.map(|rest| rest.checked_sub(TICK).unwrap_or(rest))) => Arrived::Time,
        }
    }

    /// Handles everything else that has arrived, so that it shares the next batch.
    fn drain(&mut self) {
        while let Ok(result) = self.results.try_recv() {
            self.handle(Arrived::Result(result));
        }
        for _ in 0..REPORTS_MAX {
            let Ok(linked) = self.channels.links.try_recv() else { break };
            self.handle(Arrived::Linked(linked));
        }
        for _ in 0..LOOKS_MAX {
            let Ok(look) = self.channels.looks.try_recv() else { break };
            self.handle(Arrived::Look(look));
        }
        for _ in 0..TURN_MAX {
            if self.stopping || !self.driver.has_room() {
                break;
            }
            let Ok(ask) = self.channels.asks.try_recv() else { break };
            self.ask(ask);
        }
    }

    fn handle(&mut self, arrived: Arrived) {
        match arrived {
            Arrived::Asks(asks) => asks.into_iter().for_each(|ask| self.ask(ask)),
            Arrived::Linked(linked) => self.linked(linked),
            Arrived::Result(result) => {
                self.calls -= 1;
                if matches!(result, Input::Committed { .. } | Input::Released) {
                    self.in_flight -= 1;
                }
                if matches!(result, Input::Renewed { .. }) {
                    let load = self.busy.percent(self.clock.elapsed());
                    self.step(Input::Load(load));
                }
                self.step(result);
                // Carry out the effects of a commit before the next batch is applied: workers and callers wait for
                // them.
                self.carry_out();
            }
            Arrived::Time => {
                hit(Point::NodeTimerTaken);
                self.step(Input::Wake);
                hit(Point::NodeTimerApplied);
            }
            // The caller of a look may have gone.
            Arrived::Look(Look::All(reply)) => {
                drop(reply.send(Looked { workers: self.workers(), queues: self.queues() }));
            }
            Arrived::Look(Look::Attempt { worker, run, token, reply }) => {
                reply.send(self.driver.pool().roster().has(&worker, run, token)).unwrap_or_default();
            }
            Arrived::Look(Look::Drain { worker, on, reply }) => {
                let named = self.workers.iter().filter(|(id, _)| id.name() == worker || *id.0 == *worker);
                // A closed link means that the worker left.
                let told = named.filter(|(_, link)| link.orders.send(vec![Order::Drain { on }]).is_ok());
                reply.send(told.count() > 0).unwrap_or_default();
            }
            Arrived::Look(Look::Distrust { worker, attempts }) => self.driver.distrust(&worker, &attempts),
            Arrived::Idle(idle) => {
                // The caller may have gone.
                let _ = idle.send(Idle { wake: self.driver.next_wake(), orders: self.orders });
            }
            Arrived::News => self.step(Input::ClusterChanged),
            Arrived::Stop => {
                self.stopping = true;
                self.step(Input::Stop);
            }
        }
    }

    /// Only the newest link of a worker counts; messages from older links are ignored.
    fn linked(&mut self, linked: Linked) {
        match linked {
            Linked::Joined(number, link, refusal) => {
                let Link { worker, announced, holding, orders } = link;
                self.workers.insert(worker.clone(), Linkage { number, orders, refusal });
                self.step(Input::Joined { worker, announced, holding });
            }
            Linked::Reports(number, worker, reports) if self.is_newest(number, &worker) => {
                hit(Point::NodeReportTaken);
                let is_heartbeat = reports.iter().any(|report| matches!(report, Report::Alive { .. }));
                self.step(Input::Reports { worker: worker.clone(), reports });
                if is_heartbeat {
                    self.warn_peers(&worker);
                }
                hit(Point::NodeReportApplied);
            }
            Linked::Left(number, worker) if self.is_newest(number, &worker) => {
                self.workers.remove(&worker);
                self.step(Input::Left { worker });
            }
            Linked::Departed(number, worker) if self.is_newest(number, &worker) => {
                self.workers.remove(&worker);
                self.step(Input::Departed { worker });
            }
            Linked::Reports(..) | Linked::Left(..) | Linked::Departed(..) => {}
        }
    }

    fn is_newest(&self, number: u64, worker: &WorkerId) -> bool {
        self.workers.get(worker).is_some_and(|newest| newest.number == number)
    }

    fn ask(&mut self, ask: Ask) {
        self.next_ticket += 1;
        let ticket = Ticket(self.next_ticket);
        let taker = match &ask.command {
            Command::Queue(queue::Ask::Take(take)) => Some(take.queue.namespace.clone()),
            _ => None,
        };
        self.tickets.insert(ticket, Asker { reply: ask.reply, _save: ask.save, taker });
        hit(Point::NodeCommandTaken);
        self.step(Input::Command { ticket, command: ask.command });
        hit(Point::NodeCommandApplied);
    }

    /// Returns messages to their queue when the consumer that took them has gone.
    fn give_back(&mut self, namespace: Namespace, taken: &[Delivered]) {
        if taken.is_empty() {
            return;
        }
        self.next_ticket += 1;
        let ids = taken.iter().map(|delivered| delivered.id).collect();
        let act = Act { namespace, verb: Verb::Return, ids };
        // This ticket has no caller: the answer is dropped.
        let (ticket, command) = (Ticket(self.next_ticket), Command::Queue(queue::Ask::Act(act)));
        self.step(Input::Command { ticket, command });
        self.settle_again = true;
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
                        // The caller may have gone; the decision stands.
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
                Output::Order { worker, mut order } => {
                    if let (Order::Assign(assignment), Some(keys)) = (&mut order, &self.attempt_keys) {
                        keys.give(assignment);
                    }
                    self.metrics.ordered(&order, self.clock.now());
                    orders.entry(worker).or_default().push(order);
                }
                Output::CrossShard(CrossShardRequest::Tell(EndNotice {
                    number,
                    content: Content::Notify(notification),
                })) => drop(self.channels.notifier.send(Notice { number, notification })),
                Output::CrossShard(request) => {
                    if let CrossShardRequest::Deliver(assignment) = &request {
                        self.metrics.began(assignment, self.clock.now());
                    }
                    // If the courier has ended, the node is stopping: the next leader of the shard repeats the request.
                    drop(self.channels.courier.send(request));
                }
                Output::Refuse { worker, why } => {
                    if let Some(link) = self.workers.remove(&worker) {
                        // A link is refused once: its worker is unknown from here on.
                        drop(link.refusal.set(why));
                        self.step(Input::Left { worker });
                        self.settle_again = true;
                    }
                }
                Output::Fail { why } => {
                    error!(%why, "the store cannot be used any more");
                    self.failed = Some(why);
                }
                Output::EndSession { session } => self.end_earlier_session(session),
                call => self.call(call),
            }
        }
        for (worker, orders) in orders {
            if let Some(link) = self.workers.get(&worker) {
                // A closed link means that the worker left: its attempts are given up when their lease ends.
                hit(Point::NodeOrderBegun);
                self.orders += orders.len() as u64;
                drop(link.orders.send(orders));
                hit(Point::NodeOrderDone);
            }
        }
    }
}

/// Sleeps for the given time; `None` means for ever.
async fn pass(span: Option<Duration>) {
    match span {
        Some(span) => tokio::time::sleep(span).await,
        None => std::future::pending().await,
    }
}
