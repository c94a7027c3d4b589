//! A transaction: all or nothing. After any error the connection is ready for the next one.

use rusqlite::Connection;

use super::failure::{Failure, Health, Moment};
use super::queries;
use crate::Result;

pub(super) fn transact<T>(
    connection: &Connection,
    health: &Health,
    work: impl FnOnce() -> Result<T, Failure>,
) -> Result<T> {
    transact_holding(connection, health, work, |_| ()).map(|(value, ())| value)
}

/// Like `transact`, and calls `hold` just before the commit, for example to take a lock that lasts beyond it.
pub(super) fn transact_holding<T, H>(
    connection: &Connection,
    health: &Health,
    work: impl FnOnce() -> Result<T, Failure>,
    hold: impl FnOnce(&T) -> H,
) -> Result<(T, H)> {
    health.check()?;
    let written = step(connection, queries::BEGIN).and_then(|()| work());
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

/// A statement without parameters or rows.
pub(super) fn step(connection: &Connection, sql: &str) -> Result<(), Failure> {
    connection.prepare_cached(sql)?.execute([])?;
    Ok(())
}
