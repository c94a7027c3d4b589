//! Queues: named lines of messages that consumers pull from.
//!
//! A queue belongs to the shard of its name, and its messages with it. A message is *queued* (in the line) or *active*
//! (out of it: delayed, delivered and not yet acknowledged, or taken out by hand); an active one comes back into the line
//! at its `wake_at`, if it has one. It is gone when it is acknowledged, deleted, or its time to live is over. One that an
//! attempt has delivered leaves a letter for it behind (`delivery`).
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

pub use ask::{
    Act, Acted, Add, Ask, Delivered, MessageView, NewMessage, Notice, Pause, QueueRefusal, QueueStat, Said,
    Take, Verb,
};
pub use body::Body;
pub use delivery::{Deliver, Ending, Errand, LETTERS, Letter, News, Sender, Whereabouts};
pub use id::{BadId, ID_BYTES, IdText, parse_id};
pub use message::{
    InvalidName, Line, Message, MessageId, Place, QueueKey, QueueName, QueueNumber, QueueRecord, rank,
};
