//! Runs that are split over workers in processes of their own (R52, R53; P1, P7 to P9, P14).

use std::collections::BTreeSet;

use punctual_tests::api::RUNS;
use punctual_tests::history::has_ended;
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Export, Node, Scene, Worker};
use punctual_verify::Options;
use serde_json::{Value, json};

const LEASE: &str = "2s";

/// A node that runs nothing itself, and three workers with one slot each.
fn center(scene: &Scene) -> (Node, Vec<Worker>) {
    let node = scene.start_center(LEASE);
    let workers = ["a", "b", "c"].map(|name| {
        let words = ["--slots", "1", "--label", "role=web"];
        let mut worker = Worker::spawn(&scene.path(name), name, node.api().address(), &words);
        worker.wait_until_ready();
        worker
    });
    (node, workers.into())
}

fn children(node: &Node, parent: &str) -> Vec<Value> {
    let page = node.api().get(&format!("{RUNS}?parent={parent}")).expect("the node answers").ok();
    page["items"].as_array().expect("a page has items").clone()
}

#[track_caller]
fn started(node: &Node, parent: &str) -> Vec<Value> {
    let is_under_way = |run: &Value| run["state"] == "running" && !run["started_at"].is_null();
    wait::until("all children are under way", SOON, || {
        Some(children(node, parent)).filter(|children| {
            children.len() == 3 && children.iter().all(|run| has_ended(run) || is_under_way(run))
        })
    })
}

#[track_caller]
fn ended(node: &Node, run: &str) -> Value {
    wait::until("the run ends", SOON, || Some(node.api().run(run)).filter(has_ended))
}

fn id(run: &Value) -> &str {
    run["id"].as_str().expect("a run has an id")
}

fn name_of(run: &Value) -> &str {
    run["worker"].as_str().and_then(|worker| worker.split('@').next()).unwrap_or_default()
}

fn place_of(worker: &str) -> usize {
    ["a", "b", "c"].iter().position(|name| *name == worker).expect("one of the three")
}

fn verify(scene: &Scene, node: &Node) {
    let options = Options { may_be_empty: true, still: true, ..Options::default() };
    Export::of(node).verify(scene, node, &options);
}

#[test]
fn the_part_of_a_killed_worker_runs_again_elsewhere() {
    let scene = Scene::new();
    let (mut node, mut workers) = center(&scene);
    let gate = scene.path("gate");
    // A second attempt succeeds at once; first attempts wait for the gate.
    let shell = format!(
        "test $PUNCTUAL_ATTEMPT = 2 || until test -e {}; do sleep 0.05; done; \
         echo $PUNCTUAL_SHARD_INDEX of $PUNCTUAL_SHARD_TOTAL",
        gate.display()
    );
    let job = json!({ "schedule": { "manual": true }, "task": { "shell": shell }, "route": { "shards": 3 } });
    node.api().put_job("split", &job);
    let parent = node.api().start_job("split");
    let parent = id(&parent);
    let under_way = started(&node, parent);
    let names: BTreeSet<&str> = under_way.iter().map(name_of).collect();
    assert_eq!(names, ["a", "b", "c"].into(), "each on a worker of its own: {under_way:#?}");

    workers[place_of(name_of(&under_way[1]))].kill();
    // Another worker has a slot for the lost one when its own is done.
    std::fs::write(&gate, "").expect("a file of the scene can be written");
    let whole = ended(&node, parent);
    assert_eq!((&whole["state"], &whole["attempt"]), (&json!("succeeded"), &json!(0)), "{whole:#}");
    let after = children(&node, parent);
    let told: Vec<&str> = after.iter().filter_map(|run| run["output"].as_str()).collect();
    assert_eq!(told, ["0 of 3", "1 of 3", "2 of 3"]);
    let attempts: Vec<u64> = after.iter().filter_map(|run| run["attempt"].as_u64()).collect();
    assert_eq!(attempts, [1, 2, 1], "it alone is tried again");
    assert_ne!(name_of(&after[1]), name_of(&under_way[1]));
    let summary: Value = serde_json::from_str(whole["output"].as_str().unwrap_or_default()).expect("JSON");
    assert_eq!((&summary["total"], &summary["succeeded"]), (&json!(3), &json!(3)), "{summary}");

    let shown = node.cli(["run", "show", parent]);
    assert!(shown.out.contains("CHILD") && shown.out.contains(id(&after[2])), "{shown:?}");
    let listed = node.cli(["run", "list", "--parent", parent]);
    assert!(listed.out.contains("split [2/3]"), "{listed:?}");
    // It is all there when the node starts again.
    node.kill();
    node.start();
    assert_eq!(children(&node, parent), after);
    verify(&scene, &node);
}

#[test]
fn a_family_goes_on_where_it_was_when_its_node_is_killed() {
    let scene = Scene::new();
    let mut node = scene.node().with_env("PUNCTUAL_SLOTS", "3").with_env("PUNCTUAL_DURABILITY", "relaxed");
    node.start();
    let gate = scene.path("gate");
    let shell = format!("until test -e {}; do sleep 0.05; done", gate.display());
    let body = json!({ "task": { "shell": shell }, "route": { "shards": 5 }, "key": "once" });
    let parent = node.api().submit(&body);
    let parent = id(&parent);
    wait::until_so("three are under way", SOON, || {
        children(&node, parent).iter().filter(|run| run["state"] == "running").count() == 3
    });
    node.kill();
    node.start();
    assert_eq!(id(&node.api().submit(&body)), parent, "asked for again, it is the same");
    std::fs::write(&gate, "").expect("a file of the scene can be written");
    assert_eq!(ended(&node, parent)["state"], "succeeded");
    let all = children(&node, parent);
    // Its own worker died with it, and what that one had in hand is tried again.
    let attempts: Vec<u64> = all.iter().filter_map(|run| run["attempt"].as_u64()).collect();
    assert_eq!(attempts, [2, 2, 2, 1, 1]);
    verify(&scene, &node);
}

#[test]
fn a_broadcast_reaches_every_worker_or_names_the_dead_one() {
    let scene = Scene::new();
    let (node, mut workers) = center(&scene);
    let route = json!({ "strategy": "broadcast", "selector": { "role": "web" } });
    let all = node.api().submit(&json!({ "task": { "shell": "echo here" }, "route": route.clone() }));
    assert_eq!(ended(&node, id(&all))["state"], "succeeded");
    let names: Vec<String> = children(&node, id(&all)).iter().map(|run| name_of(run).to_owned()).collect();
    assert_eq!(names, ["a", "b", "c"]);

    let slow = json!({ "task": { "shell": "test $PUNCTUAL_SHARD_INDEX = 1 && sleep 1000 || true" }, "route": route });
    let parent = node.api().submit(&slow);
    let under_way = wait::until("the second is under way", SOON, || {
        children(&node, id(&parent))
            .into_iter()
            .find(|run| run["step"] == "1" && !run["started_at"].is_null())
    });
    workers[place_of(name_of(&under_way))].kill();
    let whole = ended(&node, id(&parent));
    assert_eq!(whole["state"], "failed");
    let reason = "1 of 3 child runs did not succeed, the first of them is that of index 1";
    assert_eq!(whole["reason"], reason, "{whole:#}");
    let lost = node.api().run(id(&under_way));
    assert_eq!(lost["reason"], "its worker is gone, and it is meant for no other", "{lost:#}");
    verify(&scene, &node);
}
