//! Whatever comes in: a table of what is wrong, what is answered, and which part is named. A refusal stores nothing.
//!
//! Rows that belong to a surface of their own (calendars, templates, HTTP tasks) stand with its tests.

use axum::body::Body;
use axum::http::Request;
use axum::http::request::Builder;
use punctual_wire::rest::{Job, Page, Run};
use serde_json::{Value, json};

use super::{Answer, JOBS, RUNS, Scene, get_of, with_json};

/// A request, and the status, the code and the field that answer it; no field: the whole of it is wrong.
struct Row {
    what: String,
    request: Request<Body>,
    expected: (u16, &'static str, &'static str),
}

const INVALID: (u16, &str) = (422, "invalid");
const MALFORMED: (u16, &str) = (400, "malformed");
const PARAMETER: (u16, &str) = (400, "bad_parameter");

fn row(
    what: impl Into<String>,
    request: Request<Body>,
    (status, code): (u16, &'static str),
    field: &'static str,
) -> Row {
    let what = what.into().chars().take(100).collect();
    Row { what, request, expected: (status, code, field) }
}

/// A job whose field has a value.
fn job(field: &'static str, name: &str, value: Value) -> Row {
    let mut job = json!({ "task": { "noop": {} } });
    job[name] = value;
    row(job.to_string(), with_json(put_job(), &job), INVALID, field)
}

fn schedule(field: &'static str, schedule: Value) -> Row {
    job(field, "schedule", schedule)
}

fn submit(field: &'static str, name: &str, value: Value) -> Row {
    let mut submit = json!({ "task": { "noop": {} } });
    submit[name] = value;
    row(submit.to_string(), with_json(Request::post(RUNS), &submit), INVALID, field)
}

fn put_job() -> Builder {
    Request::put(format!("{JOBS}/b"))
}

fn body(kind: &str, text: impl Into<Vec<u8>>) -> Request<Body> {
    put_job().header("content-type", kind).body(Body::from(text.into())).unwrap()
}

fn crons() -> Vec<Row> {
    let long = format!("0{} * * * *", ",0".repeat(200));
    let bad = [
        "",
        " ",
        "*",
        "* * * *",
        "* * * * * * * *",
        "60 * * * *",
        "-1 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * 32 * *",
        "* * * 0 *",
        "* * * 13 *",
        "* * * * 8",
        "* * * * 9",
        "60 * * * * *",
        "0 0 0 1 1 * 1969",
        "0 0 0 1 1 * 2100",
        "0 0 0 1 1 * 2035-2030",
        "a * * * *",
        "* * * JANUARY *",
        "* * * * MONDAY",
        "*/0 * * * *",
        "*/61 * * * *",
        "*/ * * * *",
        "/5 * * * *",
        "1- * * * *",
        "-5 * * * *",
        "1--5 * * * *",
        ",1 * * * *",
        "1, * * * *",
        "1,,2 * * * *",
        "1.5 * * * *",
        "+1 * * * *",
        "1e1 * * * *",
        "0x1 * * * *",
        "٣ * * * *",
        "１ * * * *",
        "* * * * *\u{0}",
        "* * * * \u{202e}1",
        "? * * * *",
        "0 ? * * *",
        "0 0 L-0 * *",
        "0 0 L-31 * *",
        "0 0 W * *",
        "0 0 0W * *",
        "0 0 1-5W * *",
        "0 0 * * L",
        "0 0 * * 1#0",
        "0 0 * * 1#6",
        "0 0 * * #1",
        "0 0 30 2 *",
        "0 0 31 4,6,9,11 *",
        "@reboot",
        "@",
        "@every",
        "@every 0s",
        "@every -1s",
        "@every 5min",
        "@daily extra",
        "H(5-1) * * * *",
        "H(0-60) * * * *",
        "H/0 * * * *",
        "0 0 0 1 1 * H",
        "$(reboot) * * * *",
        &long,
    ];
    bad.map(|cron| schedule("schedule.cron", json!({ "cron": cron }))).into()
}

fn zones() -> Vec<Row> {
    let long = "A/".repeat(40);
    let bad = [
        "",
        " ",
        "Mars/Olympus",
        "CEST",
        "+08:00",
        "UTC+8",
        "Asia/Shanghai ",
        "Asia\\Shanghai",
        "../../etc/localtime",
        "Etc/Unknown",
        "亚洲/上海",
        "UTC\u{0}",
        &long,
    ];
    let mut rows: Vec<Row> =
        bad.map(|zone| schedule("schedule.timezone", json!({ "cron": "@daily", "timezone": zone }))).into();
    rows.push(schedule("schedule.timezone", json!({ "every": "1s", "timezone": "UTC" })));
    rows.push(schedule("schedule.timezone", json!({ "cron": "@daily", "timezone": 8 })));
    rows.push(schedule("schedule.weekdays", json!({ "cron": "@daily", "weekdays": "lunar" })));
    rows.push(schedule("schedule.weekdays", json!({ "every": "1s", "weekdays": "quartz" })));
    rows
}

fn durations() -> Vec<Row> {
    let long = "1s".repeat(40);
    let bad = [
        "",
        " ",
        "0s",
        "0ms",
        "-1s",
        "1",
        "s",
        "1.5h",
        "1 h",
        "1h ",
        "5min",
        "1M",
        "1y",
        "1s1s",
        "1s1m",
        "1e3s",
        "99999999999999999999s",
        "18446744073709551615w",
        "１s",
        "1s\u{0}",
        "PT1H",
        "soon",
        &long,
    ];
    let mut rows: Vec<Row> = bad.map(|span| schedule("schedule.every", json!({ "every": span }))).into();
    rows.push(schedule("schedule.every", json!({ "every": 30 })));
    rows.push(schedule("schedule.every", json!({ "every": null })));
    rows.last_mut().expect("just pushed").expected.2 = "schedule";
    rows.push(schedule("schedule.after_finish", json!({ "after_finish": "0s" })));
    rows.push(schedule("schedule.jitter", json!({ "every": "1s", "jitter": "x" })));
    rows.push(job("timeout", "timeout", json!("0s")));
    rows.push(job("timeout", "timeout", json!("5000w")));
    rows.push(job("retry.delay", "retry", json!({ "delay": "often" })));
    rows.push(job("retry.delay", "retry", json!({ "delay": "5000w" })));
    rows.push(job("retry.max_delay", "retry", json!({ "max_delay": "5000w" })));
    rows.push(job("misfire.window", "misfire", json!({ "window": "5000w" })));
    rows.push(job("misfire.grace", "misfire", json!({ "grace": "5000w" })));
    rows.push(submit("delay", "delay", json!("5000w")));
    rows.push(submit("delay", "delay", json!("-5s")));
    rows.push(submit("delay", "delay", json!(5)));
    rows.push(submit("timeout", "timeout", json!("0s")));
    rows
}

fn instants() -> Vec<Row> {
    let bad = [
        "",
        "tomorrow",
        "2026-12-01",
        "2026-12-01T08:00:00",
        "2026-02-30T08:00:00Z",
        "2026-13-01T08:00:00Z",
        "2026-12-01T25:00:00Z",
        "1969-12-31T23:59:59Z",
        "9999-12-31T23:59:59Z",
        "10000-01-01T00:00:00Z",
        "1764547200",
        "2026-12-01T08:00:00+99:00",
    ];
    let mut rows: Vec<Row> = bad.map(|at| schedule("schedule.at", json!({ "at": at }))).into();
    rows.extend(bad.map(|at| submit("due_at", "due_at", json!(at))));
    rows.push(schedule("schedule.at", json!({ "at": 1_764_547_200 })));
    rows.push(schedule("schedule.start", json!({ "every": "1s", "start": "then" })));
    rows.push(schedule("schedule.end", json!({ "every": "1s", "end": "then" })));
    let (start, end) = ("2030-01-02T00:00:00Z", "2030-01-01T00:00:00Z");
    rows.push(schedule("schedule.end", json!({ "every": "1s", "start": start, "end": end })));
    rows
}

fn numbers() -> Vec<Row> {
    let huge = 1_u64 << 40;
    let mut rows = Vec::new();
    for value in
        [json!(10), json!(-1), json!(1.5), json!("5"), json!(null), json!([5]), json!(huge), json!(true)]
    {
        // Nothing is as good as left out.
        if !value.is_null() {
            rows.push(job("priority", "priority", value.clone()));
            rows.push(submit("priority", "priority", value));
        }
    }
    for value in [json!(0), json!(101), json!(-1), json!(1.5), json!("3"), json!(huge)] {
        rows.push(job("retry.attempts", "retry", json!({ "attempts": value })));
    }
    for value in [json!(0), json!(-1), json!(huge), json!("1")] {
        rows.push(job("limits.running", "limits", json!({ "running": value })));
        rows.push(schedule("schedule.max_runs", json!({ "every": "1s", "max_runs": value })));
    }
    rows.push(job("keep", "keep", json!({ "runs": 0 })));
    rows.push(job("keep", "keep", json!({ "days": 0 })));
    rows.push(job("keep.days", "keep", json!({ "days": -1 })));
    for share in [json!("101%"), json!("-1%"), json!("20"), json!(20), json!("%"), json!("1e1%")] {
        rows.push(job("retry.jitter", "retry", json!({ "jitter": share })));
    }
    rows.push(job("retry.priority", "retry", json!({ "priority": 10 })));
    rows.push(job("at_most_once", "retry", json!({ "attempts": 2 })));
    let both = json!({ "task": { "noop": {} }, "retry": { "attempts": 2 }, "at_most_once": true });
    rows.last_mut().expect("just pushed").request = with_json(put_job(), &both);
    rows
}

fn words() -> Vec<Row> {
    vec![
        job("overlap", "overlap", json!("maybe")),
        job("overlap", "overlap", json!("SKIP")),
        job("overlap", "overlap", json!(1)),
        job("overlap", "overlap", json!({ "skip": true })),
        job("misfire.policy", "misfire", json!({ "policy": "pray" })),
        job("misfire", "misfire", json!("once")),
        job("retry.backoff", "retry", json!({ "backoff": "exponentail" })),
        job("retry", "retry", json!(3)),
        job("retry", "retry", json!([])),
        job("dead_letter", "dead_letter", json!("yes")),
        job("at_most_once", "at_most_once", json!(1)),
        job("limits", "limits", json!(1)),
        job("unique.key", "unique", json!({ "key": "" })),
        job("unique.key", "unique", json!({ "key": "k".repeat(257) })),
        job("unique.key", "unique", json!({ "for": "1h" })),
        job("colour", "colour", json!("red")),
        job("retry.colour", "retry", json!({ "colour": "red" })),
        job("name", "name", json!("another")),
        job("name", "name", json!("")),
        job("name", "name", json!("a b")),
        job("name", "name", json!("naïve")),
        job("name", "name", json!("b\u{202e}")),
        job("name", "name", json!(5)),
        job("namespace", "namespace", json!("other")),
        job("namespace", "namespace", json!("Default")),
        job("namespace", "namespace", json!("a//b")),
        job("description", "description", json!("x".repeat(20_000))),
        job("description", "description", json!(["x"])),
        schedule("schedule", json!("every day")),
        schedule("schedule", json!({})),
        schedule("schedule", json!({ "manual": false })),
        schedule("schedule", json!({ "every": "1s", "cron": "@daily" })),
        schedule("schedule", Value::Array(vec![json!({ "every": "1s" }); 17])),
        schedule("schedule[1].every", json!([{ "every": "1s" }, { "every": "x" }])),
        schedule("schedule[0]", json!([5])),
        schedule("schedule.moon", json!({ "every": "1s", "moon": "full" })),
        submit("key", "key", json!("")),
        submit("key", "key", json!("k".repeat(257))),
        submit("key", "key", json!("a\u{0}b")),
        submit("key", "key", json!("a\nb")),
        submit("key", "key", json!(5)),
        submit("schedule", "schedule", json!({ "every": "1s" })),
        submit("unique.key", "unique", json!({})),
    ]
}

fn tasks() -> Vec<Row> {
    let task = |field, task| job(field, "task", task);
    let process = |field, process| job(field, "task", json!({ "process": process }));
    let many: serde_json::Map<String, Value> = (0..300).map(|n| (format!("V{n}"), json!("x"))).collect();
    vec![
        task("task", json!(null)),
        task("task", json!({})),
        task("task", json!("echo hi")),
        task("task", json!([])),
        task("task", json!({ "shell": "true", "noop": {} })),
        task("task.noop", json!({ "noop": true })),
        task("task.noop.x", json!({ "noop": { "x": 1 } })),
        task("task.shel", json!({ "shel": "true" })),
        task("task.shell", json!({ "shell": "" })),
        task("task.shell", json!({ "shell": " \n\t" })),
        task("task.shell", json!({ "shell": "a\u{0}b" })),
        task("task.shell", json!({ "shell": ["echo"] })),
        task("task.shell", json!({ "shell": "x".repeat(200_000) })),
        process("task.process.command", json!({})),
        process("task.process.command", json!({ "command": [] })),
        process("task.process.command", json!({ "command": [""] })),
        process("task.process.command", json!({ "command": "ls" })),
        process("task.process.command", json!({ "command": vec!["x"; 2000] })),
        process("task.process.command", json!({ "command": ["x", "a\u{0}b"] })),
        process("task.process.command[1]", json!({ "command": ["x", 1] })),
        process("task.process.env", json!({ "command": ["x"], "env": { "LD_PRELOAD": "x" } })),
        process("task.process.env", json!({ "command": ["x"], "env": { "ld_library_path": "x" } })),
        process("task.process.env", json!({ "command": ["x"], "env": { "PUNCTUAL_RUN": "x" } })),
        process("task.process.env", json!({ "command": ["x"], "env": { "A=B": "x" } })),
        process("task.process.env", json!({ "command": ["x"], "env": { "": "x" } })),
        process("task.process.env", json!({ "command": ["x"], "env": { "A": "a\u{0}" } })),
        process("task.process.env", json!({ "command": ["x"], "env": many })),
        process("task.process.env", json!({ "command": ["x"], "env": ["A=B"] })),
        process("task.process.env.A", json!({ "command": ["x"], "env": { "A": 5 } })),
        process("task.process.cmd", json!({ "cmd": ["x"] })),
        task("task.queue", json!({ "queue": "orders" })),
        task("task.queue.name", json!({ "queue": {} })),
        task("task.queue.name", json!({ "queue": { "name": "" } })),
        task("task.queue.name", json!({ "queue": { "name": "x".repeat(513) } })),
        task("task.queue.body", json!({ "queue": { "name": "a", "body": "{{ nobody }}" } })),
        task("task.queue.ttl", json!({ "queue": { "name": "a", "ttl": "0s" } })),
        task("task.queue.delay", json!({ "queue": { "name": "a", "ttl": "1s", "delay": "1s" } })),
        task("task.queue.priority", json!({ "queue": { "name": "a", "priority": 10 } })),
        task("task.queue.x", json!({ "queue": { "name": "a", "x": 1 } })),
        job("params", "params", json!([1, 2])),
        job("params", "params", json!("{}")),
        job("params", "params", json!({ "big": "x".repeat(300_000) })),
        submit("params", "params", json!(5)),
        submit("task.shell", "task", json!({ "shell": "" })),
    ]
}

fn documents() -> Vec<Row> {
    let deep = |n: usize| format!("{{\"params\":{}{}}}", "[".repeat(n), "]".repeat(n));
    let deep_maps = format!("{}1{}", "{\"a\":".repeat(100), "}".repeat(100));
    let bad: Vec<Vec<u8>> = [
        "{",
        "}",
        "{\"task\"}",
        "{\"task\":}",
        "{'task':{}}",
        "{task:{}}",
        "{\"a\":1,}",
        "[1,]",
        "nul",
        "tru",
        "NaN",
        "{} {}",
        "{}x",
        "// c\n{}",
        "{\"a\":1,\"a\":2}",
        "{\"a\":{\"b\":1,\"b\":2}}",
        "{\"a\":01}",
        "{\"a\":1.}",
        "{\"a\":+1}",
        "{\"a\":1e999}",
        "{\"a\":\"\\x\"}",
        "{\"a\":\"\\ud800\"}",
        "{\"a\":\"\\udc00\\ud800\"}",
        "{\"\\ud800\":1}",
        "{\"a\":\"\u{1}\"}",
        "{\"a\":\"x",
        "\u{feff}{}",
        "\u{0}",
        &deep(65),
        &deep(100_000),
        &deep_maps,
    ]
    .map(|text| text.as_bytes().to_vec())
    .into();
    let mut rows: Vec<Row> = bad
        .into_iter()
        .map(|text| (String::from_utf8_lossy(&text).into_owned(), text))
        .map(|(what, text)| row(what, body("application/json", text), MALFORMED, ""))
        .collect();
    for (what, text) in [
        ("no UTF-8", b"{\"a\":\"\xff\xfe\"}".to_vec()),
        ("overlong UTF-8", b"{\"a\":\"\xc0\x80\"}".to_vec()),
        ("a surrogate in UTF-8", b"{\"a\":\"\xed\xa0\x80\"}".to_vec()),
        ("UTF-16", "{}".encode_utf16().flat_map(u16::to_le_bytes).collect()),
        ("gzip", vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0]),
    ] {
        rows.push(row(what, body("application/json", text), MALFORMED, ""));
    }
    for text in ["5", "\"a job\"", "[]", "null", "true", "[{\"task\":{\"noop\":{}}}]"] {
        rows.push(row(text, body("application/json", text), INVALID, ""));
    }
    let large = vec![b' '; 1024 * 1024 + 1];
    rows.push(row("a large body", body("application/json", large.clone()), (413, "body_too_large"), ""));
    rows.push(row("a large YAML body", body("application/yaml", large), (413, "body_too_large"), ""));
    rows.push(row("nothing", body("application/json", ""), MALFORMED, ""));
    rows
}

