//! Who follows a run: woken when it prints and when it changes, so that nobody has to ask again and again.
//!
//! A wake says only that there is something new; what it is, the follower reads from the store. So nothing is kept for
//! a follower that is slow, and none is missed by one that was away.
//!
//! ```text
//!  append_logs ──┐
//!                ├──▶ followers ──wake──▶ Follower ──reads──▶ store
//!  commit ───────┘
//! ```

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use punctual_core::change::{Batch, RowKey};
use punctual_core::ids::RunId;
use rustc_hash::FxHashMap;
use tokio::sync::watch;

/// Followers of one node at a time, all runs together. Each holds a connection and up to a mebibyte of output.
pub const FOLLOWERS_MAX: usize = 256;

#[derive(Debug, Default)]
pub struct Followers {
    /// Kept beside the map, so that a node without followers pays nothing for them.
    count: AtomicUsize,
    followed: Mutex<Followed>,
}

#[derive(Debug, Default)]
struct Followed {
    is_closed: bool,
    runs: FxHashMap<RunId, Line>,
}

#[derive(Debug)]
struct Line {
    news: watch::Sender<()>,
    followers: usize,
}

/// Why nobody more can follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotNow {
    #[error("{FOLLOWERS_MAX} already follow runs of this node, which is the most")]
    TooMany,
    #[error("the node is stopping")]
    Stopping,
}

impl Followers {
    pub fn follow(self: &Arc<Self>, run: RunId) -> Result<Follower, NotNow> {
        let mut followed = self.lock();
        if followed.is_closed {
            return Err(NotNow::Stopping);
        }
        if self.count.load(Ordering::Relaxed) >= FOLLOWERS_MAX {
            return Err(NotNow::TooMany);
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        let line = followed.runs.entry(run);
        let line = line.or_insert_with(|| Line { news: watch::Sender::new(()), followers: 0 });
        line.followers += 1;
        Ok(Follower { followers: Arc::clone(self), run, news: line.news.subscribe() })
    }

    /// There is news of a run: call it after the store has it.
    pub fn wake(&self, run: RunId) {
        if self.count.load(Ordering::Relaxed) > 0
            && let Some(line) = self.lock().runs.get(&run)
        {
            line.news.send_replace(());
        }
    }

    /// Wakes whoever follows a run that was changed by a commit.
    pub(crate) fn wake_changed(&self, batches: &[Batch]) {
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let followed = self.lock();
        for (key, _) in batches.iter().flat_map(|batch| batch.changes.iter()) {
            if let RowKey::Run(run) | RowKey::History(run) = key
                && let Some(line) = followed.runs.get(run)
            {
                line.news.send_replace(());
            }
        }
    }

    /// Sends everyone home, for the node stops: they may come back to the next one.
    pub fn close(&self) {
        let mut followed = self.lock();
        followed.is_closed = true;
        followed.runs.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Followed> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Follows one run until it is dropped.
#[derive(Debug)]
pub struct Follower {
    followers: Arc<Followers>,
    run: RunId,
    news: watch::Receiver<()>,
}

impl Follower {
    /// Waits for what came since the last call, or since following began. False: the node stops.
    pub async fn news(&mut self) -> bool {
        self.news.changed().await.is_ok()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let mut followed = self.followers.lock();
        self.followers.count.fetch_sub(1, Ordering::Relaxed);
        if let Some(line) = followed.runs.get_mut(&self.run) {
            line.followers -= 1;
            if line.followers == 0 {
                followed.runs.remove(&self.run);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn has_news(follower: &mut Follower) -> bool {
        tokio::time::timeout(Duration::from_millis(20), follower.news()).await == Ok(true)
    }

    #[tokio::test]
    async fn a_follower_hears_of_its_run_and_of_no_other() {
        let followers = Arc::new(Followers::default());
        let (mut one, mut two) = (followers.follow(RunId(1)).unwrap(), followers.follow(RunId(2)).unwrap());
        followers.wake(RunId(1));
        followers.wake(RunId(1));
        assert!(has_news(&mut one).await);
        assert!(!has_news(&mut one).await, "news that was heard is not news");
        assert!(!has_news(&mut two).await);
    }

    #[tokio::test]
    async fn who_leaves_makes_room_and_nothing_is_kept_of_them() {
        let followers = Arc::new(Followers::default());
        let mut all: Vec<_> = (0..FOLLOWERS_MAX).map(|_| followers.follow(RunId(1)).unwrap()).collect();
        assert_eq!(followers.follow(RunId(2)).unwrap_err(), NotNow::TooMany);
        all.pop();
        followers.follow(RunId(2)).unwrap();
        drop(all);
        assert!(followers.lock().runs.is_empty());
        assert_eq!(followers.count.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn a_node_that_stops_sends_its_followers_home() {
        let followers = Arc::new(Followers::default());
        let mut follower = followers.follow(RunId(1)).unwrap();
        followers.close();
        assert!(!follower.news().await);
        drop(follower);
        assert_eq!(followers.follow(RunId(1)).unwrap_err(), NotNow::Stopping);
        assert_eq!(followers.count.load(Ordering::Relaxed), 0);
    }
}
