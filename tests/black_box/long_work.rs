//! Long work: an attempt reports its progress, and the next one continues at its checkpoint.

use std::time::Duration;

use punctual_tests::api::RUNS;
use punctual_tests::history::has_ended;
use punctual_tests::wait;
use punctual_tests::{Api, Node, Scene, Worker, binary};
use reqwest::Method;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(120);

fn submit(api: &Api, shell: &str) -> String {
    let retry = json!({ "attempts": 2, "delay": "0s" });
    let run = api.submit(&json!({ "task": { "shell": shell }, "retry": retry }));
    run["id"].as_str().expect("a run has an id").to_owned()
}

fn ended(api: &Api, id: &str) -> Value {
    wait::until("the run ends", PATIENCE, || Some(api.run(id)).filter(has_ended))
}

/// Reports row 400 in the first attempt; the next one prints what it continues at.
const FROM_ROW_400: &str = r#"
if [ -n "$PUNCTUAL_CHECKPOINT" ]; then echo "from $(cat "$PUNCTUAL_CHECKPOINT")"; exit 0; fi
echo '{"percent": 40, "message": "row 400", "checkpoint": {"row": 400}}' > "$PUNCTUAL_REPORT"
"#;

#[test]
fn a_process_reports_through_a_file_and_its_next_attempt_continues() {
    let scene = Scene::new();
    let node = scene.start();
    let id = submit(node.api(), &format!("{FROM_ROW_400} exit 1"));
    let run = ended(node.api(), &id);
    assert_eq!((&run["state"], &run["attempt"]), (&json!("succeeded"), &json!(2)), "{run}");
    assert_eq!(run["output"], json!("from {\"row\":400}"), "{run}");
    assert_eq!(run["checkpoint"]["value"], json!({ "row": 400 }), "{run}");
    assert_eq!(run["checkpoint"]["attempt"], json!(1), "{run}");
    let left = std::fs::read_dir(scene.data().join("worker/attempts")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "the folder of an attempt goes with it");
}

