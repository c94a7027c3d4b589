//! Queues: named queues of messages that consumers pull from.
//!
//! A queue belongs to the shard of its name, and its messages with it. A message is *queued* or *active* (delayed,
//! delivered and not yet acknowledged, or taken out by a user); an active message is queued again at its `wake_at`, if
//! it has one. A message ends when it is acknowledged, deleted, or its time to live is over. A message that an attempt
//! delivered then leaves a notice for that attempt (`delivery`). With a dead-letter queue (`settings`), a message that
//! expires or was delivered too often is moved there.
//!
//! ```text
//!  add ──▶ (active until its delay is over) ──▶ queued ──take──▶ active ──ack──▶ gone
//!                                                 ▲                │
//!                                                 └─ retry, nack ──┘
//! ```

mod body;
mod message;
mod id;
mod ask;
mod delivery;
mod settings;

pub use ask::{
    Act, Acted, Add, Ask, Deliver, Delivered, MessageView, NewMessage, Notice, QueueRefusal, QueueStat, Said,
    Take, Verb, Wait,
};
pub use body::Body;
pub use delivery::{Content, END_NOTICES, EndNotice, Ending, News, Returned, Whereabouts};
pub use id::{BadId, ID_BYTES, IdText, parse_id};
pub use message::{
    InvalidName, Message, MessageId, MessagePosition, MessageStatus, Pause, QueueKey, QueueName, QueueNumber,
    QueueRecord, Sender, rank,
};
pub use settings::{DeadMessage, QueueSettings};
