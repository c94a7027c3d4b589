//! What a store wants before it opens.

use std::path::Path;
use std::process::Command;

use super::*;
use crate::Error;
use crate::conformance::given::{SHARD, check_names_another_build};
use crate::conformance::servers::postgres::give_away;

async fn refusal(address: &str) -> String {
    match Postgres::open(address, ServerOptions::default()).await {
        Ok(_) => panic!("the store was opened"),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn a_server_that_does_not_sync_is_refused_unless_asked_for_by_name() {
    let address = Server::shared().database();
    let refused = refusal(&address).await;
    assert!(refused.contains("fsync = off") && refused.contains("durability=relaxed"), "{refused}");
    assert!(Postgres::open(&format!("{address}?durability=relaxed"), ServerOptions::default()).await.is_ok());
}

#[tokio::test]
async fn every_setting_that_makes_a_commit_durable_is_looked_at() {
    let server = Server::start(&["fsync=on"]);
    let address = server.database();
    let store = Postgres::open(&address, ServerOptions::default()).await.unwrap();
    let mut leader = Leader::of(&store, SHARD).await.unwrap();
    commit_one_run(&store, &mut leader).await.unwrap();
    server.sql("postgres", "ALTER DATABASE test_0 SET synchronous_commit = off");
    assert!(refusal(&address).await.contains("synchronous_commit = off"));
    server.sql("postgres", "ALTER DATABASE test_0 SET synchronous_commit = local");
    assert!(Postgres::open(&address, ServerOptions::default()).await.is_ok());
    let unsafe_pages = Server::start(&["fsync=on", "full_page_writes=off"]);
    assert!(refusal(&unsafe_pages.database()).await.contains("full_page_writes = off"));
}

#[tokio::test]
async fn a_store_keeps_the_number_of_shards_it_was_made_with() {
    let address = Server::shared().database();
    for asked in [3, 5] {
        let address = format!("{address}?durability=relaxed&shards={asked}");
        assert_eq!(Postgres::open(&address, ServerOptions::default()).await.unwrap().shards(), 3);
    }
}

#[tokio::test]
async fn nodes_that_start_at_once_make_one_store() {
    let address = Server::shared().database();
    let opened: Vec<_> = (0..4).map(|_| open(&address)).collect();
    for store in futures_util::future::join_all(opened).await {
        assert_eq!(store.shards(), 8);
    }
}

#[tokio::test]
async fn a_database_of_a_newer_version_is_refused() {
    let server = Server::shared();
    let address = server.database();
    open(&address).await;
    let name = address.rsplit('/').next().unwrap();
    server.sql(name, "INSERT INTO punctual.schema VALUES (1000, 'something new')");
    assert!(refusal(&relaxed(&address)).await.contains("newer version"));
}

#[tokio::test]
async fn a_store_of_another_build_is_refused_by_name() {
    let server = Server::shared();
    let address = server.database();
    open(&address).await;
    let name = address.rsplit('/').next().unwrap();
    server.sql(name, "UPDATE punctual.schema SET checksum = 'other'");
    check_names_another_build(&refusal(&relaxed(&address)).await, name);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unreachable() {
    let address = "postgres://nobody@127.0.0.1:1/nothing";
    let result = Postgres::open(address, ServerOptions::default()).await;
    assert!(matches!(result, Err(Error::Unreachable(_))), "{result:?}");
}

#[tokio::test]
async fn a_private_connection_is_made_only_to_whom_we_trust() {
    let keys = tempfile::tempdir().unwrap();
    let (certificate, other) =
        (make_certificate(keys.path(), "server"), make_certificate(keys.path(), "other"));
    let key = keys.path().join("server.key");
    give_away(keys.path());
    give_away(&key);
    let settings = [
        "fsync=off".to_owned(),
        "ssl=on".to_owned(),
        format!("ssl_cert_file={certificate}"),
        format!("ssl_key_file={}", key.display()),
    ];
    let server = Server::start(&settings.each_ref().map(String::as_str));
    let address = relaxed(&server.database());
    let trusting = |roots: &str| format!("{address}&sslmode=verify-full&sslrootcert={roots}");
    let store = Postgres::open(&trusting(&certificate), ServerOptions::default()).await.unwrap();
    let private = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
         WHERE ssl AND application_name = 'punctual'";
    assert!(server.sql("test_0", private).parse::<u32>().unwrap() > 0);
    drop(store);
    let refused = Postgres::open(&trusting(&other), ServerOptions::default()).await;
    assert!(matches!(refused, Err(Error::Unreachable(_))), "{refused:?}");
    let plain = format!("{}&sslmode=require", relaxed(&Server::shared().database()));
    assert!(
        Postgres::open(&plain, ServerOptions::default()).await.is_err(),
        "a plain connection was taken for a private one"
    );
}

/// A certificate that vouches for itself, and its key beside it.
fn make_certificate(folder: &Path, name: &str) -> String {
    let (certificate, key) = (folder.join(format!("{name}.crt")), folder.join(format!("{name}.key")));
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]);
    openssl.args(["-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"]);
    openssl.arg("-keyout").arg(&key).arg("-out").arg(&certificate);
    let output = openssl.output().expect("openssl is installed: scripts/install-deps test");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    certificate.display().to_string()
}
