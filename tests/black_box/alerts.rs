//! Alerts: no notification is lost while its receiver is away or its node is killed, and none delays a run.

mod mail;

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use punctual_tests::history::has_ended;
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Api, Node, Scene};
use serde_json::{Value, json};

const INCIDENTS: &str = "/api/v1/namespaces/default/incidents";
/// A secret in the form of Standard Webhooks.
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A request that a receiver got.
#[derive(Debug, Clone)]
struct Received {
    id: String,
    timestamp: String,
    signature: String,
    body: String,
}

impl Received {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("the body is JSON")
    }

    fn kind(&self) -> String {
        self.json()["type"].as_str().expect("an event has a type").to_owned()
    }
}

/// A receiver that first answers 500 for a while.
#[derive(Debug)]
struct Receiver {
    address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Receiver {
    fn start(listener: TcpListener, failures: usize) -> Receiver {
        let address = listener.local_addr().expect("it has an address");
        let received = Arc::<Mutex<Vec<Received>>>::default();
        let (kept, left) = (Arc::clone(&received), AtomicUsize::new(failures));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let Some(request) = read(&stream) else { continue };
                kept.lock().expect("no receiver panics").push(request);
                let fails = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
                let status = if fails.is_ok() { "500 Internal Server Error" } else { "204 No Content" };
                let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
                // The node may have been killed meanwhile.
                let _ = (&stream).write_all(answer.as_bytes());
            }
        });
        Receiver { address, received }
    }

    fn all(&self) -> Vec<Received> {
        self.received.lock().expect("no receiver panics").clone()
    }

    /// The first request of this kind.
    fn first(&self, kind: &str) -> Option<Received> {
        self.all().into_iter().find(|received| received.kind() == kind)
    }
}

fn read(stream: &TcpStream) -> Option<Received> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while reader.read_line(&mut head).ok()? > 2 {}
    let header = |name: &str| {
        let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with(&format!("{name}:")))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let mut body = vec![0; header("content-length")?.parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    let or_nothing = |name| header(name).unwrap_or_default();
    Some(Received {
        id: or_nothing("webhook-id"),
        timestamp: or_nothing("webhook-timestamp"),
        signature: or_nothing("webhook-signature"),
        body: String::from_utf8(body).ok()?,
    })
}

fn listen() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").expect("a port is free")
}

/// The address of a port on which nobody listens.
fn nowhere() -> SocketAddr {
    listen().local_addr().expect("it has an address")
}

fn secret_file(scene: &Scene, name: &str, text: &str) -> String {
    let path = scene.write(name, text);
    fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("it is our file");
    path.display().to_string()
}

fn channel(name: &str, address: SocketAddr, rest: &str) -> String {
    format!("[alerts.channels.{name}]\ntype = \"webhook\"\nurl = \"http://{address}/hook\"\n{rest}\n")
}

/// A node with these channels; the first lines are other settings.
fn node(scene: &Scene, alerts: &str, channels: &[String]) -> Node {
    let settings = scene.write("punctual.toml", &format!("{alerts}\n{}", channels.concat()));
    let mut node = scene.node().with_env("PUNCTUAL_CONFIG", settings);
    node.start();
    node
}

fn fails(api: &Api, job: &str) {
    let run = api.start_job(job)["id"].as_str().expect("a run has an id").to_owned();
    let ended = wait::until("the run ends", SOON, || Some(api.run(&run)).filter(has_ended));
    assert_eq!(ended["state"], "failed", "{ended:#}");
}

fn failing_job(channels: &[&str]) -> Value {
    json!({ "task": { "shell": "echo it broke >&2; exit 3" }, "alerts": [{ "on": "failed", "to": channels }] })
}

fn incidents(api: &Api, query: &str) -> Vec<Value> {
    let page = api.get(&format!("{INCIDENTS}{query}")).expect("the node answers").ok();
    page["items"].as_array().expect("a page has items").clone()
}

