//! The store of a cluster on PostgreSQL 13 or newer.
//!
//! A node needs few connections, each for one purpose, so that unrelated work does not wait: two for commits, two
//! for reads of leaders, a few for the endpoints, and one each for renewals, acquisitions and output. They are opened
//! on first use, and again after they are lost.
//!
//! A commit is one round trip: fences, changes and `COMMIT` are sent together, and a statement that misses a row turns
//! the `COMMIT` into a rollback (see `queries` and `commit`). History is a plain table, trimmed by small deletes.
//!
//! In reading order: connections (`connect`, `durability`, `connection`, `schema`, `open`), the shared statements
//! (`session`), writes (`writes`, `commit`, `leases`). What all databases share is in `sql`.

mod failure;
mod connect;
mod durability;
mod connection;
mod schema;
mod open;
mod queries;
mod session;
mod writes;
mod commit;
mod leases;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use parking_lot::Mutex;

use self::connection::PgConnection;
use self::open::COMMIT_CONNECTIONS;
use crate::definitions::Definitions;
use crate::sql::backend::Facts;
use crate::sql::pool::Pool;

#[derive(Debug)]
pub struct Postgres {
    facts: Facts,
    /// A shard always commits on the same connection.
    commits: [Pool<PgConnection>; COMMIT_CONNECTIONS],
    leader: Pool<PgConnection>,
    endpoints: Pool<PgConnection>,
    session: Pool<PgConnection>,
    lease: Pool<PgConnection>,
    log: Pool<PgConnection>,
    definitions: Arc<Mutex<Definitions>>,
}
