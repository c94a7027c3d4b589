//! A node with nothing to do does nothing: it sleeps until something is due, and then it is on time (R109).

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_tests::history::has_ended;
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Machine, Node, Scene};
use serde_json::{Value, json};

/// Longer than anything that used to tick: a look at the clock, a sign of life.
const WATCHED: Duration = Duration::from_secs(8);
/// A machine may have its own reasons to disturb a process once or twice.
const WAKES_MAX: u64 = 4;
/// How late a lone run may start on a busy machine in a debug build.
const LATE_MAX: Duration = Duration::from_millis(250);

/// How often each thread of a process came to run, by its number and name.
fn switches(node: &Node) -> BTreeMap<String, u64> {
    let threads = fs::read_dir(format!("/proc/{}/task", node.pid())).expect("the node runs");
    let of_thread = |thread: fs::DirEntry| {
        let name = fs::read_to_string(thread.path().join("comm")).ok()?;
        let status = fs::read_to_string(thread.path().join("status")).ok()?;
        let counts = status.lines().filter(|line| line.contains("_ctxt_switches"));
        let count = counts.filter_map(|line| line.rsplit('\t').next()?.parse::<u64>().ok()).sum();
        Some((format!("{} {}", thread.file_name().display(), name.trim()), count))
    };
    threads.flatten().filter_map(of_thread).collect()
}

/// The threads that ran during a span, and how often.
fn woken(node: &Node, span: Duration) -> BTreeMap<String, u64> {
    let before = switches(node);
    assert!(before.values().sum::<u64>() > 0, "nothing is counted here");
    wait::pass(span);
    let after = switches(node).into_iter();
    let since = after.map(|(thread, count)| {
        let earlier = before.get(&thread).copied().unwrap_or(0);
        (thread, count - earlier)
    });
    since.filter(|(_, count)| *count > 0).collect()
}

/// Waits until what began with the start and the first run has come to an end: files are synced, helpers go home.
#[track_caller]
fn wait_until_settled(node: &Node) {
    wait::until_so("two seconds go by in which nothing runs", SOON, || {
        woken(node, Duration::from_secs(2)).is_empty()
    });
}

fn once_at(due: Timestamp) -> Value {
    json!({ "schedule": { "at": due.to_string() }, "task": { "noop": {} } })
}

fn instant(run: &Value, field: &str) -> Timestamp {
    run[field].as_str().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no {field}: {run}"))
}

#[test]
fn a_node_with_nothing_to_do_never_wakes() {
    let scene = Scene::new();
    let node = scene.start();
    node.api().put_job("far", &once_at(wait::wall_clock() + Duration::from_secs(24 * 3600)));
    let run = node.api().submit(&json!({ "task": { "shell": "echo hi" }, "timeout": "1h" }));
    let id = run["id"].as_str().expect("a run has an id");
    wait::until_so("a run has ended", SOON, || has_ended(&node.api().run(id)));
    // A retry that waits is no reason to wake either.
    let retry = json!({ "attempts": 2, "delay": "1h", "max_delay": "1h" });
    let failing = node.api().submit(&json!({ "task": { "shell": "exit 1" }, "retry": retry }));
    let id = failing["id"].as_str().expect("a run has an id");
    wait::until_so("a run waits for its retry", SOON, || node.api().run(id)["state"] == "waiting");
    wait_until_settled(&node);

    let woken = woken(&node, WATCHED);
    assert!(woken.values().sum::<u64>() <= WAKES_MAX, "in {WATCHED:?} these ran: {woken:?}");
}

#[test]
fn what_is_due_after_a_long_sleep_starts_on_time() {
    let scene = Scene::new();
    let node = scene.start();
    let (due, machine) = (wait::wall_clock() + Duration::from_secs(7), Machine::watched());
    node.api().put_job("soon", &once_at(due));
    let run = wait::until("it has run", SOON, || {
        wait::pass(Duration::from_secs(1));
        node.api().runs_of("soon").into_iter().find(has_ended)
    });
    assert_eq!(instant(&run, "due_at"), due);
    let started = instant(&run, "started_at");
    assert!(started >= due, "never early: {run}");
    assert!(started.since(due) <= LATE_MAX + machine.taken(), "late by {:?}", started.since(due));
}

#[test]
fn a_sleeping_node_hears_at_once_what_it_is_asked() {
    let scene = Scene::new();
    let node = scene.start();
    wait_until_settled(&node);
    let (asked, machine) = (wait::wall_clock(), Machine::watched());
    let run = node.api().submit(&json!({ "task": { "noop": {} } }));
    let id = run["id"].as_str().expect("a run has an id");
    let ended = wait::until("it has ended", SOON, || Some(node.api().run(id)).filter(has_ended));
    let took = instant(&ended, "started_at").since(asked);
    assert!(took <= LATE_MAX + machine.taken(), "it took {took:?} to start: {ended}");
}
