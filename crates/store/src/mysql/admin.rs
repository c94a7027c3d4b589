//! The values that the cluster agreed on, and its tokens.

use mysql_async::Row;
use punctual_core::Timestamp;

use super::failure::{Failure, Moment};
use super::link::Held;
use super::queries::admin;
use super::{Mysql, rows};
use crate::token::{Record, Role};
use crate::{Error, Result};

impl Mysql {
    pub(super) async fn agree_on(&self, name: &str, offer: &[u8]) -> Result<Vec<u8>> {
        let mut held = self.changes.take().await?;
        let agreed = agree(&mut held, name, offer).await;
        held.finish(agreed, Moment::Committing).await
    }

    pub(super) async fn read_tokens(&self) -> Result<Vec<Record>> {
        let mut held = self.door().await?;
        let found = held.rows(admin::TOKENS, ()).await;
        let tokens = found.and_then(|found| found.iter().map(record).collect());
        held.finish(tokens, Moment::Reading).await
    }

    pub(super) async fn insert_token(&self, record: &Record) -> Result<bool> {
        let mut held = self.changes.take().await?;
        let token = (
            record.name.as_bytes(),
            record.hash.as_slice(),
            record.role.as_str(),
            record.created_at.as_millis(),
            record.expires_at.map(Timestamp::as_millis),
        );
        let added = held.execute(admin::ADD_TOKEN, token).await.map(|rows| rows == 1);
        held.finish(added, Moment::Committing).await
    }

    pub(super) async fn delete_token(&self, name: &str) -> Result<bool> {
        let mut held = self.changes.take().await?;
        let removed = held.execute(admin::REMOVE_TOKEN, (name.as_bytes(),)).await.map(|rows| rows == 1);
        held.finish(removed, Moment::Committing).await
    }
}

async fn agree(held: &mut Held<'_>, name: &str, offer: &[u8]) -> Result<Vec<u8>, Failure> {
    held.execute(admin::OFFER, (name.as_bytes(), offer)).await?;
    let agreed = held.row(admin::AGREED, (name.as_bytes(),)).await?;
    let agreed = agreed.ok_or_else(|| Error::Unreachable(format!("what was agreed as `{name}` is gone")))?;
    Ok(rows::bytes(&agreed, 0)?.to_vec())
}

fn record(row: &Row) -> Result<Record, Failure> {
    let role = rows::text(row, 2)?;
    let hash = rows::bytes(row, 1)?;
    Ok(Record {
        name: rows::text(row, 0)?.to_owned(),
        hash: hash.try_into().map_err(|_| Error::Unusable("a token's hash is cut short".to_owned()))?,
        role: Role::named(role).ok_or_else(|| Error::Unusable(format!("no role is called `{role}`")))?,
        created_at: rows::instant(row, 3)?,
        expires_at: rows::instant_or_none(row, 4)?,
    })
}
