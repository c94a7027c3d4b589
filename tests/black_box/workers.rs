//! Workers in processes of their own (R37 to R40, P8, P12; T-04, T-05).

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use punctual_tests::api::RUNS;
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Api, Machine, Node, Scene, Worker};
use rustix::process::Signal;
use serde_json::{Value, json};

const LEASE: &str = "2s";

#[track_caller]
fn worker(scene: &Scene, node: &Node, name: &str, words: &[&str]) -> Worker {
    let mut worker = Worker::spawn(&scene.path(name), name, node.api().address(), words);
    worker.wait_until_ready();
    worker
}

#[track_caller]
fn submit(api: &Api, shell: &str) -> String {
    let body = json!({ "task": { "shell": shell } });
    let answer = api.post(RUNS, &body).expect("the node answers");
    answer.json()["id"].as_str().expect("a run has an id").to_owned()
}

#[track_caller]
fn seen(api: &Api, run: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    wait::until(what, SOON, || {
        let run = api.get(&format!("{RUNS}/{run}")).expect("the node answers").json();
        is_so(&run).then_some(run)
    })
}

fn ended(api: &Api, run: &str) -> Value {
    seen(api, run, "the run ends", |run| {
        !["waiting", "ready", "running"].contains(&run["state"].as_str().unwrap_or_default())
    })
}

fn running(api: &Api, run: &str) -> Value {
    seen(api, run, "the run is under way", |run| run["state"] == "running" && !run["started_at"].is_null())
}

fn name_of(run: &Value) -> String {
    run["worker"].as_str().and_then(|worker| worker.split('@').next()).unwrap_or_default().to_owned()
}

#[test]
fn two_workers_share_the_runs_of_a_node_that_runs_none_itself() {
    let scene = Scene::new();
    let node = scene.start_center(LEASE);
    let (_a, _b) =
        (worker(&scene, &node, "a", &["--slots", "2"]), worker(&scene, &node, "b", &["--slots", "2"]));
    wait::until_so("both are listed", SOON, || {
        let listed = node.api().get("/api/v1/workers").expect("the node answers").ok();
        let items = listed["items"].as_array().expect("a list has items");
        let name = |worker: &Value| Some(worker["name"].as_str()?.split('@').next()?.to_owned());
        let names: BTreeSet<String> = items.iter().filter_map(name).collect();
        names == ["a".to_owned(), "b".to_owned()].into()
    });
    let runs: Vec<String> = (0..12).map(|_| submit(node.api(), "sleep 0.2; echo hi")).collect();
    let ended: Vec<Value> = runs.iter().map(|run| ended(node.api(), run)).collect();
    assert!(ended.iter().all(|run| run["state"] == "succeeded" && run["output"] == "hi"), "{ended:#?}");
    let names: BTreeSet<String> = ended.iter().map(name_of).collect();
    assert_eq!(names, ["a".to_owned(), "b".to_owned()].into());
}

#[test]
fn the_run_of_a_killed_worker_is_retried_elsewhere() {
    let scene = Scene::new();
    let node = scene.start_center(LEASE);
    let mut a = worker(&scene, &node, "a", &[]);
    let run = submit(node.api(), "test $PUNCTUAL_ATTEMPT = 2 || sleep 1000");
    assert_eq!(name_of(&running(node.api(), &run)), "a");
    let _b = worker(&scene, &node, "b", &[]);
    let (killed, machine) = (wait::now(), Machine::watched());
    a.kill();
    let again = ended(node.api(), &run);
    // Its lease of two seconds, and two more to notice; the rest is a slow machine's.
    assert!(killed.elapsed() < Duration::from_secs(8) + machine.taken(), "{:?}", killed.elapsed());
    assert_eq!((again["state"].as_str(), again["attempt"].as_u64()), (Some("succeeded"), Some(2)));
    assert_eq!(name_of(&again), "b");
}

#[test]
fn a_report_after_the_lease_is_refused() {
    let scene = Scene::new();
    let node = scene.start_center(LEASE);
    let mut a = worker(&scene, &node, "a", &[]);
    let run = submit(node.api(), "test $PUNCTUAL_ATTEMPT = 2 || sleep 3; echo $PUNCTUAL_ATTEMPT");
    assert_eq!(name_of(&running(node.api(), &run)), "a");
    let _b = worker(&scene, &node, "b", &[]);
    a.signal(Signal::STOP);
    let taken = ended(node.api(), &run);
    assert_eq!((taken["attempt"].as_u64(), taken["output"].as_str()), (Some(2), Some("2")));
    a.signal(Signal::CONT);
    // It comes back, tells what it tells, and works on.
    wait::until_so("the worker is there again", SOON, || {
        let workers = node.api().get("/api/v1/workers").expect("the node answers").json();
        let items = workers["items"].as_array().cloned().unwrap_or_default();
        items.iter().filter(|worker| worker["lost"] == false).count() == 2
    });
    let after = ended(node.api(), &run);
    assert_eq!(after, taken, "one result, the first one under the newest token");
    a.signal(Signal::TERM);
    assert!(a.wait_for_end().success());
}

