//! How workers are linked to a node, and speak.

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
    pub(super) fn new(links: mpsc::Sender<Linked>) -> Links {
        Links { links, count: Arc::default() }
    }

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

/// What arrives of the workers. Each link of a worker has a number of its own.
#[derive(Debug)]
pub(super) enum Linked {
    Joined(u64, Link),
    Reports(u64, WorkerId, Vec<Report>),
    Left(u64, WorkerId),
    Parted(u64, WorkerId),
}
