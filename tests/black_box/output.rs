//! The output of programs: large, fast and binary output, kept and followed (T-22).

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_tests::api::RUNS;
use punctual_tests::history::has_ended;
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Api, Machine, Node, Scene, binary};
use serde_json::{Value, json};

const GIBIBYTE: u64 = 1024 * 1024 * 1024;
/// What is kept of an attempt.
const KEPT: u64 = 64 * 1024 * 1024;
/// What a node may grow by while it reads a flood.
const GROWTH_MAX_KIB: u64 = 64 * 1024;
/// Below this nobody is late, whatever it was before.
const LATE_MIN: Duration = Duration::from_millis(50);
/// A machine that is busy with something else may be late once; Punctual is to blame if it always is.
const ROUNDS: usize = 3;

fn run_to_end(api: &Api, shell: &str) -> Value {
    let run = api.submit(&json!({ "task": { "shell": shell } }));
    let id = run["id"].as_str().expect("a run has an id");
    wait::until("the run ends", Duration::from_secs(120), || Some(api.run(id)).filter(has_ended))
}

fn log_of(node: &Node, run: &Value) -> Vec<u8> {
    let id = run["id"].as_str().expect("a run has an id");
    let mut command = Command::new(binary::path());
    command.args(["run", "logs", id, "--raw"]).env("PUNCTUAL_SERVER", node.api().address());
    let output = command.output().expect("the binary can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn memory_kib(node: &Node, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", node.pid())).expect("the node runs");
    let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("Linux counts it");
    line.trim_matches([':', ' ', '\t', 'k', 'B']).parse().expect("it is a number")
}

/// How late the latest of a hundred runs started that were due in a stretch of time.
fn p99_lateness(api: &Api, from: Timestamp, to: Timestamp) -> Duration {
    let instant = |value: &Value| value.as_str().and_then(|text| text.parse::<Timestamp>().ok());
    let late = |run: &Value| Some((instant(&run["due_at"])?, instant(&run["started_at"])?));
    let due_then = api.runs_of("steady").iter().filter_map(late).collect::<Vec<_>>();
    let due_then = due_then.into_iter().filter(|(due, _)| (from..=to).contains(due));
    let mut all: Vec<Duration> = due_then.map(|(due, started)| started.since(due)).collect();
    assert!(all.len() >= 5, "{} runs only: they prove little", all.len());
    all.sort_unstable();
    all[(all.len() * 99).div_ceil(100) - 1]
}

#[test]
fn a_gibibyte_of_output_is_truncated_with_a_mark() {
    let scene = Scene::new();
    let node = scene.start();
    let api = node.api();
    let keep = json!({ "runs": 100_000 });
    api.put_job("steady", &json!({ "schedule": { "every": "100ms" }, "task": { "noop": {} }, "keep": keep }));
    let mut seen = Vec::new();
    for round in 0..ROUNDS {
        let from = wait::wall_clock();
        wait::pass(Duration::from_secs(3));
        let memory_before = memory_kib(&node, "VmRSS");
        let flood = wait::wall_clock();
        let run = run_to_end(api, &format!("yes | head -c {GIBIBYTE}; echo the end"));
        let end = wait::wall_clock();
        let grown = memory_kib(&node, "VmHWM").saturating_sub(memory_before);
        assert!(grown < GROWTH_MAX_KIB, "{grown} KiB more in round {round}");
        check_cut(api, &run);
        let (before, during) = (p99_lateness(api, from, flood), p99_lateness(api, flood, end));
        if during <= (2 * before).max(LATE_MIN) {
            return;
        }
        seen.push((before, during));
    }
    panic!("a flood made others late in every round (before, during): {seen:?}");
}

fn check_cut(api: &Api, run: &Value) {
    assert_eq!(run["state"], "succeeded", "{run}");
    assert!(run["output"].as_str().is_some_and(|output| output.ends_with("the end")), "{run}");
    let id = run["id"].as_str().expect("a run has an id");
    let log = api.get(&format!("{RUNS}/{id}/logs")).expect("the node answers").text;
    let printed = GIBIBYTE + "the end\n".len() as u64;
    let marks = format!(
        "output cut here: the limit of 64 MiB is reached{} bytes of output were not kept",
        printed - KEPT
    );
    assert!(log.ends_with(&marks), "{}", &log[log.len() - 200..]);
    assert_eq!(log.len() as u64, KEPT + marks.len() as u64);
}