#[test]
fn a_worker_takes_only_what_it_allows_and_ends_cleanly() {
    let scene = Scene::new();
    let node = scene.start_center(LEASE);
    let mut a = worker(&scene, &node, "a", &["--allow", "noop,http", "--label", "disk=ssd"]);
    let shell = submit(node.api(), "echo hi");
    let answer = node.api().post(RUNS, &json!({ "task": { "noop": {} } })).expect("the node answers");
    let noop = answer.json()["id"].as_str().expect("a run has an id").to_owned();
    assert_eq!(ended(node.api(), &noop)["state"], "succeeded");
    let shell = node.api().get(&format!("{RUNS}/{shell}")).expect("the node answers").json();
    assert_ne!(shell["state"], "succeeded", "nobody here takes it");
    a.signal(Signal::TERM);
    assert!(a.wait_for_end().success(), "{}", a.printed());
}

#[test]
fn a_stopped_worker_is_lost_and_gets_no_work_until_it_goes_on() {
    let scene = Scene::new();
    let node = scene.start_center(LEASE);
    let a = worker(&scene, &node, "a", &["--slots", "8"]);
    let held = submit(node.api(), "sleep 1000");
    assert_eq!(name_of(&running(node.api(), &held)), "a");
    let mut b = worker(&scene, &node, "b", &["--slots", "1"]);
    let is_lost = |name: &str| {
        let workers = node.api().get("/api/v1/workers").expect("the node answers").json();
        let items = workers["items"].as_array().cloned().unwrap_or_default();
        items.iter().any(|worker| {
            worker["lost"] == true
                && worker["name"].as_str().is_some_and(|id| id.split('@').next() == Some(name))
        })
    };
    a.signal(Signal::STOP);
    wait::until_so("the stopped worker is lost", SOON, || is_lost("a"));
    let list = node.cli(["node", "workers"]).ok();
    assert!(list.lines().any(|line| line.starts_with("a@") && line.contains(" lost ")), "{list}");
    // It has more free slots than the other, and gets nothing.
    node.api().post(&format!("{RUNS}/{held}/cancel"), &json!({})).expect("the node answers");
    let runs: Vec<String> = (0..8).map(|_| submit(node.api(), "true")).collect();
    let names: BTreeSet<String> = runs.iter().map(|run| name_of(&ended(node.api(), run))).collect();
    assert_eq!(names, ["b".to_owned()].into());
    a.signal(Signal::CONT);
    wait::until_so("the worker is back", SOON, || !is_lost("a"));
    b.signal(Signal::TERM);
    assert!(b.wait_for_end().success(), "{}", b.printed());
    let run = submit(node.api(), "true");
    assert_eq!(name_of(&ended(node.api(), &run)), "a");
}

#[test]
fn a_second_worker_of_a_name_is_refused_and_the_first_works_on() {
    let scene = Scene::new();
    // A lease that outlasts every wait of this test: a slow machine loses no attempt.
    let node = scene.start_center("10m");
    let _a = worker(&scene, &node, "a", &[]);
    let go = scene.path("go");
    let run = submit(node.api(), &format!("until test -e {}; do sleep 0.05; done", go.display()));
    running(node.api(), &run);
    let mut double = Worker::spawn(&scene.path("double"), "a", node.api().address(), &[]);
    assert_eq!(double.wait_for_end().code(), Some(4), "{}", double.printed());
    let said = double.printed();
    assert!(said.contains("a worker named `a` is connected already") && said.contains("--name"), "{said}");
    fs::write(&go, "").expect("a file of the scene can be written");
    let run = ended(node.api(), &run);
    assert_eq!((run["state"].as_str(), run["attempt"].as_u64()), (Some("succeeded"), Some(1)), "{run}");
}

#[test]
fn a_killed_worker_comes_back_under_its_name_at_once() {
    let scene = Scene::new();
    // A lease that outlasts every wait of this test.
    let node = scene.start_center("10m");
    let mut a = worker(&scene, &node, "a", &[]);
    let run = submit(node.api(), "test $PUNCTUAL_ATTEMPT = 2 || sleep 1000");
    running(node.api(), &run);
    a.kill();
    a.start_again();
    let again = ended(node.api(), &run);
    assert_eq!((again["state"].as_str(), again["attempt"].as_u64()), (Some("succeeded"), Some(2)), "{again}");
}

#[test]
fn a_worker_without_a_settings_file_calls_no_address_of_this_machine() {
    let scene = Scene::new();
    let node = scene.start_center(LEASE);
    let _a = worker(&scene, &node, "a", &[]);
    let task = json!({ "http": { "url": format!("{}/healthz", node.api().address()) } });
    let answer = node.api().post(RUNS, &json!({ "task": task, "retry": { "attempts": 1 } }));
    let run = answer.expect("the node answers").ok()["id"].as_str().expect("a run has an id").to_owned();
    let run = ended(node.api(), &run);
    let error = run["error"].as_str().unwrap_or_default();
    assert!(run["state"] == "failed" && error.contains("tasks may not call"), "{run}");
}

#[test]
fn a_worker_says_clearly_why_it_cannot_work() {
    let scene = Scene::new();
    let node = scene.start_center(LEASE);
    let _a = worker(&scene, &node, "a", &[]);
    // The folder of another worker.
    let mut double = Worker::spawn(&scene.path("a"), "b", node.api().address(), &[]);
    assert_eq!(double.wait_for_end().code(), Some(1));
    assert!(double.printed().contains("another worker uses"), "{}", double.printed());
    // No server listens there: the worker keeps trying, and says so.
    let mut lost = Worker::spawn(&scene.path("lost"), "lost", "http://127.0.0.1:9", &[]);
    wait::until_so("it says that nobody is there", SOON, || lost.printed().contains("http://127.0.0.1:9"));
    lost.signal(Signal::TERM);
    assert!(lost.wait_for_end().success(), "{}", lost.printed());
}
