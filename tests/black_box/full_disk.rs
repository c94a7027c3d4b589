//! No room left (T-13).

use std::time::Duration;

use punctual_tests::api::{JOBS, RUNS};
use punctual_tests::fault::SmallDisk;
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Export, Scene};
use punctual_verify::Options;
use serde_json::{Value, json};

/// A submit that takes room.
fn large() -> Value {
    json!({ "task": { "noop": {} }, "params": { "ballast": "x".repeat(100_000) } })
}

#[test]
fn a_full_disk_refuses_writes_goes_on_reading_and_loses_nothing() {
    let scene = Scene::new();
    let disk = SmallDisk::mount(scene.path("disk"), 64);
    let mut node = scene.node().with_data(disk.path().join("data"));
    node.start();
    let beat = json!({ "schedule": { "every": "500ms" }, "task": { "shell": "echo beat" },
        "misfire": { "policy": "once", "grace": "50ms" }, "keep": { "runs": 100_000 } });
    node.api().put_job("beat", &beat);
    let mut acknowledged: Vec<String> = Vec::new();
    let mut take = |answer: punctual_tests::Answer| {
        assert!(answer.is_ok() || matches!(answer.status, 503 | 507), "{answer:?}");
        if answer.is_ok() {
            acknowledged.push(answer.json()["id"].as_str().expect("a run has an id").to_owned());
        }
        answer.status
    };
    take(node.api().post(RUNS, &large()).expect("the node answers"));

    disk.fill();
    wait::until_so("a write is refused", SOON, || {
        !(200..300).contains(&take(node.api().post(RUNS, &large()).expect("the node answers")))
    });
    // For a while, so that fires fall into it too.
    let refused = node.api().post(RUNS, &large()).expect("the node answers");
    assert!(matches!(refused.status, 503 | 507), "{refused:?}");
    assert!(refused.json()["message"].as_str().is_some_and(|text| !text.is_empty()), "{refused:?}");
    let end = wait::now() + Duration::from_secs(3);
    while wait::now() < end {
        let listed = node.api().get(&format!("{RUNS}?limit=10")).expect("the node answers");
        assert_eq!(listed.status, 200, "reads go on: {listed:?}");
        assert_eq!(node.api().get(&format!("{JOBS}/beat")).expect("the node answers").status, 200);
        assert!(node.is_running());
        wait::pass(Duration::from_millis(100));
    }

    disk.clear();
    wait::until_so("writes work again", SOON, || {
        (200..300).contains(&take(node.api().post(RUNS, &large()).expect("the node answers")))
    });
    let before = Export::of(&node).fires("beat").len();
    wait::until_so("the schedule goes on", SOON, || Export::of(&node).fires("beat").len() > before + 2);
    // And the file is whole.
    node.kill();
    node.start();
    let export = Export::of(&node);
    for id in &acknowledged {
        assert!(export.runs().contains_key(id.as_str()), "run {id} was acknowledged and is gone");
    }
    export.verify(&scene, &node, &Options::default());
}
