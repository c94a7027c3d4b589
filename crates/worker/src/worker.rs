//! The worker's loop: it feeds the [`Driver`] with what happens, and does what the driver says.
//!
//! One loop serves both transports: the node in this process (`in_process`) and nodes over the network (`session`).
//! Each attempt that takes time is a task of its own; a noop takes none.
//!
//! The loop never waits for a node to read reports. They pile up at the transport, bounded by the attempts in hand, so a
//! node and its worker cannot wait for each other.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::attempt::{Order, Report};
use punctual_core::ids::{RunId, WorkerId};
use punctual_core::limits;
use punctual_core::time::Clock;
use punctual_core::worker::Kinds;
use punctual_failpoint::{Point, hit};
use rustc_hash::FxHashMap;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tracing::error;

use crate::driver::{Driver, Input, LinkId, Now, Output, Stop};
use crate::egress::Egress;
use crate::executor::{self, Attempt, Clients, Ending, Executors, Groups, Host};
use crate::function::Functions;
use crate::log::LogSink;
use crate::session::logs::Pending;

/// What a program has to tidy up between being asked to end and being killed, if its job sets no other time.
pub const GRACE: Duration = limits::GRACE;
/// Reports of attempts about themselves that the loop has not read yet; more are dropped.
const SAID_MAX: usize = 256;

#[derive(Debug, Clone)]
pub struct Config {
    /// A new one each time the process starts: an attempt that was given to an earlier process is lost, and
    /// must not be mistaken for one that this worker has in hand.
    pub id: WorkerId,
    /// Attempts that run at once; more of them wait in line. Noops need no slot.
    pub slots: usize,
    pub clock: Arc<dyn Clock>,
    pub logs: Arc<dyn LogSink>,
    /// A folder for this worker alone, the same at every start: it records the processes to be killed
    /// after a crash.
    pub scratch: PathBuf,
    /// A binary that becomes a guardian when its first argument is [`crate::guardian::ARGUMENT`]. `None` means
    /// there is no guardian: the processes of a killed worker run on until the next start of the worker kills them.
    pub guardian: Option<PathBuf>,
    pub heartbeat: Duration,
    pub grace: Duration,
    /// Where tasks may go over HTTP.
    pub egress: Arc<Egress>,
    /// The kinds of task that it takes: one of another kind fails here.
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

/// Carries messages between the driver and the nodes.
///
/// Messages of one node arrive in order, and each order once. A broken connection is reported as [`Input::Gone`].
#[async_trait]
pub(crate) trait Transport: Send {
    /// The next event. `None` means there is no node left. The call can be dropped without losing an event.
    async fn next(&mut self) -> Option<Event>;

    /// Output of attempts that is there now. It goes before the outcome of its attempt.
    fn printed(&mut self) -> Option<Pending> {
        None
    }

    /// Passes a chunk of output on to the node that its attempt belongs to, or to any other: each can keep it.
    fn print(&mut self, pending: Pending, owner: Option<LinkId>);

    /// Does what the driver says about nodes.
    fn carry(&mut self, output: Output);

    /// Sends what was said, as far as it can be sent now.
    fn flush(&mut self) {}

