//! The commands on queues, and their answers.
//!
//! Most commands take many messages: everything that a client sends at once is one command and one commit.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Body, DeadMessage, Message, MessageId, MessageStatus, Pause, QueueKey, QueueSettings, Sender};
use crate::Timestamp;
use crate::ids::{RunId, ShardId};
use crate::name::Namespace;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    Add(Add),
    Take(Take),
    /// A consumer is gone or was served by another queue. Its take is answered without messages, unless it was served.
    Unwait {
        queue: QueueKey,
        waiter: u64,
    },
    Act(Act),
    /// A consumer needs more time: the message is not delivered again for one more retry interval.
    Working {
        namespace: Namespace,
        id: MessageId,
    },
    Show {
        namespace: Namespace,
        id: MessageId,
    },
    /// The first queued messages, if they are in memory; the last ones if `newest`.
    Peek {
        queue: QueueKey,
        count: u32,
        newest: bool,
    },
    Stat {
        queue: QueueKey,
    },
    /// Sets the pause. `None` only reads it.
    Pause {
        queue: QueueKey,
        pause: Option<Pause>,
    },
    /// Replaces the settings. Empty settings remove them.
    Set {
        queue: QueueKey,
        settings: Box<QueueSettings>,
    },
    /// Deletes at most `limit` queued messages. To delete all, a client repeats it until nothing was deleted.
    Flush {
        queue: QueueKey,
        limit: u32,
    },
    /// Removes a queue, paused or not, that has no messages and no waiting consumer. For others nothing happens, and
    /// [`Said::Acted`] has the count 0.
    Forget {
        queue: QueueKey,
    },
    /// Adds the message of an attempt, once however often it is sent. An empty [`Said::Added`] means that the message
    /// was added before and has ended.
    Deliver(Deliver),
    /// Deletes the message of an attempt; none is added for it later. [`Said::Acted`] with the count 0 means that there
    /// was no message, and so there will be no notice.
    Withdraw {
        queue: QueueKey,
        sender: Sender,
    },
    /// Adds a message to its dead-letter queue, once however often it is sent.
    AddDead {
        /// The notice that carries the message.
        notice: i64,
        dead: Box<DeadMessage>,
    },
    /// The sender has confirmed the notice with this number.
    Told {
        notice: i64,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Add {
    pub queue: QueueKey,
    pub messages: Vec<NewMessage>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewMessage {
    pub body: Body,
    pub delay: Duration,
    pub retry: Duration,
    pub ttl: Duration,
    pub priority: u8,
    /// Refused if this many messages are already queued. `None` means no limit.
    pub max_len: Option<u64>,
    /// If a message with this key exists, its id is the answer and nothing is added.
    pub key: Option<Arc<str>>,
}

/// The message of an attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Deliver {
    pub queue: QueueKey,
    pub sender: Sender,
    pub message: NewMessage,
}

/// How long a consumer waits for a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    No,
    For(Duration),
    Forever,
}

/// Takes messages from a queue for a consumer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Take {
    pub queue: QueueKey,
    pub count: u32,
    /// If the queue is empty, wait under this number, which the endpoint uses only once. `None` means do not wait.
    pub waiter: Option<u64>,
}

/// One action on several messages of one shard. Ids without a message are skipped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Act {
    pub namespace: Namespace,
    pub verb: Verb,
    pub ids: Vec<MessageId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// The message is done and deleted.
    Ack,
    Delete,
    /// The consumer failed: queue the message again, at once or after a delay.
    Nack {
        delay: Duration,
    },
    /// Queue it again at once.
    Enqueue,
    /// Take it out of the queue, as if it had been delivered.
    Dequeue,
    /// The message was taken and reached no consumer: put it back without counting.
    Return,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// One result for each message of the command.
    Added(Vec<Result<Notice, QueueRefusal>>),
    /// The messages taken, in order. Empty means that the queue is empty.
    Taken(Vec<Delivered>),
    Acted(Acted),
    /// The time until the message is delivered again.
    Postponed(Duration),
    Shown(Option<MessageView>),
    /// `None` means that too few messages are in memory; the caller reads the rows.
    Peeked(Option<Vec<Delivered>>),
    Stat(Option<QueueStat>),
    Paused(Pause),
    Flushed(u64),
    Refused(QueueRefusal),
}

/// The message that was added, or found under its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    pub id: MessageId,
    pub ttl: Duration,
    pub at_most_once: bool,
    pub is_new: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Delivered {
    pub id: MessageId,
    pub ttl: Duration,
    pub at_most_once: bool,
    pub body: Body,
    pub nacks: u32,
    pub redeliveries: u32,
    /// When it is queued again unless it is acknowledged. `None` means never, or that it was not taken.
    pub until: Option<Timestamp>,
}

impl Delivered {
    /// A message as a take or a peek shows it.
    pub fn of(message: &Message) -> Delivered {
        Delivered {
            id: message.id,
            ttl: message.ttl(),
            at_most_once: message.retry.is_zero(),
            body: message.body.clone(),
            nacks: message.nacks,
            redeliveries: message.redeliveries,
            until: None,
        }
    }
}

