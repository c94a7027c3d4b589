//! A single node, used through its handle.

mod deliveries;
mod queues;
mod rig;