fn yamls() -> Vec<Row> {
    let yaml =
        |text: String, expected, field| row(text.clone(), body("application/yaml", text), expected, field);
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..9 {
        bomb += &format!("a{level}: &a{level} [{}]\n", format!("*a{}, ", level - 1).repeat(10));
    }
    let deep = format!("task: {{ noop: {{}} }}\nparams: {}{}\n", "{a: ".repeat(1000), "}".repeat(1000));
    let mut rows = vec![
        yaml(bomb, MALFORMED, ""),
        yaml(deep, MALFORMED, ""),
        yaml("task: { noop: {} }\n---\ntask: { noop: {} }\n".to_owned(), MALFORMED, ""),
        yaml("# nothing\n".to_owned(), MALFORMED, ""),
        yaml("task: { noop: {} }\ntask: { noop: {} }\n".to_owned(), MALFORMED, ""),
        yaml("task: *nowhere\n".to_owned(), MALFORMED, ""),
        yaml("task: { noop: {}\n".to_owned(), MALFORMED, ""),
        yaml("task:\n\tnoop: {}\n".to_owned(), MALFORMED, ""),
        yaml("task: { nop: {} }\n".to_owned(), INVALID, "task.nop"),
        yaml("- task\n".to_owned(), INVALID, ""),
        yaml("task: { noop: {} }\npriority: 99\n".to_owned(), INVALID, "priority"),
        yaml("task: { shell: [a] }\n".to_owned(), INVALID, "task.shell"),
    ];
    rows.push(row("no UTF-8", body("application/yaml", b"task: \xff".to_vec()), MALFORMED, ""));
    rows
}