#[test]
fn results_of_a_mebibyte_are_whole_and_cost_little_memory() {
    const RUNS_MADE: usize = 120;
    const RESULT_BYTES: usize = 1024 * 1024;
    let scene = Scene::new();
    let node = scene.start();
    let api = node.api();
    let shell = format!("head -c {RESULT_BYTES} /dev/zero | tr '\\0' x");
    let runs: Vec<Value> =
        (0..RUNS_MADE).map(|_| api.submit(&json!({ "task": { "shell": shell } }))).collect();
    let ids = runs.iter().map(|run| run["id"].as_str().expect("a run has an id").to_owned());
    let ids: Vec<String> = ids.collect();
    for id in &ids {
        let run = wait::until("it ends", Duration::from_secs(120), || Some(api.run(id)).filter(has_ended));
        assert_eq!(run["output"].as_str().map(str::len), Some(RESULT_BYTES));
    }
    assert!(node.cli(["run", "show", &ids[0]]).ok().contains(&"x".repeat(RESULT_BYTES)));

    let before = memory_kib(&node, "VmHWM");
    let page = api.get(&format!("{RUNS}?limit=1000")).expect("the node answers").json();
    let items = page["items"].as_array().expect("a page has items");
    assert_eq!(items.len(), RUNS_MADE);
    assert!(items.iter().all(|run| run["output"].as_str().is_some_and(|end| end.starts_with("[…] xxx"))));
    let history = api.get("/api/v1/export/history").expect("the node answers").text;
    let grown = memory_kib(&node, "VmHWM") - before;
    assert!(grown < 48 * 1024, "{grown} KiB more for a listing and an export");
    let whole = format!("\"output\":\"{}\"", "x".repeat(RESULT_BYTES));
    assert_eq!(history.matches(&whole).count(), RUNS_MADE);
    let report: Value = serde_json::from_str(&node.cli(["verify", "-o", "json"]).out).expect("it is JSON");
    assert_eq!(report["counted"]["runs"], json!(RUNS_MADE));
    // No schedule made any of them, which is all that there is to say.
    let checks: Vec<&Value> =
        report["findings"].as_array().into_iter().flatten().map(|finding| &finding["check"]).collect();
    assert_eq!(checks, ["not_vacuous"]);
}

#[test]
fn a_hundred_thousand_lines_a_second_are_all_in_the_log() {
    let scene = Scene::new();
    let node = scene.start();
    let machine = Machine::watched();
    let run = run_to_end(node.api(), "seq 1 400000");
    let instant = |field: &str| run[field].as_str().and_then(|text| text.parse::<Timestamp>().ok());
    let (Some(started), Some(finished)) = (instant("started_at"), instant("finished_at")) else {
        panic!("{run}");
    };
    let took = finished.since(started);
    assert!(took < Duration::from_secs(4) + machine.taken(), "400,000 lines took {took:?}");
    let expected: String = (1..=400_000).map(|line| format!("{line}\n")).collect();
    assert!(log_of(&node, &run) == expected.as_bytes(), "the log is not what was printed");
}

#[test]
fn binary_output_comes_back_unchanged() {
    let scene = Scene::new();
    let node = scene.start();
    let file = scene.path("noise");
    let run = run_to_end(node.api(), &format!("head -c 300000 /dev/urandom | tee {}", file.display()));
    assert_eq!(run["state"], "succeeded", "{run}");
    let noise = fs::read(&file).expect("it was printed");
    assert!(log_of(&node, &run) == noise, "the log is not what was printed");

    let run = run_to_end(node.api(), "head -c 10000000 /dev/zero | tr '\\0' x");
    assert_eq!(run["state"], "succeeded", "{run}");
    let line = "x".repeat(16 * 1024);
    let id = run["id"].as_str().expect("a run has an id");
    let log = node.api().get(&format!("{RUNS}/{id}/logs")).expect("the node answers").text;
    let expected = format!("{line} […]{} bytes of output were not kept", 10_000_000 - line.len());
    assert!(log == expected, "the line is not cut as it should be: {} bytes", log.len());
    let result = run["output"].as_str().expect("it has a result");
    assert!(result.starts_with("[…] xxx") && result.len() > (1 << 20) - 16 && result.len() <= 1 << 20);
}

#[test]
fn a_follower_sees_output_until_the_run_ends() {
    let scene = Scene::new();
    let node = scene.start();
    let flag = scene.path("go-on");
    let wait_for_flag = format!("until [ -e {} ]; do sleep 0.02; done", flag.display());
    let shell = format!("echo one; {wait_for_flag}; echo two; echo trouble >&2; exit 3");
    let run = node.api().submit(&json!({ "task": { "shell": shell } }));
    let id = run["id"].as_str().expect("a run has an id");
    let mut following = Command::new(binary::path())
        .args(["run", "logs", id, "-f"])
        .env("PUNCTUAL_SERVER", node.api().address())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary can be started");
    let mut out = BufReader::new(following.stdout.take().expect("it is piped"));
    let mut line = String::new();
    out.read_line(&mut line).expect("it prints");
    assert_eq!(line, "one\n");
    assert!(!has_ended(&node.api().run(id)), "it still runs: what was read was live");
    fs::write(&flag, "").expect("a file of the scene can be written");
    let mut rest = String::new();
    out.read_to_string(&mut rest).expect("it prints");
    let output = following.wait_with_output().expect("it ends");
    assert_eq!((rest.as_str(), String::from_utf8_lossy(&output.stderr).as_ref()), ("two\n", "trouble\n"));
    assert!(output.status.success(), "following went well, whatever became of the run: {:?}", output.status);
}

