//! Over every point that a node or a worker comes by while it works.

use std::thread;
use std::time::Duration;

use punctual_tests::cluster::Kept;
use punctual_tests::fault::failpoint::{VARIABLE, Walk};
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Cluster, Export, Node, Scene};
use punctual_verify::Options;
use serde_json::json;

use super::lives::{self, Labourer, Server};
use super::load;

const JOBS: usize = 8;
const LEASES: [&str; 4] = ["--shard-lease", "1s", "--attempt-lease", "2s"];

/// How often each point is died at.
fn times() -> u32 {
    std::env::var("TIMES").ok().and_then(|times| times.parse().ok()).unwrap_or(1)
}

/// Points that only a start on an empty store comes by.
fn is_of_a_first_start(point: &str) -> bool {
    point.contains(".migrate.") || point.starts_with("first_start.")
}

/// Points of these, or of every node and worker.
fn wanted(groups: &'static [&'static str]) -> impl Fn(&str) -> bool {
    move |point| !is_of_a_first_start(point) && groups.iter().any(|group| point.starts_with(group))
}

#[track_caller]
fn check_all_reached(walks: &[&Walk]) {
    let unreached: Vec<String> = walks.iter().flat_map(|walk| walk.unreached()).collect();
    assert!(unreached.is_empty(), "nobody ever came by {unreached:?}");
}

/// Nodes and workers of a cluster die at one point after the other, all of them at once, while jobs fire and
/// clients submit runs. In the end all of them run again, and nothing is missing.
fn walk_over(kept: Kept, nodes: &Walk, workers: Option<&Walk>) {
    let scene = Scene::new();
    let mut cluster = Cluster::start(&scene, &kept.address(), &LEASES);
    // What takes a program is left to those who die.
    cluster.add_worker("steady", &["--allow", "noop"]);
    let mut labourers: Vec<Labourer> = ["a", "b"].map(|name| labourer(&scene, &cluster, name)).into();
    cluster.put_jobs(JOBS);
    let endpoints = cluster.endpoints();
    cluster.nodes.iter_mut().for_each(Node::kill);
    let logs = (0..cluster.nodes.len()).map(|number| scene.path(&format!("node-{number}.log")));
    let apart = cluster.nodes.drain(..).zip(logs).map(|(node, log)| node.with_log(log)).collect();
    cluster.nodes = apart;

    let talk = load::Asking::default();
    let acknowledged = thread::scope(|scope| {
        let _over = talk.at_most();
        let asking = scope.spawn(|| load::ask_on(&endpoints, &talk));
        let lived = thread::scope(|scope| {
            let mut lives = Vec::new();
            for (node, endpoint) in cluster.nodes.iter_mut().zip(&endpoints) {
                let endpoint = endpoint.clone();
                lives.push(scope.spawn(move || {
                    lives::walk(nodes, &mut Server::new(node, endpoint));
                    // A node that has died at all its points keeps running, because the others need a peer.
                    node.set_env(VARIABLE, None);
                    node.spawn();
                }));
            }
            for labourer in &mut labourers {
                lives.push(scope.spawn(move || {
                    if let Some(workers) = workers {
                        lives::walk(workers, labourer);
                    }
                    labourer.start(&[]);
                }));
            }
            lives.into_iter().map(thread::ScopedJoinHandle::join).all(|ended| ended.is_ok())
        });
        if lived {
            cluster.wait_until_ready();
        }
        talk.stop(lived);
        let acknowledged = asking.join().expect("asking does not fail");
        assert!(lived, "a life ended in a way that it should not");
        acknowledged
    });
    let walks: Vec<&Walk> = std::iter::once(nodes).chain(workers).collect();
    check_all_reached(&walks);
    let export = cluster.verified(&scene, 0, Duration::ZERO);
    load::check_kept(&export, &acknowledged);
}

fn labourer(scene: &Scene, cluster: &Cluster, name: &'static str) -> Labourer {
    let (servers, token) = (cluster.servers(), cluster.worker_token(name));
    Labourer { name, folder: scene.path(name), servers, token, worker: None }
}

#[test]
fn a_cluster_loses_and_doubles_nothing_at_any_failpoint() {
    let nodes = Walk::over(wanted(&["postgres.", "node."]), times());
    let workers = Walk::over(wanted(&["worker."]), times());
    walk_over(Kept::Postgres, &nodes, Some(&workers));
}

#[test]
fn a_mariadb_node_loses_and_doubles_nothing_at_any_failpoint() {
    walk_over(Kept::MariaDb, &Walk::over(wanted(&["mysql."]), times()), None);
}

#[test]
fn a_single_node_loses_and_doubles_nothing_at_any_failpoint() {
    let nodes = Walk::over(wanted(&["sqlite."]), times());
    let scene = Scene::new();
    // Where it listens has to be known beforehand: it never gets to say so.
    let mut node = scene.start();
    let endpoint = node.api().clone();
    let place = endpoint.address().trim_start_matches("http://").to_owned();
    node.kill();
    let data = scene.data().display().to_string();
    let mut node = scene
        .node()
        .with_program(punctual_tests::binary::path(), ["dev", "--http", &place, "--data", &data])
        .with_env("PUNCTUAL_ATTEMPT_LEASE", "2s");
    node.start();
    for number in 0..JOBS {
        let job = json!({ "schedule": { "every": "1s" }, "task": { "noop": {} }, "overlap": "allow",
            "misfire": { "policy": "all" }, "keep": { "runs": 100_000 } });
        node.api().put_job(&format!("job-{number}"), &job);
    }
    node.kill();
    let talk = load::Asking::default();
    let acknowledged = thread::scope(|scope| {
        let _over = talk.at_most();
        let asking = scope.spawn(|| load::ask_on(std::slice::from_ref(&endpoint), &talk));
        let lived = thread::scope(|scope| {
            let (nodes, node, endpoint) = (&nodes, &mut node, endpoint.clone());
            scope.spawn(move || lives::walk(nodes, &mut Server::new(node, endpoint))).join().is_ok()
        });
        if lived {
            node.set_env(VARIABLE, None);
            node.start();
        }
        talk.stop(lived);
        let acknowledged = asking.join().expect("asking does not fail");
        assert!(lived, "a life ended in a way that it should not");
        acknowledged
    });
    check_all_reached(&[&nodes]);
    let through = wait::wall_clock();
    let export = wait::until("everything that was due has ended", 2 * SOON, || {
        let is_done = |export: &Export| punctual_tests::cluster::is_done(export, through);
        Some(Export::of(&node)).filter(|export| export.all_fires().count() >= JOBS && is_done(export))
    });
    load::check_kept(&export, &acknowledged);
    let options =
        Options { fired_through: Some(through), ended_through: Some(through), ..Options::default() };
    export.verify(&scene, &node, &options);
}
