//! Nodes whose wall clocks are wrong (P4, P16, R11; T-16, T-17): the store's clock is the only one that counts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_tests::cluster::{Kept, NODES};
use punctual_tests::fault::Clock;
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Cluster, Scene};
use serde_json::{Value, json};

/// Leases that do not end because the machine stands still for a moment.
const CALM: [&str; 2] = ["--shard-lease", "5s"];
const AHEAD: Duration = Duration::from_millis(500);
const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const TICKS: usize = 4;
/// Ticks of every job under each setting of the clocks.
const TICKS_EACH: usize = 2;

/// Three nodes, each with a clock of its own, a worker with the right time, and jobs that write down when they run.
struct Ticking {
    scene: Scene,
    cluster: Cluster,
    clocks: Vec<Clock>,
    jobs: usize,
}

impl Ticking {
    /// The clocks are set before anybody looks at them.
    fn start(jobs: usize, set: impl Fn(&[Clock])) -> Ticking {
        let scene = Scene::new();
        let clock = |number| Clock::new(scene.path(&format!("clock-{number}")));
        let clocks: Vec<Clock> = (0..NODES).map(clock).collect();
        set(&clocks);
        let mut cluster = Cluster::new(&scene, &Kept::Postgres.address(), &CALM);
        let ruled = cluster.nodes.drain(..).zip(&clocks).map(|(node, clock)| clock.rule(node)).collect();
        cluster.nodes = ruled;
        cluster.start_all();
        cluster.add_worker("a", &[]);
        let shell =
            format!("echo $PUNCTUAL_DUE $(date +%s%3N) $PUNCTUAL_JOB >> {}", starts(&scene).display());
        for number in 0..jobs {
            // A machine that is too busy for all of them skips some, so that no job waits behind the others for ever.
            let job = json!({ "schedule": { "every": "1s" }, "task": { "shell": shell }, "overlap": "skip" });
            let path = format!("{}/job-{number}", punctual_tests::api::JOBS);
            cluster.insist(number % NODES, |api| api.put(&path, &job));
        }
        Ticking { scene, cluster, clocks, jobs }
    }

    /// Waits until every job has run so many more times.
    #[track_caller]
    fn wait_for_ticks(&self, ticks: usize) {
        let before = count(&starts(&self.scene));
        wait::until_so("every job goes on", SOON, || {
            let now = count(&starts(&self.scene));
            now.len() == self.jobs
                && now.iter().all(|(job, runs)| *runs >= before.get(job).unwrap_or(&0) + ticks)
        });
    }

    /// The differences that the overview warns of, as a third node sees them.
    fn warned(&self) -> Vec<String> {
        let overview = self.cluster.insist(2, |api| api.get("/api/v1/overview"));
        let entries = overview["attention"].as_array().expect("a list");
        let offsets = entries.iter().filter(|entry| entry["kind"] == "clock_offset");
        let message = |entry: &Value| entry["message"].as_str().expect("a text").to_owned();
        offsets.map(message).collect()
    }

    /// By the right time nothing began early, and nothing twice.
    #[track_caller]
    fn check(&self) {
        self.cluster.verified(&self.scene, 0, Duration::ZERO);
        let mut ticks = BTreeSet::new();
        for line in lines(&starts(&self.scene)) {
            let [due, started, job] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
            let due: Timestamp = due.parse().expect("an instant");
            let started = Timestamp::from_millis(started.parse().expect("milliseconds"));
            assert!(started >= due, "{job} started {:?} early", due.since(started));
            assert!(ticks.insert((job.to_owned(), due)), "{job} ran twice for {due}");
        }
    }
}

fn starts(scene: &Scene) -> PathBuf {
    scene.path("starts")
}

/// The lines that are complete.
fn lines(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let end = text.rfind('\n').map_or(0, |end| end + 1);
    text[..end].lines().map(str::to_owned).collect()
}

/// How often each job has run.
fn count(file: &Path) -> BTreeMap<String, usize> {
    let mut runs = BTreeMap::new();
    for line in lines(file) {
        let job = line.rsplit(' ').next().unwrap_or_default().to_owned();
        *runs.entry(job).or_default() += 1;
    }
    runs
}

#[test]
fn a_node_half_a_second_ahead_fires_nothing_early_or_twice() {
    let ticking = Ticking::start(12, |clocks| clocks[0].set_ahead(AHEAD));
    ticking.wait_for_ticks(TICKS);
    ticking.check();
}

#[test]
fn a_server_with_a_wrong_clock_fires_once_and_never_early() {
    let ticking = Ticking::start(6, |_| {});
    let wrong = &ticking.clocks[0];
    for off in [1, -1, MINUTE + 1, -MINUTE - 1, HOUR, -HOUR, DAY, -DAY] {
        wrong.set(off);
        ticking.wait_for_ticks(TICKS_EACH);
    }
    // Back and forth within every tick.
    for _ in 0..10 {
        for off in [2, 0, -2] {
            wrong.set(off);
            wait::pass(Duration::from_millis(70));
        }
    }
    ticking.wait_for_ticks(1);
    ticking.check();
}

#[test]
fn servers_that_disagree_by_seconds_fire_once_and_never_early() {
    let disagree = |clocks: &[Clock]| {
        clocks[0].set(5);
        clocks[1].set(-5);
    };
    let mut ticking = Ticking::start(6, disagree);
    ticking.wait_for_ticks(TICKS_EACH);
    let warned = ticking.warned();
    for difference in ["is 5s ahead of", "is 5s behind"] {
        assert!(warned.iter().any(|message| message.contains(difference)), "{difference}: {warned:?}");
    }
    assert_eq!(warned.len(), 2, "{warned:?}");
    // The shards of a node that dies go to one that is ten seconds behind it, or ahead of it.
    for node in [0, 1] {
        ticking.cluster.nodes[node].kill();
        ticking.wait_for_ticks(TICKS_EACH);
        ticking.cluster.nodes[node].start();
    }
    ticking.check();
}