fn addresses() -> Vec<Row> {
    let long = "x".repeat(129);
    let mut rows = Vec::new();
    let task = json!({ "task": { "noop": {} } });
    for name in [
        "%20",
        "a%20b",
        "%00",
        "a%0ab",
        "..%2f..%2fetc",
        "%2e%2e%2f",
        "na%C3%AFve",
        "%E4%BD%A0",
        "%E2%80%AEb",
        "a@b",
        &long,
    ] {
        rows.push(row(name, with_json(Request::put(format!("{JOBS}/{name}")), &task), PARAMETER, "name"));
        rows.push(row(name, get_of(&format!("{JOBS}/{name}")), PARAMETER, "name"));
    }
    for space in ["Upper", "a..b", ".a", "a.", "%20", "%00", "a_b", "%E4%BD%A0", "a%2f%2fb", &long] {
        rows.push(row(space, get_of(&format!("/api/v1/namespaces/{space}/jobs")), PARAMETER, "namespace"));
    }
    rows.push(row("no UTF-8", get_of(&format!("{JOBS}/%ff")), PARAMETER, "path"));
    rows.push(row("no UTF-8", get_of("/api/v1/namespaces/%c0%80/jobs"), PARAMETER, "path"));
    for id in ["none", "-1", "0x10", "1.5", "99999999999999999999", "%00", "%20", "１"] {
        let id = id.replace('１', "%EF%BC%91");
        rows.push(row(id.clone(), get_of(&format!("{RUNS}/{id}")), PARAMETER, "id"));
        rows.push(row(
            id.clone(),
            Request::post(format!("{RUNS}/{id}/cancel")).body(Body::empty()).unwrap(),
            PARAMETER,
            "id",
        ));
    }
    for path in [
        "/",
        "/api",
        "/api/v1",
        "/api/v1/",
        "/api/v2/nodes",
        "/API/V1/nodes",
        "//api/v1/nodes",
        "/api/v1/nodes/",
        "/api/v1/namespaces",
        "/api/v1/namespaces/default",
        "/api/v1/cron",
        "/../etc/passwd",
        "/%2e%2e/etc/passwd",
        "/.git/config",
    ] {
        rows.push(row(path, get_of(path), (404, "no_such_route"), ""));
    }
    for (method, path) in [
        ("POST", JOBS),
        ("DELETE", JOBS),
        ("PUT", RUNS),
        ("TRACE", RUNS),
        ("BREW", RUNS),
        ("OPTIONS", JOBS),
        ("POST", "/healthz"),
    ] {
        let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
        rows.push(row(format!("{method} {path}"), request, (405, "method_not_allowed"), ""));
    }
    rows.push(row(
        "a long address",
        get_of(&format!("{RUNS}?job={}", "x".repeat(9000))),
        (414, "address_too_long"),
        "",
    ));
    rows
}

