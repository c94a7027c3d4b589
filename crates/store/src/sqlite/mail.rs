//! Mail. Only one process uses the folder, so this only fulfils the store's contract.

use std::time::Duration;

use punctual_core::ids::SessionId;
use rusqlite::Row;

use super::failure::Failure;
use super::queries::{mail, sessions};
use super::writer::Writer;
use crate::Result;
use crate::mail::{Mail, Place};

impl Writer {
    pub(super) fn send_mail(&mut self, all: &[Mail], kept: Duration) -> Result<()> {
        self.transact(|connection, _| {
            let now: i64 = connection.prepare_cached(sessions::NOW)?.query_row([], |row| row.get(0))?;
            let oldest = now.saturating_sub(i64::try_from(kept.as_millis()).unwrap_or(i64::MAX));
            connection.prepare_cached(mail::DROP_OLD)?.execute([oldest])?;
            let mut send = connection.prepare_cached(mail::SEND)?;
            for Mail { to, from, number, body } in all {
                send.execute((to.0, from.0, number, now, body))?;
            }
            Ok(())
        })
    }

    pub(super) fn receive_mail(&mut self, to: SessionId, taken: &[Place], limit: usize) -> Result<Vec<Mail>> {
        self.transact(|connection, _| {
            let mut take = connection.prepare_cached(mail::TAKE)?;
            for Place { from, number } in taken {
                take.execute((to.0, from.0, number))?;
            }
            let mut receive = connection.prepare_cached(mail::RECEIVE)?;
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let found = receive.query_and_then((to.0, limit), |row| read(row, to))?;
            found.collect()
        })
    }
}

fn read(row: &Row<'_>, to: SessionId) -> Result<Mail, Failure> {
    Ok(Mail { to, from: SessionId(row.get(0)?), number: row.get(1)?, body: row.get(2)? })
}