/// The HMAC as the standard library of Python computes it.
fn signed_by_python(received: &Received) -> String {
    let script = "import sys,hmac,hashlib,base64;k=base64.b64decode(sys.argv[1][6:]);\
                  print('v1,'+base64.b64encode(hmac.new(k,sys.stdin.buffer.read(),hashlib.sha256).digest()).decode())";
    let mut python = Command::new("python3")
        .args(["-c", script, SECRET])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is installed");
    let content = format!("{}.{}.{}", received.id, received.timestamp, received.body);
    python.stdin.take().expect("it is piped").write_all(content.as_bytes()).expect("python reads");
    let output = python.wait_with_output().expect("python ends");
    String::from_utf8(output.stdout).expect("it prints text").trim().to_owned()
}

#[test]
fn receivers_that_fail_lose_no_alert_and_delay_no_run() {
    let scene = Scene::new();
    // It takes connections into its backlog and never answers.
    let hanging = listen();
    let failing = Receiver::start(listen(), 2);
    let away = nowhere();
    let channels = [
        channel("hanging", hanging.local_addr().expect("it has an address"), ""),
        channel("failing", failing.address, ""),
        channel("away", away, ""),
    ];
    let node = node(&scene, "", &channels);
    let api = node.api();
    api.put_job("tick", &json!({ "schedule": { "every": "1s" }, "task": { "noop": {} } }));
    api.put_job("breaks", &failing_job(&["hanging", "failing", "away"]));
    fails(api, "breaks");
    wait::until_so("the failing receiver has taken it", SOON, || failing.all().len() >= 3);
    let back = Receiver::start(TcpListener::bind(away).expect("nobody took the port"), 0);
    let late = wait::until("the receiver that was away gets it", SOON, || back.first("incident.opened"));
    let tries = failing.all();
    assert!(tries.iter().all(|one| one.id == tries[0].id), "one id for each try: {tries:?}");
    assert_ne!(late.id, tries[0].id, "another channel is another notification");
    let data = &late.json()["data"];
    assert_eq!((&data["job"], &data["on"]["on"]), (&json!("breaks"), &json!("failed")), "{data:#}");
    fails(api, "breaks");
    fails(api, "breaks");
    assert_eq!(incidents(api, "?open=true&job=breaks")[0]["count"], 3);
    assert_eq!(back.all().len(), 1, "the same error again is no news");
    assert_no_run_was_late(api, "tick");
}

#[track_caller]
fn assert_no_run_was_late(api: &Api, job: &str) {
    let runs = api.runs_of(job);
    let started_late = runs.iter().filter(|run| {
        let at = |field: &str| run[field].as_str().and_then(|at| at.parse::<punctual_core::Timestamp>().ok());
        at("started_at")
            .zip(at("due_at"))
            .is_some_and(|(start, due)| start.since(due) > Duration::from_secs(5))
    });
    assert!(runs.len() >= 3 && started_late.count() == 0, "no run waits for a receiver: {runs:#?}");
}

#[test]
fn a_kill_between_commit_and_delivery_loses_nothing() {
    let scene = Scene::new();
    let away = nowhere();
    let file = secret_file(&scene, "secret", &format!("{SECRET}\nwhsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD\n"));
    let channels = [channel("ops", away, &format!("secret_file = \"{file}\""))];
    let mut node = node(&scene, "[alerts]\ndefault = [\"ops\"]", &channels);
    node.api().put_job("breaks", &failing_job(&[]));
    fails(node.api(), "breaks");
    assert_eq!(incidents(node.api(), "?open=true").len(), 1);
    node.kill();
    let receiver = Receiver::start(TcpListener::bind(away).expect("nobody took the port"), 0);
    node.start();
    let opened = wait::until("it is sent", SOON, || receiver.first("incident.opened"));
    let (first, second) = opened.signature.split_once(' ').expect("a signature for each secret");
    assert_eq!(first, signed_by_python(&opened));
    assert!(second.starts_with("v1,") && second != first);
    let works = json!({ "task": { "noop": {} }, "alerts": [{ "on": "failed" }] });
    node.api().put_job("breaks", &works);
    node.api().start_job("breaks");
    let ended = wait::until("it is over", SOON, || receiver.first("incident.ended"));
    assert_eq!(ended.json()["data"]["id"], opened.json()["data"]["id"]);
    assert_eq!(incidents(node.api(), "?open=true"), Vec::<Value>::new());
    assert_eq!(incidents(node.api(), "").len(), 1, "it is listed for a week");
}

