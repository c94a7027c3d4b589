//! Nodes whose wall clocks differ (P7, R11): the store's clock is the only one that counts.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_tests::cluster::Kept;
use punctual_tests::fault::Clock;
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Cluster, Scene, skip_unless};
use serde_json::json;

const AHEAD: Duration = Duration::from_millis(500);
const JOBS: usize = 12;
const TICKS: usize = 4;

#[test]
fn three_nodes_of_which_one_is_half_a_second_ahead_make_one_run_a_tick_and_none_early() {
    let scene = Scene::new();
    let clock = skip_unless!(Clock::new(scene.path("clock")));
    clock.set_ahead(AHEAD);
    let mut cluster = Cluster::new(&scene, &Kept::Postgres.address(), &[]);
    let node = cluster.nodes.remove(0);
    cluster.nodes.insert(0, clock.rule(node));
    cluster.start_all();
    // The machine of the worker has the right time.
    cluster.add_worker("a", &[]);
    let starts = scene.path("starts");
    let shell = format!("echo $PUNCTUAL_DUE $(date +%s%3N) $PUNCTUAL_JOB >> {}", starts.display());
    for number in 0..JOBS {
        let job = json!({ "schedule": { "every": "1s" }, "task": { "shell": shell } });
        cluster
            .insist(number % 3, |api| api.put(&format!("{}/job-{number}", punctual_tests::api::JOBS), &job));
    }
    let lines = || fs::read_to_string(&starts).unwrap_or_default();
    wait::until_so("it ticks", SOON, || lines().lines().count() >= TICKS * JOBS);
    cluster.verified(&scene, 0, Duration::ZERO);
    let mut ticks = BTreeSet::new();
    for line in lines().lines() {
        let [due, started, job] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let due: Timestamp = due.parse().expect("an instant");
        let started = Timestamp::from_millis(started.parse().expect("milliseconds"));
        assert!(started >= due, "{job} started {:?} early", due.since(started));
        assert!(ticks.insert((job.to_owned(), due)), "{job} ran twice for {due}");
    }
}
