//! The Redis-protocol door, as its clients see it.

mod clients;
mod kills;
