//! The store goes and comes back, and what the cluster keeps of itself is taken away (P1 to P3; R41, R118; T-10, T-31).

use std::process::Command;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_store::conformance::servers::{etcd, mariadb, postgres, redis};
use punctual_tests::api::RUNS;
use punctual_tests::cluster::{SHARDS, instant, shards_of, with_parameters};
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Api, Cluster, Export, Machine, Scene};
use serde_json::{Value, json};

const JOBS: usize = 10;
const LEASES: [&str; 4] = ["--shard-lease", "1s", "--attempt-lease", "2s"];
/// How long the store is away at least.
const OUTAGE: Duration = Duration::from_secs(2);
/// When the store is back, what was missed is made up by then.
const MADE_UP_MAX: Duration = Duration::from_secs(5);
/// How often what the cluster keeps of itself is taken away.
const LOSSES: usize = 2;

/// A cluster with a worker and jobs that fire.
#[track_caller]
fn busy(scene: &Scene, store: &str, words: &[&str]) -> Cluster {
    let mut cluster = Cluster::start(scene, &with_parameters(store), words);
    cluster.add_worker("a", &[]);
    cluster.put_jobs(JOBS);
    wait_for_fires(&cluster, JOBS);
    cluster
}

/// Waits until so many more fires happened.
#[track_caller]
fn wait_for_fires(cluster: &Cluster, more: usize) {
    wait_for_fires_at(cluster, 0, more);
}

#[track_caller]
fn wait_for_fires_at(cluster: &Cluster, node: usize, more: usize) {
    let fired = || Export::of(&cluster.nodes[node]).all_fires().count();
    let before = fired();
    wait::until_so("the jobs go on", SOON, || fired() >= before + more);
}

#[track_caller]
fn submit(cluster: &Cluster, node: usize, key: &str) -> String {
    let body = json!({ "task": { "noop": {} }, "key": key });
    let run = cluster.insist(node, |api| api.post(RUNS, &body));
    run["id"].as_str().expect("a run has an id").to_owned()
}

/// Kills the store under a cluster and starts it again.
fn lose_the_store(store: &str, stop: impl FnOnce(), start_again: impl FnOnce()) {
    let scene = Scene::new();
    let cluster = busy(&scene, store, &LEASES);
    let kept: Vec<String> =
        (0..9).map(|number| submit(&cluster, number % 3, &format!("key-{number}"))).collect();
    let lost = wait::wall_clock();
    stop();
    for node in 0..cluster.nodes.len() {
        let answer =
            cluster.api(node).post(RUNS, &json!({ "task": { "noop": {} } })).expect("the node answers");
        assert_eq!(answer.status, 503, "{answer:?}");
        assert!(answer.retry_after.is_some(), "{answer:?}");
    }
    wait::until_so("the store is away for a while", SOON, || wait::wall_clock().since(lost) > OUTAGE);
    start_again();
    let (back, machine) = (wait::wall_clock(), Machine::watched());
    submit(&cluster, 1, "afterwards");
    let export = cluster.verified(&scene, 2, Duration::ZERO);
    check_made_up(&export, lost, back, &machine);
    for (number, id) in kept.iter().enumerate() {
        assert_eq!(export.runs()[id.as_str()]["state"], "succeeded", "it was acknowledged");
        assert_eq!(&submit(&cluster, (number + 1) % 3, &format!("key-{number}")), id, "one key, one run");
    }
}

#[track_caller]
fn check_made_up(export: &Export, lost: Timestamp, back: Timestamp, machine: &Machine) {
    let due = |run: &&Value| instant(&run["due_at"]) > lost && instant(&run["due_at"]) <= back;
    let made = export.all_fires().filter(due).map(|run| (instant(&run["created_at"]).since(back), run));
    let (late, run) = made.max_by_key(|(late, _)| *late).expect("something was due meanwhile");
    println!("made up {late:?} after the store was back");
    assert!(late < MADE_UP_MAX + machine.taken(), "{late:?} after the store was back: {run}");
}

#[test]
fn an_outage_of_postgresql_is_reported_and_made_up_for() {
    let store = postgres::Server::start(&["fsync=off"]);
    lose_the_store(&store.database(), || store.stop(), || store.start_again());
}

