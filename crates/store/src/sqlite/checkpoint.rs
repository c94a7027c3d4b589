//! Keeps the write-ahead log short without stopping the writer.
//!
//! Carrying a log's pages into the database means writing and syncing a second file; done by the writer it is a pause
//! of tens of milliseconds. So a helper with a connection of its own carries them while the writer writes on. A
//! log only begins anew when all of it has been carried over, and under load the helper never quite gets there: so
//! when the log has become long, the writer carries the few pages that came meanwhile, right after the helper is done.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::{self, JoinHandle};

use rusqlite::wal::CheckpointMode;
use rusqlite::{Connection, DEFAULT_NAME};

use super::failure::{Failure, Health, Moment};
use super::mark::{Mark, size_of};
use crate::{Error, Result};

/// Pages in the log that wake the helper: 16 MiB, so that a page that changes often is carried once for many changes.
const HELP_PAGES: u32 = 4_000;
/// Pages from which the writer finishes what the helper left over: 48 MiB.
const FINISH_PAGES: u32 = 12_000;

/// The writer's end.
pub(super) struct Checkpoints {
    wake: SyncSender<()>,
    progress: Arc<Progress>,
    health: Arc<Health>,
    pages_before: u32,
}

#[derive(Debug, Default)]
struct Progress {
    /// Pages of this log that are in the database by now.
    carried: AtomicU32,
    /// The helper has just finished a round.
    finished: AtomicBool,
}

/// The helper's thread. It ends when the writer's end is dropped.
pub(super) struct Helper {
    thread: Option<JoinHandle<()>>,
}

/// What the helper works on.
pub(super) struct Carried {
    pub(super) connection: Connection,
    pub(super) path: PathBuf,
    pub(super) health: Arc<Health>,
    pub(super) mark: Option<Arc<Mark>>,
}

pub(super) fn start(carried: Carried) -> Result<(Checkpoints, Helper)> {
    let (wake, woken) = mpsc::sync_channel(1);
    let progress = Arc::new(Progress::default());
    let (health, reported) = (Arc::clone(&carried.health), Arc::clone(&progress));
    let thread = thread::Builder::new().name("store-checkpoint".to_owned());
    let thread = thread
        .spawn(move || help(&carried, &woken, &reported))
        .map_err(|error| Error::Unusable(format!("cannot start a thread: {error}")))?;
    Ok((Checkpoints { wake, progress, health, pages_before: 0 }, Helper { thread: Some(thread) }))
}

impl Checkpoints {
    /// `pages` is the length of the log after the commit.
    pub(super) fn after_commit(&mut self, writer: &Connection, pages: u32) {
        if pages < self.pages_before {
            // The log began anew.
            self.progress.carried.store(0, Ordering::Relaxed);
        }
        self.pages_before = pages;
        if self.progress.finished.swap(false, Ordering::Acquire) && pages >= FINISH_PAGES {
            if let Err(error) = writer.wal_checkpoint_v2(DEFAULT_NAME, CheckpointMode::PASSIVE) {
                note(&self.health, error);
            }
        } else if pages.saturating_sub(self.progress.carried.load(Ordering::Relaxed)) >= HELP_PAGES {
            // Full: the helper has been woken already.
            let _ = self.wake.try_send(());
        }
    }
}

fn help(carried: &Carried, woken: &Receiver<()>, progress: &Progress) {
    while woken.recv().is_ok() {
        match carried.connection.wal_checkpoint_v2(DEFAULT_NAME, CheckpointMode::PASSIVE) {
            Ok((_, pages)) => {
                progress.carried.store(u32::try_from(pages).unwrap_or(0), Ordering::Relaxed);
                progress.finished.store(true, Ordering::Release);
                if let Some(mark) = &carried.mark {
                    mark.size(size_of(&carried.path));
                }
            }
            Err(error) => note(&carried.health, error),
        }
    }
}

/// A checkpoint that found no room or a lock is tried again; one that met an I/O error has failed the store.
fn note(health: &Health, error: rusqlite::Error) {
    let error = health.judge(Failure::Sqlite(error), Moment::Writing);
    tracing::warn!(%error, "the write-ahead log could not be carried over");
}

impl Drop for Helper {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so already.
            let _ = thread.join();
        }
    }
}
