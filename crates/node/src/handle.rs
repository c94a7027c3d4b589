//! A cheap handle to a node: it sends commands to the loop and waits for the committed answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use punctual_core::command::{Answer, Command, Submit};
use punctual_core::ids::{RunId, ShardId, Token, WorkerId};
use punctual_core::log::{CUT_MARK, Chunk, Stream};
use punctual_core::name::Namespace;
use punctual_core::queue::{self, QueueKey, QueueStat, Said};
use punctual_core::time::Clock;
use punctual_core::worker::Announcement;
pub use punctual_engine::pool::ProgressCounts;
use punctual_engine::pool::{Load, MessageCounts};
use punctual_failpoint::{Point, hit};
use punctual_store::{Reads, Session, Store, Tokens, Upkeep};
use tokio::sync::{Notify, mpsc, oneshot, watch};

use crate::allowance::Allowance;
use crate::attempt_key::AttemptKeys;
use crate::background::BackgroundTasks;
use crate::calendars::{Calendars, SaveGuard};
use crate::driver::{Lost, Wake};
use crate::failure::{Failure, stopped};
use crate::followers::Followers;
use crate::leaders::{Leader, Leaders};
use crate::metrics::Metrics;
use crate::notifier::AlertChannels;
use crate::peers::{self, Peers};
use crate::watched::WatchedQueue;

/// Maximum number of commands waiting for the loop. Beyond it, callers wait: this backpressure slows them down to the
/// speed of the commits.
pub const ASKS_MAX: usize = 16 * 1024;

/// How many shards to try for a run without a key before it goes to another node. With two nodes that lead half of the
/// shards each, one run in 256 is forwarded.
const SPREAD_TRIES: usize = 8;

/// A command and the channel for its answer.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) command: Command,
    pub(crate) reply: oneshot::Sender<Result<Answer, Failure>>,
    /// Blocks calendar edits until the answer, even if the caller has gone. `None` means the command saves no job.
    pub(crate) save: Option<SaveGuard>,
}

/// A question about the memory of a node.
#[derive(Debug)]
pub(crate) enum Look {
    /// Its workers and queues. The list may be long, so it is built only on request.
    All(oneshot::Sender<Looked>),
    /// Whether a worker has an attempt.
    Attempt { worker: WorkerId, run: RunId, token: Token, reply: oneshot::Sender<bool> },
    /// Drains the workers of a name, or ends that. Answers whether there are any.
    Drain { worker: String, on: bool, reply: oneshot::Sender<bool> },
    /// Another node has told a worker in vain to stop these attempts.
    Distrust { worker: WorkerId, attempts: Vec<(RunId, Token)> },
}

/// Maximum number of queues whose length is reported, longest first: a node may lead any number of queues.
pub const QUEUES_TOLD_MAX: usize = 100;

/// The workers and queues of a node.
#[derive(Debug, Default)]
pub struct Looked {
    /// The workers of this node by name, including those lost within the last hour.
    pub workers: Vec<WorkerStatus>,
    /// The longest queues led by this node.
    pub queues: Vec<QueueStatus>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct QueueStatus {
    pub queue: QueueKey,
    pub stat: QueueStat,
}

/// A request to be told when the loop has nothing to do.
pub(crate) type WhenIdle = oneshot::Sender<Idle>;

/// What a node with nothing to do waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Idle {
    /// When it has something to do, if no input arrives before.
    pub wake: Wake,
    /// Orders sent to workers since it started.
    pub orders: u64,
}

/// Maximum number of looks waiting for the loop; further callers wait.
pub(crate) const LOOKS_MAX: usize = 16;

/// A snapshot of a node's state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// Every shard is loaded and the store accepts commits.
    pub ready: bool,
    pub shards_led: usize,
    pub live_runs: usize,
    /// Messages added, taken and acknowledged on this node since it started.
    pub messages: MessageCounts,
    pub ready_runs: usize,
    pub running_runs: usize,
    pub commits: u64,
    pub changes: u64,
    /// Reports refused because their token was outdated.
    pub stale_reports: u64,
    /// Reports of progress that came from workers.
    pub progress: ProgressCounts,
    /// Why the node cannot continue, and what to do. `None` means it is running.
    pub failed: Option<String>,
    /// Number of connected workers; [`Handle::workers`] lists them.
    pub workers: usize,
    /// Every node of the cluster as last seen. Empty means a single node.
    pub members: Vec<Session>,
    /// Nodes lost within the last hour that have not come back.
    pub lost: Vec<Lost>,
}

impl Status {
    /// Whether anything besides the frequently changing counts has changed.
    pub(crate) fn is_news(&self, newer: &Status) -> bool {
        let rare = |status: &Status| (status.ready, status.shards_led, status.workers);
        rare(self) != rare(newer)
            || self.failed != newer.failed
            || self.members != newer.members
            || self.lost != newer.lost
    }

