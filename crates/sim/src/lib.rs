//! A node on virtual time, from one seed: the same engine and driver as in production, with faults between any two
//! steps. After every step: never early, never twice, never lost, legal states, one accepted result, overlap holds.
//!
//! **Invariant:** the same seed gives the same world, so a failure is a number.

mod dice;
mod witness;
mod worker;
mod workload;
mod world;

pub use witness::Seen;
pub use world::{Failure, run};
