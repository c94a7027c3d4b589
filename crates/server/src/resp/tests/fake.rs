//! Queues as simple as they can be, in memory: what the endpoint says is tested against them, not the queues.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use punctual_core::Timestamp;
use punctual_core::name::Namespace;
use punctual_core::queue::{
    Act, Acted, Ask, Delivered, Message, MessageId, MessagePosition, MessageStatus, MessageView, Notice,
    Pause, QueueKey, QueueNumber, QueueRecord, QueueRefusal, QueueStat, Said, Take, Verb, Wait,
};
use punctual_node::Failure;
use punctual_store::Session;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::resp::queues::Queues;

pub(super) const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

#[derive(Debug, Default)]
pub(super) struct Fake {
    queues: Mutex<BTreeMap<QueueKey, Queue>>,
    changed: Notify,
    /// How many wait in GETJOB.
    pub(super) waiting: AtomicUsize,
    /// Every ask, by its kind.
    pub(super) asks: Mutex<Vec<String>>,
    pub(super) failing: Mutex<Option<Failure>>,
    pub(super) members: Mutex<Vec<Session>>,
    /// `None` means that the node of this endpoint leads.
    pub(super) leader: Mutex<Option<Arc<str>>>,
}

#[derive(Debug, Default)]
struct Queue {
    number: u32,
    pause: Pause,
    messages: BTreeMap<MessagePosition, Message>,
}

impl Queue {
    fn queued(&self) -> impl DoubleEndedIterator<Item = &Message> {
        self.messages.values().filter(|message| message.is_queued())
    }
}

impl Fake {
    fn log(&self, what: String) -> Result<(), Failure> {
        self.asks.lock().push(what);
        self.failing.lock().clone().map_or(Ok(()), Err)
    }

    fn take_now(&self, queues: &[QueueKey], count: u32) -> Vec<(QueueKey, Delivered)> {
        let (mut all, mut taken) = (self.queues.lock(), Vec::new());
        loop {
            let before = taken.len();
            for key in queues {
                let Some(queue) = all.get_mut(key).filter(|queue| !queue.pause.output) else { continue };
                let next = queue.messages.values_mut().find(|message| message.is_queued());
                let Some(message) = next.filter(|_| taken.len() < count as usize) else { continue };
                let until = (!message.retry.is_zero()).then(|| NOW + message.retry);
                message.status = MessageStatus::Active { until };
                taken.push((key.clone(), Delivered::of(message)));
            }
            if taken.len() == before {
                return taken;
            }
        }
    }

    fn act_on(&self, namespace: &Namespace, verb: Verb, ids: &[MessageId]) -> u64 {
        let (mut all, mut count) = (self.queues.lock(), 0);
        for (_, queue) in all.iter_mut().filter(|(key, _)| key.namespace == *namespace) {
            for id in ids {
                let Some(place) =
                    queue.messages.values().find(|message| message.id == *id).map(Message::position)
                else {
                    continue;
                };
                if matches!(verb, Verb::Ack | Verb::Delete) {
                    queue.messages.remove(&place);
                    count += 1;
                    continue;
                }
                let Some(message) = queue.messages.get_mut(&place) else { continue };
                let to_queued = !matches!(verb, Verb::Dequeue);
                if message.is_queued() == to_queued {
                    continue;
                }
                count += 1;
                message.status = match verb {
                    Verb::Nack { delay } if !delay.is_zero() => MessageStatus::Delayed { until: NOW + delay },
                    _ if to_queued => MessageStatus::Queued,
                    _ => MessageStatus::Active { until: None },
                };
                message.nacks += u32::from(matches!(verb, Verb::Nack { .. }));
            }
        }
        self.changed.notify_waiters();
        count
    }
}

