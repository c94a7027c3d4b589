//! Many at one moment: late, not lost (P18, on a small scale; `punctual bench herd` is the large one).

use std::thread;
use std::time::Duration;

use punctual_tests::api::RUNS;
use punctual_tests::history::has_ended;
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Export, Scene};
use punctual_verify::Options;
use serde_json::json;

const CLIENTS: usize = 8;
const EACH: usize = 400;

#[test]
fn thousands_of_runs_due_in_one_millisecond_all_start_and_none_too_early() {
    let scene = Scene::new();
    let mut node = scene.start();
    let due = wait::wall_clock() + Duration::from_secs(15);
    let body = json!({ "task": { "noop": {} }, "due_at": due.to_string() });
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| (0..EACH).for_each(|_| drop(node.api().submit(&body))));
        }
    });
    // Nobody has to be there when they are due: they are rows.
    node.kill();
    node.start();
    assert!(wait::wall_clock() < due, "the machine is too slow for this scene");
    let all = CLIENTS * EACH;
    let export = wait::until("all of them have ended", 2 * SOON, || {
        let page = node.api().get(&format!("{RUNS}?state=waiting&limit=1")).expect("the node answers").ok();
        page["items"].as_array().is_some_and(Vec::is_empty).then_some(())?;
        let export = Export::of(&node);
        let ended = export.runs().values().filter(|run| has_ended(run)).count();
        (ended == all).then_some(export)
    });
    assert!(export.runs().values().all(|run| run["state"] == "succeeded"));
    let options = Options { ended_through: Some(due), may_be_empty: true, ..Options::default() };
    export.verify(&scene, &node, &options);
}
