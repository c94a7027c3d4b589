//! Processes that stand still and come back (P1, P8; T-04, T-05, T-06).

use std::path::Path;
use std::thread;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_tests::api::RUNS;
use punctual_tests::cluster::{Kept, NODES, SHARDS, instant, shards_of};
use punctual_tests::fault::{Cut, Proxy};
use punctual_tests::history::has_ended;
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Cluster, Export, Machine, Scene};
use punctual_verify::Options;
use rustix::process::Signal;
use serde_json::{Value, json};

const SHARD_LEASE: Duration = Duration::from_secs(1);
const ATTEMPT_LEASE: Duration = Duration::from_secs(2);
/// How long it may take to see that a lease is over and to give the run to another worker.
const NOTICED_MAX: Duration = Duration::from_secs(2);
/// The lease of a shard that nobody set, and a second to notice and to load.
const TAKEN_OVER_MAX: Duration = Duration::from_secs(4);
const LEASES: [&str; 4] = ["--shard-lease", "1s", "--attempt-lease", "2s"];

#[test]
fn a_server_stopped_past_its_lease_doubles_nothing() {
    let scene = Scene::new();
    let mut cluster = Cluster::start(&scene, &Kept::Postgres.address(), &LEASES);
    cluster.add_worker("a", &[]);
    cluster.put_jobs(10);
    cluster.nodes[0].signal(Signal::STOP);
    let stopped = wait::now();
    wait::until_so("the others lead everything", SOON, || {
        shards_of(cluster.api(1)) + shards_of(cluster.api(2)) == usize::from(SHARDS)
    });
    wait::until_so("it stood still for two leases", SOON, || stopped.elapsed() > 2 * SHARD_LEASE);
    cluster.nodes[0].signal(Signal::CONT);
    cluster.wait_until_spread();
    cluster.verified(&scene, 0, Duration::ZERO);
}

/// A run whose first attempt takes so many seconds, from when it creates the file on, and whose second does nothing.
#[track_caller]
fn submit_slow(cluster: &Cluster, seconds: u32, started: &Path) -> String {
    let first = format!("{{ touch {}; sleep {seconds}; }}", started.display());
    let run = submit(cluster, &format!("test $PUNCTUAL_ATTEMPT = 2 || {first}; echo $PUNCTUAL_ATTEMPT"));
    // Not by what the run says: the state `running` comes before the start, and a shard that changes hands just then
    // hears of the start only with the outcome.
    wait::until_so("the first attempt has started", SOON, || started.exists());
    run
}

#[track_caller]
fn submit(cluster: &Cluster, shell: &str) -> String {
    let body = json!({ "task": { "shell": shell } });
    let run = cluster.insist(1, |api| api.post(RUNS, &body));
    run["id"].as_str().expect("a run has an id").to_owned()
}

#[track_caller]
fn ended(cluster: &Cluster, run: &str) -> Value {
    wait::until("the run ends", SOON, || Some(cluster.api(0).run(run)).filter(has_ended))
}

#[track_caller]
fn attempts(cluster: &Cluster, run: &str) -> Vec<Value> {
    cluster.api(1).run(run)["attempts"].as_array().expect("attempts are a list").clone()
}

#[track_caller]
fn token_of(attempt: &Value) -> u64 {
    attempt["token"].as_str().and_then(|token| token.parse().ok()).expect("an attempt has a token")
}

/// A worker is killed or stopped in a run; another one gets it, soon and with a higher token.
#[track_caller]
fn check_second(attempts: &[Value], since: Timestamp, machine: &Machine) {
    let [first, second] = attempts else { panic!("two attempts: {attempts:?}") };
    assert!(token_of(second) > token_of(first), "{attempts:?}");
    assert_eq!((first["result"].as_str(), second["result"].as_str()), (Some("lost"), Some("succeeded")));
    let after = instant(&second["assigned_at"]).since(since);
    assert!(
        after < ATTEMPT_LEASE + NOTICED_MAX + machine.taken(),
        "the second attempt came {after:?} after the first was lost"
    );
}

