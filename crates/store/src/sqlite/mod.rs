//! The default store: one folder, nothing to install.
//!
//! ```text
//! punctual.db    every row; one writer thread, a few readers
//! logs.db        output of attempts, with a writer of its own
//! acknowledged   how many commits were acknowledged, so that lost ones are noticed
//! lock           held by the one process that uses the folder
//! ```
//!
//! SQLite blocks, so every connection lives on a thread and gets requests over a channel. The leader's reads have a
//! reader of their own: a long listing at an endpoint never makes a fire late.
//!
//! In reading order: the files (`folder`, `acknowledged`, `connection`, `schema`, `open`), writes (`writer`, `changes`,
//! `message_log`, `checkpoint`), reads (`reader`, `session`, `timers`), and the rest (`logs`, `backup`). What all
//! databases share is in `sql`.

mod failure;
mod folder;
mod acknowledged;
mod connection;
mod schema;
mod worker_thread;
mod open;
mod queries;
mod transaction;
mod writer;
mod changes;
mod message_log;
mod checkpoint;
mod reader;
mod session;
mod timers;
mod logs;
mod backup;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use punctual_core::change::Batch;

use self::acknowledged::SizeAtClose;
pub use self::backup::{Copied, backup, restore};
use self::folder::{Folder, Lock};
use self::logs::LogWriter;
use self::message_log::Shared;
use self::reader::Reader;
use self::worker_thread::{Thread, Threads};
use self::writer::Writer;
pub use crate::Durability;
use crate::Result;
use crate::sql::backend::Facts;

#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// How many shards a new store gets. An existing store keeps its number.
    pub shards: u16,
    pub durability: Durability,
}

impl Default for Options {
    fn default() -> Self {
        Options { shards: 64, durability: Durability::Full }
    }
}

/// Field order is drop order: the readers close first, then the writers, and the lock is released last.
pub struct Sqlite {
    facts: Facts,
    folder: Folder,
    message_log: Shared,
    #[cfg(test)]
    health: Arc<failure::Health>,
    leader: Threads<Reader>,
    endpoints: Threads<Reader>,
    log_reader: Threads<Reader>,
    log_writer: Threads<LogWriter>,
    _log_syncer: Thread,
    writer: Threads<Writer>,
    _size: SizeAtClose,
    _lock: Lock,
}

impl Sqlite {
    /// `commit` for a thread that may block: the benchmark measures the writer alone with it.
    pub fn commit_blocking(&self, batches: Arc<Vec<Batch>>) -> Result<()> {
        self.writer.ask_blocking(batches, |writer, batches| writer.commit(batches))
    }
}

impl fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let folder = self.folder.path();
        f.debug_struct("Sqlite")
            .field("folder", &folder)
            .field("shards", &self.facts.shards)
            .finish_non_exhaustive()
    }
}