#[test]
fn an_outage_of_mariadb_is_reported_and_made_up_for() {
    let store = mariadb::Server::start(&["innodb-flush-log-at-trx-commit=2"]);
    lose_the_store(&store.database(), || store.stop(), || store.start_again());
}

#[test]
fn deleting_every_lease_by_hand_costs_a_pause_and_no_double_run() {
    let scene = Scene::new();
    let server = postgres::Server::shared();
    let store = server.database();
    let (_, database) = store.rsplit_once('/').expect("an address ends in a name");
    let cluster = busy(&scene, &store, &LEASES);
    for _ in 0..LOSSES {
        let owners =
            "UPDATE punctual.shards SET owner = NULL, heir = NULL WHERE owner IS NOT NULL RETURNING shard";
        assert!(!server.sql(database, owners).is_empty(), "nobody led anything: the scene proves little");
        assert!(!server.sql(database, "DELETE FROM punctual.sessions RETURNING id").is_empty());
        wait_for_fires(&cluster, 2 * JOBS);
    }
    cluster.verified(&scene, 1, Duration::ZERO);
}

#[test]
fn losing_redis_doubles_and_loses_no_run() {
    let scene = Scene::new();
    let sessions = redis::start();
    let store = postgres::Server::shared().database();
    let coordination = redis::url(&sessions);
    let words = [&LEASES[..], &["--coordination", &coordination]].concat();
    let cluster = busy(&scene, &store, &words);
    for _ in 0..LOSSES {
        let mut flush = Command::new("redis-cli");
        let flushed = flush.args(["-p", &sessions.port.to_string(), "FLUSHALL"]).output();
        assert!(flushed.expect("redis brings its client").stdout.starts_with(b"OK"));
        wait_for_fires(&cluster, JOBS);
    }
    sessions.stop();
    wait_for_fires(&cluster, 2 * JOBS);
    sessions.start_again();
    wait_for_fires(&cluster, JOBS);
    cluster.verified(&scene, 1, Duration::ZERO);
}

#[test]
fn an_etcd_whose_keys_are_deleted_costs_no_double_run() {
    let scene = Scene::new();
    let sessions = etcd::start();
    let store = postgres::Server::shared().database();
    let coordination = etcd::url(&sessions);
    let words = [&LEASES[..], &["--coordination", &coordination]].concat();
    let cluster = busy(&scene, &store, &words);
    let keys = Api::new(&format!("127.0.0.1:{}", sessions.port));
    for _ in 0..LOSSES {
        // Everything, in the base64 that its JSON wants: from the first key to the last.
        let all = json!({ "key": "AA==", "range_end": "AA==" });
        let answer = keys.post("/v3/kv/deleterange", &all).expect("etcd answers").ok();
        assert!(answer["deleted"].is_string(), "there was no key: {answer}");
        wait_for_fires(&cluster, JOBS);
    }
    cluster.verified(&scene, 1, Duration::ZERO);
}

#[test]
fn nodes_keep_their_shards_when_etcd_loses_its_majority() {
    let scene = Scene::new();
    let sessions = etcd::start_three();
    let store = postgres::Server::shared().database();
    let coordination = etcd::url_of_all(&sessions);
    let words = [&LEASES[..], &["--coordination", &coordination]].concat();
    let mut cluster = busy(&scene, &store, &words);
    let led_by_two =
        |cluster: &Cluster| shards_of(cluster.api(1)) + shards_of(cluster.api(2)) == usize::from(SHARDS);
    // One of three is gone: sessions are still written.
    sessions[0].stop();
    wait_for_fires_at(&cluster, 1, JOBS);
    cluster.nodes[0].kill();
    wait::until_so("the others lead everything", SOON, || led_by_two(&cluster));
    cluster.nodes[0].start();
    cluster.wait_until_spread();
    // Without a majority no session can be read or written. The jobs are in the store, which works.
    sessions[1].stop();
    wait_for_fires_at(&cluster, 1, 2 * JOBS);
    submit(&cluster, 1, "without a majority");
    sessions[0].start_again();
    sessions[1].start_again();
    wait_for_fires_at(&cluster, 1, JOBS);
    cluster.verified(&scene, 1, Duration::ZERO);
}
