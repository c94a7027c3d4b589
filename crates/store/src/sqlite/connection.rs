//! Opens a connection: sets its limits and checks its durability.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::failure::{Failure, Health, Moment};
use crate::{Durability, Error, Result};

/// The first SQLite version whose write-ahead log loses nothing when two connections checkpoint at once.
const VERSION_MIN: i32 = 3_051_003;
/// How long to wait for a lock that another program may hold for a moment.
pub(super) const BUSY_MAX: Duration = Duration::from_secs(5);
/// More than the number of our queries, so that each is compiled only once.
const STATEMENTS_MAX: usize = 128;
/// A write-ahead log that grew larger is truncated to this.
const WAL_BYTES_KEPT: i64 = 64 * 1024 * 1024;

/// SQLite's name and number for `PRAGMA synchronous`.
fn level(durability: Durability) -> (&'static str, i64) {
    match durability {
        Durability::Full => ("FULL", 2),
        Durability::Relaxed => ("NORMAL", 1),
    }
}

/// What a connection is for: it decides the size of its page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Write,
    /// Written once, never changed, seldom read.
    Append,
    Read,
}

impl Use {
    /// In KiB. The writer's holds the inner pages of a store of ten million rows; a reader relies on the system's page
    /// cache.
    fn cache(self) -> i64 {
        match self {
            Use::Write => 32 * 1024,
            Use::Append | Use::Read => 4 * 1024,
        }
    }
}

pub(super) fn check_version() -> Result<()> {
    if rusqlite::version_number() >= VERSION_MIN {
        return Ok(());
    }
    let version = rusqlite::version();
    Err(Error::Unusable(format!(
        "SQLite {version} is too old to be trusted with the store: 3.51.3 is needed"
    )))
}

pub(super) fn open(path: &Path, what_for: Use, durability: Durability) -> Result<Connection> {
    let connection = prepare(path, what_for, durability).map_err(|failure| explain(path, failure))?;
    check_durability(&connection, durability).map_err(|failure| explain(path, failure))?;
    Ok(connection)
}

fn prepare(path: &Path, what_for: Use, durability: Durability) -> Result<Connection, Failure> {
    let create = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let connection = Connection::open_with_flags(path, create | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY_MAX)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    // Plans do not depend on the values of parameters. Otherwise SQLite compiles a statement with `LIMIT ?` again each
    // time it is used.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", level(durability).0)?;
    // A negative size is in KiB rather than pages.
    connection.pragma_update(None, "cache_size", -what_for.cache())?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update_and_check(None, "journal_size_limit", WAL_BYTES_KEPT, |_| Ok(()))?;
    if what_for == Use::Read {
        connection.pragma_update(None, "query_only", true)?;
    }
    Ok(connection)
}

/// Reads the settings back: a file system without shared memory, for example, turns the log off without an error.
pub(super) fn check_durability(connection: &Connection, wanted: Durability) -> Result<(), Failure> {
    let journal: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
    if !journal.eq_ignore_ascii_case("wal") {
        let what = format!("SQLite keeps its journal as `{journal}`, not as a write-ahead log");
        return Err(Error::Unusable(format!("the store would not be durable: {what}")).into());
    }
    let synchronous: i64 = connection.pragma_query_value(None, "synchronous", |row| row.get(0))?;
    let (name, number) = level(wanted);
    if synchronous < number {
        let what = format!("SQLite has synchronous = {synchronous}, {name} ({number}) is needed");
        return Err(Error::Unusable(format!("the store would not be durable: {what}")).into());
    }
    Ok(())
}

/// The number of pages in the write-ahead log after the last commit. The hook also turns off SQLite's own checkpoints,
/// which would pause the writer, collide with the helper's and hide their errors.
pub(super) fn count_wal_pages(connection: &mut Connection) -> rusqlite::Result<Arc<AtomicU32>> {
    let pages_seen = Arc::new(AtomicU32::new(0));
    let seen = Arc::clone(&pages_seen);
    connection.wal_hook(Some(move |_: &mut _, pages| {
        seen.store(u32::try_from(pages).unwrap_or(0), Ordering::Relaxed);
        Ok(())
    }))?;
    Ok(pages_seen)
}

/// Adds the file name to an error.
pub(super) fn explain(path: &Path, failure: Failure) -> Error {
    match Health::default().judge(failure, Moment::Reading) {
        Error::Full(why) => Error::Full(format!("there is no room to open `{}`: {why}", path.display())),
        Error::Unreachable(why) => Error::Unusable(format!("`{}` cannot be opened: {why}", path.display())),
        Error::Unusable(why) => Error::Unusable(format!("`{}`: {why}", path.display())),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(dir: &tempfile::TempDir, durability: Durability) -> Connection {
        open(&dir.path().join("a.db"), Use::Write, durability).unwrap()
    }

    fn refusal(connection: &Connection, wanted: Durability) -> String {
        match check_durability(connection, wanted) {
            Err(Failure::Store(error)) => error.to_string(),
            other => panic!("it was taken: {other:?}"),
        }
    }

    #[test]
    fn a_weaker_setting_than_asked_for_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let connection = opened(&dir, Durability::Full);
        assert!(check_durability(&connection, Durability::Full).is_ok());
        connection.pragma_update(None, "synchronous", "OFF").unwrap();
        for wanted in [Durability::Full, Durability::Relaxed] {
            assert!(refusal(&connection, wanted).contains("synchronous = 0"));
        }
        connection.pragma_update(None, "synchronous", "NORMAL").unwrap();
        assert!(refusal(&connection, Durability::Full).contains("would not be durable"));
        assert!(check_durability(&connection, Durability::Relaxed).is_ok());
    }

    #[test]
    fn a_journal_that_is_no_write_ahead_log_is_refused() {
        let connection = Connection::open_in_memory().unwrap();
        assert!(refusal(&connection, Durability::Full).contains("write-ahead log"));
    }

    #[test]
    fn the_bundled_sqlite_is_new_enough() {
        check_version().unwrap();
    }
}
