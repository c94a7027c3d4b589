//! The output of attempts, in a file and with a writer of its own: no state ever waits for output.
//!
//! A commit here is not synced; a helper syncs what was written a second after the first of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use punctual_core::ids::{RunId, Token};
use rusqlite::wal::CheckpointMode;
use rusqlite::{Connection, DEFAULT_NAME};

use super::doors::rows_max;
use super::failure::{Failure, Health, Moment};
use super::reader::Snapshot;
use super::transaction::transact;
use super::{queries, rows};
use crate::{Error, LogChunk, Result};

/// What a crash of the machine may cost.
const SYNC_AFTER: Duration = Duration::from_secs(1);

pub(super) struct LogWriter {
    connection: Connection,
    health: Arc<Health>,
    unsynced: Arc<AtomicBool>,
    wake: SyncSender<()>,
}

/// Ends, after a last sync, when the writer is dropped.
pub(super) struct Syncer(Option<JoinHandle<()>>);

impl LogWriter {
    pub(super) fn start(
        writer: Connection,
        syncer: Connection,
        health: Arc<Health>,
    ) -> Result<(LogWriter, Syncer)> {
        let (wake, woken) = mpsc::sync_channel(1);
        let unsynced = Arc::new(AtomicBool::new(false));
        let (flag, judge) = (Arc::clone(&unsynced), Arc::clone(&health));
        let thread = thread::Builder::new().name("store-logs-sync".to_owned());
        let thread = thread
            .spawn(move || sync_now_and_then(&syncer, &woken, &flag, &judge))
            .map_err(|error| Error::Unusable(format!("cannot start a thread: {error}")))?;
        Ok((LogWriter { connection: writer, health, unsynced, wake }, Syncer(Some(thread))))
    }

    pub(super) fn append(&mut self, chunks: &[LogChunk]) -> Result<()> {
        self.transact(|connection| {
            let mut statement = connection.prepare_cached(queries::chunks::INSERT)?;
            for chunk in chunks {
                let LogChunk { run, token, number, at, stream, bytes } = chunk;
                let (token, stream) = (token.0.cast_signed(), rows::stream_number(*stream));
                statement.execute((run.0, token, number, at.as_millis(), stream, bytes.as_slice()))?;
            }
            Ok(())
        })
    }

    /// Removes the output of runs, at most so many chunks.
    pub(super) fn remove(&mut self, runs: &[RunId], limit: usize) -> Result<usize> {
        self.transact(|connection| {
            let mut statement = connection.prepare_cached(queries::chunks::DELETE)?;
            let mut gone = 0;
            for run in runs {
                gone += statement.execute((run.0, rows_max(limit - gone)))?;
            }
            Ok(gone)
        })
    }

    fn transact<T>(&mut self, work: impl FnOnce(&Connection) -> Result<T, Failure>) -> Result<T> {
        let value = transact(&self.connection, &self.health, || work(&self.connection))?;
        if !self.unsynced.swap(true, Ordering::AcqRel) {
            // Full: it has been woken already.
            let _ = self.wake.try_send(());
        }
        Ok(value)
    }
}

fn sync_now_and_then(connection: &Connection, woken: &Receiver<()>, unsynced: &AtomicBool, health: &Health) {
    while woken.recv().is_ok() {
        let closing = woken.recv_timeout(SYNC_AFTER) == Err(RecvTimeoutError::Disconnected);
        unsynced.store(false, Ordering::Release);
        if let Err(error) = connection.wal_checkpoint_v2(DEFAULT_NAME, CheckpointMode::PASSIVE) {
            let error = health.judge(Failure::Sqlite(error), Moment::Writing);
            tracing::warn!(%error, "output could not be synced");
        }
        if closing {
            return;
        }
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            // A thread that panicked has said so already.
            let _ = thread.join();
        }
    }
}

impl Snapshot<'_> {
    pub(super) fn logs(
        &self,
        run: RunId,
        after: Option<(Token, u32)>,
        limit: usize,
    ) -> Result<Vec<LogChunk>, Failure> {
        let (token, number) = after.map_or((i64::MIN, 0), |(token, number)| (token.0.cast_signed(), number));
        let params = (run.0, token, number, rows_max(limit));
        self.all(queries::chunks::LIST, params, |row| rows::chunk(run, row))
    }

    /// The next runs that have output, after the one named.
    pub(super) fn logged_runs(&self, after: RunId, limit: usize) -> Result<Vec<RunId>, Failure> {
        let mut runs = Vec::new();
        let mut last = after;
        while runs.len() < limit {
            match self.one(queries::chunks::NEXT_RUN, [last.0], |row| Ok(RunId(row.get(0)?)))? {
                Some(run) => runs.push(run),
                None => break,
            }
            last = *runs.last().unwrap_or(&last);
        }
        Ok(runs)
    }
}
