//! Tells the consumer inside this node when messages wait in its queue.
//!
//! A consumer that waits at the queue itself would make the queue, keep it for ever, and wake its shard every minute. This
//! one learns from the commits of this node that messages are queued, and then takes them without waiting.

use std::sync::{Arc, OnceLock};

use punctual_core::change::{Batch, Change, Row};
use punctual_core::ids::ShardId;
use punctual_core::queue::QueueKey;
use tokio::sync::{Notify, watch};

use crate::leaders::{self, Leaders};

/// The queue that a node watches. There is at most one.
#[derive(Debug, Default)]
pub(crate) struct WatchedQueue {
    queue: OnceLock<(QueueKey, ShardId)>,
    news: Notify,
}

impl WatchedQueue {
    /// Batches of this node were committed, or may have been.
    pub(crate) fn committed(&self, batches: &[Batch]) {
        let Some((queue, shard)) = self.queue.get() else { return };
        // The row of a queue is written whenever the number of its queued messages changes.
        let has_queued = |change: &Change| match change {
            Change::Insert(Row::Queue(record)) | Change::Update(Row::Queue(record)) => {
                record.queued > 0 && record.key == *queue
            }
            _ => false,
        };
        let mut changes = batches.iter().filter(|batch| batch.shard == *shard);
        if changes.any(|batch| batch.changes.iter().any(|(_, change)| has_queued(change))) {
            self.news.notify_one();
        }
    }
}

/// Waits for messages in the watched queue.
#[derive(Debug)]
pub struct QueueWatch {
    watched: Arc<WatchedQueue>,
    shard: ShardId,
    leaders: watch::Receiver<Leaders>,
    /// Whether this node has led the queue since the last news.
    was_leader: bool,
}

impl QueueWatch {
    /// Watches a queue. Returns `None` if this node watches one already.
    pub(crate) fn of(
        watched: &Arc<WatchedQueue>,
        queue: &QueueKey,
        shard: ShardId,
        leaders: &watch::Receiver<Leaders>,
    ) -> Option<QueueWatch> {
        watched.queue.set((queue.clone(), shard)).ok()?;
        let (watched, leaders) = (Arc::clone(watched), leaders.clone());
        Some(QueueWatch { watched, shard, leaders, was_leader: false })
    }

    /// Waits until this node leads the queue and messages may wait in it.
    pub async fn news(&mut self) {
        loop {
            let was_leader = self.was_leader;
            let is_leader = self.leads();
            self.was_leader = is_leader;
            if is_leader && !was_leader {
                // The former leader may have left messages.
                return;
            }
            tokio::select! {
                () = self.watched.news.notified(), if is_leader => return,
                () = leaders::changed(&mut self.leaders) => {}
            }
        }
    }

    /// Whether this node leads the queue, as far as it knows.
    pub fn leads(&mut self) -> bool {
        let is_leader = self.leaders.borrow_and_update().is_here(self.shard);
        self.was_leader &= is_leader;
        is_leader
    }
}
