//! The worker's loop: orders in, reports out.
//!
//! It owns the book of attempts and one task per attempt that takes time. A noop takes none: it is over within the
//! loop, and the outcomes of a batch of orders leave as one batch of reports.
//!
//! One with empty hands says nothing: nobody waits for it, and an idle machine is left alone.
//!
//! The surprise: it never waits for its reports to be read. They pile up, bounded by the attempts in hand,
//! while orders are still obeyed, so that a node and its worker cannot wait for each other.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::attempt::{Assignment, Order, Outcome, Report};
use punctual_core::ids::{RunId, WorkerId};
use punctual_core::task::Task;
use punctual_core::time::Clock;
use punctual_core::worker::Kinds;
use punctual_failpoint::{Point, hit};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Interval, MissedTickBehavior};
use tracing::{debug, error, warn};

use crate::attempts::{Attempts, Stop, Told};
use crate::egress::Egress;
use crate::executor::{self, Attempt, Clients, Ending, Groups, Host, noop};
use crate::function::Functions;
use crate::lender::Lender;
use crate::log::LogSink;
use crate::order::{Handle, ORDERS_MAX, Word};

/// A third of the attempt lease of 15 s: two heartbeats may be lost.
pub const HEARTBEAT: Duration = Duration::from_secs(5);
/// What a program has to tidy up between being asked to end and being killed.
pub const GRACE: Duration = Duration::from_secs(10);
/// How long the last reports wait to be taken when a worker shuts down.
const PARTING_MAX: Duration = Duration::from_secs(1);
/// What attempts say of themselves and the loop has not heard yet; more is not said.
const SAID_MAX: usize = 256;

#[derive(Debug, Clone)]
pub struct Config {
    /// A new one each time the process starts: an attempt that was given to an earlier process is lost, and
    /// must not be mistaken for one that this worker has in hand.
    pub id: WorkerId,
    /// Attempts under way at once; more of them wait in line. Noops need no slot.
    pub slots: usize,
    pub clock: Arc<dyn Clock>,
    pub logs: Arc<dyn LogSink>,
    /// A folder for this worker alone, the same at every start: it records the processes to be cleared away
    /// after a crash.
    pub scratch: PathBuf,
    /// A binary that becomes a guardian when its first argument is [`crate::guardian::ARGUMENT`]. None: what a killed
    /// worker leaves running is killed by the next one, and a daemon may outlive its attempt until then.
    pub guardian: Option<PathBuf>,
    pub heartbeat: Duration,
    pub grace: Duration,
    /// Where tasks may go over HTTP.
    pub egress: Arc<Egress>,
    /// What it takes: a task of another kind fails here.
    pub kinds: Kinds,
    /// What tasks of the kind `function` may call.
    pub functions: Functions,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("another worker uses {0}")] // expected: end it, or choose another folder
    InUse(PathBuf),
    #[error("cannot use {path} for the worker")]
    Scratch { path: PathBuf, source: std::io::Error },
}

/// Executes attempts until it is shut down.
#[derive(Debug)]
pub struct Worker {
    id: WorkerId,
    host: Arc<Host>,
    attempts: Attempts,
    kinds: Kinds,
    /// One node orders, and it has all the slots.
    lender: Lender<()>,
    tasks: JoinSet<(RunId, Ending)>,
    orders: mpsc::Receiver<Word>,
    /// What attempts say of themselves.
    said: mpsc::Receiver<Report>,
    reports: mpsc::Sender<Vec<Report>>,
    /// Reports that have not left yet.
    outbox: Vec<Report>,
    heartbeat: Interval,
    shutdown: watch::Receiver<bool>,
}

#[derive(Debug)]
enum Event {
    Told(Word),
    Ended(Result<(RunId, Ending), JoinError>),
    Said(Report),
    Beat,
    /// The node has read a batch of reports, so another fits.
    Room(mpsc::OwnedPermit<Vec<Report>>),
}

