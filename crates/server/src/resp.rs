//! The door that speaks the Redis protocol: the Disque commands, for `redis-cli` and every client of either.
//!
//! `listen` lets connections in; a `session` takes what a client has sent so far, in order, and answers all of it in one
//! write; `table` is the list of commands, each with the right that it takes (nothing is done that has no row there),
//! and `commands` has a file for each. What they ask of the node is `queues`. The bytes themselves are
//! `punctual_wire::resp`'s.
//!
//! ```text
//!  listen ──connection──▶ session ──row──▶ commands ──▶ queues ──▶ the node
//!                           └ link: the socket and what has been read ahead
//! ```

mod args;
mod clients;
mod commands;
mod counts;
mod door;
mod fault;
mod link;
mod listen;
pub(crate) mod names;
pub(crate) mod others;
mod password;
mod process;
mod queues;
mod scans;
mod session;
mod settings;
mod slowlog;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use counts::{Outcome, Seen};
pub use listen::serve;
pub use settings::{
    AHEAD_BYTES_MAX, BATCH_MAX, MONITORED_MAX, OUTPUT_BYTES_MAX, QUEUES_MAX, SCANS_MAX, Settings,
    TRANSACTION_BYTES_MAX, TRANSACTION_MAX, WAITED_MAX,
};
pub use table::commands as table_of_commands;
