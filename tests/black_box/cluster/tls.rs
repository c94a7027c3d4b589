//! Servers that have certificates: they forward commands to each other over TLS, and workers come over it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use punctual_tests::api::RUNS;
use punctual_tests::authority::Authority;
use punctual_tests::cluster::{Kept, NODES};
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Cluster, Scene};
use serde_json::json;

fn path(path: &Path) -> &str {
    path.to_str().expect("temporary folders have plain names")
}

/// Every node takes every command, whichever node leads the shard.
fn check(scene: &Scene, ca: &Path, words: &[&str]) {
    let store = Kept::Postgres.address();
    let mut cluster = Cluster::new(scene, &store, &[&["--shard-lease", "5s"], words].concat());
    cluster.nodes = cluster.nodes.into_iter().map(|node| node.with_ca(ca)).collect();
    cluster.endpoints =
        cluster.endpoints.iter().map(|endpoint| endpoint.replace("http://", "https://")).collect();
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
fn nodes_find_their_authority_in_the_certificate_chain() {
    let scene = Scene::new();
    let ours = Authority::make(&scene.path(""), "ours");
    let read = |path: &Path| fs::read_to_string(path).expect("it was made");
    let chain = scene.write("chain.pem", &(read(&ours.cert) + &read(&ours.ca)));
    check(&scene, &ours.ca, &["--tls-cert", path(&chain), "--tls-key", path(&ours.key)]);
}

#[test]
fn a_certificate_of_another_authority_is_trusted_without_a_restart() {
    let scene = Scene::new();
    let old = Authority::make(&scene.path(""), "old");
    let new = Authority::make(&scene.path(""), "new");
    let [cert, key, ca] = ["cert.pem", "key.pem", "ca.pem"].map(|name| scene.path(name));
    let install = |authority: &Authority| {
        for (from, to) in [(&authority.cert, &cert), (&authority.key, &key), (&authority.ca, &ca)] {
            let aside = scene.path("aside");
            fs::copy(from, &aside).expect("a file of the scene can be copied");
            fs::rename(&aside, to).expect("a file of the scene can be renamed");
        }
    };
    install(&old);
    let words = ["--tls-cert", path(&cert), "--tls-key", path(&key), "--ca", path(&ca)];
    let words = [&["--shard-lease", "5s"], &words[..]].concat();
    let mut cluster = Cluster::new(&scene, &Kept::Postgres.address(), &words);
    cluster.nodes = cluster.nodes.into_iter().map(|node| node.with_ca(&ca)).collect();
    cluster.endpoints =
        cluster.endpoints.iter().map(|endpoint| endpoint.replace("http://", "https://")).collect();
    cluster.start_all();
    cluster.add_worker("a", &["--ca", path(&ca)]);
    install(&new);
    // Its peers and its worker have to dial it anew, and it shows the new certificate.
    cluster.nodes[0].kill();
    cluster.nodes[0].start();
    cluster.nodes.iter_mut().for_each(punctual_tests::Node::wait_until_ready);
    cluster.wait_until_spread();
    wait::until_so("every node reaches every other one", SOON, || {
        (0..NODES).all(|node| {
            let seen = cluster.api(node).get("/api/v1/nodes").expect("the node answers").ok();
            let seen = seen["items"].as_array().expect("nodes are a list").clone();
            seen.len() == NODES && seen.iter().all(|node| node["ready"] == true)
        })
    });
    wait::until_so("the worker takes work from every node", SOON, || {
        let workers = cluster.api(1).get("/api/v1/workers").expect("the node answers").ok();
        workers["items"][0]["nodes"].as_array().is_some_and(|nodes| nodes.len() == NODES)
    });
    let log = fs::read_to_string(scene.path("node.log")).unwrap_or_default();
    assert!(log.contains("the certificates that this node trusts were read again"), "{log}");
}

#[test]
fn nodes_that_are_told_their_authority_forward_commands_over_tls() {
    let scene = Scene::new();
    let ours = Authority::make(&scene.path(""), "ours");
    let words = ["--tls-cert", path(&ours.cert), "--tls-key", path(&ours.key), "--ca", path(&ours.ca)];
    check(&scene, &ours.ca, &words);
}
