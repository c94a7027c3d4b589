//! Followers of runs: woken when a run prints or changes, so that clients need not poll.
//!
//! A wake-up says only that there is something new; the follower reads it from the store. So nothing is buffered for
//! slow followers, and a follower that was away misses nothing.
//!
//! Events on another node wake no follower here. Therefore a follower of a run that another node leads polls.
//!
//! ```text
//!  append_logs ──┐
//!                ├──▶ followers ──wake──▶ Follower ──reads──▶ store
//!  commit ───────┘
//! ```

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use punctual_core::change::{Batch, RowKey};
use punctual_core::ids::RunId;
use rustc_hash::FxHashMap;
use tokio::sync::watch;

use crate::leaders::{self, Leaders};
use crate::live::log::{LIVE_FOLLOWERS_MAX, Live};

/// Poll interval for a run that another node leads.
pub const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The same for a run led here while other nodes lead other shards: its output may arrive through them.
const LOOK_EVERY_HERE: Duration = Duration::from_secs(1);

/// Maximum number of followers on one node. Each holds a connection and up to a mebibyte of output.
pub const FOLLOWERS_MAX: usize = 256;

#[derive(Debug)]
pub struct Followers {
    leaders: watch::Receiver<Leaders>,
    /// Kept outside the lock, so that a node without followers takes no lock.
    count: AtomicUsize,
    followed: Mutex<Followed>,
    live: Live,
}

#[derive(Debug, Default)]
struct Followed {
    is_closed: bool,
    runs: FxHashMap<RunId, FollowedRun>,
}

#[derive(Debug)]
struct FollowedRun {
    news: watch::Sender<()>,
    followers: usize,
}

/// Why a run cannot be followed now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotNow {
    #[error("this node already serves {FOLLOWERS_MAX} followers of runs, its maximum; try again later")]
    TooMany,
    #[error("{LIVE_FOLLOWERS_MAX} pages already follow this node, which is the most")]
    TooManyLive,
    #[error("this node is stopping; ask another node")]
    Stopping,
}

impl Followers {
    pub fn new(leaders: watch::Receiver<Leaders>) -> Self {
        Followers { leaders, count: AtomicUsize::new(0), followed: Mutex::default(), live: Live::default() }
    }

    pub fn follow(self: &Arc<Self>, run: RunId) -> Result<Follower, NotNow> {
        let mut followed = self.lock();
        if followed.is_closed {
            return Err(NotNow::Stopping);
        }
        if self.count.load(Ordering::Relaxed) >= FOLLOWERS_MAX {
            return Err(NotNow::TooMany);
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        let new = || FollowedRun { news: watch::Sender::new(()), followers: 0 };
        let entry = followed.runs.entry(run).or_insert_with(new);
        entry.followers += 1;
        let leaders = self.leaders.clone();
        Ok(Follower { followers: Arc::clone(self), run, news: entry.news.subscribe(), leaders })
    }

    /// Wakes the followers of a run. Call it after the store has the change.
    pub fn wake(&self, run: RunId) {
        if self.count.load(Ordering::Relaxed) > 0
            && let Some(entry) = self.lock().runs.get(&run)
        {
            entry.news.send_replace(());
        }
    }

    pub(crate) fn live(&self) -> &Live {
        &self.live
    }

    /// Wakes the followers of the runs that a commit changed, and the live followers.
    pub(crate) fn wake_changed(&self, batches: &[Batch]) {
        self.live.changed(batches);
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let followed = self.lock();
        for (key, _) in batches.iter().flat_map(|batch| batch.changes.iter()) {
            if let RowKey::Run(run) | RowKey::History(run) = key
                && let Some(entry) = followed.runs.get(run)
            {
                entry.news.send_replace(());
            }
        }
    }

    /// Ends all followers because the node stops; they may reconnect to another node.
    pub fn close(&self) {
        let mut followed = self.lock();
        followed.is_closed = true;
        followed.runs.clear();
        self.live.close();
    }

    fn lock(&self) -> MutexGuard<'_, Followed> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub struct Follower {
    followers: Arc<Followers>,
    run: RunId,
    news: watch::Receiver<()>,
    leaders: watch::Receiver<Leaders>,
}

impl Follower {
    /// Waits for news since the last call, or for the poll interval if another node leads the run. False means the node
    /// stops.
    pub async fn news(&mut self) -> bool {
        loop {
            let every = look_every(&self.leaders.borrow_and_update(), self.run);
            tokio::select! {
                changed = self.news.changed() => return changed.is_ok(),
                () = tokio::time::sleep(every.unwrap_or_default()), if every.is_some() => return true,
                () = leaders::changed(&mut self.leaders) => {}
            }
        }
    }
}

/// The poll interval. `None` means every change of the run wakes its followers.
fn look_every(leaders: &Leaders, run: RunId) -> Option<Duration> {
    if !leaders.is_here(run.shard()) {
        Some(LOOK_EVERY)
    } else if leaders.are_all_here() {
        None
    } else {
        Some(LOOK_EVERY_HERE)
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let mut followed = self.followers.lock();
        self.followers.count.fetch_sub(1, Ordering::Relaxed);
        if let Some(entry) = followed.runs.get_mut(&self.run) {
            entry.followers -= 1;
            if entry.followers == 0 {
                followed.runs.remove(&self.run);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Leader;

    fn alone() -> Arc<Followers> {
        Arc::new(Followers::new(watch::channel(Leaders::alone(4)).1))
    }

    async fn has_news(follower: &mut Follower) -> bool {
        tokio::time::timeout(Duration::from_millis(20), follower.news()).await == Ok(true)
    }

    #[tokio::test]
    async fn a_follower_hears_of_its_run_and_of_no_other() {
        let followers = alone();
        let (mut one, mut two) = (followers.follow(RunId(1)).unwrap(), followers.follow(RunId(2)).unwrap());
        followers.wake(RunId(1));
        followers.wake(RunId(1));
        assert!(has_news(&mut one).await);
        assert!(!has_news(&mut one).await, "the same news is not reported twice");
        assert!(!has_news(&mut two).await);
    }

    #[tokio::test]
    async fn a_follower_that_leaves_makes_room_for_another() {
        let followers = alone();
        let mut all: Vec<_> = (0..FOLLOWERS_MAX).map(|_| followers.follow(RunId(1)).unwrap()).collect();
        assert_eq!(followers.follow(RunId(2)).unwrap_err(), NotNow::TooMany);
        all.pop();
        followers.follow(RunId(2)).unwrap();
        drop(all);
        assert!(followers.lock().runs.is_empty());
        assert_eq!(followers.count.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn a_node_that_stops_ends_its_followers() {
        let followers = alone();
        let mut follower = followers.follow(RunId(1)).unwrap();
        followers.close();
        assert!(!follower.news().await);
        drop(follower);
        assert_eq!(followers.follow(RunId(1)).unwrap_err(), NotNow::Stopping);
        assert_eq!(followers.count.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn a_follower_polls_once_another_node_leads_its_run() {
        let (lead, leaders) = watch::channel(Leaders::alone(1));
        let followers = Arc::new(Followers::new(leaders));
        let mut follower = followers.follow(RunId(1)).unwrap();
        assert!(!has_news(&mut follower).await, "this node leads the run, so the follower does not poll");
        let waiting = tokio::spawn(async move { follower.news().await });
        lead.send_replace(Leaders::all(1, &Leader::At("127.0.0.1:1".into())));
        let looked = tokio::time::timeout(Duration::from_secs(10), waiting).await;
        assert!(looked.expect("the follower polls").unwrap());
    }
}
