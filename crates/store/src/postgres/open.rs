//! Opens the store: connects, checks durability, migrates the tables.

use std::sync::Arc;

use super::connect::{Connector, Role};
use super::{Postgres, durability, schema};
use crate::address::Address;
use crate::sql::backend::Facts;
use crate::sql::pool::Pool;
use crate::{Result, ServerOptions};

/// One connection commits while the next batch is made for the other.
pub(super) const COMMIT_CONNECTIONS: usize = 2;
/// A shard can be loaded while the timers of another are read.
const LEADER_CONNECTIONS: usize = 2;
/// A long listing must not delay the next one; more connections would only slow down the commits.
const ENDPOINT_CONNECTIONS: usize = 4;

impl Postgres {
    /// Opens `postgres://user:password@host/database`, and makes the tables if they do not exist. Shards and durability
    /// in the address (`?shards=16&durability=relaxed`) override the options.
    pub async fn open(url: &str, options: ServerOptions) -> Result<Postgres> {
        let Address { url, shards, durability: wanted } = Address::parse(url, options)?;
        let connector = Arc::new(Connector::new(&url, options.session, wanted)?);
        let mut connection = connector.bare().await?;
        durability::check(&mut connection, wanted).await?;
        let made_with = schema::migrate(&mut connection, connector.database(), shards).await?;
        let pool = |role, connections| Pool::new((Arc::clone(&connector), role), connections);
        let store = Postgres {
            facts: Facts::new(made_with, shards, wanted),
            commits: std::array::from_fn(|_| pool(Role::Commit, 1)),
            leader: pool(Role::Read, LEADER_CONNECTIONS),
            endpoints: pool(Role::Read, ENDPOINT_CONNECTIONS),
            session: pool(Role::Session, 1),
            lease: pool(Role::Lease, 1),
            log: pool(Role::Log, 1),
            definitions: Arc::default(),
        };
        // Fail now if the connections that a node cannot do without cannot be opened.
        store.commits[0].take().await?;
        store.session.take().await?;
        Ok(store)
    }
}
