//! One shard's life, pure: no clock, no I/O, nothing awaited.
//!
//! The files follow a run: [`intake`] takes commands, [`plan`] knows what is due next ([`wheel`] the deadlines of
//! attempts), [`fire`] makes what is due into runs, [`overlap`] says whether they may start, [`family`] splits those
//! that go on in child runs, [`assign`] gives them to workers, [`deliver`] into queues, [`report`] hears what became of them, [`settle`] ends them. [`shard`] holds it all together,
//! [`wants`] says which rows it needs and [`seal`] turns what changed into one batch; [`queue`] is the life of messages; [`pool`] is what all shards of a node share.
//!
//! **Invariant:** an uncommitted row is in memory or pinned, so no read can bring an older one back.

pub mod event;
pub mod pool;
pub mod shard;
pub mod wants;
pub mod seal;
pub mod memory;
pub mod intake;
pub mod plan;
pub mod wheel;
pub mod fire;
pub mod overlap;
pub mod family;
pub mod assign;
pub mod deliver;
pub mod report;
pub mod settle;
pub mod queue;

pub use event::{Context, Effect, Event, Ticket};
pub use pool::{Pool, Silence};
pub use shard::{Settings, Shard};
