//! Opens a store: locks it, checks it, migrates it, and starts its threads.

use std::path::Path;
use std::sync::Arc;

use parking_lot::RwLock;
use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::acknowledged::{self, Acknowledged, AcknowledgedFile, SizeAtClose};
use super::checkpoint::{self, Helper};
use super::connection::{self, Use, explain};
use super::failure::{Failure, Health};
use super::folder::{self, Folder, Lock};
use super::logs::LogWriter;
use super::message_log::MessageLog;
use super::reader::Reader;
use super::worker_thread::Threads;
use super::writer::Writer;
use super::{Options, Sqlite, queries, schema};
use crate::address::check_shards;
use crate::sql::backend::Facts;
use crate::{Durability, Error, Result};

/// Readers for the endpoints: two, because one may be busy with a long listing.
const ENDPOINT_READERS: usize = 2;

impl Sqlite {
    /// Opens the store in a folder, and creates it if there is none. Blocks until every acknowledged commit is
    /// recovered.
    pub fn open(dir: &Path, options: Options) -> Result<Sqlite> {
        connection::check_version()?;
        let folder = Folder::make(dir)?;
        let lock = Lock::take(&folder)?;
        let durability = options.durability;
        let (health, log_health) = (Arc::new(Health::default()), Arc::new(Health::default()));

        let (connection, total, log) = open_state(&folder, options)?;
        let acknowledged = acknowledged_file(&folder, total, durability)?;
        let size_at_close = SizeAtClose { file: acknowledged.clone(), path: folder.state() };
        let state = |what_for| connection::open(&folder.state(), what_for, durability);
        let helper = Helper {
            connection: state(Use::Read)?,
            path: folder.state(),
            health: Arc::clone(&health),
            acknowledged: acknowledged.clone(),
        };
        let checkpoints = checkpoint::start(helper)?;
        let log = Arc::new(RwLock::new(log));
        let writer = Writer::new(
            connection,
            Arc::clone(&health),
            acknowledged,
            total.commits,
            checkpoints,
            Arc::clone(&log),
        )
        .map_err(|failure| explain(&folder.state(), failure))?;
        let reader = || Ok(Reader::new(state(Use::Read)?, Arc::clone(&health)));
        let endpoint_readers = (0..ENDPOINT_READERS).map(|_| reader()).collect::<Result<_>>()?;

        // Output is not state: losing the last of it is allowed, so no sync is waited for.
        let logs = |what_for| connection::open(&folder.logs(), what_for, Durability::Relaxed);
        let (log_syncer, log_writer) =
            LogWriter::start(open_logs(&folder)?, logs(Use::Read)?, Arc::clone(&log_health))?;
        let log_reader = Reader::new(logs(Use::Read)?, log_health);

        Ok(Sqlite {
            facts: Facts::new(total.shards, options.shards, durability),
            message_log: log,
            #[cfg(test)]
            health: Arc::clone(&health),
            leader: Threads::start("leader", vec![reader()?])?,
            endpoints: Threads::start("endpoints", endpoint_readers)?,
            log_reader: Threads::start("log-reader", vec![log_reader])?,
            log_writer: Threads::start("log-writer", vec![log_writer])?,
            _log_syncer: log_syncer,
            writer: Threads::start("writer", vec![writer])?,
            _size: size_at_close,
            _lock: lock,
            folder,
        })
    }
}

/// Totals over the shard rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Total {
    pub(super) shards: u16,
    pub(super) commits: u64,
}

fn open_state(folder: &Folder, options: Options) -> Result<(Connection, Total, MessageLog)> {
    check_shards(options.shards)?;
    let acknowledged = Acknowledged::read(folder).unwrap_or_default();
    acknowledged.check_size(folder)?;
    let path = folder.state();
    folder::make_private(&path)?;
    let mut connection = connection::open(&path, Use::Write, options.durability)?;
    let explained = |failure| explain(&path, failure);
    // A refused store stays unmodified: its write-ahead log may hold the only copy of the last commits.
    keep_log(&connection, true).map_err(explained)?;
    acknowledged.check_commits(commits(&connection).map_err(explained)?, folder)?;
    let total = set_up(&mut connection, options.shards).map_err(explained)?;
    let log = MessageLog::load(&connection).map_err(explained)?;
    keep_log(&connection, false).map_err(explained)?;
    Ok((connection, total, log))
}

/// Whether closing the connection leaves the write-ahead log in place, without a checkpoint.
fn keep_log(connection: &Connection, keep: bool) -> Result<(), Failure> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep)?;
    Ok(())
}

/// How many commits the file has; 0 if it has no tables.
pub(super) fn commits(connection: &Connection) -> Result<u64, Failure> {
    let has_tables: bool = connection.query_row(queries::shards::HAVE_TABLE, [], |row| row.get(0))?;
    if has_tables { total(connection).map(|total| total.commits) } else { Ok(0) }
}

fn set_up(connection: &mut Connection, shards: u16) -> Result<Total, Failure> {
    schema::STATE.migrate(connection, |transaction| {
        for sql in [queries::shards::INSERT, queries::shards::INSERT_PRUNED] {
            let mut statement = transaction.prepare(sql)?;
            (0..shards).try_for_each(|shard| statement.execute([shard]).map(|_| ()))?;
        }
        Ok(())
    })?;
    total(connection)
}

fn total(connection: &Connection) -> Result<Total, Failure> {
    Ok(connection.query_row(queries::shards::TOTAL, [], |row| {
        Ok(Total { shards: row.get(0)?, commits: row.get::<_, i64>(1)?.cast_unsigned() })
    })?)
}

/// What the next start checks the store against. `None` with relaxed durability, which may lose commits.
fn acknowledged_file(
    folder: &Folder,
    total: Total,
    durability: Durability,
) -> Result<Option<Arc<AcknowledgedFile>>> {
    if durability == Durability::Relaxed {
        AcknowledgedFile::remove(folder)?;
        return Ok(None);
    }
    let at_least = Acknowledged { commits: total.commits, size: acknowledged::size_of(&folder.state()) };
    AcknowledgedFile::open(folder, at_least).map(|file| Some(Arc::new(file)))
}

fn open_logs(folder: &Folder) -> Result<Connection> {
    let path = folder.logs();
    folder::make_private(&path)?;
    let connection = connection::open(&path, Use::Append, Durability::Relaxed).and_then(|mut connection| {
        let migrated = schema::LOGS.migrate(&mut connection, |_| Ok(()));
        migrated.map(|()| connection).map_err(|failure| explain(&path, failure))
    });
    connection.map_err(|error| match error {
        // This file holds no state, so the message offers a way out without a restore.
        Error::Unusable(why) => Error::Unusable(format!(
            "{why}; it holds only the output of attempts, so it may also be moved away"
        )),
        other => other,
    })
}
