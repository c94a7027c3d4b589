//! The handle by which a node orders.

use std::sync::Arc;

use punctual_core::attempt::Order;
use tokio::sync::{mpsc, watch};

/// Batches of orders under way to a worker; a node that is faster waits, or keeps them and tries again.
pub(crate) const ORDERS_MAX: usize = 64;

/// The worker has shut down, or is about to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the worker takes no more orders")]
pub struct Closed;

/// A cheap way to reach a worker. When the last one is dropped the worker shuts down.
#[derive(Debug, Clone)]
pub struct Handle {
    pub(crate) orders: mpsc::Sender<Vec<Order>>,
    pub(crate) shutdown: Arc<watch::Sender<bool>>,
}

impl Handle {
    /// Waits while [`ORDERS_MAX`] batches are under way. The worker never stops reading orders because its
    /// reports are not read, so a node that waits here cannot lock itself up.
    pub async fn send(&self, orders: Vec<Order>) -> Result<(), Closed> {
        self.orders.send(orders).await.map_err(|_| Closed)
    }

    /// Gives the batch back when there is no room for it now.
    pub fn try_send(&self, orders: Vec<Order>) -> Result<Option<Vec<Order>>, Closed> {
        match self.orders.try_send(orders) {
            Ok(()) => Ok(None),
            Err(mpsc::error::TrySendError::Full(orders)) => Ok(Some(orders)),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(Closed),
        }
    }

    /// No order is taken from now on, and what runs is stopped. `Worker::run` returns when all of it is gone.
    pub fn shut_down(&self) {
        self.shutdown.send_replace(true);
    }
}
