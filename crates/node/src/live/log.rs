//! The log of changed ids that live followers read, each from its own place on.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use punctual_core::change::{Batch, Change, Row, RowKey};
use punctual_core::ids::{Epoch, RunId, ShardId};
use punctual_core::name::{Name, Namespace};
use punctual_core::queue::QueueName;
use punctual_store::Store;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::leaders::Leaders;

/// Maximum number of live followers on one node. Each holds a connection and a place in the log.
pub const LIVE_FOLLOWERS_MAX: usize = 1024;
/// How often the commit numbers of other nodes' shards are read.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Entries of the log: about a second of a node at full speed.
const LOG_MAX: usize = 8192;
/// Entries that a follower reads for one message; with more, it is told to read everything again.
const READ_MAX: usize = 2000;

/// An entry of the log.
#[derive(Debug, Clone)]
pub(super) enum Changed {
    /// Without a namespace: a discarded dead letter, whose row is gone.
    Run(Option<Namespace>, RunId),
    Job(Namespace, Name),
    /// A deleted job, whose name is not known here.
    SomeJob,
    Queue(Namespace, QueueName),
    /// A shard of another node has moved.
    Elsewhere,
}

#[derive(Debug, Default)]
pub(crate) struct Live {
    /// Kept outside the lock, so that a node without followers takes no lock.
    pub(super) count: AtomicUsize,
    log: Mutex<Log>,
    /// The end of the log.
    pub(super) news: watch::Sender<u64>,
    looked: tokio::sync::Mutex<Option<Looked>>,
}

/// When the commit numbers of all shards were last read, and what they were.
type Looked = (Instant, Vec<(Epoch, u64)>);

#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) is_closed: bool,
    entries: VecDeque<Changed>,
    /// The number of the first entry.
    begin: u64,
}

impl Log {
    pub(super) fn end(&self) -> u64 {
        self.begin + self.entries.len() as u64
    }

    /// Forgets all entries: changes are logged only while there are followers, so the old ones end at an unknown time.
    pub(super) fn restart(&mut self) {
        self.begin = self.end();
        self.entries.clear();
    }

    fn add(&mut self, changed: Changed) {
        if self.entries.len() == LOG_MAX {
            self.entries.pop_front();
            self.begin += 1;
        }
        self.entries.push_back(changed);
    }

    /// The entries from a number on. `None` means that there are too many, or that some are gone.
    pub(super) fn from(&self, number: u64) -> Option<impl Iterator<Item = &Changed>> {
        let skipped = usize::try_from(number.checked_sub(self.begin)?).ok()?;
        (self.entries.len().saturating_sub(skipped) <= READ_MAX).then(|| self.entries.iter().skip(skipped))
    }
}

impl Live {
    /// Adds what a commit changed.
    pub(crate) fn changed(&self, batches: &[Batch]) {
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut log = self.lock();
        if log.is_closed {
            return;
        }
        let changes = batches.iter().flat_map(|batch| batch.changes.iter());
        changes.filter_map(|(key, change)| Changed::of(key, change)).for_each(|changed| log.add(changed));
        // Under the lock, so that an earlier end never replaces a later one.
        self.news.send_replace(log.end());
    }

    /// Ends all followers because the node stops.
    pub(crate) fn close(&self) {
        let mut log = self.lock();
        log.is_closed = true;
        self.news.send_replace(log.end() + 1);
    }

    /// Reads the commit numbers of all shards, unless another follower has just done so.
    pub(super) async fn look(&self, store: &dyn Store, leaders: &Leaders) {
        let Ok(mut looked) = self.looked.try_lock() else { return };
        let is_fresh = |at: &Instant| at.elapsed() < LOOK_EVERY / 2;
        if looked.as_ref().is_some_and(|(at, _)| is_fresh(at)) {
            return;
        }
        // If the store cannot be read, the next look finds what has changed.
        let Ok(commits) = store.commits().await else { return };
        let before = looked.replace((Instant::now(), commits.clone()));
        let Some((_, before)) = before else { return };
        let moved = (0..).map(ShardId).zip(commits.iter().zip(&before));
        if moved.filter(|(shard, _)| !leaders.is_here(*shard)).any(|(_, (now, before))| now != before) {
            let mut log = self.lock();
            log.add(Changed::Elsewhere);
            self.news.send_replace(log.end());
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Changed {
    fn of(key: &RowKey, change: &Change) -> Option<Changed> {
        match (key, change) {
            (_, Change::Insert(row) | Change::Update(row)) => match row {
                Row::Run(run) | Row::History(run) => Some(Changed::Run(Some(run.namespace.clone()), run.id)),
                Row::DeadLetter(letter) => Some(Changed::Run(Some(letter.namespace.clone()), letter.run)),
                Row::Step(step) => Some(Changed::Run(None, step.key.run)),
                Row::Job(job) => Some(Changed::Job(job.namespace.clone(), job.name.clone())),
                Row::Queue(queue) => {
                    Some(Changed::Queue(queue.key.namespace.clone(), queue.key.name.clone()))
                }
                // It changes when jobs start.
                Row::Hold(_) => Some(Changed::SomeJob),
                Row::Incident(incident) => {
                    Some(Changed::Job(incident.namespace.clone(), incident.job_name()?.clone()))
                }
                Row::DeletedJob(_)
                | Row::Revision(_)
                | Row::Listener(_)
                | Row::Lock(_)
                | Row::Approval(_)
                | Row::Unique(_)
                | Row::Skip(_)
                | Row::Message(_)
                | Row::Statistics(_)
                | Row::RecentCounts(_)
                | Row::Term(_) => None,
            },
            (RowKey::DeadLetter(run), Change::Delete) => Some(Changed::Run(None, *run)),
            (RowKey::Job(_), Change::Delete) => Some(Changed::SomeJob),
            (_, Change::Delete) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_has_moved_on_says_so() {
        let mut log = Log::default();
        (0..5).for_each(|id| log.add(Changed::Run(None, RunId(id))));
        assert_eq!(log.from(3).unwrap().count(), 2);
        assert_eq!(log.from(log.end()).unwrap().count(), 0);
        (0..LOG_MAX as i64).for_each(|id| log.add(Changed::Run(None, RunId(id))));
        assert!(log.from(3).is_none(), "it is gone");
        assert_eq!(log.entries.len(), LOG_MAX);
        assert!(log.from(log.begin).is_none(), "too many to read");
    }
}
