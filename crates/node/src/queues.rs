//! Queue operations for endpoints, whichever node leads the queue, including consumers that wait on several queues.
//!
//! A consumer that finds no message waits on all its queues at once, and the first message wins. Messages taken for it
//! from other queues meanwhile, or for a consumer that has gone, are returned: locally by the loop, which sees the
//! closed channel, and from another node by a task that outlives the caller.
//!
//! ```text
//!  take ──▶ one ask per queue, round robin ──nothing──▶ one waiter per queue ──first──▶ the others are removed
//! ```

mod there;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;
use std::time::Duration;

use punctual_core::command::{Answer, Command};
use punctual_core::ids::ShardId;
use punctual_core::lock;
use punctual_core::name::Namespace;
use punctual_core::queue::{Act, Ask, Delivered, MessageId, QueueKey, Said, Take, Verb, Wait};
use punctual_store::End;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::failure::{Failure, no_leader, stopped};
use crate::handle::{self, Handle};
use crate::leaders::Leader;
use crate::watched::QueueWatch;
use there::There;

/// How long a consumer waits on another node before it asks again. A closed connection, a dead leader and a moved queue
/// are noticed sooner; this timeout covers failures that are not noticed otherwise.
const POLL: Duration = Duration::from_secs(30);
/// The pause before retrying a queue whose leader could not be asked.
const AGAIN: Duration = Duration::from_millis(200);
/// Maximum number of messages in one ask.
const ACT_MAX: usize = 1000;

/// Maximum size of the message bodies in one peek, so that the answer fits every endpoint.
const LOOK_BYTES_MAX: usize = 4 * 1024 * 1024;

type Taken = Vec<(QueueKey, Delivered)>;

impl Handle {
    /// Watches a queue. Returns `None` if this node watches one already.
    pub fn watch_queue(&self, queue: &QueueKey) -> Option<QueueWatch> {
        QueueWatch::of(&self.watched, queue, queue.shard(self.store.shards()), &self.leaders)
    }

    /// Sends an ask to the leader of its queue.
    pub async fn queue(&self, ask: Ask) -> Result<Said, Failure> {
        said(self.command(Command::Queue(ask)).await?)
    }

    /// Applies a verb to messages of any queues; returns the number of messages it applied to.
    pub async fn act(&self, namespace: &Namespace, verb: Verb, ids: Vec<MessageId>) -> Result<u64, Failure> {
        let mut shards: BTreeMap<ShardId, Vec<MessageId>> = BTreeMap::new();
        for id in ids {
            shards.entry(id.shard()).or_default().push(id);
        }
        let parts = shards.values().flat_map(|ids| ids.chunks(ACT_MAX));
        let asks = parts.map(|ids| {
            let act = Act { namespace: namespace.clone(), verb, ids: ids.to_vec() };
            self.queue(Ask::Act(act))
        });
        let mut count = 0;
        for said in all(asks.collect()).await {
            match said? {
                Said::Acted(acted) => count += acted.count,
                other => return Err(unexpected(&other)),
            }
        }
        Ok(count)
    }

