//! The tokens, and the values that the cluster has agreed on, for every store in a database.

use async_trait::async_trait;

use super::backend::{Backend, Purpose, Scope, Work};
use super::connection::{Ask, Connection, ask};
use super::decode;
use super::queries::tokens as queries;
use crate::token::{Record, Tokens};
use crate::{Error, Result};

#[async_trait]
impl<B: Backend> Tokens for B {
    async fn agree(&self, name: &str, offer: &[u8]) -> Result<Vec<u8>> {
        let (name, offer) = (name.to_owned(), offer.to_vec());
        self.run(Purpose::Change, Scope::Statement, Box::new(move |c| Box::pin(agree(c, name, offer)))).await
    }

    async fn tokens(&self) -> Result<Vec<Record>> {
        self.list(Box::new(|c| Box::pin(async move { c.all(ask!(queries::ALL), decode::token).await }))).await
    }

    async fn add_token(&self, record: &Record) -> Result<bool> {
        let Record { name, hash, role, created_at, expires_at } = record.clone();
        changes_one(self, ask!(queries::ADD, name, hash.to_vec(), role.as_str(), created_at, expires_at))
            .await
    }

    async fn remove_token(&self, name: &str) -> Result<bool> {
        changes_one(self, ask!(queries::REMOVE, name.to_owned())).await
    }
}

/// Whether the statement hit a row.
async fn changes_one<B: Backend>(store: &B, ask: Ask<'static>) -> Result<bool> {
    let work: Work<_> = Box::new(move |c| Box::pin(async move { Ok(c.execute(&[ask]).await? == 1) }));
    store.run(Purpose::Change, Scope::Statement, work).await
}

/// Reads in a statement of its own, which sees another node's offer that the insert waited for.
async fn agree(c: &mut dyn Connection, name: String, offer: Vec<u8>) -> Result<Vec<u8>> {
    c.execute(&[ask!(queries::OFFER, name.as_str(), offer)]).await?;
    let agreed = c.one(ask!(queries::AGREED, name.as_str()), |row| Ok(row.bytes(0)?.to_vec())).await?;
    agreed.ok_or_else(|| Error::RolledBack(format!("the cluster has not agreed on `{name}`")))
}
