//! A disk that cannot keep its word, or takes its time (T-14).

use std::time::Duration;

use punctual_tests::api::RUNS;
use punctual_tests::fault::Injection;
use punctual_tests::history::has_ended;
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Export, Scene};
use punctual_verify::Options;
use serde_json::{Value, json};

#[test]
fn a_failed_sync_ends_the_process_and_loses_nothing_acknowledged() {
    let scene = Scene::new();
    let mut node = scene.start();
    node.api().put_job("beat", &json!({ "schedule": { "every": "200ms" }, "task": { "noop": {} } }));
    let submit = json!({ "task": { "noop": {} } });
    let mut acknowledged: Vec<Value> = (0..20).map(|_| node.api().submit(&submit)["id"].clone()).collect();

    let injection = Injection::sync_fails(&node);
    // Whether it happened is unknown; that it was promised must not be.
    if let Some(answer) = node.api().post(RUNS, &submit)
        && answer.is_ok()
    {
        acknowledged.push(answer.json()["id"].clone());
    }
    let status = node.wait_for_end();
    assert!(!status.success(), "a process that cannot keep its word does not end well: {status}");
    let said = node.printed();
    assert!(said.contains("error: ") || said.contains("ERROR"), "{said}");
    assert!(!said.contains("panicked"), "{said}");
    drop(injection);

    node.start();
    let export = Export::of(&node);
    for id in &acknowledged {
        let id = id.as_str().expect("a run has an id");
        assert!(export.runs().contains_key(id), "run {id} was acknowledged and is gone");
    }
    wait::until_so("the schedule goes on", SOON, || {
        Export::of(&node).fires("beat").len() > export.fires("beat").len()
    });
    Export::of(&node).verify(&scene, &node, &Options::default());
}

#[test]
fn a_slow_sync_keeps_the_order_and_no_healthy_attempt_is_given_up() {
    let scene = Scene::new();
    let mut node = scene.node().with_env("PUNCTUAL_ATTEMPT_LEASE", "12s");
    node.start();
    let order = scene.path("order");
    let task = json!({ "shell": format!("echo $PUNCTUAL_RUN_ID >> {}", order.display()) });
    let queue = json!({ "schedule": { "manual": true }, "task": task, "overlap": "queue" });
    node.api().put_job("line", &queue);
    // Longer than its lease: heartbeats have to be believed while commits crawl.
    let long = node.api().submit(&json!({ "task": { "shell": "sleep 16" } }));
    let id = long["id"].as_str().expect("a run has an id").to_owned();
    wait::until_so("the long one runs", SOON, || node.api().run(&id)["state"] == "running");

    let injection = Injection::sync_is_slow(&node, Duration::from_secs(5));
    let line: Vec<String> = (0..2)
        .map(|_| node.api().start_job("line")["id"].as_str().expect("a run has an id").to_owned())
        .collect();
    let ended =
        wait::until("the long one has ended", 4 * SOON, || Some(node.api().run(&id)).filter(has_ended));
    drop(injection);
    assert_eq!((&ended["state"], &ended["attempt"]), (&json!("succeeded"), &json!(1)), "{ended}");
    for run in &line {
        wait::until_so("the line has moved on", 2 * SOON, || has_ended(&node.api().run(run)));
    }
    let export = Export::of(&node);
    for run in line.iter().chain([&id]) {
        assert_eq!(export.runs()[run.as_str()]["attempt"], 1, "{}", export.runs()[run.as_str()]);
        assert!(export.events(run).iter().all(|event| event["what"] != "lost"), "{:?}", export.events(run));
    }
    let in_order = std::fs::read_to_string(&order).expect("the line has left its traces");
    assert_eq!(in_order.lines().collect::<Vec<_>>(), line, "first come, first served");
    export.verify(&scene, &node, &Options { may_be_empty: true, ..Options::default() });
}

#[test]
fn an_attempt_is_not_given_up_before_it_was_given_out() {
    let scene = Scene::new();
    let mut node = scene.node().with_env("PUNCTUAL_ATTEMPT_LEASE", "2s");
    node.start();
    // One commit takes longer than a lease: the worker hears of the attempt when its lease would be over.
    let injection = Injection::sync_is_slow(&node, Duration::from_secs(4));
    let run = node.api().submit(&json!({ "task": { "shell": "echo hi" } }));
    let id = run["id"].as_str().expect("a run has an id");
    let ended = wait::until("it has ended", 2 * SOON, || Some(node.api().run(id)).filter(has_ended));
    drop(injection);
    assert_eq!((&ended["state"], &ended["attempt"]), (&json!("succeeded"), &json!(1)), "{ended}");
}
