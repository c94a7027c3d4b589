//! Slots: never more at once than there are, the important first, and nothing that cannot run takes one.

use std::fs;
use std::path::Path;

use punctual_tests::api::{JOBS, RUNS};
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Export, Node, Scene};
use punctual_verify::Options;
use serde_json::{Value, json};

fn start(scene: &Scene, slots: usize) -> Node {
    let mut node = scene.node().with_env("PUNCTUAL_SLOTS", slots.to_string());
    node.start();
    node
}

fn lines(file: &Path) -> Vec<String> {
    fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect()
}

#[track_caller]
fn wait_until_idle(node: &Node, runs: usize) {
    wait::until_so("every run has succeeded", SOON, || {
        let page =
            node.api().get(&format!("{RUNS}?state=succeeded&limit=1000")).expect("the node answers").ok();
        page["items"].as_array().is_some_and(|items| items.len() == runs)
    });
}

fn busy(node: &Node) -> u64 {
    let workers = node.api().get("/api/v1/workers").expect("the node answers").ok();
    let workers = workers["items"].as_array().expect("a page has items").clone();
    workers.iter().filter_map(|worker| worker["busy"].as_u64()).sum()
}

#[test]
fn a_worker_of_four_slots_never_runs_five_at_once() {
    const SLOTS: usize = 4;
    const RUNS_IN_ALL: usize = 40;
    let scene = Scene::new();
    let node = start(&scene, SLOTS);
    let (inside, seen) = (scene.path("inside"), scene.path("seen"));
    fs::create_dir(&inside).expect("a folder of the scene can be made");
    // Each running task has a file in the folder, and records how many files it sees, its own included.
    let task = format!(
        "me={inside}/$PUNCTUAL_RUN_ID; touch $me; ls {inside} | wc -l >> {seen}; sleep 0.1; rm $me",
        inside = inside.display(),
        seen = seen.display()
    );
    for _ in 0..RUNS_IN_ALL {
        node.api().submit(&json!({ "task": { "shell": task } }));
    }
    wait_until_idle(&node, RUNS_IN_ALL);
    let seen: Vec<usize> = lines(&seen).iter().map(|line| line.trim().parse().expect("a number")).collect();
    assert_eq!(seen.len(), RUNS_IN_ALL);
    assert_eq!(seen.iter().max(), Some(&SLOTS), "all slots were used, and no more: {seen:?}");
}

#[test]
fn a_full_pool_starts_the_highest_priority_first() {
    let scene = Scene::new();
    let node = start(&scene, 1);
    let (go, order) = (scene.path("go"), scene.path("order"));
    let blocker = format!("until [ -e {} ]; do sleep 0.02; done", go.display());
    node.api().submit(&json!({ "task": { "shell": blocker } }));
    wait::until_so("the only slot is taken", SOON, || busy(&node) == 1);
    for priority in [2, 9, 0, 5, 7] {
        let task = format!("echo {priority} >> {}", order.display());
        node.api().submit(&json!({ "task": { "shell": task }, "priority": priority }));
    }
    fs::write(&go, "").expect("a file of the scene can be written");
    wait_until_idle(&node, 6);
    assert_eq!(lines(&order), ["9", "7", "5", "2", "0"]);
    Export::of(&node).verify(&scene, &node, &Options { may_be_empty: true, ..Options::default() });
}

#[test]
fn an_unknown_kind_of_task_is_named_and_takes_no_slot() {
    let scene = Scene::new();
    let node = start(&scene, 1);
    let job = json!({ "schedule": { "every": "1s" }, "task": { "fortran": { "source": "x.f" } } });
    let refused = node.api().put(&format!("{JOBS}/old"), &job).expect("the node answers");
    assert_eq!((refused.status, &refused.json()["field"]), (422, &json!("task.fortran")), "{refused:?}");
    let submit = node.api().post(RUNS, &json!({ "task": job["task"] })).expect("the node answers");
    assert_eq!((submit.status, &submit.json()["field"]), (422, &json!("task.fortran")), "{submit:?}");

    let file =
        scene.write("old.yaml", "name: old\nschedule: { every: 1s }\ntask:\n  fortran: { source: x.f }\n");
    let said = node.cli(["job".as_ref(), "apply".as_ref(), file.as_os_str()]);
    assert_eq!(said.status.code(), Some(4), "{said:?}");
    assert!(said.err.contains("line 4") && said.err.contains("task.fortran"), "{said:?}");

    let jobs = node.api().get(JOBS).expect("the node answers").ok();
    assert_eq!(jobs["items"], json!([]), "nothing was stored");
    assert_eq!(busy(&node), 0);
    node.cli(["run", "submit", "--noop", "--wait"]).ok();
}

#[test]
fn a_missing_program_fails_its_run_and_frees_its_slot() {
    let scene = Scene::new();
    let node = start(&scene, 1);
    let run = node.api().submit(&json!({ "task": { "process": { "command": ["no-such-program"] } } }));
    let id = run["id"].as_str().expect("a run has an id");
    let ended = wait::until("the run has failed", SOON, || {
        Some(node.api().run(id)).filter(|run| run["state"] == "failed")
    });
    assert!(ended["error"].as_str().is_some_and(|error| error.contains("no-such-program")), "{ended}");
    node.cli(["run", "submit", "--shell", "true", "--wait"]).ok();
}

#[test]
fn any_interpreter_leaves_its_output_and_exit_code() {
    let scene = Scene::new();
    let node = start(&scene, 2);
    let folder = scene.path("here");
    fs::create_dir(&folder).expect("a folder of the scene can be made");
    let script =
        scene.write("say.sh", "#!/bin/bash\necho \"$1 $WORD $(basename $PWD)\"; echo aside >&2; exit 7\n");
    let process = json!({
        "command": ["bash", script.to_str().expect("a path of ours is text"), "two words"],
        "env": { "WORD": "given" },
        "dir": folder.to_str().expect("a path of ours is text"),
    });
    let run = node.api().submit(&json!({ "task": { "process": process } }));
    let id = run["id"].as_str().expect("a run has an id");
    let ended = wait::until("the run has failed", SOON, || {
        Some(node.api().run(id)).filter(|run| run["state"] == "failed")
    });
    assert_eq!(ended["exit_code"], 7, "{ended}");
    let logs = node.cli(["run", "logs", id]);
    assert!(logs.out.contains("two words given here") && logs.err.contains("aside"), "{logs:?}");
}

#[test]
fn nodes_and_workers_tell_their_state_over_http() {
    let scene = Scene::new();
    let node = start(&scene, 3);
    let nodes = node.api().get("/api/v1/nodes").expect("the node answers").ok();
    let this: &Value = &nodes["items"][0];
    assert_eq!((&this["ready"], &this["failed"]), (&json!(true), &Value::Null), "{this}");
    assert_eq!(this["roles"], json!(["schedule", "serve", "work"]), "{this}");
    assert!(this["version"].is_string() && this["now"].is_string(), "{this}");
    let workers = node.api().get("/api/v1/workers").expect("the node answers").ok();
    assert_eq!((&workers["items"][0]["slots"], &workers["items"][0]["busy"]), (&json!(3), &json!(0)));
}