    /// The first waiting messages of a queue, or the last ones, newest first. If they are not in memory, they are read
    /// from the store, which is at least as new as the leader's answer. Large messages may reduce their number.
    pub async fn peek(&self, queue: &QueueKey, count: u32, newest: bool) -> Result<Vec<Delivered>, Failure> {
        match self.queue(Ask::Peek { queue: queue.clone(), count, newest }).await? {
            Said::Peeked(Some(seen)) => Ok(seen),
            Said::Peeked(None) => {
                let from = if newest { End::Last } else { End::First };
                let rows = self.store.queued_messages(queue, from, count as usize).await?;
                let mut bytes = 0;
                let shown = rows.iter().take_while(|message| {
                    bytes += message.body.len();
                    bytes <= LOOK_BYTES_MAX
                });
                Ok(shown.map(|message| Delivered::of(message)).collect())
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Takes messages from the queues, round robin. A consumer that has to wait gets one message.
    pub async fn take(&self, queues: &[QueueKey], count: u32, wait: Wait) -> Result<Taken, Failure> {
        let until = match wait {
            Wait::No => None,
            Wait::For(span) => Some(Some(Instant::now() + span)),
            Wait::Forever => Some(None),
        };
        let mut unique: Vec<QueueKey> = Vec::with_capacity(queues.len());
        for queue in queues {
            if !unique.contains(queue) {
                unique.push(queue.clone());
            }
        }
        if let (Some(until), [queue]) = (until, unique.as_slice()) {
            return self.wait_at(queue.clone(), count, until).await.map(Hand::give);
        }
        let taken = self.take_now(&unique, count).await?;
        match until {
            Some(until) if taken.is_empty() => self.wait_at_all(&unique, until).await,
            _ => Ok(taken),
        }
    }

    /// Takes messages that are available now. The result is as if the queues were asked for one message each, round
    /// robin.
    async fn take_now(&self, queues: &[QueueKey], count: u32) -> Result<Taken, Failure> {
        let mut hands: Vec<Hand> = queues.iter().map(|_| Hand::new(self)).collect();
        let mut open: Vec<usize> = (0..queues.len()).collect();
        let mut left = count as usize;
        while left > 0 && !open.is_empty() {
            let (share, more) = (left / open.len(), left % open.len());
            let shares =
                open.iter().enumerate().map(|(turn, queue)| (*queue, share + usize::from(turn < more)));
            let shares: Vec<(usize, usize)> = shares.filter(|(_, share)| *share > 0).collect();
            let asks = shares.iter().map(|(queue, share)| {
                let count = u32::try_from(*share).unwrap_or(u32::MAX);
                self.take_from(Take { queue: queues[*queue].clone(), count, waiter: None })
            });
            let mut failure = None;
            for ((queue, share), result) in shares.iter().zip(all(asks.collect()).await) {
                let got = result.map(Hand::give).unwrap_or_else(|error| {
                    failure = Some(error);
                    Vec::new()
                });
                left -= got.len().min(left);
                if got.len() < *share {
                    open.retain(|of| of != queue);
                }
                hands[*queue].taken.extend(got);
            }
            if let Some(failure) = failure.filter(|_| hands.iter().all(|hand| hand.taken.is_empty())) {
                return Err(failure);
            }
        }
        Ok(in_turn(hands))
    }

    async fn wait_at(&self, queue: QueueKey, count: u32, until: Option<Instant>) -> Result<Hand, Failure> {
        loop {
            let asked = Instant::now();
            let left = until.map(|until| until.saturating_duration_since(asked));
            let shard = queue.shard(self.store.shards());
            // Only changes of the leader after this point count as changes.
            let mut leaders = self.leaders.clone();
            let leader = leaders.borrow_and_update().of(shard).clone();
            let result = match leader {
                Leader::Here => {
                    let take = Take { queue: queue.clone(), count, waiter: Some(self.waiter()) };
                    self.wait_here(take, left.unwrap_or(Duration::MAX)).await
                }
                Leader::At(address) => self.wait_there(queue.clone(), address, count, left).await,
                Leader::Nobody => Err(no_leader()),
            };
            let is_over = until.is_some_and(|until| Instant::now() >= until);
            match result {
                Ok(hand) if !hand.taken.is_empty() || is_over => return Ok(hand),
                // An immediate empty answer means the maximum number of consumers already waits there.
                Ok(_) if asked.elapsed() < AGAIN => sleep(AGAIN).await,
                Ok(_) => {}
                Err(failure)
                    if self.asks.is_closed() || matches!(failure, Failure::Refused(_) | Failure::Full(_)) =>
                {
                    return Err(failure.about(&format!("queue `{}`", queue.name)));
                }
                Err(_) => {
                    if is_over {
                        return Ok(Hand::new(self));
                    }
                    drop(timeout(AGAIN, crate::leaders::changed(&mut leaders)).await);
                }
            }
        }
    }

    /// Waits on several queues; the first message wins.
    async fn wait_at_all(&self, queues: &[QueueKey], until: Option<Instant>) -> Result<Taken, Failure> {
        let mut waits = JoinSet::new();
        for queue in queues {
            let (handle, queue) = (self.clone(), queue.clone());
            waits.spawn(async move { handle.wait_at(queue, 1, until).await });
        }
        let mut failure = None;
        // Dropping the set aborts the remaining waits and returns their messages.
        while let Some(ended) = waits.join_next().await {
            match ended.unwrap_or_else(|_| Err(stopped())) {
                Ok(hand) if hand.taken.is_empty() => {}
                Ok(hand) => return Ok(hand.give()),
                Err(error) => failure = Some(error),
            }
        }
        failure.map_or(Ok(Vec::new()), Err)
    }

    /// Waits on a queue that this node leads. If the future is dropped, the waiter is removed.
    async fn wait_here(&self, take: Take, span: Duration) -> Result<Hand, Failure> {
        let Some(waiter) = take.waiter else { return self.take_from(take).await };
        let queue = take.queue.clone();
        let mut place = WaitGuard { handle: self, queue: queue.clone(), waiter, is_taken: true };
        let mut taking = std::pin::pin!(self.carry_out(Command::Queue(Ask::Take(take))));
        let answer = match timeout(span, taking.as_mut()).await {
            Ok(answer) => answer,
            Err(_) => {
                // The answer to the take comes before the answer to this.
                self.carry_out(Command::Queue(Ask::Unwait { queue: queue.clone(), waiter })).await?;
                taking.await
            }
        };
        place.is_taken = false;
        self.hand(&queue, said(answer?)?)
    }

    /// Waits on a queue that another node leads, until a message arrives, the time is over, or the leader changes.
    async fn wait_there(
        &self,
        queue: QueueKey,
        address: Arc<str>,
        count: u32,
        left: Option<Duration>,
    ) -> Result<Hand, Failure> {
        let (reply, answer) = oneshot::channel();
        let there = There { handle: self.clone(), queue, address, waiter: self.waiter() };
        if !self.background.run(async move { there.wait(count, left, reply).await }) {
            return Err(Failure::NotLed("too many consumers wait on this node; try again later".to_owned()));
        }
        let answer = match left {
            // If the leader does not answer, the consumer still waits no longer than it asked for.
            Some(left) => timeout(left + AGAIN, answer).await.unwrap_or_else(|_| Ok(Ok(Hand::new(self)))),
            None => answer.await,
        };
        answer.map_err(|_| stopped())?
    }

    /// Carries out a forwarded command. A consumer's wait is limited to [`POLL`]; its node then asks again.
    pub(crate) async fn carry_out_for_peer(&self, command: Command) -> Result<Answer, Failure> {
        match command {
            Command::Queue(Ask::Take(take)) if take.waiter.is_some() => {
                let taken = self.wait_here(take, POLL).await?.give();
                let taken = taken.into_iter().map(|(_, delivered)| delivered).collect();
                Ok(Answer::Queue(Said::Taken(taken)))
            }
            Command::Lock(lock::Ask::Acquire(acquire)) => self.acquire_for_peer(acquire).await,
            command => self.carry_out(command).await,
        }
    }

    async fn take_from(&self, take: Take) -> Result<Hand, Failure> {
        let queue = take.queue.clone();
        self.hand(&queue, self.queue(Ask::Take(take)).await?)
    }

    /// The messages taken for a consumer. A message whose retry time has passed is left out: it may have been
    /// redelivered to another consumer and acknowledged. This happens if a node was paused or the network was slow
    /// during the wait.
    fn hand(&self, queue: &QueueKey, said: Said) -> Result<Hand, Failure> {
        match said {
            Said::Taken(taken) => {
                let now = self.clock.now();
                let in_time = |delivered: &Delivered| delivered.until.is_none_or(|until| now < until);
                let taken = taken.into_iter().filter(in_time);
                let taken = taken.map(|delivered| (queue.clone(), delivered)).collect();
                Ok(Hand { handle: self.clone(), taken })
            }
            Said::Refused(refusal) => Err(Failure::Unavailable(refusal.to_string())),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns messages that were taken for a consumer that has gone.
    pub fn return_taken(&self, namespace: &Namespace, taken: &[Delivered]) {
        let ids: Vec<MessageId> = taken.iter().map(|delivered| delivered.id).collect();
        if ids.is_empty() {
            return;
        }
        let (handle, namespace) = (self.clone(), namespace.clone());
        self.bring_back(async move { handle.return_all(&namespace, ids).await });
    }

    fn bring_back(&self, task: impl Future<Output = ()> + Send + 'static) {
        if !self.background.run(task) {
            tracing::warn!(
                "too many background tasks: messages whose consumer has gone come back after their retry time"
            );
        }
    }

    /// A waiter number that is unique in the cluster: every node starts at a different one.
    pub(crate) fn waiter(&self) -> u64 {
        self.waiters.fetch_add(1, Relaxed)
    }

    async fn give_back(&self, taken: Taken) {
        let mut namespaces: BTreeMap<Namespace, Vec<MessageId>> = BTreeMap::new();
        for (queue, delivered) in taken {
            namespaces.entry(queue.namespace).or_default().push(delivered.id);
        }
        for (namespace, ids) in namespaces {
            self.return_all(&namespace, ids).await;
        }
    }

    async fn return_all(&self, namespace: &Namespace, ids: Vec<MessageId>) {
        if !ids.is_empty()
            && let Err(error) = self.act(namespace, Verb::Return, ids).await
        {
            tracing::warn!(%error, "messages whose consumer has gone could not be returned; they come back after their retry time");
        }
    }
}

/// A waiter's place at a queue; dropping it removes the waiter.
struct WaitGuard<'a> {
    handle: &'a Handle,
    queue: QueueKey,
    waiter: u64,
    is_taken: bool,
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        if self.is_taken {
            let command = Command::Queue(Ask::Unwait { queue: self.queue.clone(), waiter: self.waiter });
            let (reply, _) = oneshot::channel();
            // If the channel is full, the waiter is given one message, which the loop returns at once.
            drop(self.handle.asks.try_send(handle::Ask { command, reply, save: None }));
        }
    }
}

/// Messages that were taken but not yet handed to the consumer; dropping it returns them.
struct Hand {
    handle: Handle,
    taken: Taken,
}

impl Hand {
    fn new(handle: &Handle) -> Hand {
        Hand { handle: handle.clone(), taken: Vec::new() }
    }

    fn give(mut self) -> Taken {
        std::mem::take(&mut self.taken)
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        let taken = std::mem::take(&mut self.taken);
        if !taken.is_empty() {
            let handle = self.handle.clone();
            self.handle.bring_back(async move { handle.give_back(taken).await });
        }
    }
}

/// Interleaves the messages, round robin.
fn in_turn(hands: Vec<Hand>) -> Taken {
    let mut lines: Vec<_> = hands.into_iter().map(|hand| hand.give().into_iter()).collect();
    let mut given = Vec::new();
    loop {
        let before = given.len();
        for line in &mut lines {
            given.extend(line.next());
        }
        if given.len() == before {
            return given;
        }
    }
}

fn said(answer: Answer) -> Result<Said, Failure> {
    match answer {
        Answer::Queue(said) => Ok(said),
        other => Err(Failure::Unknown(format!(
            "unexpected answer to a queue command: {other:?}; update all nodes to one version"
        ))),
    }
}

fn unexpected(said: &Said) -> Failure {
    Failure::Unknown(format!("unexpected answer of a queue: {said:?}; update all nodes to one version"))
}

/// Runs all futures at once; the answers are in the order of the asks.
async fn all<T>(asks: Vec<impl Future<Output = T>>) -> Vec<T> {
    let mut asks: Vec<Pin<Box<_>>> = asks.into_iter().map(Box::pin).collect();
    let mut answers: Vec<Option<T>> = asks.iter().map(|_| None).collect();
    std::future::poll_fn(|cx| {
        for (ask, answer) in asks.iter_mut().zip(&mut answers) {
            if answer.is_none()
                && let Poll::Ready(ready) = ask.as_mut().poll(cx)
            {
                *answer = Some(ready);
            }
        }
        if answers.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    answers.into_iter().flatten().collect()
}
