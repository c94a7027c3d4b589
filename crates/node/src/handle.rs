//! How everyone else talks to a node: a cheap handle that asks and waits for the committed answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use punctual_core::command::{Answer, Command, Refusal, Submit};
use punctual_core::ids::{RunId, ShardId};
use punctual_core::log::{CUT_MARK, Chunk, Stream};
use punctual_core::name::Namespace;
use punctual_core::queue::{self, QueueKey, Said};
use punctual_core::time::Clock;
use punctual_core::worker::Announcement;
use punctual_engine::pool::{Load, MessageCounts};
use punctual_failpoint::{Point, hit};
use punctual_store::{Session, Store};
use tokio::sync::{Notify, mpsc, oneshot, watch};

use crate::allowance::Allowance;
use crate::calendars::{Calendars, Held};
use crate::driver::Lost;
use crate::errands::Errands;
use crate::followers::Followers;
use crate::leaders::{Leader, Leaders};
use crate::metrics::Metrics;
use crate::peers::{self, Peers};

/// Commands that wait to be taken by the loop. Beyond it, an asker waits for its turn: this is what slows a
/// flood down to the speed of the commits.
pub const ASKS_MAX: usize = 16 * 1024;

/// Shards that a run without a key may come to, before it is passed on to another node: of two nodes that lead half
/// each, one passes on one run in 256.
const SPREAD_TRIES: usize = 8;

/// One command with the place its answer goes to.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) command: Command,
    pub(crate) reply: oneshot::Sender<Result<Answer, Failure>>,
    /// Held until the answer, even if whoever asked has gone: what the command rests on stays as it is.
    pub(crate) held: Option<Held>,
}

/// Somebody wants to see the workers and the queues. There may be thousands: nobody makes a list of them unless it is asked
/// for.
pub(crate) type Look = oneshot::Sender<Looked>;

/// Queues whose length is told, the longest first: their number has no bound.
pub const QUEUES_TOLD_MAX: usize = 100;

/// What a look at a node shows.
#[derive(Debug, Default)]
pub struct Looked {
    /// The workers of this node, by name, those that were lost within the last hour included.
    pub workers: Vec<WorkerStatus>,
    /// The longest queues that are led here.
    pub queues: Vec<QueueLength>,
}

/// How long a queue is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueLength {
    pub queue: QueueKey,
    /// Messages that wait for a consumer.
    pub waiting: u64,
    /// All its messages, those included that are delayed or delivered.
    pub messages: u64,
}

/// Looks that wait to be taken by the loop; whoever comes then waits for its turn.
pub(crate) const LOOKS_MAX: usize = 16;

/// Why a command has no answer that says what it wanted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Nothing happened, and asking again gives the same.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The shard cannot decide now. Whether it happened is unknown; asking again with the same key is safe.
    #[error("{0}")]
    Unavailable(String),
    /// Whoever was asked does not lead the shard, or could not be reached: nothing happened there.
    #[error("{0}")]
    NotLed(String),
    /// It was sent to the leader, and the answer was lost. Whether it happened is unknown; asking again with the same
    /// key is safe.
    #[error("{0}")]
    Unknown(String),
    /// There is no room to write: nothing happened.
    #[error("{0}")]
    Full(String),
}

/// What a node can say of itself at any moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// Every shard is loaded and the store takes commits.
    pub ready: bool,
    pub shards_led: usize,
    pub live_runs: usize,
    /// Messages added, taken and acknowledged here so far.
    pub messages: MessageCounts,
    pub ready_runs: usize,
    pub running_runs: usize,
    pub commits: u64,
    pub changes: u64,
    /// Reports refused because their token was outdated.
    pub stale_reports: u64,
    /// Set when the node cannot go on: what happened, and what to do.
    pub failed: Option<String>,
    /// How many workers take orders; [`Handle::workers`] says which.
    pub workers: usize,
    /// Every node of the cluster, as it was last seen; none: this one is alone.
    pub members: Vec<Session>,
    /// Nodes that were lost within the last hour and have not come back.
    pub lost: Vec<Lost>,
}

impl Status {
    /// Whether more has changed than what is counted all the time.
    pub(crate) fn is_news(&self, newer: &Status) -> bool {
        let rare = |status: &Status| (status.ready, status.shards_led, status.workers);
        rare(self) != rare(newer)
            || self.failed != newer.failed
            || self.members != newer.members
            || self.lost != newer.lost
    }
}

/// A worker that takes orders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerStatus {
    pub id: String,
    /// Nothing was heard of it for a lease, or its connection broke: it gets no work.
    pub lost: bool,
    pub slots: usize,
    pub busy: usize,
    pub announced: Arc<Announcement>,
    /// How busy its machine is; none: it did not say.
    pub load: Option<Load>,
}

