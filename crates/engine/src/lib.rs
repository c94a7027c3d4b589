//! The state machine of one shard, pure: it reads no clock, does no I/O and awaits nothing.
//!
//! The files follow the life of a run: [`intake`] takes commands; [`plan`] holds the timers of jobs and runs that
//! [`page`] reads ahead, and [`wheel`] the deadlines; [`fire`] makes runs of due jobs; [`topics`] starts jobs when a run
//! ends or an event is sent, and `gather` collects several events for one run; [`overlap`] decides whether a run may
//! start, then `limits` does, and [`holds`] keep everything from starting; [`family`] splits a run into parts; [`workflow`] executes the steps of a workflow and the
//! parts of a split run; [`assign`] gives runs to workers, [`deliver`] sends them to queues, and [`call`] starts another
//! job for a step; [`ping`] records what runs outside Punctual; [`report`] takes the reports of workers;
//! [`state`] moves runs between states; [`settle`] ends runs; `alerts` opens and ends incidents; `statistics` counts runs.
//! [`shard`] holds all of it, [`memory`] the rows in memory, [`wants`]
//! names the rows to read, [`seal`] turns the changes into one batch. [`queue`] is the life of messages, `locks` that of locks; [`pool`]
//! is shared by all shards of a
//! node.
//!
//! **Invariant:** an uncommitted row is in memory or pinned, so no read can bring an older version back.

pub mod event;
pub mod pool;
pub mod shard;
pub mod wants;
pub mod seal;
pub mod memory;
pub mod intake;
pub mod plan;
pub mod page;
pub mod wheel;
mod deadline;
pub mod fire;
pub mod topics;
mod gather;
pub mod holds;
mod alerts;
pub mod overlap;
mod limits;
pub mod family;
pub mod workflow;
pub mod assign;
pub mod deliver;
pub mod call;
pub mod ping;
pub mod report;
pub mod state;
pub mod settle;
mod statistics;
pub mod queue;
mod locks;

pub use event::{Context, Effect, Event, Ticket};
pub use pool::{Pool, Silence};
pub use shard::{Settings, Shard};
