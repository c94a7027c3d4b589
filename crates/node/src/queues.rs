//! Queues, as doors ask for them: wherever the leader of a queue is, and however many queues a consumer waits at.
//!
//! A consumer that finds nothing waits at every queue at once, and the first message wins. What was taken for it
//! elsewhere meanwhile, or for one that has gone, goes back to where it was: here by the loop, which sees that nobody
//! listens any more, and from another node by a task that outlives whoever asked.
//!
//! ```text
//!  take ──▶ one ask a queue, in turn ──nothing──▶ a waiter a queue ──first──▶ the others are taken out
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
use punctual_core::name::Namespace;
use punctual_core::queue::{Act, Ask, Delivered, MessageId, QueueKey, Said, Take, Verb};
use punctual_store::End;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::handle::{self, Failure, Handle};
use crate::leaders::Leader;
use there::There;

/// How long a consumer waits at another node before it asks again. Whoever hangs up, a leader that dies and a queue that moves
/// are noticed sooner; this is for what nobody notices.
const POLL: Duration = Duration::from_secs(30);
/// The pause before a queue whose leader could not be asked is tried again.
const AGAIN: Duration = Duration::from_millis(200);
/// Messages that one ask does something to: a batch is bounded.
const ACT_MAX: usize = 1000;

/// Bodies that one look at a deep line shows: an answer with them still fits every door.
const LOOK_BYTES_MAX: usize = 4 * 1024 * 1024;

type Taken = Vec<(QueueKey, Delivered)>;

impl Handle {
    /// Asks the leader of a queue.
    pub async fn queue(&self, ask: Ask) -> Result<Said, Failure> {
        said(self.command(Command::Queue(ask)).await?)
    }

    /// Does the same to several messages, whatever queues they are of; returns to how many it was done.
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

