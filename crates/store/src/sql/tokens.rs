//! The tokens, and the values that the cluster has agreed on, for every store in a database.

use async_trait::async_trait;

use super::backend::{Backend, Purpose, Scope, work};
use super::connection::ask;
use super::decode;
use super::queries::tokens as queries;
use crate::token::{Record, Tokens};
use crate::{Error, Result};

#[async_trait]
impl<B: Backend> Tokens for B {
    async fn agree(&self, name: &str, offer: &[u8]) -> Result<Vec<u8>> {
        let (name, offer) = (name.to_owned(), offer.to_vec());
        let agree = work!(|c| {
            c.execute(&[ask!(queries::OFFER, name.as_str(), offer)]).await?;
            // A statement of its own, which sees another node's offer that the insert waited for.
            let agreed =
                c.one(ask!(queries::AGREED, name.as_str()), |row| Ok(row.bytes(0)?.to_vec())).await?;
            agreed.ok_or_else(|| Error::RolledBack(format!("the cluster has not agreed on `{name}`")))
        });
        self.run(Purpose::Change, Scope::Statement, agree).await
    }

    async fn tokens(&self) -> Result<Vec<Record>> {
        self.list(work!(|c| c.all(ask!(queries::ALL), decode::token).await)).await
    }

    async fn add_token(&self, record: &Record) -> Result<bool> {
        let Record { name, hash, role, created_at, expires_at } = record.clone();
        let add = ask!(queries::ADD, name, hash.to_vec(), role.as_str(), created_at, expires_at);
        Ok(self.execute(Purpose::Change, add).await? == 1)
    }

    async fn remove_token(&self, name: &str) -> Result<bool> {
        Ok(self.execute(Purpose::Change, ask!(queries::REMOVE, name.to_owned())).await? == 1)
    }
}