impl Worker {
    /// Kills what an earlier worker of this folder left running, and makes ready to work.
    pub async fn open(config: Config, reports: mpsc::Sender<Vec<Report>>) -> Result<(Handle, Worker), Error> {
        let Config { id, slots, clock, logs, scratch, guardian, heartbeat, grace, egress, kinds, functions } =
            config;
        let opening = tokio::task::spawn_blocking(move || Groups::open(&scratch));
        let groups = opening.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))?;
        let (orders_in, orders) = mpsc::channel(ORDERS_MAX);
        let (shutdown_in, shutdown) = watch::channel(false);
        let (said_in, said) = mpsc::channel(SAID_MAX);
        let clients = Clients::new(egress);
        let host = Host { clock, logs, grace, guardian, groups, clients, functions, reports: said_in };
        let mut heartbeat = tokio::time::interval(heartbeat);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut lender = Lender::default();
        lender.joined(());
        let worker = Worker {
            id,
            host: Arc::new(host),
            attempts: Attempts::new(slots),
            kinds,
            lender,
            tasks: JoinSet::new(),
            orders,
            said,
            reports,
            outbox: Vec::new(),
            heartbeat,
            shutdown,
        };
        Ok((Handle { orders: orders_in, shutdown: Arc::new(shutdown_in) }, worker))
    }

    /// Returns when it was shut down, nobody reads its reports, or its last handle is gone. No process of its
    /// attempts is left then: what was assigned and not reported as finished is lost.
    pub async fn run(mut self) {
        self.lend();
        self.flush();
        while let Some(event) = self.next_event().await {
            self.handle(event);
            self.lend();
            self.flush();
        }
        self.shut_down().await;
    }

    async fn next_event(&mut self) -> Option<Event> {
        if self.reports.is_closed() {
            warn!(worker = %self.id, "nobody reads the reports, the worker shuts down");
            return None;
        }
        let room = self.reports.clone().reserve_owned();
        tokio::select! {
            // Orders come last: however many there are, heartbeats and outcomes are not held up.
            biased;
            _ = self.shutdown.wait_for(|asked| *asked) => None,
            _ = self.heartbeat.tick(), if !self.attempts.is_empty() => Some(Event::Beat),
            Ok(permit) = room, if !self.outbox.is_empty() => Some(Event::Room(permit)),
            Some(said) = self.said.recv() => Some(Event::Said(said)),
            Some(ended) = self.tasks.join_next() => Some(Event::Ended(ended)),
            word = self.orders.recv() => word.map(Event::Told),
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Told(Word::Orders(orders)) => {
                let now = self.host.clock.now();
                let was_idle = self.attempts.is_empty();
                for order in orders {
                    self.obey(order, now);
                }
                if was_idle {
                    self.heartbeat.reset();
                }
                self.begin_ready(now);
            }
            Event::Ended(ended) => {
                self.report(ended);
                while let Some(ended) = self.tasks.try_join_next() {
                    self.report(ended);
                }
                self.begin_ready(self.host.clock.now());
            }
            Event::Told(Word::GiveUp(attempts)) => {
                for (run, token) in attempts {
                    self.attempts.give_up(run, token);
                }
            }
            Event::Said(report) => self.outbox.push(report),
            Event::Beat | Event::Told(Word::Beat) => self.beat(),
            Event::Room(permit) => {
                permit.send(std::mem::take(&mut self.outbox));
            }
        }
    }

    fn obey(&mut self, order: Order, now: Timestamp) {
        match order {
            Order::Assign(assignment) => {
                let uses_credit = !assignment.again && !self.attempts.knows(assignment.run, assignment.token);
                match self.attempts.assign(assignment) {
                    Told::Begin(assignment) => self.begin(assignment, now),
                    Told::Again(report) => self.outbox.push(report),
                    Told::Nothing => {}
                }
                if uses_credit {
                    self.lender.used(&());
                }
            }
            Order::Cancel { run, token, cause } => {
                debug!(%run, %token, ?cause, "asked to stop an attempt");
                self.outbox.extend(self.attempts.cancel(run, token, cause, now));
            }
            Order::Acknowledge { run, token } => {
                hit(Point::WorkerAcknowledged);
                self.attempts.acknowledge(run, token);
                hit(Point::WorkerForgotten);
            }
            Order::Resend => {
                self.outbox.extend(self.attempts.unacknowledged(0));
                self.say_alive();
            }
            Order::GaveBack { total } => self.lender.gave_back(&(), total),
            Order::Waiting { priority, runs } => self.lender.waits(&(), priority, runs, now),
        }
    }

    /// What has become free is lent again, in the same batch as the outcome that freed it.
    fn lend(&mut self) {
        for ((), word) in self.lender.lend(self.attempts.room(), self.host.clock.now()) {
            // It is a total: the newest is enough.
            if matches!((&word, self.outbox.last()), (Report::Lent { .. }, Some(Report::Lent { .. }))) {
                self.outbox.pop();
            }
            self.outbox.push(word);
        }
    }

    fn begin_ready(&mut self, now: Timestamp) {
        while let Some(assignment) = self.attempts.next_ready() {
            self.begin(assignment, now);
        }
    }

    fn begin(&mut self, assignment: Assignment, now: Timestamp) {
        let (run, token, kind) = (assignment.run, assignment.token, assignment.definition.task.kind());
        if !self.kinds.contains(kind) {
            let why = format!("this worker takes no {} tasks", kind.as_str());
            self.outbox.push(self.attempts.keep(run, token, Outcome::failed(now, why)));
            return;
        }
        if matches!(assignment.definition.task, Task::Noop) {
            self.outbox.push(self.attempts.keep(run, token, noop::execute(now)));
            return;
        }
        let (stopper, stop) = watch::channel(None);
        self.attempts.begun(run, token, stopper);
        self.outbox.push(Report::Started { run, token, at: now });
        let host = Arc::clone(&self.host);
        let attempt = Attempt { assignment, started_at: now, stop };
        self.tasks.spawn(async move { (run, executor::execute(attempt, &host).await) });
    }

    fn report(&mut self, ended: Result<(RunId, Ending), JoinError>) {
        match ended {
            Ok((run, ending)) => {
                hit(Point::WorkerOutcomeBegun);
                self.outbox.extend(self.attempts.ended(run, ending.outcome));
                hit(Point::WorkerOutcomeKept);
            }
            // Executors catch their panics and nobody aborts them, so this is a bug of ours.
            Err(error) => error!(worker = %self.id, %error, "an attempt vanished"),
        }
    }

    fn beat(&mut self) {
        let overdue = self.attempts.next_beat();
        // Whatever has not even left yet need not be sent again.
        if self.outbox.is_empty() {
            self.outbox = overdue;
        }
        self.say_alive();
    }

    /// One sign of life in a batch is enough.
    fn say_alive(&mut self) {
        self.outbox.retain(|report| !matches!(report, Report::Alive { .. }));
        self.outbox.push(Report::Alive { attempts: self.attempts.in_hand() });
    }

    /// Sends what there is if it can be sent now; otherwise it leaves when there is room.
    fn flush(&mut self) {
        if self.outbox.is_empty() {
            return;
        }
        if let Err(mpsc::error::TrySendError::Full(reports)) =
            self.reports.try_send(std::mem::take(&mut self.outbox))
        {
            self.outbox = reports;
        }
    }

    async fn shut_down(mut self) {
        self.orders.close();
        self.lender.drain();
        self.outbox.extend(self.attempts.decline_waiting());
        self.attempts.stop_all();
        loop {
            tokio::select! {
                _ = self.heartbeat.tick() => self.beat(),
                ended = self.tasks.join_next() => match ended {
                    // It did nothing wrong. Said to have failed, it would use up one of its attempts.
                    Some(Ok((_, Ending { stopped: Some(Stop::Shutdown), .. }))) => {}
                    Some(ended) => self.report(ended),
                    None => break,
                },
            }
            self.flush();
        }
        self.host.groups.kill_all().await;
        if !self.outbox.is_empty() {
            let parting = self.reports.send(self.outbox);
            if tokio::time::timeout(PARTING_MAX, parting).await.is_err() {
                warn!(worker = %self.id, "the last reports were not taken");
            }
        }
    }
}