    /// The next messages in a line, or the last ones, beginning with the very last. Of a line that is not in memory so far
    /// the rows are read, which are as they were when its leader was asked or newer; there may be fewer if they are heavy.
    pub async fn peek(&self, queue: &QueueKey, count: u32, newest: bool) -> Result<Vec<Delivered>, Failure> {
        match self.queue(Ask::Peek { queue: queue.clone(), count, newest }).await? {
            Said::Peeked(Some(seen)) => Ok(seen),
            Said::Peeked(None) => {
                let from = if newest { End::Last } else { End::First };
                let rows = self.store.line(queue, from, count as usize).await?;
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

    /// Takes messages from the queues in turn, one of each at a time. `wait`: none, not at all; else so long, or for
    /// ever. Whoever waited gets one message.
    pub async fn take(
        &self,
        queues: &[QueueKey],
        count: u32,
        wait: Option<Option<Duration>>,
    ) -> Result<Taken, Failure> {
        let until = wait.map(|span| span.map(|span| Instant::now() + span));
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

    /// What is there now: the queues share what is asked for as if each had been asked for one message at a time.
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

    /// Waits at one queue.
    async fn wait_at(&self, queue: QueueKey, count: u32, until: Option<Instant>) -> Result<Hand, Failure> {
        loop {
            let asked = Instant::now();
            let left = until.map(|until| until.saturating_duration_since(asked));
            let shard = queue.shard(self.store.shards());
            // What is said from here on counts as a change, and nothing before.
            let mut leaders = self.leaders.clone();
            let leader = leaders.borrow_and_update().of(shard).clone();
            let result = match leader {
                Leader::Here => {
                    let take = Take { queue: queue.clone(), count, waiter: Some(self.waiter()) };
                    self.wait_here(take, left.unwrap_or(Duration::MAX)).await
                }
                Leader::At(address) => self.wait_there(queue.clone(), address, count, left).await,
                Leader::Nobody => Err(Failure::NotLed("its shard has no leader now; try again".to_owned())),
            };
            let is_over = until.is_some_and(|until| Instant::now() >= until);
            match result {
                Ok(hand) if !hand.taken.is_empty() || is_over => return Ok(hand),
                // Told at once that there is nothing: as many as may wait there already.
                Ok(_) if asked.elapsed() < AGAIN => sleep(AGAIN).await,
                Ok(_) => {}
                Err(failure @ (Failure::Refused(_) | Failure::Full(_))) => return Err(failure),
                Err(failure) => {
                    if self.asks.is_closed() {
                        return Err(failure);
                    }
                    if is_over {
                        return Ok(Hand::new(self));
                    }
                    // Changed or not, it is time to try again.
                    drop(timeout(AGAIN, crate::leaders::changed(&mut leaders)).await);
                }
            }
        }
    }

    /// Waits at several queues; the first that has a message wins.
    async fn wait_at_all(&self, queues: &[QueueKey], until: Option<Instant>) -> Result<Taken, Failure> {
        let mut waits = JoinSet::new();
        for queue in queues {
            let (handle, queue) = (self.clone(), queue.clone());
            waits.spawn(async move { handle.wait_at(queue, 1, until).await });
        }
        let mut failure = None;
        // Those that are left are ended with the set, and what they hold goes back.
        while let Some(ended) = waits.join_next().await {
            match ended.unwrap_or_else(|_| Err(handle::stopped())) {
                Ok(hand) if hand.taken.is_empty() => {}
                Ok(hand) => return Ok(hand.give()),
                Err(error) => failure = Some(error),
            }
        }
        failure.map_or(Ok(Vec::new()), Err)
    }

    /// Waits at a queue that this node leads. If this is given up, the waiter is taken out.
    async fn wait_here(&self, take: Take, span: Duration) -> Result<Hand, Failure> {
        let Some(waiter) = take.waiter else { return self.take_from(take).await };
        let queue = take.queue.clone();
        let mut place = Place { handle: self, queue: queue.clone(), waiter, is_taken: true };
        let mut taking = std::pin::pin!(self.carry_out(Command::Queue(Ask::Take(take))));
        let answer = match timeout(span, taking.as_mut()).await {
            Ok(answer) => answer,
            Err(_) => {
                // The answer to the take comes before the one to this.
                self.carry_out(Command::Queue(Ask::Unwait { queue: queue.clone(), waiter })).await?;
                taking.await
            }
        };
        place.is_taken = false;
        self.hand(&queue, said(answer?)?)
    }

    /// Waits at a queue that another node leads, until there is something, the time is over, or another leads it.
    async fn wait_there(
        &self,
        queue: QueueKey,
        address: Arc<str>,
        count: u32,
        left: Option<Duration>,
    ) -> Result<Hand, Failure> {
        let (reply, answer) = oneshot::channel();
        let there = There { handle: self.clone(), queue, address, waiter: self.waiter() };
        if !self.errands.run(async move { there.wait(count, left, reply).await }) {
            return Err(Failure::NotLed("as many consumers wait as may; try again".to_owned()));
        }
        let answer = match left {
            // A leader that says nothing does not keep anybody longer than they wanted to wait.
            Some(left) => timeout(left + AGAIN, answer).await.unwrap_or_else(|_| Ok(Ok(Hand::new(self)))),
            None => answer.await,
        };
        answer.map_err(|_| handle::stopped())?
    }

    /// For a command that another node has passed on: a consumer waits only for so long, and asks again.
    pub(crate) async fn carry_out_for_peer(&self, command: Command) -> Result<Answer, Failure> {
        match command {
            Command::Queue(Ask::Take(take)) if take.waiter.is_some() => {
                let taken = self.wait_here(take, POLL).await?.give();
                let taken = taken.into_iter().map(|(_, delivered)| delivered).collect();
                Ok(Answer::Queue(Said::Taken(taken)))
            }
            command => self.carry_out(command).await,
        }
    }

    async fn take_from(&self, take: Take) -> Result<Hand, Failure> {
        let queue = take.queue.clone();
        self.hand(&queue, self.queue(Ask::Take(take)).await?)
    }

    /// What was taken for a consumer. A message whose retry is over is left out: it may have been given to another consumer
    /// meanwhile, and acknowledged. So it is after a node was stopped, or the network was slow, while a consumer waited.
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

    /// What was taken for somebody who has gone goes back.
    pub fn return_taken(&self, namespace: &Namespace, taken: &[Delivered]) {
        let ids: Vec<MessageId> = taken.iter().map(|delivered| delivered.id).collect();
        if ids.is_empty() {
            return;
        }
        let (handle, namespace) = (self.clone(), namespace.clone());
        self.bring_back(async move { handle.return_all(&namespace, ids).await });
    }

    fn bring_back(&self, errand: impl Future<Output = ()> + Send + 'static) {
        if !self.errands.run(errand) {
            tracing::warn!(
                "too much is under way: messages that reached nobody come back when their retry is over"
            );
        }
    }

    /// A number that no other waiter has: it begins somewhere else on every node.
    fn waiter(&self) -> u64 {
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
            tracing::warn!(%error, "messages that reached nobody come back when their retry is over");
        }
    }
}

/// A place among those who wait at a queue: given up when nobody waits any more.
struct Place<'a> {
    handle: &'a Handle,
    queue: QueueKey,
    waiter: u64,
    is_taken: bool,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if self.is_taken {
            let command = Command::Queue(Ask::Unwait { queue: self.queue.clone(), waiter: self.waiter });
            let (reply, _) = oneshot::channel();
            // If there is no room, it is given one message, which is returned at once.
            drop(self.handle.asks.try_send(handle::Ask { command, reply, held: None }));
        }
    }
}

/// Messages that were taken and have not reached whoever wants them: if they never do, they go back.
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

/// One of each, then one of each again.
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
        other => Err(Failure::Unknown(format!("a queue does not answer like this: {other:?}"))),
    }
}

fn unexpected(said: &Said) -> Failure {
    Failure::Unknown(format!("a queue does not answer like this: {said:?}"))
}

/// Waits for all of them at once; the answers are in the order of the asks.
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
