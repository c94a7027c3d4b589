//! Locks of a cluster: one holder at a time on whichever node it asks, through kills (R119).

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use punctual_tests::cluster::{ADMIN, Kept, NODES};
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Cluster, Scene, binary};
use serde_json::{Value, json};

const WORDS: [&str; 2] = ["--shard-lease", "2s"];
const LOCK: &str = "/api/v1/namespaces/default/locks/report";
/// Commands that want the lock at the same time, and how often each.
const CONTENDERS: usize = 4;
const TURNS: usize = 10;
const KILLS: usize = 3;
/// A released lock is given to a caller at another node within this time, on a machine that others use too.
const AT_ONCE: Duration = Duration::from_secs(1);

/// What each holder does: it fails if another one is at it, and writes its fence.
const SCRIPT: &str =
    "mkdir busy || { echo two >> log; exit 1; }; echo $PUNCTUAL_FENCE >> log; sleep 0.05; rmdir busy";

#[test]
fn one_holder_at_a_time_though_nodes_are_killed() {
    let scene = Scene::new();
    let mut cluster = Cluster::start(&scene, &Kept::Postgres.address(), &WORDS);
    let servers = cluster.servers();
    let folder = scene.path("");
    let contenders: Vec<_> = (0..CONTENDERS)
        .map(|contender| {
            let (servers, folder) = (servers.clone(), folder.clone());
            thread::spawn(move || {
                for _ in 0..TURNS {
                    let mut command = Command::new(binary::path());
                    let owner = format!("contender-{contender}");
                    command.args(["lock", "report", "--owner", &owner, "--", "sh", "-c", SCRIPT]);
                    command.env("PUNCTUAL_SERVER", &servers).env("PUNCTUAL_TOKEN", ADMIN);
                    let ended = command.current_dir(&folder).stdin(Stdio::null()).output();
                    let ended = ended.expect("the binary can be started");
                    assert!(ended.status.success(), "{ended:?}");
                }
            })
        })
        .collect();
    let log = scene.path("log");
    let lines = || fs::read_to_string(&log).unwrap_or_default().lines().count();
    for kill in 0..KILLS {
        let before = lines();
        cluster.nodes[kill % NODES].kill();
        wait::until_so("the others go on", 3 * SOON, || lines() > before + 2);
        cluster.nodes[kill % NODES].start();
    }
    contenders.into_iter().for_each(|contender| contender.join().expect("each command has run"));
    let log = fs::read_to_string(&log).expect("it was written");
    let fences: Vec<u64> = log.lines().map(|line| line.parse().unwrap_or_default()).collect();
    assert_eq!(fences.len(), CONTENDERS * TURNS, "{log}");
    assert!(fences.windows(2).all(|pair| pair[0] < pair[1]), "fences grow: {log}");
}

#[test]
fn a_caller_at_another_node_gets_the_lock_at_once() {
    let scene = Scene::new();
    let cluster = Cluster::start(&scene, &Kept::Postgres.address(), &WORDS);
    let acquire = |owner: &str| json!({ "ttl": "1m", "wait": "30s", "owner": owner });
    let first = cluster.insist(0, |api| api.post(LOCK, &acquire("first")));
    let endpoints = cluster.endpoints();
    thread::scope(|scope| {
        let mut waiting = Vec::new();
        for (place, endpoint) in endpoints.iter().enumerate() {
            let owner = format!("node-{place}");
            let body = acquire(&owner);
            waiting.push(scope.spawn(move || {
                let got = endpoint.post(LOCK, &body).expect("the node answers").ok();
                (got, wait::now())
            }));
            wait::until_so("it waits", SOON, || {
                let shown = cluster.api(0).get(LOCK).map(|answer| answer.json());
                shown.is_some_and(|shown| {
                    shown["waiting"].as_array().is_some_and(|all| all.len() == place + 1)
                })
            });
        }
        let (mut fence, mut released) = (first["fence"].clone(), wait::now());
        release(&cluster, &fence);
        for (place, waiter) in waiting.into_iter().enumerate() {
            let (got, at) = waiter.join().expect("it gets the lock");
            assert_eq!(got["owner"], format!("node-{place}"), "in the order of their requests");
            assert!(at.saturating_duration_since(released) < AT_ONCE, "{:?}", at - released);
            fence = got["fence"].clone();
            released = wait::now();
            release(&cluster, &fence);
        }
    });
}

#[track_caller]
fn release(cluster: &Cluster, fence: &Value) {
    let body = json!({ "fence": fence });
    let answer = cluster.api(1).post(&format!("{LOCK}/release"), &body).expect("the node answers");
    assert_eq!(answer.status, 204, "{answer:?}");
}