    /// What changes with commits. Reports of progress come far more often, and wake nobody.
    pub(crate) fn counts(&self) -> impl PartialEq + use<> {
        let runs = [self.live_runs, self.ready_runs, self.running_runs];
        (runs, self.messages, [self.commits, self.changes, self.stale_reports])
    }
}

/// A worker known to this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerStatus {
    pub id: String,
    /// No heartbeat for the length of a lease, or its connection broke: it gets no work.
    pub lost: bool,
    pub slots: usize,
    pub busy: usize,
    pub announced: Arc<Announcement>,
    /// Load of its machine. `None` means the worker has not reported it.
    pub load: Option<Load>,
    /// It takes no more work, as it was told.
    pub draining: bool,
    /// It does not stop an attempt that it was told to stop: it gets no work.
    pub stuck: bool,
}

#[derive(Debug, Clone)]
pub struct Handle {
    pub(crate) asks: mpsc::Sender<Ask>,
    pub(crate) looks: mpsc::Sender<Look>,
    pub(crate) idles: mpsc::Sender<WhenIdle>,
    pub(crate) status: watch::Receiver<Status>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) spread: Arc<AtomicU64>,
    pub(crate) calendars: Calendars,
    pub(crate) followers: Arc<Followers>,
    pub(crate) allowance: Arc<Allowance>,
    pub(crate) attempt_keys: Option<AttemptKeys>,
    pub(crate) channels: Option<Arc<dyn AlertChannels>>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) cluster_news: Arc<Notify>,
    pub(crate) leaders: watch::Receiver<Leaders>,
    pub(crate) peers: Arc<dyn Peers>,
    /// How long a command may take to find its leader and get an answer.
    pub(crate) patience: Duration,
    pub(crate) background: BackgroundTasks,
    pub(crate) watched: Arc<WatchedQueue>,
    /// The number of the next waiting consumer.
    pub(crate) waiters: Arc<AtomicU64>,
}

impl Handle {
    /// Sends a command to the loop of this node, which leads the command's shard; the answer comes after the commit.
    pub(crate) async fn carry_out(&self, mut command: Command) -> Result<Answer, Failure> {
        self.look_up_schema(&mut command).await?;
        let save = self.look_up_calendars(&mut command).await?;
        let taker = match &command {
            Command::Queue(queue::Ask::Take(take)) => Some(take.queue.namespace.clone()),
            _ => None,
        };
        let (reply, answer) = oneshot::channel();
        let mut listening = Listening { handle: self, answer, taker };
        let taken = self.asks.send(Ask { command, reply, save }).await;
        taken.map_err(|_| Failure::NotLed("this node has stopped; ask another node".to_owned()))?;
        let answer = (&mut listening.answer).await;
        listening.taker = None;
        answer.map_err(|_| stopped())?
    }

    /// For listings. They go to the store directly, need no leader, and see only committed rows.
    pub fn reads(&self) -> &dyn Reads {
        &*self.store
    }

    /// The keys of attempts. `None` means that no key is accepted.
    pub fn attempt_keys(&self) -> Option<&AttemptKeys> {
        self.attempt_keys.as_ref()
    }

    /// The channels of alerts. `None` means that this node sends no notifications.
    pub fn channels(&self) -> Option<&Arc<dyn AlertChannels>> {
        self.channels.as_ref()
    }

    /// For retention.
    pub fn upkeep(&self) -> &dyn Upkeep {
        &*self.store
    }

    /// For the endpoints that manage access tokens.
    pub fn tokens(&self) -> &dyn Tokens {
        &*self.store
    }

    /// Stores output up to the limit of its run, wakes the run's followers and updates the metrics. Output that cannot
    /// be stored is lost; this is logged and counted.
    pub async fn keep_output(&self, chunks: Vec<Chunk>) {
        let chunks = self.allowance.cut(self.store.as_ref(), chunks).await;
        if chunks.is_empty() {
            return;
        }
        let is_cut =
            |chunk: &&Chunk| chunk.stream == Stream::Note && chunk.bytes.starts_with(CUT_MARK.as_bytes());
        chunks.iter().filter(is_cut).for_each(|_| self.metrics.log_cut());
        let kept: Vec<(RunId, usize)> = chunks.iter().map(|chunk| (chunk.run, chunk.bytes.len())).collect();
        hit(Point::NodeOutputBegun);
        let result = self.store.append_logs(chunks).await;
        hit(Point::NodeOutputKept);
        for (run, bytes) in kept {
            match &result {
                Ok(()) => {
                    self.metrics.logged(bytes);
                    self.followers.wake(run);
                }
                Err(error) => {
                    self.metrics.log_lost();
                    tracing::warn!(%run, %error, "output was lost");
                }
            }
        }
    }

