//! What operators see of nodes that come, go and get in each other's way.

use std::collections::BTreeSet;

use punctual_tests::cluster::{Kept, NODES, SHARDS, node_name, shards_of};
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Api, Cluster, Export, Node, Scene, binary};
use rustix::process::Signal;
use serde_json::Value;

/// Leases that do not end because the machine stands still for a moment.
const LEASES: [&str; 4] = ["--shard-lease", "5s", "--attempt-lease", "10s"];

/// A cluster whose nodes log apart.
fn start(scene: &Scene, store: &str) -> Cluster {
    let mut cluster = Cluster::new(scene, store, &LEASES);
    let apart = |(number, node): (usize, Node)| node.with_log(scene.path(&format!("log-{number}")));
    cluster.nodes = cluster.nodes.into_iter().enumerate().map(apart).collect();
    cluster.start_all();
    cluster
}

fn nodes(api: &Api) -> Vec<Value> {
    let nodes = api.get("/api/v1/nodes").filter(punctual_tests::Answer::is_ok);
    nodes.and_then(|nodes| nodes.json()["items"].as_array().cloned()).unwrap_or_default()
}

/// The lines of a log that say something.
fn lines(log: &str, words: &str) -> Vec<String> {
    log.lines().filter(|line| line.contains(words)).map(str::to_owned).collect()
}

/// How many shards a line of a takeover tells of.
fn shards_in(line: &str) -> usize {
    let number = line.split("shards=").nth(1).and_then(|rest| rest.split(' ').next());
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no number of shards: {line}"))
}

#[test]
fn a_takeover_is_logged_in_one_line_and_the_lost_node_is_listed() {
    let scene = Scene::new();
    let mut cluster = start(&scene, &Kept::Postgres.address());
    cluster.wait_until_settled();
    let led = shards_of(cluster.api(0));
    cluster.nodes[0].kill();
    wait::until_so("the others lead everything", SOON, || {
        shards_of(cluster.api(1)) + shards_of(cluster.api(2)) == usize::from(SHARDS)
    });
    for survivor in [1, 2] {
        let lost = wait::until("the lost node is listed", SOON, || {
            nodes(cluster.api(survivor)).into_iter().find(|node| !node["lost_at"].is_null())
        });
        assert_eq!(
            (&lost["name"], &lost["ready"]),
            (&Value::from(node_name(0)), &Value::from(false)),
            "{lost}"
        );
        let list = cluster.nodes[survivor].cli(["node", "list"]).ok();
        assert_eq!(lines(&list, "node-0").len(), 1, "{list}");
        assert!(lines(&list, "node-0")[0].contains("lost at "), "{list}");
    }
    // Each says how many shards it took. A node that claims more shards later says so again.
    let words = "took over the shards of a lost node";
    let told = || [1, 2].map(|survivor| lines(&cluster.nodes[survivor].printed(), words)).concat();
    wait::until_so("every shard that was taken over is logged", SOON, || {
        told().iter().map(|line| shards_in(line)).sum::<usize>() == led
    });
    let told = told();
    assert!(told.len() < led, "one line for many shards: {told:#?}");
    assert!(told.iter().all(|line| line.contains("node=node-0") && line.contains("took=")), "{told:#?}");
    // It comes back under its name at once.
    cluster.nodes[0].start();
    wait::until_so("it is there again", SOON, || {
        let seen = nodes(cluster.api(1));
        seen.len() == NODES && seen.iter().all(|node| node["lost_at"].is_null())
    });
}

#[test]
fn a_node_that_wakes_after_its_lease_logs_one_warning() {
    let scene = Scene::new();
    let cluster = start(&scene, &Kept::Postgres.address());
    cluster.wait_until_settled();
    cluster.nodes[0].signal(Signal::STOP);
    wait::until_so("the others lead everything", SOON, || {
        shards_of(cluster.api(1)) + shards_of(cluster.api(2)) == usize::from(SHARDS)
    });
    cluster.nodes[0].signal(Signal::CONT);
    let words = "other nodes took over shards of this node";
    wait::until_so("it says that it was stopped", SOON, || {
        !lines(&cluster.nodes[0].printed(), words).is_empty()
    });
    cluster.wait_until_spread();
    let log = cluster.nodes[0].printed();
    assert_eq!(lines(&log, words).len(), 1, "{log}");
}

#[test]
fn events_name_the_node_that_wrote_them() {
    let scene = Scene::new();
    let mut cluster = start(&scene, &Kept::Postgres.address());
    cluster.add_worker("a", &[]);
    cluster.put_jobs(30);
    wait::until_so("every node fires jobs", SOON, || {
        let Some(export) = Export::if_given(&cluster.nodes[0]) else { return false };
        let unsigned = export.all_events().find(|event| !event["node"].is_string());
        assert_eq!(unsigned, None);
        let names: BTreeSet<&str> = export.all_events().filter_map(|event| event["node"].as_str()).collect();
        names.len() == NODES
    });
}

#[test]
fn a_second_node_of_a_name_or_a_data_folder_is_refused() {
    let scene = Scene::new();
    let store = Kept::Postgres.address();
    let cluster = start(&scene, &store);
    let log = scene.path("double.log");
    let named = cluster.newcomer(&scene, "double", &store, &LEASES).with_env("PUNCTUAL_NODE_NAME", "node-0");
    let mut named = named.with_log(&log);
    named.spawn();
    assert_eq!(named.wait_for_end().code(), Some(1), "{}", named.printed());
    let said = named.printed();
    assert!(said.contains("a node named `node-0`") && said.contains("--name"), "{said}");

    let folder =
        cluster.newcomer(&scene, "node-0", &store, &LEASES).with_env("PUNCTUAL_NODE_NAME", "another");
    let mut folder = folder.with_log(&log);
    folder.spawn();
    assert_eq!(folder.wait_for_end().code(), Some(1), "{}", folder.printed());
    let said = folder.printed();
    assert!(said.contains("another node uses the data folder") && said.contains("--data"), "{said}");
    assert_eq!(nodes(cluster.api(1)).len(), NODES, "the others are as they were");
}

#[test]
fn nodes_that_did_not_print_the_tokens_say_who_did() {
    let scene = Scene::new();
    let store = Kept::Postgres.address();
    let mut nodes = Vec::new();
    for number in 0..NODES {
        let log = scene.path(&format!("log-{number}"));
        let data = scene.path(&format!("data-{number}"));
        let words = ["server", "--http", "127.0.0.1:0", "--store", &store, "--data"].map(str::to_owned);
        let words = words.into_iter().chain([data.display().to_string()]);
        let node = scene.node().with_data(&data).with_program(binary::path(), words);
        nodes.push(node.with_log(log));
    }
    nodes.iter_mut().for_each(Node::spawn);
    nodes.iter_mut().for_each(Node::wait_until_ready);
    let printed: Vec<String> = nodes.iter().map(Node::printed).collect();
    let makers = printed.iter().filter(|log| log.contains("admin token:")).count();
    assert_eq!(makers, 1, "{printed:?}");
    for log in printed.iter().filter(|log| !log.contains("admin token:")) {
        assert!(log.contains("printed once, by the node that made them"), "{log}");
    }
}