#[async_trait]
impl Queues for Fake {
    async fn queue(&self, ask: Ask) -> Result<Said, Failure> {
        let kind = format!("{ask:?}");
        let kind = kind.split([' ', '(', '{']).next().unwrap_or_default().to_owned();
        self.log(match &ask {
            Ask::Add(add) => format!("{kind} {}", add.messages.len()),
            _ => kind,
        })?;
        let mut all = self.queues.lock();
        Ok(match ask {
            Ask::Add(add) => {
                let next = u32::try_from(all.len()).unwrap();
                let number = all.values().map(|queue| queue.messages.len()).sum::<usize>();
                let queue =
                    all.entry(add.queue).or_insert_with(|| Queue { number: next, ..Queue::default() });
                let mut outcomes = Vec::new();
                for new in add.messages {
                    let same = |message: &&Message| new.key.is_some() && message.key == new.key;
                    if let Some(found) = queue.messages.values().find(same) {
                        let (id, ttl) = (found.id, found.ttl());
                        outcomes.push(Ok(Notice { id, ttl, at_most_once: false, is_new: false }));
                        continue;
                    }
                    let len = u64::try_from(queue.queued().count()).unwrap();
                    if queue.pause.input {
                        outcomes.push(Err(QueueRefusal::Paused));
                        continue;
                    }
                    if let Some(most) = new.max_len.filter(|most| len >= *most) {
                        outcomes.push(Err(QueueRefusal::TooLong(most)));
                        continue;
                    }
                    let number = i64::try_from(number + outcomes.len() + 1).unwrap() << 22;
                    let id = MessageId { queue: QueueNumber(queue.number), number };
                    let until = (!new.delay.is_zero()).then(|| NOW + new.delay);
                    let message = Message {
                        id,
                        priority: new.priority,
                        body: new.body,
                        created_at: NOW,
                        expires_at: NOW + new.ttl,
                        delay: new.delay,
                        retry: new.retry,
                        status: until.map_or(MessageStatus::Queued, |until| MessageStatus::Delayed { until }),
                        nacks: 0,
                        redeliveries: 0,
                        key: new.key,
                        sender: None,
                    };
                    let at_most_once = message.retry.is_zero();
                    outcomes.push(Ok(Notice { id, ttl: message.ttl(), at_most_once, is_new: true }));
                    queue.messages.insert(message.position(), message);
                }
                self.changed.notify_waiters();
                Said::Added(outcomes)
            }
            Ask::Working { id, .. } => {
                let found = all.values().flat_map(|queue| queue.messages.values()).find(|m| m.id == id);
                match found {
                    Some(message) if message.body.starts_with(b"old") => Said::Refused(QueueRefusal::TooLate),
                    Some(message) => Said::Postponed(message.retry),
                    None => Said::Refused(QueueRefusal::NoSuchMessage),
                }
            }
            Ask::Show { id, .. } => Said::Shown(all.iter().find_map(|(key, queue)| {
                let message = queue.messages.values().find(|message| message.id == id)?;
                Some(MessageView::of(key.clone(), message, NOW))
            })),
            Ask::Stat { queue } => Said::Stat(all.get(&queue).map(|queue| QueueStat {
                len: u64::try_from(queue.queued().count()).unwrap(),
                messages: u64::try_from(queue.messages.len()).unwrap(),
                created_at: NOW.before(Duration::from_secs(90)),
                used_at: NOW.before(Duration::from_secs(7)),
                now: NOW,
                waiting: u64::try_from(self.waiting.load(SeqCst)).unwrap(),
                added: 3,
                taken: 2,
                expired: 0,
                dead: 0,
                unacked: 0,
                oldest_at: None,
                pause: queue.pause,
                settings: None,
            })),
            Ask::Pause { queue, pause: Some(pause) } => {
                all.entry(queue).or_default().pause = pause;
                self.changed.notify_waiters();
                Said::Paused(pause)
            }
            Ask::Pause { queue, pause: None } => {
                Said::Paused(all.get(&queue).map(|queue| queue.pause).unwrap_or_default())
            }
            Ask::Flush { queue, limit } => {
                let Some(queue) = all.get_mut(&queue) else { return Ok(Said::Flushed(0)) };
                let places: Vec<MessagePosition> =
                    queue.queued().take(limit as usize).map(Message::position).collect();
                places.iter().for_each(|place| drop(queue.messages.remove(place)));
                Said::Flushed(u64::try_from(places.len()).unwrap())
            }
            Ask::Forget { queue } => {
                let gone = all.get(&queue).is_some_and(|queue| queue.messages.is_empty());
                if gone {
                    all.remove(&queue);
                }
                Said::Acted(Acted { count: u64::from(gone) })
            }
            Ask::Act(Act { .. }) => Said::Acted(Acted::default()),
            Ask::Take(Take { .. }) | Ask::Unwait { .. } => Said::Taken(Vec::new()),
            Ask::Peek { .. } => Said::Peeked(None),
            Ask::Set { .. }
            | Ask::AddDead { .. }
            | Ask::Deliver(_)
            | Ask::Withdraw { .. }
            | Ask::Told { .. } => panic!("no endpoint asks this"),
        })
    }

