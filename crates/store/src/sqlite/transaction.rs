//! A transaction: all or nothing. After any error the connection is ready for the next one.

use rusqlite::Connection;

use super::failure::{Failure, Health, Moment};
use super::queries;
use crate::Result;

/// Calls `hold` just before the commit, for example to take a lock that lasts beyond it.
pub(super) fn transact<T, H>(
    connection: &mut Connection,
    health: &Health,
    work: impl FnOnce(&mut Connection) -> Result<T, Failure>,
    hold: impl FnOnce(&T) -> H,
) -> Result<(T, H)> {
    health.check()?;
    let written = step(connection, queries::BEGIN).and_then(|()| work(connection));
    let result = match written.map_err(|failure| health.judge(failure, Moment::Writing)) {
        Ok(value) => {
            let held = hold(&value);
            match step(connection, queries::COMMIT) {
                Ok(()) => Ok((value, held)),
                Err(failure) => Err(health.judge(failure, Moment::Committing)),
            }
        }
        Err(error) => Err(error),
    };
    if result.is_err() {
        roll_back(connection, health);
    }
    result
}

fn roll_back(connection: &Connection, health: &Health) {
    // After some errors SQLite has already rolled back.
    if connection.is_autocommit() {
        return;
    }
    if let Err(failure) = step(connection, queries::ROLLBACK) {
        let error = health.judge(failure, Moment::Writing);
        health.fail(&format!("a transaction could not be rolled back: {error}"));
    }
}

/// A statement without parameters; its rows are not read.
pub(super) fn step(connection: &Connection, sql: &str) -> Result<(), Failure> {
    connection.prepare_cached(sql)?.query([])?.next()?;
    Ok(())
}
