//! The only writer: every change of the state goes through its connection, one transaction at a time.
//!
//! Sqlite ──batches──▶ writer ──rows──▶ changes
//!                       ├──▶ message_log     messages that are not rows yet
//!                       ├──▶ acknowledged    the number of acknowledged commits
//!                       └──▶ checkpoint      when the write-ahead log has grown

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use punctual_core::change::Batch;
use punctual_core::ids::{Epoch, SessionId, ShardId};
use punctual_failpoint::{Point, hit};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OptionalExtension};

use super::acknowledged::AcknowledgedFile;
use super::changes::{RowsThrough, Statements};
use super::checkpoint::Checkpoints;
use super::connection::count_wal_pages;
use super::failure::{Failure, Health, Moment};
use super::message_log::{Shared, Staged};
use super::queries::shards;
use super::session::Session;
use super::transaction::transact;
use crate::definitions::Definitions;
use crate::{Claim, Result};

pub(super) struct Writer {
    /// First, so that the helper's connection closes before this one: the last connection to close empties the log.
    checkpoints: Checkpoints,
    connection: Connection,
    health: Arc<Health>,
    /// `None` with relaxed durability, which may lose commits.
    acknowledged: Option<Arc<AcknowledgedFile>>,
    /// Commits and acquisitions so far, over all shards.
    commits: u64,
    /// Pages in the write-ahead log after the last commit.
    wal_pages: Arc<AtomicU32>,
    log: Shared,
    rows_through: RowsThrough,
    definitions: Arc<Mutex<Definitions>>,
}

impl Writer {
    pub(super) fn new(
        mut connection: Connection,
        health: Arc<Health>,
        acknowledged: Option<Arc<AcknowledgedFile>>,
        commits: u64,
        checkpoints: Checkpoints,
        log: Shared,
    ) -> Result<Writer, Failure> {
        let wal_pages = count_wal_pages(&mut connection)?;
        let rows_through = RowsThrough::load(&connection)?;
        Ok(Writer {
            checkpoints,
            connection,
            health,
            acknowledged,
            commits,
            wal_pages,
            log,
            definitions: Arc::default(),
            rows_through,
        })
    }

    pub(super) fn commit(&mut self, batches: &[Batch]) -> Result<()> {
        let Writer { connection, health, log, rows_through, .. } = self;
        let write = |connection: &mut Connection| {
            hit(Point::SqliteCommitBegun);
            let log = log.read();
            let mut statements = Statements::new(connection, &log, rows_through);
            let written = batches.iter().try_for_each(|batch| statements.write(batch));
            let staged = written.and_then(|()| statements.finish());
            hit(Point::SqliteCommitWritten);
            staged
        };
        // Readers of messages see the log and the rows as of one commit; no other reader waits for the lock.
        let hold = |staged: &Staged| (!staged.is_empty()).then(|| log.write());
        if let (staged, Some(mut log)) = transact(connection, health, write, hold)? {
            log.apply(staged);
        }
        self.after_commit();
        hit(Point::SqliteCommitCommitted);
        self.acknowledge(batches.len());
        hit(Point::SqliteCommitAcknowledged);
        Ok(())
    }

    /// Makes new epochs. The writer runs it after every commit of the older ones, so the load that follows sees them.
    pub(super) fn acquire(
        &mut self,
        by: Option<SessionId>,
        claims: &[Claim],
    ) -> Result<Vec<(ShardId, Epoch)>> {
        let acquired = self.transact(|session| {
            session.own(|connection| {
                let mut statement = connection.prepare_cached(shards::ACQUIRE)?;
                let mut acquired = Vec::with_capacity(claims.len());
                for Claim { shard, expected_epoch } in claims {
                    let params = (shard.0, expected_epoch.map(|epoch| epoch.0), by.map(|session| session.0));
                    let epoch = statement.query_row(params, |row| row.get(0)).optional()?;
                    acquired.extend(epoch.map(|epoch| (*shard, Epoch(epoch))));
                }
                hit(Point::SqliteAcquireWritten);
                Ok(acquired)
            })
        })?;
        hit(Point::SqliteAcquireCommitted);
        self.acknowledge(acquired.len());
        Ok(acquired)
    }

    pub(super) fn transact<T>(&mut self, work: impl FnOnce(&mut Session<'_>) -> Result<T>) -> Result<T> {
        let Writer { connection, health, definitions, .. } = self;
        let work = |connection: &mut Connection| {
            Ok(work(&mut Session { connection, health, moment: Moment::Writing, definitions })?)
        };
        let (value, ()) = transact(connection, health, work, |_| ())?;
        self.after_commit();
        Ok(value)
    }

    fn after_commit(&mut self) {
        self.checkpoints.after_commit(&self.connection, self.wal_pages.load(Ordering::Relaxed));
    }

    #[cfg(test)]
    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    fn acknowledge(&mut self, commits: usize) {
        self.commits += commits as u64;
        if let Some(acknowledged) = &self.acknowledged {
            acknowledged.commits(self.commits);
        }
    }
}

impl Drop for Writer {
    /// After a failure, the log is kept: the next start reads what the disk really holds.
    fn drop(&mut self) {
        if self.health.check().is_err()
            && let Err(error) =
                self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
        {
            tracing::warn!(%error, "the write-ahead log may be copied into the database although the store has failed");
        }
    }
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("commits", &self.commits).finish_non_exhaustive()
    }
}
