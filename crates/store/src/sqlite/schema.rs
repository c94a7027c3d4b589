//! The tables, and the migrations of older files.
//!
//! Migrations are numbered and never change once released. Each is recorded with a checksum, so that a file made by an
//! unknown version is detected.

use punctual_failpoint::{Point, hit};
use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::failure::Failure;
use crate::Error;
use crate::migrations::{self, checksum, version};

/// The schema of a file: its migrations in order, and the application id in its header.
pub(super) struct Schema {
    pub(super) application_id: i32,
    migrations: &'static [&'static str],
}

/// "PNCT"
pub(super) const STATE: Schema =
    Schema { application_id: 0x504e_4354, migrations: &[include_str!("migrations/0001.sql")] };
/// "PNCL"
pub(super) const LOGS: Schema =
    Schema { application_id: 0x504e_434c, migrations: &[include_str!("migrations/logs/0001.sql")] };

const MAKE_TABLE: &str =
    "CREATE TABLE IF NOT EXISTS schema (version INTEGER PRIMARY KEY, checksum TEXT NOT NULL) STRICT";
const ALL: &str = "SELECT version, checksum FROM schema ORDER BY version";
const ADD: &str = "INSERT INTO schema (version, checksum) VALUES (?1, ?2)";
const IS_EMPTY: &str = "SELECT count(*) = 0 FROM sqlite_schema";

impl Schema {
    /// Applies missing migrations in one transaction, and calls `first` in it if the file was new.
    pub(super) fn migrate(
        &self,
        connection: &mut Connection,
        first: impl FnOnce(&Transaction<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        hit(Point::SqliteMigrateBegun);
        let is_new = self.claim(&transaction)?;
        transaction.execute_batch(MAKE_TABLE)?;
        let done = self.check(&transaction)?;
        for (index, sql) in self.migrations.iter().enumerate().skip(done) {
            transaction.execute_batch(sql)?;
            transaction.execute(ADD, (version(index), checksum(sql)))?;
        }
        if is_new {
            first(&transaction)?;
        }
        hit(Point::SqliteMigrateMade);
        transaction.commit()?;
        hit(Point::SqliteMigrateDone);
        Ok(())
    }

    /// Refuses a file that is not Punctual's, or was made by a newer version.
    pub(super) fn check_file(&self, connection: &Connection) -> Result<(), Failure> {
        let id: i32 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
        if id != self.application_id {
            return Err(not_ours());
        }
        self.check(connection).map(|_| ())
    }

    /// Returns true if the file was new; it has the application id now.
    fn claim(&self, transaction: &Transaction<'_>) -> Result<bool, Failure> {
        let id: i32 = transaction.pragma_query_value(None, "application_id", |row| row.get(0))?;
        if id == self.application_id {
            return Ok(false);
        }
        let is_empty: bool = transaction.query_row(IS_EMPTY, [], |row| row.get(0))?;
        if id != 0 || !is_empty {
            return Err(not_ours());
        }
        transaction.pragma_update(None, "application_id", self.application_id)?;
        Ok(true)
    }

    /// How many migrations the file has had. An unknown migration is an error.
    fn check(&self, connection: &Connection) -> Result<usize, Failure> {
        let mut statement = connection.prepare(ALL)?;
        let rows = statement.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))?;
        let had = rows.collect::<rusqlite::Result<Vec<_>>>()?;
        // The caller puts the name of the file before it.
        Ok(migrations::check("it", self.migrations, &had)?)
    }
}

fn not_ours() -> Failure {
    Error::Unusable("it is a database, but not one of Punctual's".to_owned()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn migrated(connection: &mut Connection) -> Result<bool, String> {
        let mut was_new = false;
        let result = STATE.migrate(connection, |_| {
            was_new = true;
            Ok(())
        });
        match result {
            Ok(()) => Ok(was_new),
            Err(Failure::Store(error)) => Err(error.to_string()),
            Err(Failure::Sqlite(error)) => Err(error.to_string()),
        }
    }

    #[test]
    fn a_file_is_new_once() {
        let mut connection = Connection::open_in_memory().unwrap();
        assert_eq!(migrated(&mut connection), Ok(true));
        assert_eq!(migrated(&mut connection), Ok(false));
    }

    #[test]
    fn a_file_of_a_newer_version_is_refused() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrated(&mut connection).unwrap();
        let newer = version(STATE.migrations.len());
        connection.execute(ADD, (newer, "something new")).unwrap();
        assert!(migrated(&mut connection).unwrap_err().contains("newer version"));
    }

    #[test]
    fn a_file_from_before_the_first_release_is_refused() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrated(&mut connection).unwrap();
        connection.execute("UPDATE schema SET checksum = 'older'", []).unwrap();
        connection.execute(ADD, (2, "older")).unwrap();
        assert!(migrated(&mut connection).unwrap_err().contains("another build"));
    }

    #[test]
    fn a_stranger_s_database_is_left_alone() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE theirs (a)").unwrap();
        assert!(migrated(&mut connection).unwrap_err().contains("not one of Punctual's"));
    }
}
