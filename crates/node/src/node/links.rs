//! Connections between workers and a node.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use punctual_core::attempt::{Order, Report};
use punctual_core::ids::{RunId, Token, WorkerId};
use punctual_core::worker::Announcement;
use tokio::sync::mpsc;

/// A worker's connection to this node.
#[derive(Debug)]
pub struct Link {
    pub worker: WorkerId,
    pub announced: Announcement,
    /// Attempts that the worker still runs from before; all other attempts assigned to it are lost.
    pub holding: Vec<(RunId, Token)>,
    /// Its length is bounded by the worker's slots and unacknowledged outcomes.
    pub orders: mpsc::UnboundedSender<Vec<Order>>,
}

/// Accepts worker connections for a node.
#[derive(Debug, Clone)]
pub struct Links {
    links: mpsc::Sender<Linked>,
    count: Arc<AtomicU64>,
}

impl Links {
    pub(super) fn new(links: mpsc::Sender<Linked>) -> Links {
        Links { links, count: Arc::default() }
    }

    /// Links a worker. If the worker was linked before, the older link is no longer used.
    pub async fn link(&self, link: Link) -> Reporter {
        let number = self.count.fetch_add(1, Relaxed);
        let reporter = Reporter { worker: link.worker.clone(), number, reports: self.links.clone() };
        drop(self.links.send(Linked::Joined(number, link)).await);
        reporter
    }
}

/// The sending side of a linked worker.
#[derive(Debug, Clone)]
pub struct Reporter {
    worker: WorkerId,
    /// The number of this link.
    number: u64,
    reports: mpsc::Sender<Linked>,
}

impl Reporter {
    /// Waits for room in the channel. False means the node has stopped.
    pub async fn send(&self, reports: Vec<Report>) -> bool {
        self.reports.send(Linked::Reports(self.number, self.worker.clone(), reports)).await.is_ok()
    }

    /// The worker takes no more orders. It keeps its attempts until their lease ends.
    pub async fn leave(&self) {
        drop(self.reports.send(Linked::Left(self.number, self.worker.clone())).await);
    }

    /// The worker is shutting down and will not finish its attempts: they are assigned elsewhere at once.
    pub async fn part(&self) {
        drop(self.reports.send(Linked::Parted(self.number, self.worker.clone())).await);
    }
}

/// A message from a worker. The number identifies the worker's link.
#[derive(Debug)]
pub(super) enum Linked {
    Joined(u64, Link),
    Reports(u64, WorkerId, Vec<Report>),
    Left(u64, WorkerId),
    Parted(u64, WorkerId),
}
