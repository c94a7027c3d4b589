//! Output on its way to a node.
//!
//! Memory holds a bounded window of it. A program that prints faster than nodes store is slowed down by backpressure on
//! its pipe, as with a slow disk.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::log::Chunk;
use punctual_wire::grpc::LOG_WINDOW_BYTES;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tracing::warn;

use crate::driver::Key;
use crate::log::LogSink;

/// How long output waits for room; then it is lost, because no node takes it.
const ROOM_WAIT_MAX: Duration = Duration::from_secs(20);

/// Output that is not acknowledged yet; dropping it frees its room.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) chunk: Chunk,
    pub(crate) _room: Option<OwnedSemaphorePermit>,
}

impl Pending {
    pub(crate) fn key(&self) -> Key {
        (self.chunk.run, self.chunk.token)
    }

    pub(crate) fn is(&self, attempt: Key, number: u32) -> bool {
        self.key() == attempt && self.chunk.number == number
    }
}

/// The log sink of the executors.
#[derive(Debug)]
pub(crate) struct RemoteLogs {
    room: Arc<Semaphore>,
    pending: mpsc::UnboundedSender<Pending>,
}

impl RemoteLogs {
    pub(crate) fn new() -> (RemoteLogs, mpsc::UnboundedReceiver<Pending>) {
        let (pending, out) = mpsc::unbounded_channel();
        (RemoteLogs { room: Arc::new(Semaphore::new(LOG_WINDOW_BYTES)), pending }, out)
    }
}

#[async_trait]
impl LogSink for RemoteLogs {
    async fn append(&self, chunk: Chunk) {
        let (run, bytes) = (chunk.run, u32::try_from(chunk.bytes.len()).unwrap_or(u32::MAX).max(1));
        let room = Arc::clone(&self.room).acquire_many_owned(bytes);
        match tokio::time::timeout(ROOM_WAIT_MAX, room).await {
            // The channel is bounded by the semaphore; after the session has ended, output is dropped.
            Ok(Ok(room)) => drop(self.pending.send(Pending { chunk, _room: Some(room) })),
            _ => warn!(%run, bytes, "output was lost: no node took it"),
        }
    }
}
