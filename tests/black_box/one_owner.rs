//! One data folder, one process (T-34).

use punctual_tests::Scene;
use serde_json::json;

#[test]
fn a_second_process_on_the_same_data_refuses_and_says_why() {
    let scene = Scene::new();
    let mut first = scene.start();
    let run = first.api().submit(&json!({ "task": { "noop": {} } }));

    let log = scene.path("second.log");
    let mut second = scene.node().with_log(&log);
    second.spawn();
    let status = second.wait_for_end();
    assert_eq!(status.code(), Some(1), "{status}");
    let said = second.printed();
    assert!(said.contains("error: "), "{said}");
    assert!(said.contains(&*scene.data().to_string_lossy()), "which folder: {said}");
    assert!(said.contains("another"), "why: {said}");
    assert!(!said.contains("panicked"), "{said}");

    // The first one does not even notice.
    let id = run["id"].as_str().expect("a run has an id");
    assert_eq!(first.api().run(id)["id"], id);
    first.api().submit(&json!({ "task": { "noop": {} } }));

    // A lock dies with its process: nobody has to clean up after a kill.
    first.kill();
    second.start();
    assert_eq!(second.api().run(id)["id"], id);
}
