//! What a server and a database must be like.

use super::*;
use crate::Tokens;
use crate::conformance::given::check_names_another_build;

async fn refusal(address: &str, options: ServerOptions) -> String {
    match Mysql::open(address, options).await {
        Ok(_) => panic!("the store was opened"),
        Err(error) => error.to_string(),
    }
}

fn durable() -> ServerOptions {
    ServerOptions { durability: Durability::Full, ..options() }
}

#[tokio::test]
async fn a_server_that_would_lose_commits_is_refused_unless_asked_for() {
    let server = Server::start(&["log-bin=log", "sync-binlog=1"]);
    let address = server.database();
    open(&address, durable()).await;
    for (setting, weak, strong) in [("innodb_flush_log_at_trx_commit", "2", "1"), ("sync_binlog", "0", "1")] {
        server.sql("", &format!("SET GLOBAL {setting} = {weak}"));
        let refused = refusal(&address, durable()).await;
        assert!(refused.contains(&format!("{setting} = {weak}")), "{refused}");
        assert!(refused.contains("durability=relaxed"), "{refused}");
        open(&format!("{address}?durability=relaxed"), durable()).await;
        server.sql("", &format!("SET GLOBAL {setting} = {strong}"));
    }
}

#[tokio::test]
async fn a_server_without_doublewrite_is_refused() {
    let server = Server::start(&["innodb-doublewrite=0"]);
    let refused = refusal(&server.database(), durable()).await;
    assert!(refused.contains("innodb_doublewrite = 0"), "{refused}");
}

#[tokio::test]
async fn a_store_keeps_the_shards_it_was_made_with() {
    let address = Server::shared().database();
    assert_eq!(open(&format!("{address}?shards=16"), options()).await.shards(), 16);
    assert_eq!(open(&address, options()).await.shards(), 16);
}

#[tokio::test]
async fn several_nodes_may_open_a_new_store_at_once() {
    let address = Server::shared().database();
    let (a, b, c) =
        tokio::join!(open(&address, options()), open(&address, of_node(1)), open(&address, of_node(2)));
    assert_eq!([a.shards(), b.shards(), c.shards()], [8, 8, 8]);
}

#[tokio::test]
async fn a_migration_that_broke_off_is_simply_repeated() {
    let server = Server::shared();
    let address = server.database();
    let database = open(&address, options()).await.database.clone();
    server.sql(&database, "DELETE FROM punctual_schema; DROP TABLE tokens; DELETE FROM shards");
    let store = open(&address, options()).await;
    assert!(store.tokens().await.unwrap().is_empty());
    assert_eq!(store.leases().await.unwrap().shards.len(), 8);
}

#[tokio::test]
async fn a_database_of_a_newer_version_is_refused() {
    let server = Server::shared();
    let address = server.database();
    let database = open(&address, options()).await.database.clone();
    server.sql(&database, "INSERT INTO punctual_schema VALUES (999, 'something new')");
    assert!(refusal(&address, options()).await.contains("newer version"));
}

#[tokio::test]
async fn a_store_of_another_build_is_refused_by_name() {
    let server = Server::shared();
    let address = server.database();
    let database = open(&address, options()).await.database.clone();
    server.sql(&database, "UPDATE punctual_schema SET checksum = 'other'");
    check_names_another_build(&refusal(&address, options()).await, &database);
}

#[tokio::test]
async fn a_stranger_s_database_is_left_alone() {
    let server = Server::shared();
    let address = server.database();
    let database = address.rsplit('/').next().unwrap();
    server.sql(database, "CREATE TABLE theirs (a int)");
    assert!(refusal(&address, options()).await.contains("not Punctual's"));
    assert_eq!(server.sql(database, "SHOW TABLES"), "theirs");
}

#[tokio::test]
async fn a_database_that_is_not_there_is_said_to_be() {
    let refused = refusal(&Server::shared().address("nowhere"), options()).await;
    assert!(refused.contains("nowhere") && refused.contains("Correct the address"), "{refused}");
}
