//! What only a store on a server can be asked.

mod cuts;
mod opening;
mod owners;
mod plans;
mod proxy;

use std::sync::Arc;
use std::time::Duration;

use punctual_core::ids::SessionId;
use punctual_core::run::Run;

use super::Mysql;
use crate::conformance::given::{Leader, at, ready, run_row};
use crate::conformance::servers::mariadb::Server;
use crate::{Durability, Reads, RunFilter, ServerOptions, Shards, Store};

/// What takes no time on an idle machine may take this long on a busy one.
const SOON: Duration = Duration::from_secs(30);
/// A statement that does not wait for an idle transaction is done before the server ends that transaction, after 2 s.
const NOT_HELD_UP: Duration = Duration::from_millis(1900);
/// A statement that waits for a lock is not done by then.
const A_MOMENT: Duration = Duration::from_millis(250);

fn options() -> ServerOptions {
    ServerOptions { shards: 8, durability: Durability::Relaxed, session: None }
}

fn of_node(session: i64) -> ServerOptions {
    ServerOptions { session: Some(SessionId(session)), ..options() }
}

async fn open(address: &str, options: ServerOptions) -> Mysql {
    Mysql::open(address, options).await.unwrap()
}

async fn open_for_suite() -> (Mysql, ()) {
    (open(&Server::shared().database(), options()).await, ())
}

crate::conformance!(suite, open_for_suite);
crate::sessions_conformance!(sessions, open_for_suite);

fn one_run(leader: &mut Leader) -> Run {
    ready(&leader.ad_hoc(at(0)))
}

async fn stored_runs(store: &dyn Store) -> usize {
    store.runs(&RunFilter::default(), None, 1000).await.unwrap().len()
}

/// A commit of one run, and the batch it was sent as.
fn batch_of(leader: &Leader, run: &Run) -> Arc<Vec<punctual_core::change::Batch>> {
    Arc::new(vec![leader.batch(crate::conformance::given::inserts([run_row(run)]))])
}