fn queries() -> Vec<Row> {
    let bad = [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=-1", "limit"),
        ("limit=1.5", "limit"),
        ("limit=", "limit"),
        ("limit=99999999999999999999", "limit"),
        ("limit=%31%00", "limit"),
        ("limit=1&limit=1", "limit"),
        ("state=asleep", "state"),
        ("state=", "state"),
        ("state=waiting,,ready", "state"),
        ("state=pending", "state"),
        ("since=yesterday", "since"),
        ("since=2026-01-01", "since"),
        ("until=", "until"),
        ("after=x", "after"),
        ("after=-1", "after"),
        ("job=a%20b", "job"),
        ("job=", "job"),
        ("colour=red", "colour"),
        ("Limit=5", "Limit"),
        ("=5", ""),
        ("a[]=1", "a[]"),
        ("%00=1", "\\u{0}"),
    ];
    bad.map(|(query, field)| row(query, get_of(&format!("{RUNS}?{query}")), PARAMETER, field)).into()
}

fn headers() -> Vec<Row> {
    let task = json!({ "task": { "noop": {} } });
    let put = |name: &str, value: &[u8]| with_json(put_job().header(name, value), &task);
    let post = |name: &str, value: &[u8]| with_json(Request::post(RUNS).header(name, value), &task);
    let mut many = Request::get(RUNS);
    for n in 0..101 {
        many = many.header(format!("x-{n}"), "x");
    }
    let kind = |kind: &[u8]| put_job().header("content-type", kind).body(Body::from("{}")).unwrap();
    let unsupported = (415, "unsupported_media_type");
    let twice = Request::post(RUNS).header("idempotency-key", "a").header("idempotency-key", "a");
    let mut rows = vec![
        row("If-Match without quotes", put("if-match", b"3"), PARAMETER, "If-Match"),
        row("If-Match with a star", put("if-match", b"*"), PARAMETER, "If-Match"),
        row("If-Match with words", put("if-match", b"\"three\""), PARAMETER, "If-Match"),
        row("If-Match below zero", put("if-match", b"\"-1\""), PARAMETER, "If-Match"),
        row("If-Match too large", put("if-match", b"\"99999999999\""), PARAMETER, "If-Match"),
        row("If-Match that is no text", put("if-match", b"\"\xff\""), PARAMETER, "if-match"),
        row("If-None-Match with a tag", put("if-none-match", b"\"1\""), PARAMETER, "If-None-Match"),
        row(
            "both",
            with_json(put_job().header("if-match", "\"1\"").header("if-none-match", "*"), &task),
            (412, "wrong_revision"),
            "If-Match",
        ),
        row("a job that is not there", put("if-match", b"\"1\""), (404, "no_such_job"), ""),
        row("a key twice", with_json(twice, &task), PARAMETER, "idempotency-key"),
        row("an empty key", post("idempotency-key", b""), INVALID, "key"),
        row("a long key", post("idempotency-key", "k".repeat(257).as_bytes()), INVALID, "key"),
        row("a key that is no text", post("idempotency-key", b"\xff"), PARAMETER, "idempotency-key"),
        row("many headers", many.body(Body::empty()).unwrap(), (431, "headers_too_large"), ""),
        row("a large header", post("x-large", &[b'x'; 40_000]), (431, "headers_too_large"), ""),
        row("a foreign host", post("host", b"evil.example"), (403, "cross_origin"), "Host"),
        row("a host that is no text", post("host", b"\xff"), (403, "cross_origin"), "Host"),
        row(
            "a foreign origin",
            with_json(
                Request::post(RUNS).header("host", "localhost:1").header("origin", "http://evil.example"),
                &task,
            ),
            (403, "cross_origin"),
            "Origin",
        ),
        row(
            "a null origin",
            with_json(Request::post(RUNS).header("host", "localhost:1").header("origin", "null"), &task),
            (403, "cross_origin"),
            "Origin",
        ),
    ];
    let kinds: [&[u8]; 8] = [
        b"text/plain",
        b"application/xml",
        b"multipart/form-data",
        b"application/x-www-form-urlencoded",
        b"json",
        b"",
        b"application/jsonp",
        b"\xff",
    ];
    rows.extend(kinds.map(|of| row(String::from_utf8_lossy(of), kind(of), unsupported, "Content-Type")));
    rows
}

