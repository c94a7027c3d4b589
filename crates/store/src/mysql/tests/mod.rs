//! What only a store on a server can be asked.

use super::{Mysql, Options};
use crate::Durability;
use crate::conformance::servers::mariadb::Server;

fn options() -> Options {
    Options { shards: 8, durability: Durability::Relaxed, session: None }
}

async fn open_for_suite() -> (Mysql, ()) {
    (Mysql::open(&Server::shared().database(), options()).await.unwrap(), ())
}

crate::conformance!(suite, open_for_suite);
crate::sessions_conformance!(sessions, open_for_suite);
