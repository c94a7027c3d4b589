//! gRPC: what programs say to each other.

pub mod peer;
pub mod worker;
