//! Who works, how busy they are, and how much they get (R33, R39 to R42, R75; P12).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use punctual::{Context, Output};
use punctual_tests::api::RUNS;
use punctual_tests::cluster::Kept;
use punctual_tests::history::has_ended;
use punctual_tests::wait::{self, SOON, StopAtDrop};
use punctual_tests::{Api, Cluster, Machine, Scene};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

const ATTEMPT_LEASE: Duration = Duration::from_secs(2);
const LEASES: [&str; 4] = ["--shard-lease", "1s", "--attempt-lease", "2s"];
/// How long it may take to see that a lease is over (P12).
const NOTICED_MAX: Duration = Duration::from_secs(2);

/// The workers that a node lists, by the name they were given.
#[track_caller]
fn workers(api: &Api) -> BTreeMap<String, Value> {
    let listed = api.get("/api/v1/workers").expect("the node answers").ok();
    let name = |worker: &Value| {
        let name = worker["name"].as_str().unwrap_or_default();
        name.split('@').next().unwrap_or_default().to_owned()
    };
    let items = listed["items"].as_array().expect("a page has items").clone();
    items.into_iter().map(|worker| (name(&worker), worker)).collect()
}

#[track_caller]
fn submit(api: &Api, shell: &str) -> String {
    let run = api.post(RUNS, &json!({ "task": { "shell": shell } })).expect("the node answers").ok();
    run["id"].as_str().expect("a run has an id").to_owned()
}

#[test]
fn workers_are_listed_with_their_load() {
    let scene = Scene::new();
    let mut cluster = Cluster::start(&scene, &Kept::Postgres.address(), &LEASES);
    cluster.add_worker("a", &["--label", "disk=ssd"]);
    let seen = wait::until("every node knows how busy it is", SOON, || {
        let listed = (0..3).map(|node| workers(cluster.api(node)).remove("a")).collect::<Option<Vec<_>>>()?;
        listed.iter().all(|a| a["cpu_percent"].is_u64() && a["memory_percent"].is_u64()).then_some(listed)
    });
    for a in &seen {
        assert_eq!((&a["slots"], &a["labels"]["disk"]), (&json!(8), &json!("ssd")), "{a}");
        assert!(a["memory_percent"].as_u64().is_some_and(|percent| percent <= 100), "{a}");
    }
    // One of those where workers are registered is dead; the others take one more, and it gets work.
    cluster.nodes[0].kill();
    let token = cluster_token(&cluster, 1, "b");
    let words = ["--token", &token, "--slots", "2"];
    let servers = cluster.servers();
    cluster.workers.push(punctual_tests::Worker::spawn(&scene.path("b"), "b", &servers, &words));
    wait::until_so("it is listed", SOON, || workers(cluster.api(1)).contains_key("b"));
    cluster.workers[0].kill();
    let (killed, machine) = (wait::now(), Machine::watched());
    let run = submit(cluster.api(2), "echo hi");
    wait::until_so("it gets work", SOON, || cluster.api(1).run(&run)["state"] == "succeeded");
    let worker = cluster.api(1).run(&run)["worker"].clone();
    assert!(worker.as_str().is_some_and(|worker| worker.starts_with("b@")), "{worker}");
    // The dead worker is listed as lost, by both.
    for node in [1, 2] {
        wait::until_so("the dead one is lost", SOON, || workers(cluster.api(node))["a"]["lost"] == true);
    }
    let after = killed.elapsed();
    assert!(after < ATTEMPT_LEASE + NOTICED_MAX + machine.taken(), "{after:?}");
    cluster.nodes[0].start();
}

fn cluster_token(cluster: &Cluster, node: usize, name: &str) -> String {
    cluster.nodes[node].cli(["token", "add", name, "--role", "worker"]).ok().trim().to_owned()
}

