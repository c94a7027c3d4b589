//! The handle by which a node orders.

use std::sync::Arc;

use punctual_core::attempt::Order;
use punctual_core::ids::{RunId, Token};
use tokio::sync::{mpsc, watch};

/// Batches of orders under way to a worker; a node that is faster waits, or keeps them and tries again.
pub(crate) const ORDERS_MAX: usize = 64;

/// What a worker is told.
#[derive(Debug)]
pub(crate) enum Word {
    Orders(Vec<Order>),
    /// Say what you have in hand.
    Beat,
    /// Nobody who could settle these attempts has heard us for a lease: they are outdated, or will be.
    GiveUp(Vec<(RunId, Token)>),
}

/// The worker has shut down, or is about to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the worker takes no more orders")]
pub struct Closed;

/// A cheap way to reach a worker. When the last one is dropped the worker shuts down.
#[derive(Debug, Clone)]
pub struct Handle {
    pub(crate) orders: mpsc::Sender<Word>,
    pub(crate) shutdown: Arc<watch::Sender<bool>>,
}

impl Handle {
    /// Waits while [`ORDERS_MAX`] batches are under way. The worker never stops reading orders because its
    /// reports are not read, so a node that waits here cannot lock itself up.
    pub async fn send(&self, orders: Vec<Order>) -> Result<(), Closed> {
        self.tell(Word::Orders(orders)).await
    }

    /// Asks for a sign of life. It names every attempt that was ordered before.
    pub(crate) async fn beat(&self) -> Result<(), Closed> {
        self.tell(Word::Beat).await
    }

    pub(crate) async fn give_up(&self, attempts: Vec<(RunId, Token)>) -> Result<(), Closed> {
        self.tell(Word::GiveUp(attempts)).await
    }

    async fn tell(&self, word: Word) -> Result<(), Closed> {
        self.orders.send(word).await.map_err(|_| Closed)
    }

    /// Gives the batch back when there is no room for it now.
    pub fn try_send(&self, orders: Vec<Order>) -> Result<Option<Vec<Order>>, Closed> {
        match self.orders.try_send(Word::Orders(orders)) {
            Err(mpsc::error::TrySendError::Full(Word::Orders(orders))) => Ok(Some(orders)),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(Closed),
            Ok(()) | Err(mpsc::error::TrySendError::Full(_)) => Ok(None),
        }
    }

    /// No order is taken from now on, and what runs is stopped. `Worker::run` returns when all of it is gone.
    pub fn shut_down(&self) {
        self.shutdown.send_replace(true);
    }
}
