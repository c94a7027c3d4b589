//! gRPC: the protocol of workers and of other nodes.

pub mod peer;
pub mod worker;
