//! What changed, for pages that stay open: the ids of runs, jobs and queues, merged to four messages a second.
//!
//! Every commit of this node adds the changed ids to one bounded log. Each follower has a place in the log and reads on
//! from there, so that a slow follower costs no memory; if the log has moved past its place, it is told to read
//! everything again.
//!
//! Commits of other nodes are not seen. While other nodes lead shards, one follower at a time reads the commit numbers
//! of all shards once a second; if a shard of another node has moved, all followers are told to read again.
//!
//! ```text
//!  commit ──────────▶ log ──news──▶ LiveFollower ──at most four a second──▶ page
//!  commit numbers ──▶
//! ```

pub(crate) mod log;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use punctual_core::ids::RunId;
use punctual_core::name::{Name, Namespace};
use punctual_core::queue::QueueName;
use punctual_store::Store;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::followers::{Followers, NotNow};
use crate::handle::{Handle, Status};
use crate::leaders::{self, Leaders};

pub use log::LIVE_FOLLOWERS_MAX;
use log::{Changed, LOOK_EVERY};

/// Ids of each kind in one message. A page that shows more reads everything again anyway.
pub const IDS_MAX: usize = 500;
/// The shortest time between two messages of a follower.
const MERGE: Duration = Duration::from_millis(250);
/// What a follower wants to hear of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// `None` means all namespaces.
    pub namespace: Option<Namespace>,
    pub topics: BTreeSet<Topic>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    Runs,
    Jobs,
    Queues,
    Workers,
    Nodes,
}

impl Topic {
    pub const ALL: [Topic; 5] = [Topic::Runs, Topic::Jobs, Topic::Queues, Topic::Workers, Topic::Nodes];

    pub fn as_str(self) -> &'static str {
        match self {
            Topic::Runs => "runs",
            Topic::Jobs => "jobs",
            Topic::Queues => "queues",
            Topic::Workers => "workers",
            Topic::Nodes => "nodes",
        }
    }

    pub fn parse(text: &str) -> Option<Topic> {
        Topic::ALL.into_iter().find(|topic| topic.as_str() == text)
    }
}

/// What changed since the last message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LiveChanges {
    pub runs: BTreeSet<RunId>,
    pub jobs: BTreeSet<Name>,
    pub queues: BTreeSet<QueueName>,
    pub workers: bool,
    pub nodes: bool,
    /// More changed than is listed: read everything again.
    pub more: bool,
}

impl Handle {
    /// Follows the changes of the whole cluster from now on.
    pub fn follow_changes(&self, wanted: Wanted) -> Result<LiveFollower, NotNow> {
        let live = self.followers.live();
        let mut log = live.lock();
        if log.is_closed {
            return Err(NotNow::Stopping);
        }
        if live.count.load(Ordering::Relaxed) >= LIVE_FOLLOWERS_MAX {
            return Err(NotNow::TooManyLive);
        }
        if live.count.fetch_add(1, Ordering::Relaxed) == 0 {
            log.restart();
        }
        let (cursor, news) = (log.end(), live.news.subscribe());
        drop(log);
        let now = Instant::now();
        Ok(LiveFollower {
            followers: Arc::clone(&self.followers),
            wanted,
            cursor,
            news,
            seen: Seen::of(&self.status.borrow()),
            status: self.status.clone(),
            leaders: self.leaders.clone(),
            store: Arc::clone(&self.store),
            sent: now.checked_sub(MERGE).unwrap_or(now),
            look_at: now,
        })
    }
}

/// A place in the log of changes.
#[derive(Debug)]
pub struct LiveFollower {
    followers: Arc<Followers>,
    wanted: Wanted,
    /// The number of the next entry to read.
    cursor: u64,
    news: watch::Receiver<u64>,
    status: watch::Receiver<Status>,
    /// The state of nodes and workers at the last message.
    seen: Seen,
    leaders: watch::Receiver<Leaders>,
    store: Arc<dyn Store>,
    /// When the last message was given.
    sent: Instant,
    /// When to read the commit numbers of other nodes' shards.
    look_at: Instant,
}

/// What pages show of nodes and workers, as far as this node knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    workers: (usize, usize),
    nodes: (bool, usize, Vec<Arc<str>>, usize),
}

impl Seen {
    fn of(status: &Status) -> Seen {
        let names = status.members.iter().map(|member| Arc::clone(&member.node)).collect();
        Seen {
            workers: (status.workers, status.running_runs),
            nodes: (status.ready, status.shards_led, names, status.lost.len()),
        }
    }
}

impl LiveFollower {
    /// Waits for changes; at most four answers a second. `None` means that the node stops. Dropping the future loses
    /// nothing.
    pub async fn next(&mut self) -> Option<LiveChanges> {
        loop {
            if !self.has_news().await {
                return None;
            }
            sleep_until(self.sent + MERGE).await;
            let changes = self.collect()?;
            if changes != LiveChanges::default() {
                self.sent = Instant::now();
                return Some(changes);
            }
        }
    }