#[test]
fn a_script_reports_with_the_command_line() {
    let scene = Scene::new();
    let node = scene.start();
    let binary = binary::path().display();
    let state = scene.write("state.json", r#"{"row": 7}"#);
    let id = submit(
        node.api(),
        &format!(
            "{binary} run report --percent 70 --message 'row 7' --checkpoint @{} && echo told",
            state.display()
        ),
    );
    let run = ended(node.api(), &id);
    assert_eq!((&run["state"], &run["output"]), (&json!("succeeded"), &json!("told")), "{run}");
    assert_eq!((&run["progress"], &run["progress_message"]), (&json!(70), &json!("row 7")), "{run}");
    assert_eq!(run["checkpoint"]["value"], json!({ "row": 7 }), "{run}");
    let shown = node.cli(["run", "show", &id]).ok();
    assert!(shown.contains("███████░░░ 70%, row 7"), "{shown}");

    let outside = node.cli(["run", "report", "--percent", "7"]);
    assert!(outside.err.contains("PUNCTUAL_REPORT is not set"), "{}", outside.err);
}

#[test]
fn a_line_that_is_no_report_becomes_a_line_of_the_log() {
    let scene = Scene::new();
    let node = scene.start();
    let lines = [r#"{"percent": 30}"#, "not json", r#"{"percent": 101}"#, r#"{"steps": 4}"#, "{}"];
    let lines: Vec<String> = lines.iter().map(|line| format!("echo '{line}' > $PUNCTUAL_REPORT")).collect();
    let id = submit(node.api(), &lines.join("\n"));
    let run = ended(node.api(), &id);
    assert_eq!((&run["state"], &run["progress"]), (&json!("succeeded"), &json!(30)), "{run}");
    let log = node.api().get(&format!("{RUNS}/{id}/logs")).expect("the node answers").text;
    assert_eq!(log.matches("a report was not understood").count(), 4, "{log}");
}

#[test]
fn a_killed_node_loses_no_checkpoint_that_was_shown() {
    let scene = Scene::new();
    let mut node = scene.start();
    let id = submit(node.api(), &format!("{FROM_ROW_400} exec sleep 300"));
    wait::until_so("the checkpoint is stored", PATIENCE, || {
        node.api().run(&id)["checkpoint"]["value"] == json!({ "row": 400 })
    });
    node.kill();
    node.start();
    let run = ended(node.api(), &id);
    assert_eq!((&run["state"], &run["attempt"]), (&json!("succeeded"), &json!(2)), "{run}");
    assert_eq!(run["output"], json!("from {\"row\":400}"), "{run}");
}

#[test]
fn reports_beyond_the_limits_are_refused_with_their_field() {
    let scene = Scene::new();
    let node = scene.start();
    let id = submit(node.api(), "exec sleep 300");
    let token = wait::until("the run starts", PATIENCE, || {
        let run = node.api().run(&id);
        run["attempts"][0]["token"].as_str().map(str::to_owned)
    });
    let refused = |body: Value, status: u16, word: &str| {
        let answer = node.api().post(&format!("{RUNS}/{id}/progress"), &body).expect("the node answers");
        assert_eq!(answer.status, status, "{}", answer.text);
        assert!(answer.text.contains(word), "{}", answer.text);
    };
    refused(json!({ "token": token }), 422, "percent");
    refused(json!({ "token": token, "percent": 101 }), 422, "percent");
    refused(json!({ "token": token, "message": "x".repeat(257) }), 422, "message");
    refused(json!({ "token": token, "checkpoint": "x".repeat(65_536) }), 422, "checkpoint");
    refused(json!({ "token": "1", "percent": 5 }), 409, "outdated_token");
    let checkpoint = json!({ "token": token, "checkpoint": [1, 2], "durable": true });
    let answer = node.api().post(&format!("{RUNS}/{id}/progress"), &checkpoint).expect("the node answers");
    assert_eq!(answer.status, 204, "{}", answer.text);
    assert_eq!(node.api().run(&id)["checkpoint"]["value"], json!([1, 2]), "it is stored when it is answered");
    node.cli(["run", "cancel", &id]).ok();
    ended(node.api(), &id);
    refused(json!({ "token": token, "percent": 5 }), 409, "wrong_state");
}

/// Does ten rows, but only up to the number in the file `limit`, and writes a line for each start.
fn in_chunks(scene: &Scene) -> String {
    format!(
        r#"
cd '{}'
row=0
if [ -n "$PUNCTUAL_CHECKPOINT" ]; then row=$(cat "$PUNCTUAL_CHECKPOINT"); fi
echo "attempt $PUNCTUAL_ATTEMPT from $row" >> starts
while [ "$row" -lt 10 ]; do
  while limit=$(cat limit); [ -z "$limit" ] || [ "$row" -ge "$limit" ]; do sleep 0.05; done
  row=$((row + 1))
  echo "{{\"percent\": $((row * 10)), \"checkpoint\": $row}}" > "$PUNCTUAL_REPORT"
done
"#,
        scene.path("").display()
    )
}

fn worker(scene: &Scene, node: &Node, name: &str) -> Worker {
    let mut worker = Worker::spawn(&scene.path(name), name, node.api().address(), &["--drain", "1s"]);
    worker.wait_until_ready();
    worker
}

/// Waits until the run is under way on this worker.
fn is_on(api: &Api, run: &str, worker: &str) -> Value {
    wait::until("the run is on its worker", PATIENCE, || {
        let run = api.run(run);
        let name = run["worker"].as_str().and_then(|worker| worker.split('@').next()).map(str::to_owned);
        (run["state"] == "running" && name.as_deref() == Some(worker)).then_some(run)
    })
}

fn reaches_row(api: &Api, run: &str, row: u64) {
    wait::until_so("the checkpoint is stored", PATIENCE, || {
        api.run(run)["checkpoint"]["value"] == json!(row)
    });
}

fn results(run: &Value) -> Vec<&str> {
    let attempts = run["attempts"].as_array().expect("a run has attempts");
    attempts.iter().map(|attempt| attempt["result"].as_str().unwrap_or("none")).collect()
}

#[test]
fn a_run_survives_a_killed_and_a_drained_worker() {
    let scene = Scene::new();
    let node = scene.start_center("2s");
    scene.write("limit", "4");
    let mut a = worker(&scene, &node, "a");
    let id = submit(node.api(), &in_chunks(&scene));
    reaches_row(node.api(), &id, 4);
    let _b = worker(&scene, &node, "b");
    a.kill();
    is_on(node.api(), &id, "b");
    scene.write("limit", "7");
    reaches_row(node.api(), &id, 7);
    let _c = worker(&scene, &node, "c");
    assert_eq!(node.cli(["node", "drain", "b", "--wait"]).ok().trim(), "b is drained");
    is_on(node.api(), &id, "c");
    let listed = node.cli(["node", "workers"]).ok();
    assert!(listed.lines().any(|line| line.starts_with("b@") && line.contains("draining")), "{listed}");
    scene.write("limit", "10");
    let run = ended(node.api(), &id);
    assert_eq!((&run["state"], &run["attempt"]), (&json!("succeeded"), &json!(3)), "{run}");
    assert_eq!(results(&run), ["lost", "moved", "succeeded"], "{run}");
    let starts = std::fs::read_to_string(scene.path("starts")).expect("it has started");
    assert_eq!(starts, "attempt 1 from 0\nattempt 2 from 4\nattempt 3 from 7\n");
    node.cli(["node", "resume", "b"]).ok();
    wait::until_so("the worker takes runs again", PATIENCE, || {
        !node.cli(["node", "workers"]).ok().contains("draining")
    });
    let unknown = node.cli(["node", "drain", "nobody"]);
    assert!(unknown.err.contains("no worker `nobody` is connected"), "{}", unknown.err);
}

#[test]
fn a_run_that_stores_checkpoints_survives_many_lost_workers() {
    let scene = Scene::new();
    let node = scene.start_center("2s");
    scene.write("limit", "0");
    let mut worker = worker(&scene, &node, "a");
    let id = submit(node.api(), &in_chunks(&scene));
    // Without the checkpoints the third loss would be the last one.
    for row in 1..=5 {
        scene.write("limit", &row.to_string());
        reaches_row(node.api(), &id, row);
        worker.kill();
        worker.start_again();
    }
    scene.write("limit", "10");
    let run = ended(node.api(), &id);
    assert_eq!((&run["state"], &run["attempt"]), (&json!("succeeded"), &json!(6)), "{run}");
    assert_eq!(results(&run), ["lost", "lost", "lost", "lost", "lost", "succeeded"], "{run}");
    let starts = std::fs::read_to_string(scene.path("starts")).expect("it has started");
    let expected: Vec<String> = (0..6).map(|row| format!("attempt {} from {row}\n", row + 1)).collect();
    assert_eq!(starts, expected.concat());
}

#[test]
fn a_run_is_moved_to_a_named_worker() {
    let scene = Scene::new();
    let node = scene.start_center("2s");
    let (_a, id) =
        (worker(&scene, &node, "a"), submit(node.api(), &format!("{FROM_ROW_400} exec sleep 300")));
    wait::until_so("the checkpoint is stored", PATIENCE, || !node.api().run(&id)["checkpoint"].is_null());
    let to = |worker: &str| {
        let path = format!("{RUNS}/{id}/move");
        node.api().post(&path, &json!({ "worker": worker })).expect("the node answers")
    };
    let refused = to("nobody");
    assert_eq!((refused.status, &refused.json()["field"]), (422, &json!("worker")), "{}", refused.text);
    let (_b, _c) = (worker(&scene, &node, "b"), worker(&scene, &node, "c"));
    assert_eq!(
        node.cli(["run", "move", &id, "--to", "c"]).ok().trim(),
        format!("moving {id}: its attempt is told to stop")
    );
    let run = ended(node.api(), &id);
    assert_eq!((&run["state"], &run["output"]), (&json!("succeeded"), &json!("from {\"row\":400}")), "{run}");
    assert_eq!(results(&run), ["moved", "succeeded"], "{run}");
    assert!(run["worker"].as_str().is_some_and(|worker| worker.starts_with("c@")), "{run}");
    let late = to("b");
    assert_eq!((late.status, &late.json()["code"]), (409, &json!("wrong_state")), "{}", late.text);
}

#[test]
fn a_script_moves_itself_and_changes_its_parameters() {
    let scene = Scene::new();
    let node = scene.start();
    let binary = binary::path().display();
    let shell = format!(
        r#"
if [ -n "$PUNCTUAL_CHECKPOINT" ]; then cat; exit 0; fi
{binary} run report --rebalance --checkpoint 1 --params '{{"from": 1, "old": null}}'
exec sleep 300
"#
    );
    let body = json!({ "task": { "shell": shell }, "params": { "from": 0, "old": 1, "keep": true } });
    let id = node.api().submit(&body)["id"].as_str().expect("a run has an id").to_owned();
    let run = ended(node.api(), &id);
    assert_eq!((&run["state"], results(&run)), (&json!("succeeded"), vec!["moved", "succeeded"]), "{run}");
    let params: Value = serde_json::from_str(run["output"].as_str().expect("it prints")).expect("JSON");
    assert_eq!(params, json!({ "from": 1, "keep": true }));
}

#[test]
fn a_cancel_without_grace_kills_what_ignores_a_polite_one() {
    let scene = Scene::new();
    let node = scene.start();
    let body =
        json!({ "task": { "shell": "trap '' TERM; echo ready; sleep 300 & wait; wait" }, "grace": "10m" });
    let id = node.api().submit(&body)["id"].as_str().expect("a run has an id").to_owned();
    wait::until_so("it ignores SIGTERM", PATIENCE, || {
        node.api().get(&format!("{RUNS}/{id}/logs")).expect("the node answers").text.contains("ready")
    });
    node.cli(["run", "cancel", &id]).ok();
    assert_eq!(node.api().run(&id)["state"], json!("running"), "it has ten minutes");
    node.cli(["run", "cancel", &id, "--now"]).ok();
    let run = ended(node.api(), &id);
    assert_eq!(
        (&run["state"], &run["reason"]),
        (&json!("cancelled"), &json!("cancelled on request, at once"))
    );
}

#[test]
fn a_node_that_is_stopped_and_started_counts_no_attempt_as_lost() {
    let scene = Scene::new();
    let mut node = scene.start();
    let id = submit(node.api(), &format!("{FROM_ROW_400} exec sleep 300"));
    wait::until_so("the checkpoint is stored", PATIENCE, || !node.api().run(&id)["checkpoint"].is_null());
    assert!(node.stop().success());
    node.start();
    let run = ended(node.api(), &id);
    assert_eq!((&run["state"], results(&run)), (&json!("succeeded"), vec!["moved", "succeeded"]), "{run}");
}

/// The key of an attempt that prints it.
fn key_of(api: &Api, run: &str) -> String {
    wait::until("the attempt prints its key", PATIENCE, || {
        let log = api.get(&format!("{RUNS}/{run}/logs")).expect("the node answers").text;
        let from = log.find("pck_")?;
        Some(log[from..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect())
    })
}

/// Sends a report in the plain shape, and returns the status of the answer.
fn report_plainly(api: &Api, key: &str, body: &Value) -> u16 {
    let header = Some(("Punctual-Attempt-Key", key));
    let sent = api.send(Method::POST, "/api/v1/task_progress", Some(body.to_string()), header);
    sent.expect("the node answers").status
}

#[test]
fn a_report_over_rest_moves_its_run_with_new_parameters() {
    let scene = Scene::new();
    let node = scene.start_center("2s");
    let workers = [worker(&scene, &node, "a"), worker(&scene, &node, "b")];
    let shell =
        "echo $PUNCTUAL_ATTEMPT_KEY; case $PUNCTUAL_PARAMS in *100000*) echo on;; *) exec sleep 300;; esac";
    let body = json!({ "task": { "shell": shell }, "params": { "offset": 0, "table": "rows" } });
    let id = node.api().submit(&body)["id"].as_str().expect("a run has an id").to_owned();
    let key = key_of(node.api(), &id);
    let half =
        json!({ "execution_id": id, "progress": 50, "rebalance": true, "params": { "offset": 100_000 } });
    assert_eq!(report_plainly(node.api(), &key, &half), 200);
    let run = ended(node.api(), &id);
    assert_eq!(
        (&run["id"], &run["attempt"], &run["progress"]),
        (&json!(id), &json!(2), &Value::Null),
        "{run}"
    );
    assert_eq!(results(&run), ["moved", "succeeded"], "{run}");
    let on = |attempt: usize| run["attempts"][attempt]["worker"].as_str().expect("it had a worker");
    assert_ne!(on(0), on(1), "another of {} workers takes it", workers.len());
    assert!(run["output"].as_str().is_some_and(|output| output.ends_with("on")), "{run}");
    assert_eq!(report_plainly(node.api(), &key, &half), 409, "the key is that of the first attempt");
}

#[test]
fn a_process_reports_over_rest_with_the_key_in_its_environment() {
    let scene = Scene::new();
    let node = scene.start();
    let id = submit(node.api(), "echo $PUNCTUAL_ATTEMPT_KEY; exec sleep 300");
    let key = key_of(node.api(), &id);
    let report = |key: &str, body: &Value| report_plainly(node.api(), key, body);
    let half = json!({ "execution_id": id, "progress": 50, "durable": true });
    assert_eq!(report(&key, &half), 200);
    assert_eq!(node.api().run(&id)["progress"], json!(50));
    assert_eq!(report(&format!("{key}0"), &half), 401);
    assert_eq!(report(&key, &json!({ "execution_id": "7", "progress": 50 })), 401);
    node.cli(["run", "cancel", &id]).ok();
    ended(node.api(), &id);
    assert_eq!(report(&key, &half), 409);
}
