//! The limits of HTTP connections, with slow, silent and hostile clients (SEC-35, T-29, T-30).

use std::time::Duration;

use punctual_tests::api::{JOBS, RUNS};
use punctual_tests::raw::Reply;
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Machine, Node, Raw, Scene};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::{Value, json};

/// A node with a `[server]` of its own.
fn start(scene: &Scene, server: &str) -> Node {
    let file = scene.write("punctual.toml", &format!("[server]\n{server}\n"));
    let mut node = scene.node().with_env("PUNCTUAL_CONFIG", file);
    node.start();
    node
}

fn open(node: &Node) -> Raw {
    Raw::open(node.api().address()).expect("the node takes a connection")
}

/// Sends one request on a connection of its own and takes the answer.
#[track_caller]
fn ask(node: &Node, request: impl AsRef<[u8]>) -> Reply {
    let mut raw = open(node);
    // It may be refused before all of it is sent.
    let _ = raw.send(request);
    raw.reply().expect("the node answers")
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

fn post(path: &str, kind: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

#[track_caller]
fn check_code(reply: &Reply, status: u16, code: &str) {
    assert_eq!(reply.status, status, "{reply:?}");
    let problem: Value =
        serde_json::from_str(&reply.body).unwrap_or_else(|_| panic!("no problem: {reply:?}"));
    assert_eq!(problem["code"], code, "{reply:?}");
}

#[test]
fn a_request_that_trickles_in_does_not_hold_a_connection() {
    let scene = Scene::new();
    let node = start(&scene, "request_time = \"1s\"");
    let (began, machine) = (wait::now(), Machine::watched());
    let mut silent = open(&node);
    let mut slow_head = open(&node);
    slow_head.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ").expect("it is open");
    let mut slow_body = open(&node);
    let head = "Host: localhost\r\nContent-Type: application/json\r\nContent-Length: 100";
    slow_body.send(format!("POST {RUNS} HTTP/1.1\r\n{head}\r\n\r\n{{")).expect("it is open");
    let mut half_open = open(&node);
    half_open.send(get("/healthz")).expect("it is open");
    assert_eq!(half_open.reply().expect("an answer").status, 200);
    // A byte now and then is no reason to wait.
    for _ in 0..5 {
        wait::pass(Duration::from_millis(300));
        let _ = slow_head.send("x");
        let _ = slow_body.send(" ");
    }
    let reply = slow_body.reply().expect("an answer");
    check_code(&reply, 408, "too_slow");
    assert!(reply.has("connection: close"), "{reply:?}");
    assert!(slow_body.is_closed() && slow_head.is_closed() && silent.is_closed() && half_open.is_closed());
    assert!(began.elapsed() < Duration::from_secs(10) + machine.taken(), "{:?}", began.elapsed());
    assert_eq!(ask(&node, get("/readyz")).status, 200);
}

#[test]
fn the_head_and_the_body_share_one_time() {
    let scene = Scene::new();
    let node = start(&scene, "request_time = \"4s\"");
    let mut raw = open(&node);
    let (began, machine) = (wait::now(), Machine::watched());
    raw.send(format!("POST {RUNS} HTTP/1.1\r\nHost: localhost\r\n")).expect("it is open");
    wait::pass(Duration::from_millis(2_000));
    let rest = "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{";
    raw.send(rest).expect("it is open");
    check_code(&raw.reply().expect("an answer"), 408, "too_slow");
    let took = began.elapsed();
    // Each with a time of its own would take six seconds.
    let bounds = Duration::from_secs(4)..Duration::from_secs(5) + machine.taken();
    assert!(bounds.contains(&took), "{took:?}");
}

#[test]
fn an_answer_that_is_not_read_does_not_hold_a_connection() {
    let scene = Scene::new();
    let node = start(&scene, "request_time = \"1s\"");
    let run = node.api().submit(&serde_json::json!({ "task": { "shell": "yes | head -c 20000000" } }));
    let id = run["id"].as_str().expect("a run has an id").to_owned();
    wait::until_so("it has printed", SOON, || node.api().run(&id)["state"] == "succeeded");
    let mut deaf = open(&node);
    deaf.send(get(&format!("{RUNS}/{id}/logs"))).expect("it is open");
    wait::until_so("the node gives up", SOON, || {
        let page = node.api().get("/metrics").expect("the node answers").text;
        page.lines().any(|line| line == "punctual_http_connections 1")
    });
    drop(deaf);
}

#[test]
fn a_silent_follow_outlasts_the_request_timeout() {
    let scene = Scene::new();
    let node = start(&scene, "request_time = \"1s\"");
    let run = node.api().submit(&json!({ "task": { "shell": "sleep 3" } }));
    let id = run["id"].as_str().expect("a run has an id");
    for part in ["events", "logs"] {
        let told = node.api().get(&format!("{RUNS}/{id}/{part}?follow=true")).expect("the node answers");
        assert!(told.text.contains("event: end") && told.text.contains("succeeded"), "{part}: {}", told.text);
    }
}

#[test]
fn too_much_of_anything_is_refused_by_its_name() {
    let scene = Scene::new();
    let node = scene.start();
    let with = |headers: &str| format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
    let many = |count| (0..count).map(|number| format!("X-{number}: x\r\n")).collect::<String>();
    // With `Host` these are a hundred, and one more.
    assert_eq!(ask(&node, with(&many(99))).status, 200);
    for count in [100, 150, 500] {
        check_code(&ask(&node, with(&many(count))), 431, "headers_too_large");
    }
    // Far beyond it nobody reads on to find words for it.
    assert_eq!(ask(&node, with(&many(2_000))).status, 431);
    let large = format!("X-Large: {}\r\n", "x".repeat(40_000));
    check_code(&ask(&node, with(&large)), 431, "headers_too_large");
    assert_eq!(ask(&node, with(&large.repeat(10))).status, 431);
    check_code(&ask(&node, get(&format!("/{}", "x".repeat(9_000)))), 414, "address_too_long");
    assert!([414, 431].contains(&ask(&node, get(&format!("/{}", "x".repeat(90_000)))).status));

    let body = format!("{{\"description\":\"{}\"}}", "x".repeat(2 << 20));
    let reply = ask(&node, post(RUNS, "application/json", &body));
    check_code(&reply, 413, "body_too_large");
    assert!(reply.has("connection: close"), "{reply:?}");
    let asks_first = format!(
        "POST {RUNS} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: 2000000000\r\nExpect: 100-continue\r\n\r\n"
    );
    check_code(&ask(&node, asks_first), 413, "body_too_large");
    // A body whose length is declared is refused before it comes.
    let announced = format!(
        "POST {RUNS} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: 50000000\r\n\r\n{{"
    );
    let (began, machine) = (wait::now(), Machine::watched());
    check_code(&ask(&node, announced), 413, "body_too_large");
    assert!(began.elapsed() < Duration::from_secs(10) + machine.taken(), "{:?}", began.elapsed());

    let deep = format!("{{\"params\":{}{}}}", "[".repeat(100), "]".repeat(100));
    check_code(&ask(&node, post(RUNS, "application/json", &deep)), 400, "malformed");
    assert_eq!(ask(&node, get("/readyz")).status, 200);
}

#[test]
fn a_request_names_its_host_exactly_once() {
    let scene = Scene::new();
    let node = scene.start();
    check_code(&ask(&node, "GET /healthz HTTP/1.1\r\n\r\n"), 400, "bad_parameter");
    let twice = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n";
    check_code(&ask(&node, twice), 400, "bad_parameter");
    // HTTP/1.0 does not know the header.
    assert_eq!(ask(&node, "GET /healthz HTTP/1.0\r\n\r\n").status, 200);
    assert_eq!(ask(&node, get("/healthz")).status, 200);
}

#[test]
fn a_connection_carries_two_thousand_requests() {
    let scene = Scene::new();
    let node = scene.start();
    let mut raw = open(&node);
    let mut answered = 0;
    while answered < 3_000 {
        if raw.send(get("/healthz")).is_err() {
            break;
        }
        let Some(reply) = raw.reply() else { break };
        answered += 1;
        assert_eq!(reply.status, 200);
        assert_eq!(reply.has("connection: close"), answered == 2_000, "{answered}: {reply:?}");
    }
    assert_eq!(answered, 2_000);
    assert!(raw.is_closed());
}

#[test]
fn a_flood_of_connections_is_refused_until_it_ends() {
    let scene = Scene::new();
    let node = start(&scene, "connections = 64\nconnections_per_address = 8");
    // The harness keeps some of its own.
    let mut held = Vec::new();
    let refused = loop {
        let mut raw = open(&node);
        let _ = raw.send(get("/healthz"));
        let reply = raw.reply().expect("an answer");
        if reply.status != 200 {
            break reply;
        }
        held.push(raw);
        assert!(held.len() <= 8, "more than eight from one address");
    };
    check_code(&refused, 503, "too_many_connections");
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert!(refused.has("connection: close"), "{refused:?}");
    // Those who are in are served as ever.
    let first = held.first_mut().expect("someone is in");
    first.send(get("/healthz")).expect("it is open");
    assert_eq!(first.reply().expect("an answer").status, 200);
    held.clear();
    wait::until_so("there is room again", SOON, || ask(&node, get("/healthz")).status == 200);
}

#[test]
fn a_node_without_file_descriptors_waits_for_some_and_goes_on() {
    let scene = Scene::new();
    let node = start(&scene, "connections = 1024\nconnections_per_address = 1024");
    let pid = Pid::from_raw(node.pid().cast_signed()).expect("a node has a pid");
    let limit = Rlimit { current: Some(256), maximum: Some(256) };
    prlimit(Some(pid), Resource::Nofile, limit).expect("a limit can be lowered");
    let flood: Vec<Raw> = (0..400).map(|_| open(&node)).collect();
    wait::until_so("it says so", SOON, || node.printed().contains("no connection can be accepted now"));
    let before = cpu_ticks(node.pid());
    wait::pass(Duration::from_secs(2));
    let spent = cpu_ticks(node.pid()) - before;
    assert!(spent < 40, "{spent} hundredths of a second of CPU in two seconds: it spins");
    drop(flood);
    wait::until_so("connections are accepted again", SOON, || {
        node.printed().contains("connections are accepted again")
    });
    let run = node.api().submit(&serde_json::json!({ "task": { "shell": "echo hi" } }));
    let id = run["id"].as_str().expect("a run has an id").to_owned();
    wait::until_so("it works as ever", SOON, || node.api().run(&id)["state"] == "succeeded");
}

/// What a process has used of the CPU so far, in hundredths of a second.
fn cpu_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |place: usize| fields[place].parse::<u64>().expect("ticks are a number");
    ticks(11) + ticks(12)
}

#[test]
fn a_node_starts_with_few_file_descriptors_and_takes_fewer_connections() {
    let scene = Scene::new();
    let shell = format!(
        "ulimit -n 256; exec {} dev --http 127.0.0.1:0 --data {}",
        punctual_tests::binary::path().display(),
        scene.data().display()
    );
    let mut node = scene.node().with_program("sh", ["-c", &shell]);
    node.start();
    assert!(node.printed().contains("fewer connections than were asked for"), "{}", node.printed());
    // All that it takes leave it enough to work with.
    let mut held: Vec<Raw> = (0..200).map(|_| open(&node)).collect();
    let told = held.iter_mut().filter_map(|raw| {
        let _ = raw.send(get("/healthz"));
        raw.reply()
    });
    let told: Vec<u16> = told.map(|reply| reply.status).collect();
    assert!(told.contains(&200) && told.contains(&503), "{told:?}");
    drop(held);
    let run = wait::until("there is room", SOON, || {
        node.api()
            .post(RUNS, &serde_json::json!({ "task": { "shell": "echo hi" } }))
            .filter(|run| run.status == 201)
    });
    let id = run.json()["id"].as_str().expect("a run has an id").to_owned();
    wait::until_so("it works as ever", SOON, || node.api().run(&id)["state"] == "succeeded");
}

#[test]
fn strange_methods_addresses_and_headers_are_no_server_errors() {
    let scene = Scene::new();
    let node = scene.start();
    let head = ask(&node, "HEAD /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    for method in ["OPTIONS", "TRACE", "BREW", "DELETE"] {
        let reply = ask(&node, format!("{method} /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        check_code(&reply, 405, "method_not_allowed");
        assert_eq!(reply.header("allow"), Some("get,head"), "{method}: {reply:?}");
    }
    let paths: [(&[u8], &[u16]); 10] = [
        (b"/..", &[404]),
        (b"/../../etc/passwd", &[404]),
        (b"//healthz", &[404]),
        (b"/%2e%2e/%2e%2e", &[404]),
        (b"/api/v1/namespaces/%00/jobs", &[400]),
        (b"/api/v1/namespaces/%zz/jobs", &[400]),
        (b"/api/v1/namespaces/%/jobs", &[400]),
        (b"/api/v1/namespaces/%ff/jobs", &[400]),
        (b"/api/v1/namespaces/\xff\xfe/jobs", &[400]),
        (b"/api/v1/namespaces/default/runs?limit=%zz", &[400]),
    ];
    for (path, statuses) in paths {
        let request = [b"GET ", path, b" HTTP/1.1\r\nHost: localhost\r\n\r\n"].concat();
        let reply = ask(&node, request);
        assert!(statuses.contains(&reply.status), "{}: {reply:?}", path.escape_ascii());
    }
    for kind in ["text/plain", "application/xml", "", "application/json2", "multipart/form-data; boundary=x"]
    {
        check_code(&ask(&node, post(RUNS, kind, "{}")), 415, "unsupported_media_type");
    }
    for accept in ["text/html", "*/*;q=0", "\u{1f600}", "application/xml, image/*"] {
        let reply = ask(&node, format!("GET {JOBS} HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\n\r\n"));
        assert_eq!(reply.status, 200, "{accept}: {reply:?}");
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(
            reply.header("content-security-policy"),
            Some("default-src 'none'; frame-ancestors 'none'")
        );
    }
    for nonsense in
        ["", "\r\n\r\n", "hello\r\n\r\n", "GET / HTTP/3.0\r\n\r\n", "GET /\r\n\r\n", "\0\0\0\0\r\n\r\n"]
    {
        let mut raw = open(&node);
        let _ = raw.send(nonsense);
        raw.finish();
        let status = raw.reply().map_or(400, |reply| reply.status);
        assert!((400..500).contains(&status), "{nonsense:?}: {status}");
    }
    assert_eq!(ask(&node, get("/readyz")).status, 200);
}

#[test]
fn a_stopping_node_finishes_open_requests() {
    let scene = Scene::new();
    let mut node = scene.start();
    let mut idle: Vec<Raw> = (0..5).map(|_| open(&node)).collect();
    for raw in &mut idle {
        raw.send(get("/healthz")).expect("it is open");
        assert_eq!(raw.reply().expect("an answer").status, 200);
    }
    let (began, machine) = (wait::now(), Machine::watched());
    assert!(node.stop().success());
    assert!(began.elapsed() < Duration::from_secs(4) + machine.taken(), "{:?}", began.elapsed());
    assert!(idle.iter_mut().all(Raw::is_closed));
}
