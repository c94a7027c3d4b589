//! Several nodes on one store: what dies, stops or is cut off costs a moment and nothing else.

mod kills;
mod checkpoints;
mod pauses;
mod store;
mod endpoints;
mod clocks;
mod sharing;
mod registry;
mod cuts;
mod commits;
mod coordination;
mod streams;
mod locks;
mod named_locks;
mod tls;
mod mix;
mod queues;
mod holds;
mod workflows;
mod traces;
