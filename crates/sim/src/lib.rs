//! A cluster on virtual time, in one thread, from one seed: the same engine and driver as in production, with faults
//! between any two steps. After every step: never early, never twice, never lost, legal states, one accepted result,
//! overlap holds, one leader an epoch, nobody speaks after its lease, no slot is filled twice; and of queues: never lost,
//! acknowledged for good, in order.
//!
//! [`run`] is one world: a storm in which everything goes wrong, a calm, and rest. `world` moves it, `weather` says how
//! rough it is and how many nodes and workers there are, `workload` what people ask for, `traffic` what producers and
//! consumers do with queues; `witness` sees everything that
//! becomes true and judges it. Three more in fair weather: [`outage`], a node that is away for hours, [`failover`],
//! nodes that die or leave, one after the other, and [`busy_node`], a node that gives shards away because it is busy.
//!
//! [`Settings::planted`] plants a [`Fault`]: `tests/planted.rs` shows that each of them is found.
//!
//! **Invariant:** the same seed gives the same world, so a failure is a number.

mod dice;
mod weather;
mod workload;
mod traffic;
mod worker;
mod witness;
mod world;
mod storm;
mod outage;
mod failover;
mod load;

pub use failover::{Farewell, failover};
pub use load::{Moved, busy_node};
pub use outage::{Cost, outage};
pub use punctual_core::planted::Fault;
pub use storm::{Failure, Settings, digest, run};
pub use witness::Seen;
