//! Simulates a cluster in one thread, on virtual time, from one seed. It runs the real engine and the real drivers, with
//! faults between any two steps. After every step it checks the promises: a run is never early, never twice and never
//! lost; states are legal; one result is accepted; overlap rules hold; each epoch has one leader; no node sends effects
//! after its lease; no slot is used twice. For queues: no message is lost, an acknowledged message never comes back, and
//! messages are taken in order. For locks: one holder at a time, fences grow, and a free lock goes to the first that waits.
//!
//! [`run`] simulates one world: a storm with all kinds of faults, a calm, and rest. `world` runs the events, `weather`
//! chooses the faults and the number of nodes and workers, `workload` the commands of users, `workflows` their graphs, `traffic` what producers and
//! consumers do with queues; `witness` sees every commit, answer and order, and checks it. Three more simulations have no
//! other faults: [`outage`], a node that is away for hours; [`failover`], nodes that die or leave one after the other; and
//! [`busy_node`], a node that gives shards away because it is busy.
//!
//! [`Settings::planted`] plants a [`Fault`] in the code under test: `tests/planted.rs` shows that each of them is found.
//!
//! **Invariant:** the same seed gives the same world, so its number is enough to replay a failure.

mod dice;
mod weather;
mod workload;
mod workflows;
mod traffic;
mod worker;
mod witness;
mod world;
mod storm;
mod outage;
mod failover;
mod load;

pub use failover::failover;
pub use load::{Moved, busy_node};
pub use outage::{Cost, outage};
pub use punctual_core::planted::Fault;
pub use storm::{Failure, Settings, digest, run};
pub use witness::Seen;
pub use world::Departure;
