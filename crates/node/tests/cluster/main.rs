//! Nodes that share a store: one leads every shard, another forwards commands to it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod calendars;
mod forward;
mod rig;

mod queues;