#[derive(Debug, Clone)]
pub struct Handle {
    pub(crate) asks: mpsc::Sender<Ask>,
    pub(crate) looks: mpsc::Sender<Look>,
    pub(crate) status: watch::Receiver<Status>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) spread: Arc<AtomicU64>,
    pub(crate) calendars: Calendars,
    pub(crate) followers: Arc<Followers>,
    pub(crate) allowance: Arc<Allowance>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) cluster_news: Arc<Notify>,
    pub(crate) leaders: watch::Receiver<Leaders>,
    pub(crate) peers: Arc<dyn Peers>,
    /// How long a command may take to find its leader and be answered.
    pub(crate) patience: Duration,
    pub(crate) errands: Errands,
    /// The number of the next consumer that waits.
    pub(crate) waiters: Arc<AtomicU64>,
}

impl Handle {
    /// Hands a command to the loop of this node, which leads its shard; the answer comes after its commit.
    pub(crate) async fn carry_out(&self, command: Command) -> Result<Answer, Failure> {
        let (command, held) = self.look_up(command).await?;
        let taker = match &command {
            Command::Queue(queue::Ask::Take(take)) => Some(take.queue.namespace.clone()),
            _ => None,
        };
        let (reply, answer) = oneshot::channel();
        let mut listening = Listening { handle: self, answer, taker };
        let taken = self.asks.send(Ask { command, reply, held }).await;
        taken.map_err(|_| Failure::NotLed("the node has stopped".to_owned()))?;
        let answer = (&mut listening.answer).await;
        listening.taker = None;
        answer.map_err(|_| stopped())?
    }

    /// Reads go to the store directly: they need no leader and see only what is committed.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Keeps output up to the limit of its run, wakes whoever follows it, and counts. What cannot be kept is lost, and
    /// said to be.
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

    /// A number for [`punctual_core::command::Submit::spread`]: rather one that leads to a shard of this node's, for such
    /// a run need not be passed on. A node that leads little keeps little, so that it does not bear everything.
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

    /// Commands that wait to be taken by the loop.
    pub fn asks(&self) -> usize {
        self.asks.max_capacity() - self.asks.capacity()
    }

    /// There is something to look at in the cluster.
    pub fn look_at_cluster(&self) {
        self.cluster_news.notify_one();
    }

    /// Whether this node leads a shard, as far as it knows.
    pub fn leads(&self, shard: ShardId) -> bool {
        self.leaders.borrow().is_here(shard)
    }

    /// What the node is called that leads a shard, as far as this one knows; none: it is this one, or nobody.
    pub fn led_by(&self, shard: ShardId) -> Option<Arc<str>> {
        let Leader::At(address) = self.leaders.borrow().of(shard).clone() else { return None };
        let status = self.status.borrow();
        let leader = status.members.iter().find(|member| peers::address_of(member) == address);
        leader.map(|leader| Arc::clone(&leader.node))
    }

    pub fn status(&self) -> Status {
        self.status.borrow().clone()
    }

    /// The workers of this node, by name, those that were lost within the last hour included; a node that has stopped has
    /// none.
    pub async fn workers(&self) -> Vec<WorkerStatus> {
        self.look().await.workers
    }

    /// Workers and queues as they are now; a node that has stopped has none.
    pub async fn look(&self) -> Looked {
        let (look, seen) = oneshot::channel();
        // The loop may have ended: then nobody answers.
        drop(self.looks.send(look).await);
        seen.await.unwrap_or_default()
    }

    /// Waits until the status satisfies the caller, for counts until nothing is being written; false: the node stopped
    /// first.
    pub async fn wait_until(&self, satisfied: impl FnMut(&Status) -> bool) -> bool {
        self.status.clone().wait_for(satisfied).await.is_ok()
    }
}

/// Waits for an answer. If it is given up when the answer is already there, the messages in it go back.
struct Listening<'a> {
    handle: &'a Handle,
    answer: oneshot::Receiver<Result<Answer, Failure>>,
    /// The namespace of the messages that are taken; none: none are, or they have arrived.
    taker: Option<Namespace>,
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        let Some(namespace) = &self.taker else { return };
        // What comes later is returned by the loop, which sees that nobody listens.
        self.answer.close();
        if let Ok(Ok(Answer::Queue(Said::Taken(taken)))) = self.answer.try_recv() {
            self.handle.return_taken(namespace, &taken);
        }
    }
}

pub(crate) fn stopped() -> Failure {
    Failure::Unavailable("the node is stopping".to_owned())
}

/// A store that could not be asked, or would not take it.
impl From<punctual_store::Error> for Failure {
    fn from(error: punctual_store::Error) -> Self {
        tracing::warn!(%error, "the store could not be asked");
        match error {
            punctual_store::Error::Full(_) => Failure::Full(
                "the store has no room: nothing was written; free some space and try again".to_owned(),
            ),
            _ => Failure::Unavailable("the store cannot be asked now; try again".to_owned()),
        }
    }
}
