//! The transport to the node in the worker's own process: two channels.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::attempt::{Order, Report};
use punctual_core::ids::WorkerId;
use tokio::sync::{mpsc, watch};
use tracing::warn;

use crate::driver::{Driver, Input, LinkId, Output};
use crate::session::logs::Pending;
use crate::worker::{Config, Error, Event, Runner, Transport};

/// Batches of orders on their way to a worker; a node that is faster waits.
const ORDERS_MAX: usize = 64;
/// How long the last reports wait to be read when a worker shuts down.
const PARTING_MAX: Duration = Duration::from_secs(1);

/// The worker has shut down, or is about to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the worker takes no more orders")]
pub struct Closed;

/// Gives orders to a worker. When the last one is dropped the worker shuts down.
#[derive(Debug, Clone)]
pub struct Handle {
    orders: mpsc::Sender<Vec<Order>>,
    shutdown: Arc<watch::Sender<bool>>,
}

impl Handle {
    /// Waits while [`ORDERS_MAX`] batches are on their way. The worker never stops reading orders because its
    /// reports are not read, so a node that waits here cannot lock itself up.
    pub async fn send(&self, orders: Vec<Order>) -> Result<(), Closed> {
        self.orders.send(orders).await.map_err(|_| Closed)
    }

    /// Nothing starts from now on, and what runs is stopped. `Worker::run` returns when all of it is gone.
    pub fn shut_down(&self) {
        self.shutdown.send_replace(true);
    }
}

/// Works for the node in this process until it is shut down.
pub struct Worker {
    runner: Runner<InProcess>,
    shutdown: watch::Receiver<bool>,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("driver", &self.runner.driver).finish_non_exhaustive()
    }
}

impl Worker {
    /// Kills what an earlier worker of this folder left running, and makes ready to work.
    pub async fn open(config: Config, reports: mpsc::Sender<Vec<Report>>) -> Result<(Handle, Worker), Error> {
        let (orders_in, orders) = mpsc::channel(ORDERS_MAX);
        let (shutdown_in, shutdown) = watch::channel(false);
        let mut driver = Driver::new(config.slots, config.kinds, config.heartbeat);
        driver.join_in_process();
        let id = config.id.clone();
        let transport = InProcess { id, orders, reports, outbox: Vec::new(), beat: None, heard: None };
        let runner = Runner::open(config, driver, transport).await?;
        let handle = Handle { orders: orders_in, shutdown: Arc::new(shutdown_in) };
        Ok((handle, Worker { runner, shutdown }))
    }

    /// Returns when it was shut down, when its reports are no longer read, or when its last handle is gone.
    pub async fn run(self) {
        let Worker { runner, mut shutdown } = self;
        // An error means that the last handle is gone, and with it the orders.
        let asked = async move { drop(shutdown.wait_for(|asked| *asked).await) };
        runner.run(asked, None).await;
    }
}

#[derive(Debug)]
pub(crate) struct InProcess {
    id: WorkerId,
    orders: mpsc::Receiver<Vec<Order>>,
    reports: mpsc::Sender<Vec<Report>>,
    /// Reports that have not left yet, and the heartbeat among them.
    outbox: Vec<Report>,
    beat: Option<u64>,
    /// The heartbeat that has left, until the driver is told.
    heard: Option<u64>,
}

#[async_trait]
impl Transport for InProcess {
    async fn next(&mut self) -> Option<Event> {
        let link = LinkId::IN_PROCESS;
        loop {
            if let Some(beat) = self.heard.take() {
                return Some(Event::Input(Input::Heard { link, beat }));
            }
            if self.reports.is_closed() {
                warn!(worker = %self.id, "the reports are no longer read: the worker shuts down");
                return None;
            }
            let room = self.reports.clone().reserve_owned();
            tokio::select! {
                biased;
                Ok(permit) = room, if !self.outbox.is_empty() => {
                    permit.send(std::mem::take(&mut self.outbox));
                    self.heard = self.beat.take();
                }
                orders = self.orders.recv() => {
                    return orders.map(|orders| Event::Input(Input::Orders { link, orders }));
                }
            }
        }
    }

    fn print(&mut self, _: Pending, _: Option<LinkId>) {}

    fn carry(&mut self, output: Output) {
        match output {
            Output::Say { report, .. } => {
                // It is a total: the newest is enough.
                if matches!((&report, self.outbox.last()), (Report::Lent { .. }, Some(Report::Lent { .. }))) {
                    self.outbox.pop();
                }
                self.outbox.push(report);
            }
            Output::Heartbeat { beat, holding, .. } => {
                // One in a batch is enough.
                self.outbox.retain(|report| !matches!(report, Report::Alive { .. }));
                self.outbox.push(Report::Alive { attempts: holding });
                self.beat = Some(beat);
            }
            _ => {}
        }
    }

    /// What does not fit now leaves when there is room.
    fn flush(&mut self) {
        if self.outbox.is_empty() {
            return;
        }
        match self.reports.try_send(std::mem::take(&mut self.outbox)) {
            Ok(()) => self.heard = self.beat.take().or(self.heard),
            Err(mpsc::error::TrySendError::Full(reports)) => self.outbox = reports,
            Err(mpsc::error::TrySendError::Closed(_)) => {}
        }
    }

    async fn part(&mut self) {
        if self.outbox.is_empty() {
            return;
        }
        let parting = self.reports.send(std::mem::take(&mut self.outbox));
        if tokio::time::timeout(PARTING_MAX, parting).await.is_err() {
            warn!(worker = %self.id, "the last reports were not read");
        }
    }
}
