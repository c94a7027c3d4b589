//! A node on virtual time, from one seed: the same engine and driver as in production, with faults between any two
//! steps. After every step: never early, never twice, never lost, legal states, one accepted result, overlap holds.
//!
//! [`run`] is one world: a storm in which everything goes wrong, a calm, and rest. `world` moves it, `weather` says how
//! rough it is, `workload` what people ask for; `witness` sees everything that becomes true and judges it.
//! [`outage`] is another: fair weather, and a node that is away for hours.
//!
//! **Invariant:** the same seed gives the same world, so a failure is a number.

mod dice;
mod weather;
mod workload;
mod worker;
mod witness;
mod world;
mod storm;
mod outage;

pub use outage::{Cost, outage};
pub use storm::{Failure, digest, run};
pub use witness::Seen;
