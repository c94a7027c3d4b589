//! The tables, and the migrations of older databases.
//!
//! DDL is not transactional here: a migration may stop in the middle. So nodes migrate one at a time, under a named
//! lock, and every statement of a migration can be repeated.

use punctual_core::hash;
use punctual_failpoint::{Point, hit};

use super::connection::MysqlConnection;
use super::failure::Failure;
use super::packets::{int, put, put_list};
use super::queries;
use crate::sql::value::Row;
use crate::{Error, Result, migrations};

const MIGRATIONS: [&str; 1] = [include_str!("migrations/0001.sql")];

/// How long another node may take to migrate.
const LOCK_MAX_SECONDS: u32 = 20;

const TABLES: &str = "SELECT COUNT(*), SUM(table_name = 'punctual_schema') FROM information_schema.tables \
     WHERE table_schema = DATABASE()";
const MAKE_TABLE: &str = "CREATE TABLE IF NOT EXISTS punctual_schema (version BIGINT NOT NULL PRIMARY KEY, \
     checksum VARCHAR(64) NOT NULL) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin";
const ALL: &str = "SELECT version, checksum FROM punctual_schema ORDER BY version";
const ADD: &str = "INSERT INTO punctual_schema (version, checksum) VALUES (?, ?)";

/// Applies missing migrations, makes the shards of a new database, and returns their number.
pub(super) async fn migrate(
    connection: &mut MysqlConnection,
    database: &str,
    shards: u16,
) -> Result<u16, Failure> {
    let lock = format!("punctual:{:016x}:schema", hash::stable(&[database.as_bytes()]));
    let locked = connection.row("SELECT GET_LOCK(?, ?)", (&lock, LOCK_MAX_SECONDS)).await?;
    if locked.map(|row| row.int_or_none(0)).transpose()?.flatten() != Some(1) {
        let why = "another node has been bringing the database up to date for too long: look at it, then start again";
        return Err(Error::Unusable(why.to_owned()).into());
    }
    let migrated = migrate_alone(connection, database, shards).await;
    // When the connection ends, the server releases the lock.
    if !matches!(&migrated, Err(failure) if failure.ends_connection()) {
        connection.row("SELECT RELEASE_LOCK(?)", (&lock,)).await?;
    }
    migrated
}

async fn migrate_alone(
    connection: &mut MysqlConnection,
    database: &str,
    shards: u16,
) -> Result<u16, Failure> {
    claim(connection).await?;
    let mut had = Vec::new();
    for row in connection.rows(ALL, ()).await? {
        let row: &dyn Row = &row;
        had.push((row.int(0)?, row.text(1)?.to_owned()));
    }
    let done = migrations::check(&migrations::store_in(database), &MIGRATIONS, &had)?;
    for (index, migration) in MIGRATIONS.iter().enumerate().skip(done) {
        for statement in statements(migration) {
            connection.step(statement).await?;
            hit(Point::MysqlMigrateStatement);
        }
        hit(Point::MysqlMigrateMade);
        let step = (migrations::version(index), migrations::checksum(migration));
        connection.execute(ADD, step).await?;
    }
    let count = connection.row(queries::shards::COUNT, ()).await?;
    match count.map_or(Ok(0), |row| (&row as &dyn Row).number(0))? {
        0 => {
            make_shards(connection, shards).await?;
            hit(Point::MysqlMigrateDone);
            Ok(shards)
        }
        made => Ok(made),
    }
}

/// Claims an empty database; refuses one that has only the tables of other programs.
async fn claim(connection: &mut MysqlConnection) -> Result<(), Failure> {
    let tables = connection.row(TABLES, ()).await?;
    let (tables, ours) = match &tables {
        Some(row) => ((row as &dyn Row).int(0)?, row.int_or_none(1)?.unwrap_or(0)),
        None => (0, 0),
    };
    if tables > 0 && ours == 0 {
        let why = "the database has tables, but they are not Punctual's: give it a database of its own";
        return Err(Error::Unusable(why.to_owned()).into());
    }
    connection.step(MAKE_TABLE).await
}

/// All shards or none: each table is one statement, and the rows of `shards`, which decide, come last.
async fn make_shards(connection: &mut MysqlConnection, shards: u16) -> Result<(), Failure> {
    let mut pruned = b"INSERT IGNORE INTO pruned (shard, history_runs) VALUES ".to_vec();
    put_list(&mut pruned, 0..shards, |sql, shard| {
        put(sql, "(");
        int(sql, shard);
        put(sql, ", 0)");
    });
    connection.text(pruned).await?;
    hit(Point::MysqlMigrateShards);
    let mut made = b"INSERT INTO shards (shard, epoch, commit_no, last_id) VALUES ".to_vec();
    put_list(&mut made, 0..shards, |sql, shard| {
        put(sql, "(");
        int(sql, shard);
        put(sql, ", 0, 0, 0)");
    });
    connection.text(made).await?;
    Ok(())
}

/// The statements of a migration: each ends with a semicolon at the end of a line.
fn statements(migration: &str) -> impl Iterator<Item = &str> {
    let statements = migration.split(";\n").map(|statement| {
        let mut rest = statement.trim();
        while let Some(after) = rest.strip_prefix("--") {
            rest = after.split_once('\n').map_or("", |(_, after)| after).trim_start();
        }
        rest
    });
    statements.filter(|statement| !statement.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_migration_is_statements_that_may_be_sent_again() {
        for migration in MIGRATIONS {
            for statement in statements(migration) {
                let again = ["CREATE TABLE IF NOT EXISTS ", "INSERT IGNORE INTO "];
                assert!(again.iter().any(|head| statement.starts_with(head)), "{statement}");
            }
        }
        let split: Vec<&str> = statements("-- one; two\n-- three\nA (\n a;b);\n\n-- x\nB;\n").collect();
        assert_eq!(split, ["A (\n a;b)", "B"]);
    }
}
