//! The values that the cluster agreed on, and its tokens.

use punctual_core::Timestamp;
use tokio_postgres::Row;

use super::link::ask;
use super::queries::admin;
use super::{Postgres, rows};
use crate::token::{Record, Role};
use crate::{Error, Result};

impl Postgres {
    pub(super) async fn settle_on(&self, name: &str, offer: &[u8]) -> Result<Vec<u8>> {
        let mut link = self.lease.take().await?;
        link.write(vec![ask!(admin::OFFER, name.to_owned(), offer.to_vec())]).await?;
        // In a new transaction, which sees another node's offer that the insert waited for.
        let agreed = link.read(ask!(admin::AGREED, name.to_owned())).await?;
        let row = agreed.first().ok_or_else(|| Error::RolledBack(format!("`{name}` is not agreed on")))?;
        rows::get(row, 0)
    }

    pub(super) async fn list_tokens(&self) -> Result<Vec<Record>> {
        let found = self.doors.take().await?.read(ask!(admin::TOKENS)).await?;
        found.iter().map(record).collect()
    }

    pub(super) async fn insert_token(&self, record: &Record) -> Result<bool> {
        let add = ask!(
            admin::ADD_TOKEN,
            record.name.clone(),
            record.hash.to_vec(),
            record.role.as_str(),
            record.created_at.as_millis(),
            record.expires_at.map(Timestamp::as_millis),
        );
        let added = self.lease.take().await?.write(vec![add]).await?;
        Ok(added.iter().any(|answer| answer.hits == 1))
    }

    pub(super) async fn delete_token(&self, name: &str) -> Result<bool> {
        let removed =
            self.lease.take().await?.write(vec![ask!(admin::REMOVE_TOKEN, name.to_owned())]).await?;
        Ok(removed.iter().any(|answer| answer.hits == 1))
    }
}

fn record(row: &Row) -> Result<Record> {
    let role: &str = rows::get(row, 2)?;
    let hash = rows::get::<&[u8]>(row, 1)?.try_into();
    Ok(Record {
        name: rows::get(row, 0)?,
        hash: hash.map_err(|_| Error::Unusable("the hash of a token is not of 32 bytes".to_owned()))?,
        role: Role::named(role).ok_or_else(|| Error::Unusable(format!("no role is called `{role}`")))?,
        created_at: rows::instant(row, 3)?,
        expires_at: rows::get::<Option<i64>>(row, 4)?.map(Timestamp::from_millis),
    })
}
