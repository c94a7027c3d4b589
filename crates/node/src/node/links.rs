//! Connections between workers and a node.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

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
        let (worker, reports, refusal) = (link.worker.clone(), self.links.clone(), Refusal::default());
        let reporter = Reporter { worker, number, reports, refusal: Arc::clone(&refusal) };
        drop(self.links.send(Linked::Joined(number, link, refusal)).await);
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
    refusal: Refusal,
}

/// Why the node ended a link: the worker told something impossible.
pub(super) type Refusal = Arc<OnceLock<String>>;

impl Reporter {
    /// Why the node ended the link. `None` means that it did not, or that the worker has a newer link.
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.get().map(String::as_str)
    }

    /// Waits for room in the channel. False means the node has stopped.
    pub async fn send(&self, reports: Vec<Report>) -> bool {
        self.reports.send(Linked::Reports(self.number, self.worker.clone(), reports)).await.is_ok()
    }

    /// The worker takes no more orders. It keeps its attempts until their lease ends.
    pub async fn leave(&self) {
        drop(self.reports.send(Linked::Left(self.number, self.worker.clone())).await);
    }

    /// The worker is shutting down and will not finish its attempts: they are assigned elsewhere at once.
    pub async fn depart(&self) {
        drop(self.reports.send(Linked::Departed(self.number, self.worker.clone())).await);
    }
}

/// A message from a worker. The number identifies the worker's link.
#[derive(Debug)]
pub(super) enum Linked {
    Joined(u64, Link, Refusal),
    Reports(u64, WorkerId, Vec<Report>),
    Left(u64, WorkerId),
    Departed(u64, WorkerId),
}
