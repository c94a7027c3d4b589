//! Keeps the write-ahead log short without stopping the writer.
//!
//! A checkpoint copies the log's pages into the database, which means writing and syncing a second file: done by the
//! writer, a pause of tens of milliseconds. So a helper with its own connection copies them while the writer goes on.
//! The log restarts only when all of it has been copied, and under load the helper never quite gets there: when the log
//! has become long, the writer copies the few remaining pages itself, right after the helper is done.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::Duration;

use rusqlite::wal::CheckpointMode;
use rusqlite::{Connection, DEFAULT_NAME, ErrorCode};

use super::acknowledged::{AcknowledgedFile, size_of};
use super::failure::{Failure, Health, Moment};
use super::worker_thread::Thread;
use crate::Result;

/// Pages in the log that wake the helper: 16 MiB, so that a page that changes often is copied once for many changes.
const HELP_PAGES: u32 = 4_000;
/// Pages from which the writer copies what the helper left: 48 MiB.
const FINISH_PAGES: u32 = 12_000;

/// Far longer than the writer needs to change the log's header.
const MOMENT: Duration = Duration::from_millis(1);
/// Enough tries for a writer that was descheduled while it changed the header.
const TRIES_MAX: u32 = 200;

/// The writer's handle. Field order is drop order: the helper ends when it cannot be woken any more.
pub(super) struct Checkpoints {
    wake: SyncSender<()>,
    _helper: Thread,
    /// The helper sends, after each round, how many pages of the log are in the database.
    rounds: Receiver<u32>,
    health: Arc<Health>,
    helper_works: bool,
    /// Pages of the current log that are already in the database.
    copied: u32,
    pages_before: u32,
}

/// What the helper needs.
pub(super) struct Helper {
    pub(super) connection: Connection,
    pub(super) path: PathBuf,
    pub(super) health: Arc<Health>,
    pub(super) acknowledged: Option<Arc<AcknowledgedFile>>,
}

pub(super) fn start(helper: Helper) -> Result<Checkpoints> {
    let (wake, woken) = mpsc::sync_channel(1);
    let (report, rounds) = mpsc::sync_channel(1);
    let health = Arc::clone(&helper.health);
    let thread = Thread::start("checkpoint", move || help(&helper, &woken, &report))?;
    Ok(Checkpoints { wake, _helper: thread, rounds, health, helper_works: false, copied: 0, pages_before: 0 })
}

impl Checkpoints {
    /// Called after each commit; `pages` is the length of the log.
    pub(super) fn after_commit(&mut self, writer: &Connection, pages: u32) {
        if pages < self.pages_before {
            // The log restarted.
            self.copied = 0;
        }
        self.pages_before = pages;
        if let Ok(copied) = self.rounds.try_recv() {
            self.helper_works = false;
            self.copied = copied.min(pages);
            if pages >= FINISH_PAGES {
                self.finish(writer);
            }
        }
        if !self.helper_works && pages.saturating_sub(self.copied) >= HELP_PAGES {
            self.helper_works = self.wake.try_send(()).is_ok();
        }
    }

    /// Called while the helper is idle and the writer is not writing, so few pages are left.
    fn finish(&mut self, writer: &Connection) {
        match passive_checkpoint(writer) {
            Ok(copied) => self.copied = copied,
            Err(error) => note(&self.health, error),
        }
    }
}

fn help(helper: &Helper, woken: &Receiver<()>, report: &SyncSender<u32>) {
    while woken.recv().is_ok() {
        let pages = match passive_checkpoint(&helper.connection) {
            Ok(pages) => pages,
            Err(error) => {
                note(&helper.health, error);
                0
            }
        };
        if let Some(acknowledged) = &helper.acknowledged {
            acknowledged.size(size_of(&helper.path));
        }
        if report.send(pages).is_err() {
            return;
        }
    }
}

/// Runs a passive checkpoint, which does not block readers or the writer, and returns how many pages of the log are in
/// the database. It reads a header that the writer may be changing at that moment; SQLite then reports the database as
/// locked without waiting, so it is tried again.
pub(super) fn passive_checkpoint(connection: &Connection) -> rusqlite::Result<u32> {
    let mut tries = 0;
    loop {
        match connection.wal_checkpoint_v2(DEFAULT_NAME, CheckpointMode::PASSIVE) {
            Ok((_, pages)) => return Ok(u32::try_from(pages).unwrap_or(0)),
            Err(error) if tries < TRIES_MAX && error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
                tries += 1;
                thread::sleep(MOMENT);
            }
            Err(error) => return Err(error),
        }
    }
}

/// A checkpoint that failed for lack of room or because of a lock is tried again later; an I/O error fails the store.
fn note(health: &Health, error: rusqlite::Error) {
    let error = health.judge(Failure::Sqlite(error), Moment::Writing);
    tracing::warn!(%error, "the write-ahead log could not be copied into the database");
}
