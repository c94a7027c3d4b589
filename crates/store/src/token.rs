//! Access tokens of programs. Only the hash is stored.

use std::fmt;

use async_trait::async_trait;
use punctual_core::Timestamp;

use crate::Result;

/// Access tokens, and values that the cluster has agreed on.
#[async_trait]
pub trait Tokens: Send + Sync + fmt::Debug {
    /// The value that the cluster has agreed on under this name. The first offer decides, and every caller gets that
    /// value. Durable when it returns.
    async fn agree(&self, name: &str, offer: &[u8]) -> Result<Vec<u8>>;

    /// Every token, in order of name.
    async fn tokens(&self) -> Result<Vec<Record>>;

    /// Adds a token. Returns false and changes nothing if the name is taken. Durable when it returns.
    async fn add_token(&self, record: &Record) -> Result<bool>;

    /// Removes a token. Returns false if it does not exist. Durable when it returns.
    async fn remove_token(&self, name: &str) -> Result<bool>;
}

/// SHA-256 of a token's text.
pub type Hash = [u8; 32];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its name, for people; unique.
    pub name: String,
    pub hash: Hash,
    pub role: Role,
    pub created_at: Timestamp,
    /// From this instant on the token is refused. `None` means never.
    pub expires_at: Option<Timestamp>,
}

/// What the bearer of a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Everything that a person may do through the endpoints.
    Admin,
    /// Read everything, change nothing.
    Reader,
    /// Enrol as a worker, and nothing else.
    Worker,
}

impl Role {
    pub const ALL: [Role; 3] = [Role::Admin, Role::Reader, Role::Worker];

    pub fn as_str(self) -> &'static str {
        match self {
            Role::Admin => "admin",
            Role::Reader => "reader",
            Role::Worker => "worker",
        }
    }

    pub fn named(text: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.as_str() == text)
    }
}
