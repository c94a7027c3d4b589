//! A hold across a restart of every node starts nothing, and the due times that it keeps are made up for.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_tests::api::RUNS;
use punctual_tests::cluster::{Kept, NODES};
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Cluster, Scene};
use serde_json::{Value, json};

const JOBS: usize = 6;
/// Under the hold, before each restart: long enough for several due times of each job.
const HELD: Duration = Duration::from_secs(3);

/// What the tasks wrote: how often each job began for each due time.
fn begun(file: &Path) -> BTreeMap<String, BTreeMap<Timestamp, usize>> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let mut begun: BTreeMap<String, BTreeMap<Timestamp, usize>> = BTreeMap::new();
    for line in text.lines() {
        let (job, due) = line.split_once(' ').unwrap_or_else(|| panic!("a job and its due time: {line}"));
        let due = due.parse().unwrap_or_else(|_| panic!("a due time: {line}"));
        *begun.entry(job.to_owned()).or_default().entry(due).or_default() += 1;
    }
    begun
}

/// Whether every job began in every second from its first due time to `through`.
fn is_whole(file: &Path, through: Timestamp) -> bool {
    let begun = begun(file);
    begun.len() == JOBS
        && begun.values().all(|dues| {
            let first = dues.keys().next().copied().unwrap_or(through);
            let mut seconds = (0..).map(|n| first + Duration::from_secs(n));
            seconds.by_ref().take_while(|due| *due <= through).all(|due| dues.contains_key(&due))
        })
}

fn running(cluster: &Cluster) -> usize {
    let page = cluster.api(0).get(&format!("{RUNS}?state=running")).expect("the node answers").ok();
    page["items"].as_array().map_or(0, Vec::len)
}

fn hold_and_restart(store: &str) {
    let scene = Scene::new();
    let mut cluster = Cluster::start(&scene, store, &[]);
    cluster.add_worker("a", &[]);
    cluster.add_worker("b", &[]);
    let (file, late) = (scene.path("begun"), scene.path("late"));
    cluster.put_writing_jobs(JOBS, &file);
    wait::until_so("every job has begun", SOON, || begun(&file).len() == JOBS);

    let order = ["hold", "--everywhere", "--reason", "the bank is closed", "--fires", "keep"];
    cluster.nodes[1].cli(order).ok();
    wait::until_so("what was given to workers ends", SOON, || running(&cluster) == 0);
    let before = begun(&file);
    let submitted = cluster.insist(2, |api| {
        api.post(RUNS, &json!({ "task": { "shell": format!("touch {}", late.display()) } }))
    });
    let id = submitted["id"].as_str().expect("a run has an id").to_owned();
    for _ in 0..2 {
        wait::pass(HELD);
        cluster.nodes.iter_mut().for_each(punctual_tests::Node::kill);
        cluster.start_all();
    }
    wait::pass(HELD);
    assert!(begun(&file) == before && !late.exists(), "nothing starts under the hold");
    let why: Value = cluster.api(0).get(&format!("{RUNS}/{id}/why")).expect("the node answers").ok();
    assert_eq!(why["code"], "held", "{why}");
    for node in 0..NODES {
        let holds = cluster.api(node).get("/api/v1/hold").expect("the node answers").ok();
        assert_eq!(holds["items"][0]["shards_held"], holds["items"][0]["shards"], "{holds}");
    }

    cluster.nodes[2].cli(["release", "--everywhere"]).ok();
    let through = wait::wall_clock();
    wait::until_so("the kept due times are made up for", 4 * SOON, || {
        late.exists() && is_whole(&file, through)
    });
    let twice = begun(&file).into_values().flatten().filter(|(_, times)| *times > 1).count();
    assert_eq!(twice, 0, "each due time once");
    cluster.verified(&scene, 0, Duration::ZERO);
}

#[test]
fn a_hold_over_restarts_of_every_node_starts_nothing() {
    hold_and_restart(&Kept::Postgres.address());
}

#[test]
fn a_hold_on_mariadb_over_restarts_of_every_node_starts_nothing() {
    hold_and_restart(&Kept::MariaDb.address());
}
