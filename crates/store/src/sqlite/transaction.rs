//! A transaction: all or nothing, and whatever goes wrong, the connection is ready for the next.

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

/// The same with something in hand from the moment before the commit on, such as a lock.
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
    // Some errors roll back by themselves.
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