    async fn act(&self, namespace: &Namespace, verb: Verb, ids: Vec<MessageId>) -> Result<u64, Failure> {
        self.log(format!("Act {}", ids.len()))?;
        // All that is asked for at once is there before any of it is answered, as with a commit.
        tokio::task::yield_now().await;
        Ok(self.act_on(namespace, verb, &ids))
    }

    async fn take(
        &self,
        queues: &[QueueKey],
        count: u32,
        wait: Wait,
    ) -> Result<Vec<(QueueKey, Delivered)>, Failure> {
        self.log("Take".to_owned())?;
        let taken = self.take_now(queues, count);
        if wait == Wait::No || !taken.is_empty() {
            return Ok(taken);
        }
        self.waiting.fetch_add(1, SeqCst);
        let _waiting = Waiting(&self.waiting);
        let one = async {
            loop {
                let changed = self.changed.notified();
                let mut changed = std::pin::pin!(changed);
                changed.as_mut().enable();
                let taken = self.take_now(queues, 1);
                if !taken.is_empty() {
                    return taken;
                }
                changed.await;
            }
        };
        Ok(match wait {
            Wait::For(span) => timeout(span, one).await.unwrap_or_default(),
            Wait::No | Wait::Forever => one.await,
        })
    }

    async fn peek(&self, queue: &QueueKey, count: u32, newest: bool) -> Result<Vec<Delivered>, Failure> {
        self.log("Peek".to_owned())?;
        let all = self.queues.lock();
        let queued = all.get(queue).into_iter().flat_map(Queue::queued);
        Ok(match newest {
            true => queued.rev().take(count as usize).map(Delivered::of).collect(),
            false => queued.take(count as usize).map(Delivered::of).collect(),
        })
    }

    async fn queues(
        &self,
        namespace: &Namespace,
        after: Option<&QueueKey>,
        limit: usize,
    ) -> Result<Vec<QueueRecord>, Failure> {
        let all = self.queues.lock();
        let later =
            all.iter().filter(|(key, _)| key.namespace == *namespace && after.is_none_or(|a| *key > a));
        Ok(later
            .take(limit)
            .map(|(key, queue)| QueueRecord {
                key: key.clone(),
                number: QueueNumber(queue.number),
                created_at: NOW,
                pause: queue.pause,
                queued: u64::try_from(queue.queued().count()).unwrap(),
                messages: u64::try_from(queue.messages.len()).unwrap(),
                unacked: 0,
                settings: None,
            })
            .collect())
    }

    async fn messages(
        &self,
        queue: &QueueKey,
        after: Option<MessagePosition>,
        limit: usize,
    ) -> Result<Vec<Arc<Message>>, Failure> {
        let all = self.queues.lock();
        let messages = all.get(queue).into_iter().flat_map(|queue| queue.messages.values());
        let later = messages.filter(|message| after.is_none_or(|after| message.position() > after));
        Ok(later.take(limit).cloned().map(Arc::new).collect())
    }

    fn members(&self) -> Vec<Session> {
        self.members.lock().clone()
    }

    fn leader_of(&self, _: MessageId) -> Option<Arc<str>> {
        self.leader.lock().clone()
    }
}

/// Counts one waiting client, until it is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}
