//! `punctual backup` and `punctual restore`: a copy under load, a store made from it elsewhere (R105).

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use punctual_tests::api::JOBS;
use punctual_tests::history::{Export, has_ended};
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Cli, Node, Scene, binary};
use punctual_verify::Options;
use serde_json::{Value, json};

#[track_caller]
fn punctual(words: &[&str]) -> Cli {
    Cli::run(Command::new(binary::path()).args(words).env("NO_COLOR", "1"))
}

/// What a restored store has to have of each job: its definition and, where that is far away, its next due time.
fn jobs(node: &Node) -> BTreeMap<String, Value> {
    let page = node.api().get(JOBS).expect("the node answers").ok();
    let items = page["items"].as_array().expect("a list").iter().cloned();
    let named = items.map(|mut job| {
        let name = job["name"].as_str().expect("a job has a name").to_owned();
        let fields = job.as_object_mut().expect("a job is an object");
        fields.remove("fired_through");
        if name == "busy" {
            fields.remove("next_due_at");
        }
        (name, job)
    });
    named.collect()
}

#[test]
fn a_backup_under_load_is_restored_elsewhere() {
    let scene = Scene::new();
    let mut node = scene.start();
    node.api().put_job("busy", &json!({ "schedule": { "every": "1s" }, "task": { "shell": "echo out" } }));
    for hour in 0..5 {
        let cron = format!("0 {hour} 1 1 *");
        node.api().put_job(
            &format!("yearly-{hour}"),
            &json!({ "schedule": { "cron": cron }, "task": { "noop": {} } }),
        );
    }
    let first = node.api().submit(&json!({ "task": { "shell": "echo kept" } }));
    let first = first["id"].as_str().expect("a run has an id").to_owned();
    wait::until_so("it has ended", SOON, || has_ended(&node.api().run(&first)));
    let messages = "/api/v1/namespaces/default/queues/mail/messages";
    let message = node.api().post(messages, &json!({ "body": "hello" })).expect("it answers").ok();
    let message = message["id"].as_str().expect("a message has an id").to_owned();
    wait::until_so("the busy job has fired", SOON, || !node.api().runs_of("busy").is_empty());
    let before = jobs(&node);
    let [copy, data] = ["copy", "restored"].map(|name| scene.path(name).display().to_string());
    let source = node.data().display().to_string();

    // Runs are submitted all the while.
    let (stop, api) = (AtomicBool::new(false), node.api());
    let (said, submitted) = thread::scope(|scope| {
        let load = scope.spawn(|| {
            let mut count = 0;
            while !stop.load(Relaxed) {
                api.submit(&json!({ "task": { "noop": {} } }));
                count += 1;
            }
            count
        });
        let said = punctual(&["backup", "--data", &source, &copy]);
        stop.store(true, Relaxed);
        (said, load.join().expect("it submits"))
    });
    let said = said.ok();
    assert!(said.contains("6 jobs") && said.contains("checked") && submitted > 0, "{said} {submitted}");
    assert!(node.is_ready(), "the node was not disturbed");
    let late = node.api().submit(&json!({ "task": { "noop": {} } }));
    node.stop();

    let used = punctual(&["backup", "--data", &source, &copy]);
    assert!(used.status.code() == Some(1) && used.err.contains("is not empty"), "{used:?}");
    punctual(&["restore", &copy, "--data", &data]).ok();
    let used = punctual(&["restore", &copy, "--data", &data]);
    assert!(used.status.code() == Some(1) && used.err.contains("is not empty"), "{used:?}");

    let mut restored = scene.node().with_data(&data);
    restored.start();
    assert_eq!(jobs(&restored), before);
    assert_eq!(restored.cli(["run", "logs", &first]).ok(), "kept\n");
    assert_eq!(restored.cli(["queue", "show", &message, "-o", "json"]).json()["body"], "hello");
    let late = late["id"].as_str().expect("a run has an id");
    let unknown = restored.api().get(&format!("/api/v1/namespaces/default/runs/{late}")).expect("it answers");
    assert_eq!(unknown.status, 404, "what came after the backup is not in it");
    let fires = restored.api().runs_of("busy").len();
    wait::until_so("it fires again", SOON, || restored.api().runs_of("busy").len() > fires + 2);
    Export::of(&restored).verify(&scene, &restored, &Options::default());
    assert!(restored.stop().success());
}

#[test]
fn a_stopped_node_is_backed_up() {
    let scene = Scene::new();
    let mut node = scene.start();
    node.api().put_job("one", &json!({ "schedule": { "cron": "0 0 1 1 *" }, "task": { "noop": {} } }));
    // The last commits are in the log beside the database.
    node.kill();
    let (source, copy) = (node.data().display().to_string(), scene.path("copy").display().to_string());
    let said = punctual(&["backup", "--data", &source, &copy]).ok();
    assert!(said.contains(": 1 job,"), "{said}");
    node.start();
    assert_eq!(jobs(&node).len(), 1, "the source is as it was");
    for (url, tool) in [("postgres://me:tiger@db/x", "pg_dump"), ("mysql://me:tiger@db/x", "mariadb-dump")] {
        let refused = punctual(&["backup", "--store", url, "elsewhere"]);
        assert!(refused.status.code() == Some(2) && refused.err.contains(tool), "{refused:?}");
        assert!(!refused.err.contains("tiger"), "{refused:?}");
    }
}
