//! The output of attempts, in its own file with its own writer: state never waits for output.
//!
//! A commit here is not synced. A helper runs a checkpoint, which also syncs, one second after the first unsynced
//! commit. When output comes fast, the log grows too long in that time, and the writer runs a checkpoint itself. Only
//! one may run at a time: SQLite refuses a second one with "database is locked".

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::Connection;

use super::checkpoint::passive_checkpoint;
use super::connection::count_wal_pages;
use super::failure::{Failure, Health, Moment};
use super::session::Session;
use super::transaction::transact;
use super::worker_thread::Thread;
use crate::Result;
use crate::definitions::Definitions;

/// How much output a crash of the machine may lose.
const SYNC_AFTER: Duration = Duration::from_secs(1);
/// Pages in the write-ahead log from which the writer runs a checkpoint: 8 MiB, a short pause.
const CHECKPOINT_PAGES: u32 = 2_000;

pub(super) struct LogWriter {
    connection: Connection,
    health: Arc<Health>,
    unsynced: Arc<AtomicBool>,
    wake: SyncSender<()>,
    /// Pages in the write-ahead log after the last commit.
    wal_pages: Arc<AtomicU32>,
    /// Held during a checkpoint.
    checkpointing: Arc<Mutex<()>>,
    definitions: Arc<Mutex<Definitions>>,
}

/// What the helper needs.
struct Sync {
    connection: Connection,
    health: Arc<Health>,
    unsynced: Arc<AtomicBool>,
    checkpointing: Arc<Mutex<()>>,
}

impl LogWriter {
    /// Also returns the helper thread. It ends, after a last sync, when the writer is dropped: so drop the writer first.
    pub(super) fn start(
        mut writer: Connection,
        syncer: Connection,
        health: Arc<Health>,
    ) -> Result<(Thread, LogWriter)> {
        let (wake, woken) = mpsc::sync_channel(1);
        let (unsynced, checkpointing) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(())));
        let wal_pages = count_wal_pages(&mut writer);
        let wal_pages = wal_pages.map_err(|error| health.judge(Failure::Sqlite(error), Moment::Reading))?;
        let sync = Sync {
            connection: syncer,
            health: Arc::clone(&health),
            unsynced: Arc::clone(&unsynced),
            checkpointing: Arc::clone(&checkpointing),
        };
        let syncer = Thread::start("logs-sync", move || sync.run(&woken))?;
        let definitions = Arc::default();
        let writer =
            LogWriter { connection: writer, health, unsynced, wake, wal_pages, checkpointing, definitions };
        Ok((syncer, writer))
    }

    pub(super) fn transact<T>(&mut self, work: impl FnOnce(&mut Session<'_>) -> Result<T>) -> Result<T> {
        let LogWriter { connection, health, definitions, .. } = self;
        let work = |connection: &mut Connection| {
            Ok(work(&mut Session { connection, health, moment: Moment::Writing, definitions })?)
        };
        let (value, ()) = transact(connection, health, work, |_| ())?;
        if !self.unsynced.swap(true, Ordering::AcqRel) {
            // A full channel means the helper has been woken already.
            let _ = self.wake.try_send(());
        }
        // Skip it if the helper is running one.
        if self.wal_pages.load(Ordering::Relaxed) >= CHECKPOINT_PAGES
            && let Some(_alone) = self.checkpointing.try_lock()
        {
            checkpoint(&self.connection, &self.health);
        }
        Ok(value)
    }
}

impl Sync {
    fn run(&self, woken: &Receiver<()>) {
        while woken.recv().is_ok() {
            let closing = woken.recv_timeout(SYNC_AFTER) == Err(RecvTimeoutError::Disconnected);
            self.now();
            if closing {
                return;
            }
        }
    }

    /// Returns false if it failed; the error has been logged.
    fn now(&self) -> bool {
        let _alone = self.checkpointing.lock();
        self.unsynced.store(false, Ordering::Release);
        checkpoint(&self.connection, &self.health)
    }
}

/// Runs a checkpoint, which syncs the write-ahead log and copies it into the database.
fn checkpoint(connection: &Connection, health: &Health) -> bool {
    match passive_checkpoint(connection) {
        Ok(_) => true,
        Err(error) => {
            let error = health.judge(Failure::Sqlite(error), Moment::Writing);
            tracing::warn!(%error, "output could not be synced");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::log::CHUNK_BYTES_MAX;

    use super::*;
    use crate::Durability;
    use crate::sql::connection::{Connection as _, ask};
    use crate::sql::queries::chunks;
    use crate::sqlite::connection::{Use, open};
    use crate::sqlite::schema;
    use crate::sqlite::session::ready;

    #[test]
    fn a_sync_is_never_refused_however_fast_output_comes() {
        let dir = tempfile::tempdir().unwrap();
        let open = |what_for| open(&dir.path().join("logs.db"), what_for, Durability::Relaxed).unwrap();
        let mut connection = open(Use::Append);
        schema::LOGS.migrate(&mut connection, |_| Ok(())).unwrap();
        let health = Arc::new(Health::default());
        let (_syncer, mut writer) =
            LogWriter::start(connection, open(Use::Read), Arc::clone(&health)).unwrap();
        let (unsynced, checkpointing) = (Arc::clone(&writer.unsynced), Arc::clone(&writer.checkpointing));
        let sync = Sync { connection: open(Use::Read), health, unsynced, checkpointing };
        // Many times what makes the writer run a checkpoint.
        let writing = std::thread::spawn(move || {
            for number in 0..1_000_i64 {
                let insert =
                    ask!(chunks::INSERT, 1_i64, 1_i64, number, 0_i64, 1_i64, vec![b'x'; CHUNK_BYTES_MAX]);
                writer.transact(|s| ready(s.execute(&[insert]))).unwrap();
            }
        });
        let mut syncs = 0;
        while !writing.is_finished() {
            assert!(sync.now(), "sync {syncs} was refused");
            syncs += 1;
        }
        writing.join().unwrap();
        assert!(syncs > 0);
    }
}