/// How many messages the action changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Acted {
    pub count: u64,
}

/// All fields of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MessageView {
    pub queue: QueueKey,
    pub id: MessageId,
    pub priority: u8,
    pub body: Body,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    pub delay: Duration,
    pub retry: Duration,
    pub status: MessageStatus,
    pub nacks: u32,
    pub redeliveries: u32,
    pub key: Option<Arc<str>>,
    /// The leader's time, to compare the instants with.
    pub now: Timestamp,
}

impl MessageView {
    pub fn of(queue: QueueKey, message: &Message, now: Timestamp) -> MessageView {
        MessageView {
            queue,
            id: message.id,
            priority: message.priority,
            body: message.body.clone(),
            created_at: message.created_at,
            expires_at: message.expires_at,
            delay: message.delay,
            retry: message.retry,
            status: message.status,
            nacks: message.nacks,
            redeliveries: message.redeliveries,
            key: message.key.clone(),
            now,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QueueStat {
    /// Queued messages.
    pub len: u64,
    /// All messages.
    pub messages: u64,
    pub created_at: Timestamp,
    pub used_at: Timestamp,
    /// The leader's time.
    pub now: Timestamp,
    /// Waiting consumers.
    pub waiting: u64,
    /// Counted since its leader took over.
    pub added: u64,
    pub taken: u64,
    /// Messages that have expired since then, and those that went to the dead-letter queue.
    pub expired: u64,
    pub dead: u64,
    /// Messages that are delivered and not acknowledged.
    pub unacked: u64,
    /// When the oldest of the first messages was created. `None` means that no message is queued, or that none is in memory.
    pub oldest_at: Option<Timestamp>,
    pub pause: Pause,
    pub settings: Option<Arc<QueueSettings>>,
}

/// Why a command on a queue was refused. A refused command changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum QueueRefusal {
    #[error("the queue is already longer than {0} messages")]
    TooLong(u64),
    #[error("the queue is paused in input; try again later")]
    Paused,
    #[error("there is no such message")]
    NoSuchMessage,
    #[error("half of the message's time to live is over: its next delivery is no longer put off")]
    TooLate,
    #[error(
        "the message is queued again, and its queue has as many unacknowledged messages as `running` allows"
    )]
    Full,
    #[error("this node holds as many queues as it may")]
    TooManyQueues,
}

impl Ask {
    /// The shard whose leader decides the command. `None` means that it names no message.
    pub fn shard(&self, shards: u16) -> Option<ShardId> {
        match self {
            Ask::Add(Add { queue, .. })
            | Ask::Take(Take { queue, .. })
            | Ask::Unwait { queue, .. }
            | Ask::Peek { queue, .. }
            | Ask::Stat { queue }
            | Ask::Pause { queue, .. }
            | Ask::Set { queue, .. }
            | Ask::Flush { queue, .. }
            | Ask::Forget { queue }
            | Ask::Deliver(Deliver { queue, .. })
            | Ask::Withdraw { queue, .. } => Some(queue.shard(shards)),
            Ask::AddDead { dead, .. } => Some(dead.queue.shard(shards)),
            Ask::Told { notice } => Some(RunId(*notice).shard()),
            Ask::Act(Act { ids, .. }) => ids.first().map(|id| id.shard()),
            Ask::Working { id, .. } | Ask::Show { id, .. } => Some(id.shard()),
        }
    }

    /// What the command is about, for messages to users.
    pub fn subject(&self) -> String {
        match self {
            Ask::Add(Add { queue, .. })
            | Ask::Take(Take { queue, .. })
            | Ask::Unwait { queue, .. }
            | Ask::Peek { queue, .. }
            | Ask::Stat { queue }
            | Ask::Pause { queue, .. }
            | Ask::Set { queue, .. }
            | Ask::Flush { queue, .. }
            | Ask::Forget { queue }
            | Ask::Deliver(Deliver { queue, .. })
            | Ask::Withdraw { queue, .. } => format!("queue `{}`", queue.name),
            Ask::AddDead { dead, .. } => format!("queue `{}`", dead.queue.name),
            Ask::Act(_) | Ask::Working { .. } | Ask::Show { .. } => "message".to_owned(),
            Ask::Told { notice } => format!("end notice {notice}"),
        }
    }

    /// Whether the command is idempotent.
    pub fn is_repeatable(&self) -> bool {
        match self {
            Ask::Add(_) | Ask::Take(_) => false,
            Ask::Act(Act { verb, .. }) => matches!(verb, Verb::Ack | Verb::Delete | Verb::Dequeue),
            Ask::Unwait { .. }
            | Ask::Working { .. }
            | Ask::Show { .. }
            | Ask::Peek { .. }
            | Ask::Stat { .. }
            | Ask::Pause { .. }
            | Ask::Set { .. }
            | Ask::AddDead { .. }
            | Ask::Flush { .. }
            | Ask::Forget { .. }
            | Ask::Deliver(_)
            | Ask::Withdraw { .. }
            | Ask::Told { .. } => true,
        }
    }
}
