//! What may be asked of a queue's leader, and what it says.
//!
//! Most asks are of many messages at once: whatever a client sends in one go is one command, and one commit.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Body, Deliver, Line, Message, MessageId, QueueKey, Sender};
use crate::Timestamp;
use crate::ids::{RunId, ShardId};
use crate::name::Namespace;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    Add(Add),
    Take(Take),
    /// Whoever waited has gone, or was served elsewhere. What was delivered to it meanwhile is the answer.
    Unwait {
        queue: QueueKey,
        waiter: u64,
    },
    Act(Act),
    /// A consumer needs more time: the message stays out of the line for as long as its retry once more.
    Working {
        namespace: Namespace,
        id: MessageId,
    },
    Show {
        namespace: Namespace,
        id: MessageId,
    },
    /// The first messages in the line, if they are in memory; the last ones if `newest`.
    Peek {
        queue: QueueKey,
        count: u32,
        newest: bool,
    },
    Stat {
        queue: QueueKey,
    },
    /// None: only say how it is.
    Pause {
        queue: QueueKey,
        pause: Option<Pause>,
    },
    /// Deletes what is in the line, at most `limit`; whoever wants all of it asks again until nothing was deleted.
    Flush {
        queue: QueueKey,
        limit: u32,
    },
    /// Lets a queue go, paused or not, that has no messages and at which no consumer waits. Others stay, and
    /// [`Said::Acted`] of none is the answer.
    Forget {
        queue: QueueKey,
    },
    /// Adds the message of an attempt, once however often it is asked. [`Said::Added`] with nothing in it: it was there,
    /// and has ended.
    Deliver(Deliver),
    /// Takes the message of an attempt away. From now on none is added for it. [`Said::Acted`] of none: there was no
    /// message, and so there will be no letter of it.
    Withdraw {
        queue: QueueKey,
        sender: Sender,
    },
    /// The sender has heard what the letter of this number says.
    Told {
        letter: i64,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Add {
    pub queue: QueueKey,
    pub messages: Vec<NewMessage>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewMessage {
    pub body: Body,
    pub delay: Duration,
    pub retry: Duration,
    pub ttl: Duration,
    pub priority: u8,
    /// Refused if the line has so many already.
    pub max_len: Option<u64>,
    /// While a message with this key lives, its id is the answer and nothing is added.
    pub key: Option<Arc<str>>,
}

/// Takes messages out of the line for a consumer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Take {
    pub queue: QueueKey,
    pub count: u32,
    /// If there is none: wait for one, under this number, which its door gives to nobody else.
    pub waiter: Option<u64>,
}

/// The same done to several messages of one shard; what is not there is passed over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Act {
    pub namespace: Namespace,
    pub verb: Verb,
    pub ids: Vec<MessageId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// It is done: the message goes.
    Ack,
    Delete,
    /// It failed: back into the line, at once or after a delay.
    Nack {
        delay: Duration,
    },
    /// Back into the line at once.
    Enqueue,
    /// Out of the line, as if it had been delivered.
    Dequeue,
    /// It was taken and never reached anyone: back to where it was, and not counted.
    Return,
}

/// What a queue lets through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Pause {
    /// Nothing is added.
    pub input: bool,
    /// Nothing is taken.
    pub output: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// One for each message that was to be added.
    Added(Vec<Result<Notice, QueueRefusal>>),
    /// What was taken, in the order of the line; empty: there is nothing.
    Taken(Vec<Delivered>),
    Acted(Acted),
    /// How long the message stays out of the line now.
    Postponed(Duration),
    Shown(Option<MessageView>),
    /// None: too little of the line is in memory to say; its rows do.
    Peeked(Option<Vec<Delivered>>),
    Stat(Option<QueueStat>),
    Paused(Pause),
    Flushed(u64),
    Refused(QueueRefusal),
}

/// Which message it is now, whether made by this or found under its key.
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
    /// When it goes back to the line unless it is acknowledged. None: never, or nobody has taken it.
    pub until: Option<Timestamp>,
}

impl Delivered {
    /// A message, as whoever takes it or looks at it sees it.
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

/// To how many of the messages it was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Acted {
    pub count: u64,
}

/// Everything there is to know of a message.
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
    pub line: Line,
    pub nacks: u32,
    pub redeliveries: u32,
    pub key: Option<Arc<str>>,
    /// The leader's time: what the instants are compared with.
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
            line: message.line,
            nacks: message.nacks,
            redeliveries: message.redeliveries,
            key: message.key.clone(),
            now,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QueueStat {
    /// Messages in the line.
    pub len: u64,
    /// Messages that it has, in the line or not.
    pub messages: u64,
    pub created_at: Timestamp,
    pub used_at: Timestamp,
    /// The leader's time.
    pub now: Timestamp,
    /// Consumers that wait.
    pub waiting: u64,
    /// Since its leader leads it.
    pub added: u64,
    pub taken: u64,
    pub pause: Pause,
}

/// Why a queue did not do it. Nothing happened.
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
    #[error("this node holds as many queues as it may")]
    TooManyQueues,
}

impl Ask {
    /// The shard whose leader decides this; none: it names no message at all.
    pub fn shard(&self, shards: u16) -> Option<ShardId> {
        match self {
            Ask::Add(Add { queue, .. })
            | Ask::Take(Take { queue, .. })
            | Ask::Unwait { queue, .. }
            | Ask::Peek { queue, .. }
            | Ask::Stat { queue }
            | Ask::Pause { queue, .. }
            | Ask::Flush { queue, .. }
            | Ask::Forget { queue }
            | Ask::Deliver(Deliver { queue, .. })
            | Ask::Withdraw { queue, .. } => Some(queue.shard(shards)),
            Ask::Told { letter } => Some(RunId(*letter).shard()),
            Ask::Act(Act { ids, .. }) => ids.first().map(|id| id.shard()),
            Ask::Working { id, .. } | Ask::Show { id, .. } => Some(id.shard()),
        }
    }

    /// Whether carrying it out twice comes to the same as once.
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
            | Ask::Flush { .. }
            | Ask::Forget { .. }
            | Ask::Deliver(_)
            | Ask::Withdraw { .. }
            | Ask::Told { .. } => true,
        }
    }
}
