//! A node that is alone, through its handle.

mod deliveries;
mod queues;
mod rig;
