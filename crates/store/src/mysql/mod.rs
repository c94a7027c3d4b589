//! The store of a cluster on MySQL 8 or MariaDB 10.6 and later.
//!
//! It has a few connections, each for one purpose, so that unrelated work does not wait:
//!
//! ```text
//! commit-0, commit-1   commits
//! leader               reads of leaders
//! endpoints            a few
//! sessions             renewals and the clock
//! changes              acquisitions, calendars, tokens
//! prune, logs
//! ```
//!
//! It uses the common subset of both databases: no RETURNING, no row aliases, no partial indexes. State is never
//! upserted: the number of rows a statement hits tells whether the store is as the leader expects.
//!
//! In reading order: the connections (`connection`, `open`, `schema`, `failure`), the shared statements (`session`), writes
//! (`packets`, `writes`, `commit`, `leases`). What all databases share is in `sql`.

mod failure;
mod connection;
mod schema;
mod open;
mod queries;
mod session;
mod packets;
mod writes;
mod commit;
mod leases;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use self::connection::MysqlConnection;
use crate::definitions::Definitions;
use crate::sql::backend::Facts;
use crate::sql::pool::Pool;

pub struct Mysql {
    facts: Facts,
    database: String,
    /// A shard always commits on the same connection.
    commits: [Pool<MysqlConnection>; 2],
    leader: Pool<MysqlConnection>,
    endpoints: Pool<MysqlConnection>,
    sessions: Pool<MysqlConnection>,
    changes: Pool<MysqlConnection>,
    pruner: Pool<MysqlConnection>,
    logs: Pool<MysqlConnection>,
    definitions: Arc<Mutex<Definitions>>,
}

impl fmt::Debug for Mysql {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mysql")
            .field("database", &self.database)
            .field("shards", &self.facts.shards)
            .finish_non_exhaustive()
    }
}
