//! What the stores in a database share: statements, written once, and the code that runs them.
//!
//! A backend gives a [`connection::Connection`]: it sends statements and reads rows. Everything else is here, except
//! what a database does faster in its own way: commits, the connections themselves, and SQLite's log of messages.
//!
//! In reading order: values and statements (`value`, `dialect`, `connection`, `backend`, `pool`, `queries`, `decode`), reads
//! (`records`, `shard`, `messages`, `walk`, `search`, `statistics`), and the rest. `shards`, `reads`, `calendars`,
//! `mail`, `tokens`, `sessions`, `logs` and `prune` implement the traits of the store for every [`backend::Backend`].

pub(crate) mod value;
pub(crate) mod dialect;
pub(crate) mod connection;
pub(crate) mod backend;
pub(crate) mod pool;
pub(crate) mod queries;
pub(crate) mod decode;
pub(crate) mod tables;
pub(crate) mod batches;
pub(crate) mod records;
pub(crate) mod shard;
pub(crate) mod messages;
mod walk;
mod search;
mod statistics;
mod shards;
mod reads;
mod namespaces;
mod last_runs;
mod counting;
mod calendars;
mod descriptors;
mod mail;
mod tokens;
mod sessions;
mod logs;
pub(crate) mod prune;
