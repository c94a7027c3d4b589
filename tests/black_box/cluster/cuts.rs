//! A server that is cut off from the store (P1 to P3; T-07).
//!
//! It says so, the others take its shards, and it makes nothing from memory.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use punctual_tests::api::RUNS;
use punctual_tests::cluster::{Kept, NODES, SHARDS, shards_of};
use punctual_tests::fault::{Proxy, Way, Whose};
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Cluster, Machine, Scene};
use serde_json::json;

const JOBS: usize = 10;
/// A node that is cut off says so by then.
const SAYS_SO_MAX: Duration = Duration::from_secs(2);
/// What asking it may take on a busy machine.
const ASKING_MAX: Duration = Duration::from_millis(300);

/// No job ran twice for one due time: one attempt is made of each, and nothing was in its way.
#[track_caller]
fn check_written_once(file: &Path) {
    let text = fs::read_to_string(file).expect("something ran");
    let mut seen = BTreeSet::new();
    for line in text.lines() {
        assert!(seen.insert(line), "it ran twice: {line}");
    }
}

/// Cuts one node after the other from the store, each in another way, and looks at all that came of it.
fn cut_off(kept: Kept, words: &[&str], cuts: &[fn(&Proxy)]) {
    let scene = Scene::new();
    let store = kept.address();
    let ways = kept.ways(&store);
    let mut cluster = Cluster::start_by(&ways, &scene, &store, words);
    cluster.add_worker("a", &[]);
    let written = scene.path("written");
    cluster.put_writing_jobs(JOBS, &written);
    cluster.wait_for_fires(0, JOBS);
    for (number, cut) in cuts.iter().enumerate() {
        let lost = number % NODES;
        let (left, right) = ((lost + 1) % NODES, (lost + 2) % NODES);
        let (since, machine) = (wait::now(), Machine::watched());
        cut(&ways[lost]);
        wait::until_so("the node that is cut off says so", SOON, || !cluster.nodes[lost].is_ready());
        let after = since.elapsed();
        println!("cut {number}: not ready after {after:?}");
        assert!(after < SAYS_SO_MAX + ASKING_MAX + machine.taken(), "it said so only after {after:?}");
        wait::until_so("the others lead everything", SOON, || {
            shards_of(cluster.api(left)) + shards_of(cluster.api(right)) == usize::from(SHARDS)
        });
        println!("cut {number}: the others lead everything after {:?}", since.elapsed());
        // The node that is cut off answers 503, or passes the request on to a leader.
        let asked = cluster.api(lost).get(&format!("{RUNS}?limit=1"));
        assert!(asked.is_none_or(|answer| [200, 503].contains(&answer.status)));
        cluster.wait_for_fires(left, JOBS);
        ways[lost].repair();
        wait::until_so("the node is ready again", SOON, || cluster.nodes[lost].is_ready());
    }
    let run = cluster.insist(0, |api| api.post(RUNS, &json!({ "task": { "noop": {} } })));
    assert!(run["id"].is_string());
    cluster.verified(&scene, 0, Duration::ZERO);
    check_written_once(&written);
}

#[test]
fn a_node_cut_off_from_postgresql_is_replaced() {
    let cuts: [fn(&Proxy); 3] = [
        |way| way.hold(&Way::BOTH, Whose::Everyones),
        Proxy::refuse,
        |way| way.hold(&[Way::Back], Whose::Everyones),
    ];
    cut_off(Kept::Postgres, &[], &cuts);
}

#[test]
fn a_node_cut_off_from_mariadb_one_way_is_replaced() {
    let cuts: [fn(&Proxy); 1] = [|way| way.hold(&[Way::There], Whose::Everyones)];
    cut_off(Kept::MariaDb, &[], &cuts);
}
