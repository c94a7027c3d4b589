//! Access tokens, and values that the cluster has agreed on.

use std::collections::btree_map::Entry;

use async_trait::async_trait;

use super::Memory;
use crate::{Result, Tokens, token};

#[async_trait]
impl Tokens for Memory {
    async fn agree(&self, name: &str, offer: &[u8]) -> Result<Vec<u8>> {
        Ok(self.tables.lock().agreed.entry(name.to_owned()).or_insert_with(|| offer.to_vec()).clone())
    }

    async fn tokens(&self) -> Result<Vec<token::Record>> {
        Ok(self.tables.lock().tokens.values().cloned().collect())
    }

    async fn add_token(&self, record: &token::Record) -> Result<bool> {
        match self.tables.lock().tokens.entry(record.name.clone()) {
            Entry::Occupied(_) => Ok(false),
            Entry::Vacant(place) => {
                place.insert(record.clone());
                Ok(true)
            }
        }
    }

    async fn remove_token(&self, name: &str) -> Result<bool> {
        Ok(self.tables.lock().tokens.remove(name).is_some())
    }
}
