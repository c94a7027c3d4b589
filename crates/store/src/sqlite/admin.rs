//! The values that the cluster agreed on, and its tokens.

use punctual_core::Timestamp;
use rusqlite::Row;

use super::failure::Failure;
use super::queries::admin;
use super::reader::Snapshot;
use super::writer::Writer;
use crate::token::{Record, Role};
use crate::{Error, Result};

impl Snapshot<'_> {
    pub(super) fn tokens(&self) -> Result<Vec<Record>, Failure> {
        self.all(admin::TOKENS, (), record)
    }
}

impl Writer {
    pub(super) fn agree(&mut self, name: &str, offer: &[u8]) -> Result<Vec<u8>> {
        self.transact(|connection, _| {
            connection.prepare_cached(admin::OFFER)?.execute((name, offer))?;
            Ok(connection.prepare_cached(admin::AGREED)?.query_row([name], |row| row.get(0))?)
        })
    }

    pub(super) fn add_token(&mut self, record: &Record) -> Result<bool> {
        self.transact(|connection, _| {
            let added = connection.prepare_cached(admin::ADD_TOKEN)?.execute((
                &record.name,
                record.hash,
                record.role.as_str(),
                record.created_at.as_millis(),
                record.expires_at.map(Timestamp::as_millis),
            ))?;
            Ok(added == 1)
        })
    }

    pub(super) fn remove_token(&mut self, name: &str) -> Result<bool> {
        self.transact(|connection, _| {
            Ok(connection.prepare_cached(admin::REMOVE_TOKEN)?.execute([name])? == 1)
        })
    }
}

fn record(row: &Row<'_>) -> Result<Record, Failure> {
    let role: String = row.get(2)?;
    Ok(Record {
        name: row.get(0)?,
        hash: row.get(1)?,
        role: Role::named(&role).ok_or_else(|| Error::Unusable(format!("no role is called `{role}`")))?,
        created_at: Timestamp::from_millis(row.get(3)?),
        expires_at: row.get::<_, Option<i64>>(4)?.map(Timestamp::from_millis),
    })
}
