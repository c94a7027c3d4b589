//! A single node, used through its handle.

mod deliveries;
mod notifications;
mod queues;
mod rig;
