//! What only a store on a server can be asked.

mod cuts;
mod failures;
mod opening;
mod plans;
mod prune;
mod proxy;
mod takeover;

use std::sync::Arc;

use punctual_core::ids::SessionId;
use tokio_postgres::NoTls;

use super::Postgres;
use crate::conformance::given::{Leader, at, run_row};
use crate::conformance::servers::postgres::Server;
use crate::{Reads, Result, RunFilter, ServerOptions, Shards};

fn relaxed(address: &str) -> String {
    format!("{address}?durability=relaxed&shards=8")
}

async fn open(address: &str) -> Postgres {
    Postgres::open(&relaxed(address), ServerOptions::default()).await.unwrap()
}

async fn open_as(address: &str, session: SessionId) -> Postgres {
    let options = ServerOptions { session: Some(session), ..ServerOptions::default() };
    Postgres::open(&relaxed(address), options).await.unwrap()
}

async fn open_for_suite() -> (Postgres, ()) {
    (open(&Server::shared().database()).await, ())
}

crate::conformance!(suite, open_for_suite);
crate::sessions_conformance!(sessions, open_for_suite);

/// Someone else at the same database, who does what they like.
async fn stranger(address: &str, name: &str) -> tokio_postgres::Client {
    let mut config: tokio_postgres::Config = address.parse().unwrap();
    let (client, connection) = config.application_name(name).connect(NoTls).await.unwrap();
    // It ends with the client.
    tokio::spawn(connection);
    client
}

async fn commit_one_run(store: &Postgres, leader: &mut Leader) -> Result<()> {
    let run = leader.ad_hoc(at(0));
    store.commit(Arc::new(vec![leader.batch(crate::conformance::given::inserts([run_row(&run)]))])).await?;
    leader.commit += 1;
    Ok(())
}

async fn runs(store: &Postgres) -> usize {
    store.runs(&RunFilter::default(), None, 1000).await.unwrap().len()
}