#[tokio::test]
async fn whatever_is_wrong_is_said_with_a_code_and_the_field_and_nothing_is_stored() {
    let scene = Scene::new().await;
    let rows: Vec<Row> = [
        crons(),
        zones(),
        durations(),
        instants(),
        numbers(),
        words(),
        tasks(),
        documents(),
        yamls(),
        addresses(),
        queries(),
        headers(),
    ]
    .into_iter()
    .flatten()
    .collect();
    assert!(rows.len() >= 400, "{}", rows.len());
    let mut wrong = Vec::new();
    for Row { what, request, expected } in rows {
        let asked = format!("{} {what:?}", request.method());
        let answer = scene.send(request).await;
        if let Err(found) = check(&answer, expected) {
            wrong.push(format!("{asked}: {found}"));
        }
    }
    assert!(wrong.is_empty(), "{} answers are not as they should be:\n{}", wrong.len(), wrong.join("\n"));

    let runs: Page<Run> = scene.get(RUNS).await.read(200);
    let jobs: Page<Job> = scene.get(JOBS).await.read(200);
    assert_eq!((runs.items.len(), jobs.items.len()), (0, 0), "a refusal means that nothing happened");
    let export = scene.get("/api/v1/export/history").await;
    assert_eq!(String::from_utf8_lossy(&export.body).lines().count(), 1, "only the statistics");
}

fn check(answer: &Answer, (status, code, field): (u16, &str, &str)) -> Result<(), String> {
    let text = String::from_utf8_lossy(&answer.body);
    let problem: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let said = |name: &str| problem[name].as_str().unwrap_or("");
    let found = (answer.status.as_u16(), said("code"), said("field"));
    if found != (status, code, field) {
        return Err(format!("{found:?} instead of {:?}: {text}", (status, code, field)));
    }
    if answer.header("content-type") != "application/problem+json" || said("message").is_empty() {
        return Err(format!("no message: {text}"));
    }
    // What was sent may be echoed, a little of it and nothing that plays tricks on a terminal.
    if text.len() > 1000
        || said("message").chars().any(|c| c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c))
    {
        return Err(format!("not fit to print: {text}"));
    }
    Ok(())
}