    /// Waits until something may have changed. False means that the node has stopped.
    async fn has_news(&mut self) -> bool {
        loop {
            let are_all_here = self.leaders.borrow_and_update().are_all_here();
            if *self.news.borrow_and_update() != self.cursor
                || Seen::of(&self.status.borrow_and_update()) != self.seen
            {
                return true;
            }
            tokio::select! {
                changed = self.news.changed() => if changed.is_err() { return false },
                changed = self.status.changed() => if changed.is_err() { return false },
                () = leaders::changed(&mut self.leaders) => {}
                () = sleep_until(self.look_at), if !are_all_here => {
                    self.look_at = Instant::now() + LOOK_EVERY;
                    let leaders = self.leaders.borrow().clone();
                    self.followers.live().look(&*self.store, &leaders).await;
                }
            }
        }
    }

    /// What was added to the log since the last call, as far as it is wanted. `None` means that the node stops.
    fn collect(&mut self) -> Option<LiveChanges> {
        let mut changes = LiveChanges::default();
        let log = self.followers.live().lock();
        if log.is_closed {
            return None;
        }
        match log.from(self.cursor) {
            Some(entries) => entries.for_each(|changed| self.wanted.add(changed, &mut changes)),
            None => changes.more = true,
        }
        self.cursor = log.end();
        drop(log);
        let seen = Seen::of(&self.status.borrow_and_update());
        let has = |topic| self.wanted.topics.contains(&topic);
        changes.workers |= has(Topic::Workers) && seen.workers != self.seen.workers;
        changes.nodes = has(Topic::Nodes) && seen.nodes != self.seen.nodes;
        self.seen = seen;
        Some(changes)
    }
}

impl Wanted {
    fn add(&self, changed: &Changed, changes: &mut LiveChanges) {
        let has = |topic| self.topics.contains(&topic);
        let is_in = |namespace: &Namespace| self.namespace.as_ref().is_none_or(|wanted| wanted == namespace);
        let rows = has(Topic::Runs) || has(Topic::Jobs) || has(Topic::Queues);
        match changed {
            Changed::Run(namespace, run) if has(Topic::Runs) && namespace.as_ref().is_none_or(is_in) => {
                changes.more |= !add(&mut changes.runs, run);
            }
            Changed::Job(namespace, name) if has(Topic::Jobs) && is_in(namespace) => {
                changes.more |= !add(&mut changes.jobs, name);
            }
            Changed::Queue(namespace, name) if has(Topic::Queues) && is_in(namespace) => {
                changes.more |= !add(&mut changes.queues, name);
            }
            Changed::SomeJob => changes.more |= has(Topic::Jobs),
            Changed::Elsewhere => {
                changes.more |= rows;
                changes.workers |= has(Topic::Workers);
            }
            Changed::Run(..) | Changed::Job(..) | Changed::Queue(..) => {}
        }
    }
}

/// Adds an id, up to [`IDS_MAX`]. False means that there was no room.
fn add<T: Ord + Clone>(ids: &mut BTreeSet<T>, id: &T) -> bool {
    ids.contains(id) || (ids.len() < IDS_MAX && ids.insert(id.clone()))
}

impl Drop for LiveFollower {
    fn drop(&mut self) {
        self.followers.live().count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(topics: &[Topic]) -> Wanted {
        Wanted { namespace: Some("default".parse().unwrap()), topics: topics.iter().copied().collect() }
    }

    fn told(wanted: &Wanted, changed: &[Changed]) -> LiveChanges {
        let mut changes = LiveChanges::default();
        changed.iter().for_each(|changed| wanted.add(changed, &mut changes));
        changes
    }

    fn run(namespace: &str, id: i64) -> Changed {
        Changed::Run(Some(namespace.parse().unwrap()), RunId(id))
    }

    #[test]
    fn a_follower_hears_of_its_namespace_and_topics_only() {
        let changed = [
            run("default", 1),
            run("other", 2),
            run("default", 1),
            Changed::Job("default".parse().unwrap(), "a".parse().unwrap()),
        ];
        let runs = told(&wanted(&[Topic::Runs]), &changed);
        assert_eq!(runs, LiveChanges { runs: BTreeSet::from([RunId(1)]), ..LiveChanges::default() });
        let everywhere = Wanted { namespace: None, ..wanted(&[Topic::Runs]) };
        assert_eq!(told(&everywhere, &changed).runs.len(), 2);
        assert_eq!(told(&wanted(&[Topic::Jobs]), &changed).jobs.len(), 1);
        assert_eq!(told(&wanted(&[Topic::Nodes]), &changed), LiveChanges::default());
    }

    #[test]
    fn more_ids_than_fit_are_told_as_more() {
        let many: Vec<Changed> = (0..=IDS_MAX as i64).map(|id| run("default", id)).collect();
        let changes = told(&wanted(&[Topic::Runs]), &many);
        assert_eq!((changes.runs.len(), changes.more), (IDS_MAX, true));
        assert!(!told(&wanted(&[Topic::Runs]), &many[1..]).more);
    }

    #[test]
    fn changes_of_other_nodes_are_told_as_more() {
        assert!(told(&wanted(&[Topic::Runs]), &[Changed::Elsewhere]).more);
        let workers = told(&wanted(&[Topic::Workers]), &[Changed::Elsewhere]);
        assert!(workers.workers && !workers.more);
        assert!(told(&wanted(&[Topic::Jobs]), &[Changed::SomeJob]).more);
    }
}