    pub fn followers(&self) -> &Arc<Followers> {
        &self.followers
    }

    /// A number for [`punctual_core::command::Submit::spread`]. Prefers a shard led by this node, so that the run need
    /// not be forwarded. The number of tries is limited, so that a node that leads few shards does not take every run.
    pub fn spread(&self) -> u64 {
        let shards = self.store.shards();
        let leaders = self.leaders.borrow();
        let next = || self.spread.fetch_add(1, Ordering::Relaxed);
        let mut chosen = next();
        for _ in 1..SPREAD_TRIES {
            if leaders.is_here(Submit::shard_of(chosen, shards)) {
                break;
            }
            chosen = next();
        }
        chosen
    }

    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Number of commands waiting for the loop.
    pub fn asks(&self) -> usize {
        self.asks.max_capacity() - self.asks.capacity()
    }

    /// Makes the node read the state of the cluster now.
    pub fn look_at_cluster(&self) {
        self.cluster_news.notify_one();
    }

    /// Whether this node leads a shard, as far as it knows.
    pub fn leads(&self, shard: ShardId) -> bool {
        self.leaders.borrow().is_here(shard)
    }

    /// Whether a node leads a shard, as far as this one knows.
    pub fn has_leader(&self, shard: ShardId) -> bool {
        *self.leaders.borrow().of(shard) != Leader::Nobody
    }

    /// The name of the node that leads a shard, as far as this one knows. `None` means this node leads it, or its
    /// leader is unknown.
    pub fn led_by(&self, shard: ShardId) -> Option<Arc<str>> {
        let Leader::At(address) = self.leaders.borrow().of(shard).clone() else { return None };
        let status = self.status.borrow();
        let leader = status.members.iter().find(|member| peers::address_of(member) == address);
        leader.map(|leader| Arc::clone(&leader.node))
    }

    pub fn status(&self) -> Status {
        self.status.borrow().clone()
    }

    /// The workers of this node by name, including those lost within the last hour. Empty if the node has stopped.
    pub async fn workers(&self) -> Vec<WorkerStatus> {
        self.look().await.workers
    }

    /// The workers and queues as they are now. Empty if the node has stopped.
    pub async fn look(&self) -> Looked {
        let (look, seen) = oneshot::channel();
        // If the loop has ended, the sender is dropped and the default is returned.
        drop(self.looks.send(Look::All(look)).await);
        seen.await.unwrap_or_default()
    }

    /// Waits until the loop has handled all input, every store call has returned, and nothing is due. `None` means the
    /// node stopped first.
    pub async fn idle(&self) -> Option<Idle> {
        let (reply, idle) = oneshot::channel();
        // If the loop has ended, the sender is dropped.
        drop(self.idles.send(reply).await);
        idle.await.ok()
    }

    /// Whether this node gave the attempt to the worker, and it has not ended.
    pub async fn has_attempt(&self, worker: WorkerId, run: RunId, token: Token) -> bool {
        let (reply, has) = oneshot::channel();
        drop(self.looks.send(Look::Attempt { worker, run, token, reply }).await);
        has.await.unwrap_or_default()
    }

    /// Tells a worker of this node to take no more work, or to work again. False means this node has no such worker.
    pub async fn drain(&self, worker: &str, on: bool) -> bool {
        let (reply, told) = oneshot::channel();
        drop(self.looks.send(Look::Drain { worker: worker.to_owned(), on, reply }).await);
        told.await.unwrap_or_default()
    }

    /// Gives a worker no more work until its heartbeats do not name these attempts any longer: it does not stop them.
    pub async fn distrust(&self, worker: WorkerId, attempts: Vec<(RunId, Token)>) {
        drop(self.looks.send(Look::Distrust { worker, attempts }).await);
    }

    /// Waits until the status satisfies the caller. Changes that concern only counts are seen when no commit is in
    /// flight. False means the node stopped first.
    pub async fn wait_until(&self, satisfied: impl FnMut(&Status) -> bool) -> bool {
        self.status.clone().wait_for(satisfied).await.is_ok()
    }
}

/// Waits for an answer. If it is dropped when the answer has already arrived, the messages in it are returned to their
/// queue.
struct Listening<'a> {
    handle: &'a Handle,
    answer: oneshot::Receiver<Result<Answer, Failure>>,
    /// The namespace of the messages being taken. `None` means the command takes no messages, or they have arrived.
    taker: Option<Namespace>,
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        let Some(namespace) = &self.taker else { return };
        // If the answer comes later, the loop finds the channel closed and returns the messages.
        self.answer.close();
        if let Ok(Ok(Answer::Queue(Said::Taken(taken)))) = self.answer.try_recv() {
            self.handle.return_taken(namespace, &taken);
        }
    }
}