    /// Sends what is left to say, and hangs up.
    async fn part(&mut self);
}

#[derive(Debug)]
pub(crate) enum Event {
    Input(Input),
    Printed(Pending),
}

/// What an attempt that is executed listens to.
struct Control {
    stop: watch::Sender<Option<Stop>>,
    /// The number of the newest report whose checkpoint is stored.
    saved: watch::Sender<u64>,
}

/// Executes what the driver says until it is told to stop.
pub(crate) struct Runner<T> {
    pub(crate) transport: T,
    pub(crate) driver: Driver,
    host: Arc<Host>,
    /// One task for each attempt that is executed, and what it listens to.
    tasks: JoinSet<(RunId, Ending)>,
    controls: FxHashMap<RunId, Control>,
    said: mpsc::Receiver<Report>,
    /// The driver counts its time from here.
    began: Instant,
}

impl<T: Transport> Runner<T> {
    /// Kills what an earlier worker of this folder left running, and makes ready to work.
    pub(crate) async fn open(config: Config, driver: Driver, transport: T) -> Result<Self, Error> {
        let Config { clock, logs, scratch, guardian, grace, egress, functions, .. } = config;
        let attempts = scratch.join("attempts");
        let folder = attempts.clone();
        let opening = tokio::task::spawn_blocking(move || {
            let groups = Groups::open(&scratch)?;
            empty(&folder).map_err(|source| Error::Scratch { path: folder, source })?;
            Ok(groups)
        });
        let groups = opening.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))?;
        let (said_in, said) = mpsc::channel(SAID_MAX);
        let clients = Clients::new(egress);
        let executors = Executors::default();
        let host = Host {
            clock,
            logs,
            grace,
            guardian,
            groups,
            attempts,
            clients,
            executors,
            functions,
            reports: said_in,
        };
        let (tasks, controls) = (JoinSet::new(), FxHashMap::default());
        Ok(Runner { transport, driver, host: Arc::new(host), tasks, controls, said, began: Instant::now() })
    }

    /// Works until `stop` is over and, if `drain` is given, what runs has ended or that time is over. No process of its
    /// attempts is left then, and those that it stopped are reported as yielded.
    pub(crate) async fn run(mut self, stop: impl Future<Output = ()>, drain: Option<Duration>) -> T {
        let mut stop = pin!(stop);
        let mut is_asked = false;
        self.step(Input::Clock);
        while !self.driver.has_drained(self.began.elapsed()) {
            let event = tokio::select! {
                // Orders come last: however many there are, heartbeats and outcomes are not held up.
                biased;
                () = &mut stop, if !is_asked => {
                    is_asked = true;
                    let Some(time) = drain else { break };
                    Event::Input(Input::Drain(time))
                }
                () = passed(self.began, self.driver.next_wake()) => Event::Input(Input::Clock),
                Some(said) = self.said.recv() => Event::Input(Input::Progress(said)),
                Some(ended) = self.tasks.join_next() => {
                    self.ended(ended);
                    continue;
                }
                event = self.transport.next() => match event {
                    Some(event) => event,
                    None => break,
                },
            };
            self.handle(event);
        }
        self.shut_down().await
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Input(input) => self.step(input),
            Event::Printed(pending) => self.printed(pending),
        }
        self.transport.flush();
    }

    fn printed(&mut self, pending: Pending) {
        let key = pending.key();
        self.step(Input::Printed(key));
        self.transport.print(pending, self.driver.owner(key));
    }

    fn ended(&mut self, ended: Result<(RunId, Ending), JoinError>) {
        while let Some(pending) = self.transport.printed() {
            self.printed(pending);
        }
        let mut next = Some(ended);
        while let Some(ended) = next {
            match ended {
                Ok((run, Ending { outcome, stopped })) => {
                    hit(Point::WorkerOutcomeBegun);
                    self.controls.remove(&run);
                    self.step(Input::Ended { run, outcome, stopped });
                    hit(Point::WorkerOutcomeKept);
                }
                // Executors catch their panics and no task is aborted, so this is a bug of ours.
                Err(error) => error!(%error, "an attempt vanished"),
            }
            next = self.tasks.try_join_next();
        }
        self.transport.flush();
    }

    fn step(&mut self, input: Input) {
        let is_settling =
            |orders: &[Order]| orders.iter().any(|order| matches!(order, Order::Acknowledge { .. }));
        let settles = matches!(&input, Input::Orders { orders, .. } if is_settling(orders));
        if settles {
            hit(Point::WorkerAcknowledged);
        }
        let now = Now { wall: self.host.clock.now(), elapsed: self.began.elapsed() };
        let mut begun = Vec::new();
        for output in self.driver.step(input, now) {
            begun.extend(self.obey(output));
        }
        // Last, because a later output may stop what an earlier one starts: such an attempt is stopped from its beginning.
        for attempt in begun {
            let (run, host) = (attempt.assignment.run, Arc::clone(&self.host));
            self.tasks.spawn(async move { (run, executor::execute(attempt, &host).await) });
        }
        if settles {
            hit(Point::WorkerForgotten);
        }
    }

    /// Does what the driver says. Returns an attempt to execute.
    fn obey(&mut self, output: Output) -> Option<Attempt> {
        match output {
            Output::Execute { assignment, started_at } => {
                let ((stop_in, stop), (saved_in, saved)) = (watch::channel(None), watch::channel(0));
                self.controls.insert(assignment.run, Control { stop: stop_in, saved: saved_in });
                return Some(Attempt { assignment, started_at, stop, saved });
            }
            Output::Stop { run, why } => {
                if let Some(control) = self.controls.get(&run) {
                    control.stop.send_replace(Some(why));
                }
            }
            Output::Saved { run, seq } => {
                if let Some(control) = self.controls.get(&run) {
                    control.saved.send_if_modified(|saved| std::mem::replace(saved, seq.max(*saved)) < seq);
                }
            }
            output => self.transport.carry(output),
        }
        None
    }

    async fn shut_down(mut self) -> T {
        hit(Point::WorkerLeaveBegun);
        self.step(Input::Stop);
        self.transport.flush();
        let mut is_heard = true;
        while !self.tasks.is_empty() {
            tokio::select! {
                () = passed(self.began, self.driver.next_wake()) => self.handle(Event::Input(Input::Clock)),
                Some(ended) = self.tasks.join_next() => self.ended(ended),
                event = self.transport.next(), if is_heard => match event {
                    Some(event) => self.handle(event),
                    None => is_heard = false,
                },
            }
        }
        // There is no time left to wait until output is kept.
        self.step(Input::Stop);
        self.host.groups.kill_all().await;
        self.transport.part().await;
        self.transport
    }
}

/// Makes a folder for this user alone, without what an earlier worker left in it.
fn empty(folder: &Path) -> std::io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    DirBuilder::new().mode(0o700).create(folder)
}

/// Waits until `time` has passed since the beginning; for ever if it is `None`.
async fn passed(began: Instant, time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep_until(began + time).await,
        None => std::future::pending().await,
    }
}
