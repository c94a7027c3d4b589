//! gRPC: the protocol of workers, of attempts and of other nodes.

pub(crate) mod attempts;
pub mod peer;
pub mod worker;
