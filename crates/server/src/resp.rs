//! The Redis-protocol endpoint: the Disque commands, for `redis-cli` and every Redis or Disque client.
//!
//! `listen` accepts connections; a `session` takes all commands a client has sent so far, in order, and
//! answers them in one write; `table` lists the commands, each with the right that it needs (a command
//! without a row is refused); `commands` has a file for each. They reach the node through `queues`.
//! `punctual_wire::resp` parses and writes the bytes.
//!
//! ```text
//!  listen ──connection──▶ session ──row──▶ commands ──▶ queues ──▶ the node
//!                           └ link: the socket and what has been read ahead
//! ```

mod args;
mod clients;
mod commands;
mod counts;
mod endpoint;
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