#[test]
fn changes_of_a_run_can_be_followed_to_its_end() {
    let scene = Scene::new();
    let node = scene.start();
    let run = node.api().submit(&json!({ "task": { "shell": "echo hi" }, "delay": "1s" }));
    let id = run["id"].as_str().expect("a run has an id");
    let told = node.api().get(&format!("{RUNS}/{id}/events?follow=true")).expect("the node answers");
    assert_eq!((told.status, told.content_type.as_str()), (200, "text/event-stream"));
    let states: Vec<String> =
        told.text.lines().filter_map(|line| line.strip_prefix("data: ")).map(state).collect();
    assert_eq!(states, ["waiting", "ready", "running", "succeeded", "succeeded"], "{}", told.text);
    let last = node.api().send(
        reqwest::Method::GET,
        &format!("{RUNS}/{id}/events?follow=true"),
        None,
        Some(("last-event-id", "3")),
    );
    let told = last.expect("the node answers").text;
    assert_eq!(told.lines().filter(|line| line.starts_with("id: ")).collect::<Vec<_>>(), ["id: 4"], "{told}");
    let page = node.api().get(&format!("{RUNS}/{id}/events")).expect("the node answers").ok();
    assert_eq!(page["items"].as_array().map(Vec::len), Some(4), "{page}");
}

/// What a change leads to, or the end found.
fn state(data: &str) -> String {
    let event: Value = serde_json::from_str(data).expect("an event is JSON");
    event.get("to").or(event.get("state")).and_then(Value::as_str).expect("it says a state").to_owned()
}

#[test]
fn a_place_in_a_log_that_is_none_is_refused() {
    let scene = Scene::new();
    let node = scene.start();
    let run = run_to_end(node.api(), "echo hi");
    let path = format!("{RUNS}/{}/logs", run["id"].as_str().expect("a run has an id"));
    for (query, header, field) in [
        ("?follow=true", Some(("last-event-id", "seven")), "Last-Event-ID"),
        ("?follow=perhaps", None, "follow"),
        ("?attempt=2", None, "attempt"),
        ("?attempt=0", None, "attempt"),
        ("?tail=3", None, "tail"),
    ] {
        let answer = node.api().send(reqwest::Method::GET, &format!("{path}{query}"), None, header);
        let answer = answer.expect("the node answers");
        assert_eq!((answer.status, &answer.json()["field"]), (400, &json!(field)), "{answer:?}");
    }
    let first = node.api().get(&format!("{path}?attempt=1")).expect("the node answers");
    assert_eq!(first.text, "hi\n");
}

#[test]
fn results_and_output_are_there_after_a_kill() {
    let scene = Scene::new();
    let mut node = scene.start();
    let run = run_to_end(node.api(), "echo hi; echo trouble >&2; exit 3");
    // Two attempts of another, so that there is something in the middle of its life too.
    let job = json!({ "task": { "shell": "echo try $PUNCTUAL_ATTEMPT; exit 4" },
        "retry": { "attempts": 2, "delay": "1h", "backoff": "fixed" } });
    node.api().put_job("twice", &job);
    let half = node.api().start_job("twice");
    let half_id = half["id"].as_str().expect("a run has an id").to_owned();
    wait::until_so("its first attempt has failed", SOON, || node.api().run(&half_id)["exit_code"] == 4);
    // And one that tells how far it is before it ends.
    let go_on = scene.path("go-on");
    let task = format!("until [ -e {} ]; do sleep 0.05; done", go_on.display());
    let told = node.api().submit(&json!({ "task": { "shell": task } }));
    let told_id = told["id"].as_str().expect("a run has an id").to_owned();
    let token = wait::until("it runs", SOON, || {
        node.api().run(&told_id)["attempts"][0]["token"].as_str().map(str::to_owned)
    });
    let body = json!({ "token": token, "percent": 40 });
    let said = node.api().post(&format!("{RUNS}/{told_id}/progress"), &body).expect("the node answers");
    assert_eq!(said.status, 204, "{said:?}");
    std::fs::write(&go_on, "").expect("the folder of the scene is writable");
    wait::until_so("it ends", SOON, || node.api().run(&told_id)["state"] == "succeeded");
    node.kill();
    node.start();
    assert_eq!(node.api().run(&told_id)["progress"], 40, "its progress is there after the restart");
    let id = run["id"].as_str().expect("a run has an id");
    assert_eq!(node.api().run(id), run);
    let text = |id: &str| node.api().get(&format!("{RUNS}/{id}/logs")).expect("the node answers").text;
    // Which of two streams comes first is the machine's affair.
    assert!(["hi\ntrouble\n", "trouble\nhi\n"].contains(&text(id).as_str()));
    assert_eq!(text(&half_id), "try 1\n");
    let kept = node.api().run(&half_id);
    assert_eq!((&kept["attempt"], &kept["output"]), (&json!(1), &json!("try 1")), "{kept}");
}
