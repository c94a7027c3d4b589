//! Wall clocks that are set while the node runs or while it is down (P16).

use std::fs;
use std::path::Path;
use std::time::Duration;

use punctual_tests::fault::Clock;
use punctual_tests::history::has_ended;
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Export, Node, Scene};
use punctual_verify::Options;
use serde_json::{Value, json};

const HOUR: i64 = 3600;

fn every_second(policy: &str) -> Value {
    json!({ "schedule": { "every": "1s" }, "task": { "noop": {} },
        "misfire": { "policy": policy, "grace": "2s", "window": "12h" }, "keep": { "runs": 100_000 } })
}

/// The newest due time of a job that was fired.
fn newest_due(node: &Node, job: &str) -> Option<String> {
    let runs = node.api().runs_of(job);
    runs.iter().filter_map(|run| run["due_at"].as_str()).max().map(str::to_owned)
}

#[track_caller]
fn wait_for_a_fire_after(node: &Node, job: &str, due: &str) -> String {
    wait::until(&format!("{job} fires after {due}"), SOON, || {
        newest_due(node, job).filter(|newest| newest.as_str() > due)
    })
}

#[test]
fn a_step_back_repeats_no_fire_and_the_schedule_goes_on() {
    let scene = Scene::new();
    let clock = Clock::new(scene.path("clock"));
    let mut node = clock.rule(scene.node());
    node.start();
    node.api().put_job("beat", &every_second("once"));
    let mut due = wait_for_a_fire_after(&node, "beat", "");
    for offset in [-1, -3, -6] {
        clock.set(offset);
        due = wait_for_a_fire_after(&node, "beat", &due);
    }
    // And while it is down.
    node.kill();
    clock.set(-10);
    node.start();
    wait_for_a_fire_after(&node, "beat", &due);
    Export::of(&node).verify(&scene, &node, &Options::default());
}

#[test]
fn a_step_forward_is_a_fact_and_meets_the_misfire_policy() {
    let scene = Scene::new();
    let clock = Clock::new(scene.path("clock"));
    let mut node = clock.rule(scene.node());
    node.start();
    for policy in ["skip", "once", "all"] {
        node.api().put_job(policy, &every_second(policy));
    }
    let before = ["skip", "once", "all"].map(|job| wait_for_a_fire_after(&node, job, ""));
    clock.set(HOUR);
    for (job, due) in ["skip", "once", "all"].into_iter().zip(before) {
        let leapt = wait::wall_clock() + Duration::from_secs(HOUR.unsigned_abs() - 60);
        wait_for_a_fire_after(&node, job, &due.max(leapt.to_string()));
    }
    let export = Export::of(&node);
    let misfires = |job: &str| export.fires(job).iter().filter(|run| run["trigger"] == "misfire").count();
    assert_eq!((misfires("skip"), misfires("once"), misfires("all")), (0, 1, 100));
    for job in ["skip", "once", "all"] {
        let skips = export.skips(job);
        assert_eq!(skips.len(), 1, "what is not made up for is one record: {skips:?}");
        let count = skips[0]["count"].as_u64().expect("a skip record is counted when it is read");
        assert!((3400..=3602).contains(&count), "an hour of seconds: {}", skips[0]);
    }
    export.verify(&scene, &node, &Options::default());
}

#[test]
fn a_step_over_a_due_time_wakes_a_node_that_sleeps_for_long() {
    let scene = Scene::new();
    let clock = Clock::new(scene.path("clock"));
    let mut node = clock.rule(scene.node());
    node.start();
    let due = wait::wall_clock() + Duration::from_secs(1800);
    let once = json!({ "schedule": { "at": due.to_string() }, "task": { "noop": {} },
        "misfire": { "policy": "once", "window": "12h" } });
    node.api().put_job("far", &once);
    wait::pass(Duration::from_secs(2));
    assert_eq!(newest_due(&node, "far"), None);
    clock.set(HOUR);
    assert_eq!(wait_for_a_fire_after(&node, "far", ""), due.to_string());
}

#[test]
fn a_clock_changed_while_the_node_is_down_fires_nothing_twice() {
    let scene = Scene::new();
    let clock = Clock::new(scene.path("clock"));
    let mut node = clock.rule(scene.node());
    node.start();
    node.api().put_job("beat", &every_second("once"));
    let mut due = wait_for_a_fire_after(&node, "beat", "");
    for offset in [61, 55, 120, 112] {
        node.kill();
        clock.set(offset);
        node.start();
        due = wait_for_a_fire_after(&node, "beat", &due);
    }
    Export::of(&node).verify(&scene, &node, &Options::default());
}

/// A task that leaves a line when it starts and sits there for a while.
fn sits_there(traces: &Path, seconds: u32) -> Value {
    json!({ "shell": format!("echo started >> {}; sleep {seconds}", traces.display()) })
}

fn lines_in(traces: &Path) -> usize {
    fs::read_to_string(traces).unwrap_or_default().lines().count()
}

#[test]
fn a_step_takes_no_attempt_from_its_worker() {
    for step in [HOUR, -HOUR] {
        let scene = Scene::new();
        let clock = Clock::new(scene.path("clock"));
        let mut node = clock.rule(scene.node()).with_env("PUNCTUAL_ATTEMPT_LEASE", "2s");
        node.start();
        let traces = scene.path("traces");
        let run = node.api().submit(&json!({ "task": sits_there(&traces, 5) }));
        let id = run["id"].as_str().expect("a run has an id");
        wait::until_so("it has started", SOON, || lines_in(&traces) > 0);
        clock.set(step);
        let ended = wait::until("it has ended", SOON, || Some(node.api().run(id)).filter(has_ended));
        assert_eq!((&ended["state"], &ended["attempt"]), (&json!("succeeded"), &json!(1)), "{step}: {ended}");
        assert_eq!(
            lines_in(&traces),
            1,
            "a healthy attempt was started beside itself, after a step of {step} s"
        );
    }
}

#[test]
fn a_step_back_holds_up_nothing_that_counts_from_now() {
    let scene = Scene::new();
    let clock = Clock::new(scene.path("clock"));
    let mut node = clock.rule(scene.node());
    node.start();
    let first = node.api().submit(&json!({ "task": { "noop": {} } }));
    let state_of =
        |run: &Value| node.api().run(run["id"].as_str().expect("a run has an id"))["state"].clone();
    wait::until_so("a first run succeeds", SOON, || state_of(&first) == "succeeded");
    clock.set(-HOUR);
    let retry = json!({ "attempts": 2, "delay": "200ms" });
    let failing = node.api().submit(&json!({ "task": { "shell": "exit 1" }, "retry": retry }));
    let hanging = node.api().submit(&json!({ "task": { "shell": "sleep 300" }, "timeout": "1s" }));
    let delayed = node.api().submit(&json!({ "task": { "noop": {} }, "delay": "1s" }));
    wait::until_so("a failed attempt is tried again", SOON, || state_of(&failing) == "failed");
    wait::until_so("a timeout comes in time", SOON, || state_of(&hanging) == "timed_out");
    wait::until_so("a delayed run starts", SOON, || state_of(&delayed) == "succeeded");
}
