//! Opening: the way to the database, what it promises, and its tables.

use std::sync::Arc;

use parking_lot::Mutex;
use punctual_core::ids::SHARDS_MAX;

use super::connect::{Connector, Role};
use super::pool::Pool;
use super::prune::Places;
use super::{Options, Postgres, durability, schema};
use crate::address::Address;
use crate::definitions::Definitions;
use crate::{Error, Result};

/// A lane commits while the other one's batch is being made.
pub(super) const LANES: usize = 2;
/// A shard is loaded while timers of another are read.
const LEADER_CONNECTIONS: usize = 2;
/// A long listing must not keep the next one waiting; more of them would only take from the commits.
const DOOR_CONNECTIONS: usize = 4;

impl Postgres {
    /// Opens `postgres://user:password@host/database`, and makes the tables if it has none. What the address says about
    /// shards and durability (`?shards=16&durability=relaxed`) goes before the options.
    pub async fn open(url: &str, options: Options) -> Result<Postgres> {
        let address = Address::parse(url)?;
        let shards = address.shards.unwrap_or(options.shards);
        if !(1..=SHARDS_MAX).contains(&shards) {
            return Err(Error::Unusable(format!("a store has 1 to {SHARDS_MAX} shards, not {shards}")));
        }
        let wanted = address.durability.unwrap_or(options.durability);
        let connector = Arc::new(Connector::new(&address.url, options.session, wanted)?);
        let mut link = connector.bare().await?;
        durability::check(&mut link, wanted).await?;
        let shards = schema::migrate(&mut link, shards).await?;
        let pool = |role, connections| Pool::new(&connector, role, connections);
        let store = Postgres {
            shards,
            durability: wanted,
            lanes: std::array::from_fn(|_| pool(Role::Commit, 1)),
            leader: pool(Role::Read, LEADER_CONNECTIONS),
            doors: pool(Role::Read, DOOR_CONNECTIONS),
            session: pool(Role::Session, 1),
            lease: pool(Role::Lease, 1),
            log: pool(Role::Log, 1),
            definitions: Mutex::new(Definitions::default()),
            pruned: Mutex::new(Places::default()),
        };
        // What a node cannot do without is there, or the store is not open.
        store.lanes[0].take().await?;
        store.session.take().await?;
        Ok(store)
    }
}
