//! HTTP tasks and templates, as someone meets them on the first day: against a server on the same machine.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::thread;

use punctual_tests::history::has_ended;
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Api, Scene};
use serde_json::{Value, json};

/// Answers so many requests with a status, and echoes what it was asked. Returns where it listens.
fn server(requests: usize, status: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let place = listener.local_addr().expect("it has an address").to_string();
    thread::spawn(move || {
        for stream in listener.incoming().take(requests).flatten() {
            let mut reader = BufReader::new(stream);
            let mut head = String::new();
            while reader.read_line(&mut head).is_ok_and(|read| read > 2) {}
            let length = head
                .lines()
                .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
            let mut body = vec![0; length.unwrap_or(0)];
            reader.read_exact(&mut body).expect("the body comes");
            let answer = json!({ "head": head, "body": String::from_utf8_lossy(&body) }).to_string();
            let text = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{answer}", answer.len());
            reader.get_mut().write_all(text.as_bytes()).expect("the answer is taken");
        }
    });
    place
}

#[track_caller]
fn ended(api: &Api, run: &Value) -> Value {
    let id = run["id"].as_str().expect("a run has an id");
    wait::until(&format!("run {id} has ended"), SOON, || Some(api.run(id)).filter(has_ended))
}

#[test]
fn an_http_task_sends_what_its_templates_evaluate_to() {
    let scene = Scene::new();
    let node = scene.start();
    let place = server(1, "200 OK");
    node.api().put_job(
        "report",
        &json!({
            "task": { "http": {
                "url": format!("http://{place}/reports/{{{{ params.region }}}}?day={{{{ due | date }}}}"),
                "method": "POST",
                "body": { "run": "{{ run.id }}", "count": "{{ params.count + 1 }}" },
                "expect": { "status": [200], "condition": "json.head is string" },
            } },
            "params": { "region": "east & west", "count": 1 },
        }),
    );
    let run = node.api().start_job("report");
    let run = ended(node.api(), &run);
    assert_eq!(
        (&run["state"], &run["exit_code"], &run["error"]),
        (&json!("succeeded"), &Value::Null, &Value::Null),
        "{run}"
    );
    let output: Value =
        serde_json::from_str(run["output"].as_str().expect("it has an output")).expect("it is JSON");
    let (id, day) =
        (run["id"].as_str().unwrap_or_default(), &run["due_at"].as_str().unwrap_or_default()[..10]);
    let head = output["head"].as_str().unwrap_or_default();
    assert!(head.starts_with(&format!("POST /reports/east%20%26%20west?day={day} HTTP/1.1\r\n")), "{head}");
    assert!(head.contains(&format!("punctual-run-id: {id}\r\n")), "{head}");
    assert_eq!(output["body"], json!({ "count": 2, "run": id }).to_string());
}

#[test]
fn an_http_task_that_fails_is_tried_again_and_says_why() {
    let scene = Scene::new();
    let node = scene.start();
    let place = server(2, "503 Service Unavailable");
    let task = json!({ "http": { "url": format!("http://{place}/") } });
    let run = node.api().submit(&json!({ "task": task, "retry": { "attempts": 2, "delay": "10ms" } }));
    let run = ended(node.api(), &run);
    assert_eq!((&run["state"], &run["attempt"]), (&json!("failed"), &json!(2)), "{run}");
    let error = run["error"].as_str().unwrap_or_default();
    assert!(error.starts_with("status 503 Service Unavailable, expected 2xx: {"), "{error}");
}

#[test]
fn no_task_calls_our_own_api() {
    let scene = Scene::new();
    let node = scene.start();
    for host in ["127.0.0.1", "localhost"] {
        let port = node.api().address().rsplit(':').next().expect("an address has a port");
        let url = format!("http://{host}:{port}/api/v1/nodes");
        let run = ended(node.api(), &node.api().submit(&json!({ "task": { "http": { "url": url } } })));
        let error = run["error"].as_str().unwrap_or_default();
        assert!(error.ends_with("is where Punctual itself listens, which no task may call"), "{run}");
    }
}

#[test]
fn a_bad_template_is_refused_with_its_field_and_changes_nothing() {
    let scene = Scene::new();
    let node = scene.start();
    let job = json!({ "task": { "process": { "command": ["echo", "{{ parms.day }}"] } } });
    let answer = node.api().put("/api/v1/namespaces/default/jobs/day", &job).expect("the node answers");
    assert_eq!(
        (answer.status, &answer.json()["field"]),
        (422, &json!("task.process.command[1]")),
        "{answer:?}"
    );
    assert!(answer.text.contains(
        "unknown variable `parms`; known are params, due, started, run, job, shard, checkpoint (column 4 of the text)"
    ));
    let found = node.api().get("/api/v1/namespaces/default/jobs/day").expect("the node answers");
    assert_eq!(found.status, 404);
}