#[test]
fn incidents_are_acknowledged_and_silenced_by_hand() {
    let scene = Scene::new();
    let receiver = Receiver::start(listen(), 0);
    let node = node(&scene, "", &[channel("ops", receiver.address, "")]);
    node.cli(["alert", "test", "ops"]).ok();
    assert_eq!(receiver.all()[0].kind(), "test");
    let unknown = node.cli(["alert", "test", "opps"]);
    assert!(!unknown.status.success() && unknown.err.contains("no channel `opps`"), "{unknown:?}");
    node.api().put_job("breaks", &failing_job(&["ops"]));
    fails(node.api(), "breaks");
    let listed = node.cli(["incident", "list", "-o", "json"]).json();
    let id = listed[0]["id"].as_str().expect("it has an id").to_owned();
    let acknowledged = node.cli(["incident", "ack", &id, "--comment", "known", "-o", "json"]).json();
    assert_eq!(acknowledged["acknowledged"]["comment"], "known");
    let silenced = node.cli(["incident", "silence", &id, "--for", "8h", "-o", "json"]).json();
    assert!(silenced["silence"]["until"].is_string(), "{silenced:#}");
    let shown = node.cli(["incident", "show", &id]);
    assert!(shown.out.contains("known") && shown.out.contains("silenced"), "{shown:?}");
    let job = node.api().get("/api/v1/namespaces/default/jobs/breaks").expect("the node answers").ok();
    assert_eq!(job["alerts"], json!({ "on": "failed", "after": 1, "to": ["ops"] }));
    let wrong = json!({ "task": { "noop": {} }, "alerts": [{ "on": "failed", "to": ["opps"] }] });
    let refused = node.api().put("/api/v1/namespaces/default/jobs/wrong", &wrong).expect("the node answers");
    assert_eq!((refused.status, &refused.json()["field"]), (422, &json!("alerts[0].to")), "{refused:?}");
}

#[test]
fn a_notification_of_a_step_names_it() {
    let scene = Scene::new();
    let receiver = Receiver::start(listen(), 0);
    let node = node(&scene, "", &[channel("ops", receiver.address, "")]);
    let workflow = |channel: &str| {
        let breaks = json!({ "task": { "shell": "exit 3" }, "alerts": { "on": "failed", "to": [channel] } });
        json!({ "task": { "workflow": { "steps": { "load": { "task": { "noop": {} } }, "settle": breaks } } } })
    };
    let refused = node.api().put("/api/v1/namespaces/default/jobs/flow", &workflow("opps"));
    let refused = refused.expect("the node answers");
    let field = json!("task.workflow.steps.settle.alerts[0].to");
    assert_eq!((refused.status, &refused.json()["field"]), (422, &field), "{refused:?}");
    node.api().put_job("flow", &workflow("ops"));
    fails(node.api(), "flow");
    let opened = wait::until("it is sent", SOON, || receiver.first("incident.opened"));
    let data = &opened.json()["data"];
    assert_eq!((&data["job"], &data["step"]), (&json!("flow"), &json!("settle")), "{data:#}");
    assert_eq!(incidents(node.api(), "?open=true")[0]["step"], "settle");
    let listed = node.cli(["incident", "list"]);
    assert!(listed.out.contains("flow, step settle"), "{listed:?}");
}

#[test]
fn a_channel_that_fails_is_an_incident() {
    let scene = Scene::new();
    let receiver = Receiver::start(listen(), 0);
    let channels = [channel("away", nowhere(), ""), channel("ops", receiver.address, "")];
    let node = node(&scene, "[alerts]\ndefault = [\"ops\"]", &channels);
    node.api().put_job("breaks", &failing_job(&["away"]));
    fails(node.api(), "breaks");
    let told = wait::until("the other channel says so", SOON, || receiver.first("incident.opened"));
    assert_eq!(told.json()["data"]["channel"], "away");
}

#[test]
fn a_channel_passes_the_egress_rules() {
    let scene = Scene::new();
    let receiver = Receiver::start(listen(), 0);
    let node = node(&scene, "[egress]\nallow = []", &[channel("ops", receiver.address, "")]);
    let refused = node.api().post("/api/v1/channels/ops/test", &json!({})).expect("the node answers");
    assert_eq!((refused.status, &refused.json()["code"]), (502, &json!("channel_failed")), "{refused:?}");
    assert!(receiver.all().is_empty());
}