#[test]
fn the_run_of_a_worker_that_dies_or_stands_still_has_one_result() {
    let scene = Scene::new();
    let mut cluster = Cluster::start(&scene, &Kept::Postgres.address(), &LEASES);
    cluster.add_worker("a", &[]);
    let late = submit_slow(&cluster, 3, &scene.path("late"));
    cluster.add_worker("b", &[]);
    let (stopped, stood, machine) = (wait::wall_clock(), wait::now(), Machine::watched());
    cluster.workers[0].signal(Signal::STOP);
    let taken = ended(&cluster, &late);
    check_second(&attempts(&cluster, &late), stopped, &machine);
    wait::until_so("it stood still for two leases", SOON, || stood.elapsed() > 2 * ATTEMPT_LEASE);

    cluster.workers[0].signal(Signal::CONT);
    cluster.workers[1].signal(Signal::STOP);
    // When it works again, it has long said what came of its first attempt.
    let next = submit(&cluster, "echo again");
    assert_eq!(ended(&cluster, &next)["output"], "again");
    assert_eq!(
        (&taken["output"], &ended(&cluster, &late)),
        (&json!("2"), &taken),
        "one result, and it stays"
    );
    cluster.workers[1].signal(Signal::CONT);

    let lost = submit_slow(&cluster, 1000, &scene.path("lost"));
    let (killed, machine) = (wait::wall_clock(), Machine::watched());
    let holder = cluster.api(0).run(&lost)["worker"].as_str().expect("it runs somewhere").to_owned();
    cluster.workers[usize::from(holder.starts_with('b'))].kill();
    assert_eq!(ended(&cluster, &lost)["state"], "succeeded");
    check_second(&attempts(&cluster, &lost), killed, &machine);
    let options = Options { may_be_empty: true, ..Options::default() };
    Export::of(&cluster.nodes[2]).verify(&scene, &cluster.nodes[2], &options);
}

/// Stops a leader after its transaction was written and before it said COMMIT: its locks are held.
fn stop_in_transaction(kept: Kept) {
    let scene = Scene::new();
    let store = kept.address();
    let ways = kept.ways(&store);
    let mut cluster = Cluster::start_by(&ways, &scene, &store, &[]);
    cluster.add_worker("a", &[]);
    cluster.put_jobs(10);
    cluster.wait_for_fires(0, 10);
    let body = json!({ "task": { "noop": {} }, "key": "held-at-commit" });
    ways.iter().for_each(|way| way.cut_commit("held-at-commit", Cut::Held));
    let asking = thread::spawn({
        let (api, body) = (cluster.api(0).clone(), body.clone());
        // The node that is asked may be the stopped one; then the answer comes later.
        move || api.post(RUNS, &body)
    });
    let leader = wait::until("a leader is about to commit", SOON, || {
        ways.iter().position(|way| way.counts().commits_met > 0)
    });
    cluster.nodes[leader].signal(Signal::STOP);
    let (stopped, machine) = (wait::now(), Machine::watched());
    let (left, right) = ((leader + 1) % NODES, (leader + 2) % NODES);
    wait::until_so("the others lead everything", SOON, || {
        shards_of(cluster.api(left)) + shards_of(cluster.api(right)) == usize::from(SHARDS)
    });
    let after = stopped.elapsed();
    println!("{kept:?}: taken over after {after:?}");
    assert!(after < TAKEN_OVER_MAX + machine.taken(), "taken over only after {after:?}");
    let run = cluster.insist(left, |api| api.post(RUNS, &body));
    // Now its COMMIT arrives, wherever it comes to, and then it goes on itself.
    ways.iter().for_each(Proxy::repair);
    cluster.nodes[leader].signal(Signal::CONT);
    let heard = asking.join().expect("asking does not panic").filter(punctual_tests::Answer::is_ok);
    assert!(heard.is_none_or(|answer| answer.json()["id"] == run["id"]), "one key, one run");
    cluster.wait_until_spread();
    let export = cluster.verified(&scene, right, Duration::ZERO);
    let same = export.runs().values().filter(|other| other["key"] == run["key"]).count();
    assert_eq!(same, 1, "one key, one run");
}

#[test]
fn a_leader_stopped_in_a_postgresql_transaction_blocks_no_node() {
    stop_in_transaction(Kept::Postgres);
}

#[test]
fn a_leader_stopped_in_a_mariadb_transaction_blocks_no_node() {
    stop_in_transaction(Kept::MariaDb);
}
