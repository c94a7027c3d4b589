//! A process that is stopped for a while and goes on (T-05 and T-06, where node and worker are one process).

use std::fs;
use std::time::Duration;

use punctual_tests::history::has_ended;
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Export, Scene};
use punctual_verify::Options;
use rustix::process::Signal;
use serde_json::json;

#[test]
fn a_process_stopped_past_its_leases_goes_on_and_gives_nothing_up() {
    let scene = Scene::new();
    let mut node =
        scene.node().with_env("PUNCTUAL_ATTEMPT_LEASE", "2s").with_env("PUNCTUAL_SHARD_LEASE", "1s");
    node.start();
    let beat = json!({ "schedule": { "every": "500ms" }, "task": { "noop": {} },
        "misfire": { "policy": "once", "grace": "1s" } });
    node.api().put_job("beat", &beat);
    let traces = scene.path("traces");
    let shell = format!("echo started >> {}; sleep 8", traces.display());
    let run = node.api().submit(&json!({ "task": { "shell": shell } }));
    let id = run["id"].as_str().expect("a run has an id");
    let starts = || fs::read_to_string(&traces).unwrap_or_default().lines().count();
    wait::until_so("it has started", SOON, || starts() > 0);

    node.signal(Signal::STOP);
    wait::pass(Duration::from_secs(5));
    node.signal(Signal::CONT);

    let ended = wait::until("it has ended", SOON, || Some(node.api().run(id)).filter(has_ended));
    assert_eq!((&ended["state"], &ended["attempt"]), (&json!("succeeded"), &json!(1)), "{ended}");
    assert_eq!(starts(), 1, "the attempt was never in doubt: its worker slept when the node slept");
    let export = Export::of(&node);
    let misfires = export.fires("beat").iter().filter(|run| run["trigger"] == "misfire").count();
    assert_eq!(
        (misfires, export.skips("beat").len()),
        (1, 1),
        "what was slept through met the misfire policy"
    );
    export.verify(&scene, &node, &Options::default());
}
