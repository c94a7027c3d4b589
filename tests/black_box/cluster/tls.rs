//! Servers that have certificates: they forward commands to each other over TLS, and workers come over it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use punctual_tests::api::RUNS;
use punctual_tests::authority::Authority;
use punctual_tests::cluster::{Kept, NODES};
use punctual_tests::{Cluster, Scene};
use serde_json::json;

fn path(path: &Path) -> &str {
    path.to_str().expect("temporary folders have plain names")
}

/// Every node takes every command, whoever leads the shard.
fn check(scene: &Scene, ca: &Path, words: &[&str]) {
    let store = Kept::Postgres.address();
    let mut cluster = Cluster::new(scene, &store, &[&["--shard-lease", "5s"], words].concat());
    cluster.nodes = cluster.nodes.into_iter().map(|node| node.with_ca(ca)).collect();
    cluster.doors = cluster.doors.iter().map(|door| door.replace("http://", "https://")).collect();
    cluster.start_all();
    cluster.add_worker("a", &["--ca", path(ca)]);
    cluster.put_jobs(NODES);
    for number in 0..10 {
        let body = json!({ "task": { "noop": {} }, "key": format!("key-{number}") });
        let runs = (0..NODES).map(|node| cluster.insist(node, |api| api.post(RUNS, &body))["id"].clone());
        let runs: Vec<_> = runs.collect();
        assert!(runs.iter().all(|run| run.is_string() && *run == runs[0]), "one key, one run: {runs:?}");
    }
    cluster.wait_for_fires(1, NODES);
    cluster.verified(scene, 1, Duration::ZERO);
}

#[test]
fn nodes_whose_authority_stands_in_their_certificates_chain_forward_commands_over_tls() {
    let scene = Scene::new();
    let ours = Authority::make(&scene.path(""), "ours");
    let read = |path: &Path| fs::read_to_string(path).expect("it was made");
    let chain = scene.write("chain.pem", &(read(&ours.cert) + &read(&ours.ca)));
    check(&scene, &ours.ca, &["--tls-cert", path(&chain), "--tls-key", path(&ours.key)]);
}

#[test]
fn nodes_that_are_told_their_authority_forward_commands_over_tls() {
    let scene = Scene::new();
    let ours = Authority::make(&scene.path(""), "ours");
    let words = ["--tls-cert", path(&ours.cert), "--tls-key", path(&ours.key), "--ca", path(&ours.ca)];
    check(&scene, &ours.ca, &words);
}
