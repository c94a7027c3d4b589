//! Readers: each answer comes from one snapshot, while the writer goes on.

use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::Connection;

use super::failure::{Health, Moment};
use super::message_log::{Guard, Shared};
use super::queries;
use super::session::Session;
use super::transaction::step;
use crate::Result;
use crate::definitions::Definitions;

pub(super) struct Reader {
    connection: Connection,
    health: Arc<Health>,
    definitions: Arc<Mutex<Definitions>>,
}

impl Reader {
    pub(super) fn new(connection: Connection, health: Arc<Health>) -> Reader {
        Reader { connection, health, definitions: Arc::default() }
    }

    pub(super) fn read<T>(&mut self, work: impl FnOnce(&mut Session<'_>) -> Result<T>) -> Result<T> {
        let Reader { connection, health, definitions } = self;
        let begun = step(connection, queries::BEGIN_READING);
        let result = begun
            .map_err(|failure| health.judge(failure, Moment::Reading))
            .and_then(|()| work(&mut Session { connection, health, moment: Moment::Reading, definitions }));
        if !connection.is_autocommit()
            && let Err(failure) = step(connection, queries::ROLLBACK)
        {
            tracing::warn!(?failure, "a snapshot could not be released");
        }
        result
    }

    /// Like `read`, with the messages of the log as of the same commit.
    pub(super) fn read_with<T>(
        &mut self,
        log: &Shared,
        work: impl FnOnce(&mut Session<'_>, Guard<'_>) -> Result<T>,
    ) -> Result<T> {
        self.read(|session| {
            let log = log.read();
            session.judged(step(session.connection, queries::PIN))?;
            work(session, log)
        })
    }
}
