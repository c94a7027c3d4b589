//! What must hold while everything moves: edits at the very fire time (T-27), and a history taken meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use punctual_tests::api::{JOBS, RUNS};
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Api, Export, Node, Scene};
use punctual_verify::Options;
use reqwest::Method;
use serde_json::{Value, json};

const LOAD: Duration = Duration::from_secs(6);
/// The jobs that are there all the time.
const WATCHED: [&str; 3] = ["steady", "edited", "paused"];
const FIRES_MIN: usize = 10;
const EXPORTS_MIN: usize = 5;

fn every(period: &str, overlap: &str) -> Value {
    let keep = json!({ "runs": 100_000 });
    json!({ "schedule": { "every": period }, "task": { "noop": {} }, "overlap": overlap, "keep": keep })
}

/// Runs what the clients do, over and over, each on its own thread, while the scene plays.
fn during<T>(clients: &[&(dyn Fn() + Sync)], scene: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    let go_on = || !done.load(Ordering::Relaxed);
    thread::scope(|scope| {
        for client in clients {
            scope.spawn(|| {
                while go_on() {
                    client();
                }
            });
        }
        let _done = AtDrop(&done);
        scene()
    })
}

struct AtDrop<'a>(&'a AtomicBool);

impl Drop for AtDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[track_caller]
fn check_answered(api: &Api, method: Method, path: &str, body: &Value) {
    let answer = api.send(method, path, Some(body.to_string()), None).expect("the node answers");
    // A job that was just deleted is not there: that is an answer too.
    assert!(answer.is_ok() || answer.status == 404, "{path}: {answer:?}");
}

#[test]
fn an_edit_at_the_very_fire_time_is_decided_by_one_definition() {
    let scene = Scene::new();
    let mut node = scene.start();
    let api = node.api().clone();
    api.put_job("steady", &every("50ms", "queue"));
    let edited = || {
        for period in ["20ms", "30ms"] {
            check_answered(&api, Method::PUT, &format!("{JOBS}/edited"), &every(period, "queue"));
        }
    };
    let paused = || {
        check_answered(&api, Method::PUT, &format!("{JOBS}/paused"), &every("20ms", "skip"));
        check_answered(&api, Method::POST, &format!("{JOBS}/paused/pause"), &json!({}));
        check_answered(&api, Method::POST, &format!("{JOBS}/paused/resume"), &json!({}));
        check_answered(&api, Method::POST, &format!("{JOBS}/paused/run"), &json!({}));
    };
    let deleted = || {
        check_answered(&api, Method::PUT, &format!("{JOBS}/deleted"), &every("20ms", "allow"));
        check_answered(&api, Method::POST, &format!("{JOBS}/deleted/run"), &json!({ "delay": "15ms" }));
        check_answered(&api, Method::DELETE, &format!("{JOBS}/deleted"), &json!({}));
    };
    during(&[&edited, &paused, &deleted], || {
        wait::pass(LOAD);
        wait::until_so("every job has fired ten times", SOON, || {
            let export = Export::of(&node);
            WATCHED.iter().all(|job| export.fires(job).len() >= FIRES_MIN)
        });
    });
    check_history(&scene, &node);
    node.kill();
    node.start();
    check_history(&scene, &node);
}

fn check_history(scene: &Scene, node: &Node) {
    let export = Export::of(node);
    for job in WATCHED {
        let fires = export.fires(job).len();
        assert!(fires >= FIRES_MIN, "{job} fired {fires} times only: the scene proves little");
    }
    export.verify(scene, node, &Options::default());
}

#[test]
fn a_history_taken_while_everything_moves_holds() {
    let scene = Scene::new();
    let node = scene.start();
    let api = node.api().clone();
    for (number, overlap) in ["skip", "queue", "queue_one", "replace", "allow"].into_iter().enumerate() {
        api.put_job(overlap, &every(&format!("{}ms", 20 + 10 * number), overlap));
    }
    let submit = || {
        let body = json!({ "task": { "noop": {} } });
        check_answered(&api, Method::POST, RUNS, &body);
    };
    wait::until_so("a schedule has fired", SOON, || !Export::of(&node).fires("allow").is_empty());
    let exports = during(&[&submit, &submit], || {
        let end = wait::now() + LOAD;
        let mut exports = Vec::new();
        while wait::now() < end || exports.len() < EXPORTS_MIN {
            exports.push(Export::of(&node));
        }
        exports
    });
    for export in &exports {
        export.verify(&scene, &node, &Options::default());
    }
}
