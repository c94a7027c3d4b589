//! The tables, and the migrations of older databases.
//!
//! The tables are in a schema of their own, so that the database may be shared with other programs. An advisory lock
//! serialises nodes that start at the same time.

use punctual_failpoint::{Point, hit};

use super::connection::{PgConnection, request};
use super::failure::Failure;
use crate::migrations::{self, checksum, version};
use crate::sql::value::Row;
use crate::{Error, Result};

const MIGRATIONS: &[&str] = &[include_str!("migrations/0001.sql")];

/// "PUNCTUAL": the advisory lock that is held during a migration.
const LOCK_ID: i64 = 0x50_55_4e_43_54_55_41_4c;

const LOCK: &str = "SELECT pg_advisory_xact_lock($1::int8)";
const HAVE_SCHEMA: &str = "SELECT count(*) FROM pg_namespace WHERE nspname = 'punctual'";
const HAVE_TABLE: &str = "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
     WHERE n.nspname = 'punctual' AND c.relname = 'schema'";
const ALL: &str = "SELECT version, checksum FROM punctual.schema ORDER BY version";
const ADD: &str = "INSERT INTO punctual.schema (version, checksum) VALUES ($1::int8, $2::text)";
const MAKE_SHARDS: &str = "INSERT INTO punctual.shards (shard) SELECT generate_series(0, $1::int8 - 1)";
const MAKE_PRUNED: &str = "INSERT INTO punctual.pruned (shard) SELECT generate_series(0, $1::int8 - 1)";
const COUNT: &str = "SELECT count(*) FROM punctual.shards";

/// Applies missing migrations in one transaction, and returns the number of shards.
pub(super) async fn migrate(connection: &mut PgConnection, database: &str, shards: u16) -> Result<u16> {
    connection.batch("BEGIN").await.map_err(Failure::writing)?;
    connection.is_busy = true;
    connection.ask(request!(LOCK, LOCK_ID)).await.map_err(Failure::writing)?;
    hit(Point::PostgresMigrateBegun);
    if count(connection, HAVE_SCHEMA).await? == 0 {
        connection.batch("CREATE SCHEMA punctual").await.map_err(Failure::writing)?;
    }
    connection.batch("SET LOCAL search_path = punctual").await.map_err(Failure::writing)?;
    let is_new = count(connection, HAVE_TABLE).await? == 0;
    if is_new {
        connection
            .batch("CREATE TABLE schema (version int8 PRIMARY KEY, checksum text NOT NULL)")
            .await
            .map_err(Failure::writing)?;
    }
    let done = had(connection, database).await?;
    for (index, sql) in MIGRATIONS.iter().enumerate().skip(done) {
        connection.batch(sql).await.map_err(Failure::writing)?;
        connection.ask(request!(ADD, version(index), checksum(sql))).await.map_err(Failure::writing)?;
    }
    if is_new {
        for sql in [MAKE_SHARDS, MAKE_PRUNED] {
            connection.ask(request!(sql, i64::from(shards))).await.map_err(Failure::writing)?;
        }
    }
    let shards = count(connection, COUNT).await?;
    hit(Point::PostgresMigrateMade);
    connection.batch("COMMIT").await.map_err(Failure::committing)?;
    hit(Point::PostgresMigrateDone);
    u16::try_from(shards).map_err(|_| Error::Unusable(format!("the store has {shards} shards")))
}

/// How many migrations the database has had. An unknown migration is an error.
async fn had(connection: &mut PgConnection, database: &str) -> Result<usize> {
    let answer = connection.ask(request!(ALL)).await.map_err(Failure::writing)?;
    let rows = answer.rows.iter().map(|row| row as &dyn Row);
    let had = rows.map(|row| Ok((row.int(0)?, row.text(1)?.to_owned())));
    migrations::check(&migrations::store_in(database), MIGRATIONS, &had.collect::<Result<Vec<_>>>()?)
}

async fn count(connection: &mut PgConnection, sql: &'static str) -> Result<i64> {
    let answer = connection.ask(request!(sql)).await.map_err(Failure::writing)?;
    answer.rows.first().map_or(Ok(0), |row| (row as &dyn Row).int(0))
}