#[test]
fn workers_get_runs_for_their_free_slots_only() {
    let scene = Scene::new();
    let mut cluster = Cluster::start(&scene, &Kept::Postgres.address(), &LEASES);
    cluster.add_worker("large", &["--slots", "6"]);
    cluster.add_worker("small", &["--slots", "2"]);
    let runs: Vec<String> = (0..96).map(|number| submit(cluster.api(number % 3), "sleep 0.1")).collect();
    let mut done: BTreeMap<String, usize> = BTreeMap::new();
    for run in &runs {
        let ended = wait::until("it ends", SOON, || Some(cluster.api(0).run(run)).filter(has_ended));
        assert_eq!(ended["state"], "succeeded", "{ended}");
        let worker = ended["worker"].as_str().and_then(|worker| worker.split('@').next()).unwrap_or_default();
        *done.entry(worker.to_owned()).or_default() += 1;
    }
    let (large, small) = (done["large"], done["small"]);
    assert!((2 * small..=5 * small).contains(&large), "three times the room, and {large} to {small} runs");

    // More than both can take at once; then the large one is asked to leave.
    let runs: Vec<String> =
        (0..40).map(|number| submit(cluster.api(number % 3), "sleep 0.3; echo $PUNCTUAL_ATTEMPT")).collect();
    wait::until_so("it is busy", SOON, || workers(cluster.api(1))["large"]["busy"].as_u64() > Some(0));
    cluster.workers[0].signal(Signal::TERM);
    for run in &runs {
        let ended = wait::until("it ends", SOON, || Some(cluster.api(0).run(run)).filter(has_ended));
        assert_eq!((&ended["state"], &ended["attempt"]), (&json!("succeeded"), &json!(1)), "{ended}");
    }
    assert!(cluster.workers[0].wait_for_end().success(), "{}", cluster.workers[0].printed());
    wait::until_so("it is not listed any more", SOON, || !workers(cluster.api(2)).contains_key("large"));
}

#[test]
fn a_worker_that_does_not_stop_gets_no_work_from_any_node() {
    let scene = Scene::new();
    let cluster = Cluster::start(&scene, &Kept::Postgres.address(), &LEASES);
    let may_end = Arc::new(AtomicBool::new(false));
    let (_ends, asked) = (StopAtDrop(&may_end), Arc::clone(&may_end));
    // Nothing can end it but itself.
    let stubborn = move |_: Context| {
        let asked = Arc::clone(&asked);
        async move {
            tokio::task::block_in_place(|| wait::until_so("it may end", SOON, || asked.load(Relaxed)));
            Ok(Output::from("at last"))
        }
    };
    let runtime = Runtime::new().expect("threads can be started");
    let builder = punctual::Worker::builder().token(cluster_token(&cluster, 0, "w")).name("w").slots(64);
    let builder = cluster.endpoints.iter().fold(builder, punctual::WorkerBuilder::server);
    let builder =
        builder.function("stubborn", stubborn).function("quick", async |_| Ok(Output::from("done")));
    let worker = runtime.block_on(builder.start()).expect("the nodes take the worker");
    wait::until_so("every node knows it", SOON, || {
        workers(cluster.api(0)).get("w").is_some_and(|w| w["nodes"].as_array().map(Vec::len) == Some(3))
    });
    let call = |node: usize, name: &str| {
        let run = cluster.api(node).submit(&json!({ "task": { "function": name }, "grace": "0s" }));
        run["id"].as_str().expect("a run has an id").to_owned()
    };
    let state = |run: &str| cluster.api(0).run(run)["state"].clone();
    let stubborn = call(0, "stubborn");
    wait::until_so("it has begun", SOON, || cluster.api(0).run(&stubborn)["started_at"].is_string());
    cluster.api(0).post(&format!("{RUNS}/{stubborn}/cancel"), &json!({})).expect("the node answers").ok();
    wait::until_so("its run ends without it", SOON, || state(&stubborn) == "cancelled");
    wait::until_so("it is listed as stuck", SOON, || workers(cluster.api(1))["w"]["stuck"] == true);
    // The other nodes hear of it with its next heartbeat. Runs are spread over all nodes.
    let waiting = wait::until("no node gives it work", SOON, || {
        let runs: Vec<String> = (0..12).map(|number| call(number % 3, "quick")).collect();
        wait::pass(ATTEMPT_LEASE / 2);
        runs.iter().all(|run| state(run) == "ready").then_some(runs)
    });
    may_end.store(true, Relaxed);
    for run in waiting {
        wait::until_so("it works again", SOON, || state(&run) == "succeeded");
    }
    wait::until_so("it is not stuck any more", SOON, || workers(cluster.api(1))["w"]["stuck"] == false);
    runtime.block_on(worker.stop()).expect("it ends");
}
