//! Job files, good and bad. Every bad one is refused with the field, the place and the way out.

mod bad_files;
mod mistakes;

use super::*;
use crate::error::Kind;

fn read_all(text: &str) -> Result<Vec<Draft>, Vec<Error>> {
    super::read_all(text, &Namespace::default())
}

/// A whole job around what a row is about.
fn job(rest: &str) -> String {
    let task = if rest.contains("task:") { "" } else { "task: { noop: {} }\n" };
    format!("name: hello\n{task}{rest}\n")
}

#[track_caller]
fn read_one(text: &str) -> Draft {
    let drafts = read_all(text).unwrap_or_else(|errors| panic!("{text}\nwas refused: {errors:?}"));
    let [draft] = <[Draft; 1]>::try_from(drafts).expect("one job");
    draft
}

/// What a job says at a path once it was read and written again.
#[track_caller]
fn check(rest: &str, pointer: &str, expected: &str) {
    let draft = read_one(&job(rest));
    let form = JobFile::of(&draft.namespace, &draft.name, &draft.definition);
    let json = serde_json::to_value(form).unwrap();
    let found = json.pointer(pointer).map(ToString::to_string).unwrap_or_default();
    assert_eq!(found, expected, "{rest} at {pointer} in {json}");
}

#[track_caller]
fn check_refused(text: &str, expected: &str) {
    match read_all(text) {
        Ok(drafts) => panic!("{text}\nwas taken: {drafts:?}"),
        Err(errors) => {
            assert_eq!(errors[0].to_string(), expected, "for\n{text}");
        }
    }
}

#[test]
fn what_people_write_is_understood() {
    let rows = [
        // Names.
        ("", "/namespace", r#""default""#),
        ("namespace: payments/clearing", "/namespace", r#""payments/clearing""#),
        ("description: settles the day", "/description", r#""settles the day""#),
        // Routes.
        ("", "/route", r#"{"strategy":"least_loaded"}"#),
        ("route: { strategy: least_recently_used }", "/route/strategy", r#""least_recently_used""#),
        ("route: { selector: { disk: ssd } }", "/route/selector", r#"{"disk":"ssd"}"#),
        (
            "route: { strategy: sticky, key: '{{ params.region }}-{{ due | date }}' }",
            "/route/key",
            r#""{{ params.region }}-{{ due | date }}""#,
        ),
        // Schedules.
        ("schedule: { every: 30s }", "/schedule/every", r#""30s""#),
        ("schedule: { every: 90s }", "/schedule/every", r#""1m30s""#),
        ("schedule: { cron: 0 1 * * * }", "/schedule/cron", r#""0 1 * * *""#),
        ("schedule: { cron: 0 1 * * * }", "/schedule/timezone", r#""UTC""#),
        ("schedule: { cron: '*/5 * * * * *' }", "/schedule/cron", r#""*/5 * * * * *""#),
        ("schedule: { cron: '@daily', timezone: Asia/Shanghai }", "/schedule/timezone", r#""Asia/Shanghai""#),
        ("schedule: { cron: '@every 90s' }", "/schedule/every", r#""1m30s""#),
        ("schedule: { cron: H H * * * }", "/schedule/cron", r#""H H * * *""#),
        ("schedule: { after_finish: 10m }", "/schedule/after_finish", r#""10m""#),
        ("schedule: { at: 2026-12-01T08:00:00+08:00 }", "/schedule/at", r#""2026-12-01T00:00:00.000Z""#),
        ("schedule: { manual: true }", "/schedule/manual", "true"),
        ("schedule: { every: 1s, jitter: 500ms }", "/schedule/jitter", r#""500ms""#),
        ("schedule: { every: 1s, max_runs: 3 }", "/schedule/max_runs", "3"),
        ("schedule: { every: 1s, calendar: cn-workdays }", "/schedule/calendar", r#""cn-workdays""#),
        (
            "schedule: { every: 1s, calendar: work, timezone: Asia/Tokyo }",
            "/schedule/timezone",
            r#""Asia/Tokyo""#,
        ),
        (
            "schedule: { cron: '@daily', calendar: work, timezone: Asia/Tokyo }",
            "/schedule/timezone",
            r#""Asia/Tokyo""#,
        ),
        (
            "schedule: { every: 1s, start: 2026-01-01T00:00:00Z }",
            "/schedule/start",
            r#""2026-01-01T00:00:00.000Z""#,
        ),
        (
            "schedule: { every: 1s, end: 2026-01-01T00:00:00Z }",
            "/schedule/end",
            r#""2026-01-01T00:00:00.000Z""#,
        ),
        ("schedule: [{ every: 1s }, { cron: '@hourly' }]", "/schedule/1/cron", r#""@hourly""#),
        ("schedule: [{ every: 1s }]", "/schedule/every", r#""1s""#),
        ("schedule: []", "/schedule", ""),
        ("schedule:", "/schedule", ""),
        // Tasks.
        ("task: { noop: {} }", "/task", r#"{"noop":{}}"#),
        ("task: { shell: echo hi }", "/task/shell", r#""echo hi""#),
        ("task:\n  shell: |\n    echo a\n    echo b", "/task/shell", r#""echo a\necho b\n""#),
        (
            "task: { process: { command: [./settle, --day] } }",
            "/task/process/command",
            r#"["./settle","--day"]"#,
        ),
        ("task: { process: { command: [a], env: { A: b } } }", "/task/process/env", r#"{"A":"b"}"#),
        ("task: { process: { command: [a], dir: /tmp } }", "/task/process/dir", r#""/tmp""#),
        (
            "task: { process: { command: [a, '{{ due | date }}'] } }",
            "/task/process/command/1",
            r#""{{ due | date }}""#,
        ),
        (
            "task: { shell: \"docker ps --format '{{.Names}}'\" }",
            "/task/shell",
            r#""docker ps --format '{{.Names}}'""#,
        ),
        ("task: { queue: { name: orders } }", "/task", r#"{"queue":{"name":"orders"}}"#),
        (
            "task: { queue: { name: 'a b', body: '{{ params.a }}', delay: 90s, retry: 0s, ttl: 1h, priority: 9 } }",
            "/task/queue",
            r#"{"body":"{{ params.a }}","delay":"1m30s","name":"a b","priority":9,"retry":"0s","ttl":"1h"}"#,
        ),
        ("task: { http: { url: http://a/ } }", "/task", r#"{"http":{"method":"GET","url":"http://a/"}}"#),
        ("task: { http: { url: http://a, method: POST, body: hi } }", "/task/http/body", r#""hi""#),
        (
            "task: { http: { url: http://a, method: PUT, body: { b: [1, x], a: null } } }",
            "/task/http/body",
            r#"{"a":null,"b":[1,"x"]}"#,
        ),
        (
            "task: { http: { url: http://a, headers: { Accept: text/plain } } }",
            "/task/http/headers",
            r#"{"Accept":"text/plain"}"#,
        ),
        (
            "task: { http: { url: http://a, timeout: 90s, redirects: 0 } }",
            "/task/http",
            r#"{"method":"GET","redirects":0,"timeout":"1m30s","url":"http://a"}"#,
        ),
        (
            "task: { http: { url: http://a, expect: { status: [200, 3xx, 404-410, '204'] } } }",
            "/task/http/expect",
            r#"{"status":[200,"3xx","404-410",204]}"#,
        ),
        (
            "task: { http: { url: http://a, expect: { status: 201 } } }",
            "/task/http/expect",
            r#"{"status":[201]}"#,
        ),
        (
            "task: { http: { url: http://a, expect: { body: ok, condition: json.ok } } }",
            "/task/http/expect",
            r#"{"body":"ok","condition":"json.ok","status":["2xx"]}"#,
        ),
        (
            "task: { http: { url: https://a, tls: { ca: /etc/ca.pem } } }",
            "/task/http/tls",
            r#"{"ca":"/etc/ca.pem"}"#,
        ),
        (
            "task: { http: { url: http://a, accept: {} } }",
            "/task/http",
            r#"{"accept":{},"method":"POST","url":"http://a"}"#,
        ),
        (
            "task: { http: { url: http://a/b, method: PUT, accept: { poll: 90s, all: http://a/all } } }",
            "/task/http",
            r#"{"accept":{"all":"http://a/all","poll":"1m30s"},"method":"PUT","url":"http://a/b"}"#,
        ),
        (
            "task: { grpc: { address: 'a:1', accept: {} } }",
            "/task",
            r#"{"grpc":{"accept":{},"address":"a:1"}}"#,
        ),
        (
            "task: { grpc: { address: 'a:1', method: b.C/D } }",
            "/task",
            r#"{"grpc":{"address":"a:1","method":"b.C/D"}}"#,
        ),
        (
            "task: { grpc: { address: 'a:1', method: b.C/D, message: { z: 1, a: '{{ run.id }}' }, timeout: 90s, tls: {} } }",
            "/task/grpc",
            r#"{"address":"a:1","message":{"a":"{{ run.id }}","z":1},"method":"b.C/D","timeout":"1m30s","tls":{}}"#,
        ),
        (
            "task: { grpc: { address: 'a:1', method: b.C/D, expect: { status: NOT_FOUND }, metadata: { a: b } } }",
            "/task/grpc",
            r#"{"address":"a:1","expect":{"status":["NOT_FOUND"]},"metadata":{"a":"b"},"method":"b.C/D"}"#,
        ),
        // Parameters: keys in order, so that the same parameters are the same text.
        ("params: { b: 1, a: [true, null, 1.5, x] }", "/params", r#"{"a":[true,null,1.5,"x"],"b":1}"#),
        ("", "/params", "{}"),
        ("labels: { team: billing, zone: '' }", "/labels", r#"{"team":"billing","zone":""}"#),
        ("", "/labels", ""),
        ("search: [customer, order]", "/search", r#"["customer","order"]"#),
        ("", "/search", ""),
        // Policies and their defaults.
        ("timeout: 1h", "/timeout", r#""1h""#),
        ("", "/timeout", ""),
        ("retry: { attempts: 5 }", "/retry/attempts", "5"),
        ("retry: { delay: 10s, backoff: linear }", "/retry/backoff", r#""linear""#),
        ("retry: { max_delay: 1h }", "/retry/max_delay", r#""1h""#),
        ("retry: { on: [timeout, 404, 5xx, '500-504'] }", "/retry/on", r#"["timeout",404,"5xx","500-504"]"#),
        ("retry: { jitter: 20% }", "/retry/jitter", r#""20%""#),
        ("retry: { priority: 7 }", "/retry/priority", "7"),
        (
            "",
            "/retry",
            r#"{"attempts":1,"backoff":"exponential","delay":"10s","jitter":"0%","max_delay":"10m"}"#,
        ),
        ("at_most_once: true", "/at_most_once", "true"),
        ("overlap: queue_one", "/overlap", r#""queue_one""#),
        ("", "/overlap", r#""skip""#),
        (
            "misfire: { policy: all, window: 2h, grace: 1s }",
            "/misfire",
            r#"{"grace":"1s","policy":"all","window":"2h"}"#,
        ),
        ("", "/misfire", r#"{"grace":"10s","policy":"once","window":"1h"}"#),
        ("priority: 9", "/priority", "9"),
        ("limits: { running: 1 }", "/limits/running", "1"),
        ("unique: { key: order-17, for: 48h }", "/unique", r#"{"for":"2d","key":"order-17"}"#),
        ("unique: { key: order-17 }", "/unique/for", r#""1d""#),
        ("share: { key: crawl, weight: 70 }", "/share", r#"{"key":"crawl","weight":70}"#),
        ("share: { key: crawl }", "/share/weight", "1"),
        ("dead_letter: false", "/dead_letter", "false"),
        ("pause_after: 5", "/pause_after", "5"),
        ("alerts: { on: failed }", "/alerts", r#"{"after":1,"on":"failed"}"#),
        (
            "alerts: [{ on: dead_letter, to: [ops], repeat: 24h }]",
            "/alerts",
            r#"{"on":"dead_letter","to":["ops"]}"#,
        ),
        ("alerts: { on: failed, of: 3, in: 24h, repeat: 4h }", "/alerts/in", r#""1d""#),
        ("alerts: { on: deadline, at: '06:00' }", "/alerts/timezone", r#""UTC""#),
        ("task: { ping: { period: 24h } }", "/task/ping", r#"{"key":1,"period":"1d"}"#),
        ("task: { ping: { period: 24h } }", "/alerts", ""),
        (
            "task: { ping: { period: 24h } }\nalerts: { on: failed, after: 3 }",
            "/alerts",
            r#"{"after":3,"on":"failed"}"#,
        ),
        ("alerts: [{ on: late, by: 1m }, { on: missing, within: 26h }]", "/alerts/1/within", r#""1d2h""#),
        ("keep: { runs: 10 }", "/keep", r#"{"days":30,"runs":10}"#),
        // What the server says about a job may be sent back to it.
        ("id: '7'\nrevision: 3\nstate: active\nfired_through: x", "/priority", "5"),
    ];
    for (rest, pointer, expected) in rows {
        check(rest, pointer, expected);
    }
}

#[test]
fn a_job_needs_a_name_that_can_be_one() {
    check_refused("task: { noop: {} }", "line 1, column 1: name: a job needs a name");
    check_refused("name: ''\ntask: { noop: {} }", "line 1, column 7: name: a name is needed");
    check_refused(
        "name: a b\ntask: { noop: {} }",
        "line 1, column 7: name: `a b` has the character ` `; a name has A-Z, a-z, 0-9, dot, - and _",
    );
    check_refused(
        "name: 17\ntask: { noop: {} }",
        "line 1, column 7: name: expected a string, found the number 17; put it in quotes",
    );
    check_refused(
        "name: a\nnamespace: Payments\ntask: { noop: {} }",
        "line 2, column 12: namespace: `Payments` has the character `P`; a namespace has a-z, 0-9, - and / between segments",
    );
    check_refused(
        "- a\n- b",
        "line 1, column 1: expected a job, a map with at least `name` and `task`, found a list",
    );
    check_refused(
        "hello",
        "line 1, column 1: expected a job, a map with at least `name` and `task`, found `hello`",
    );
}

#[test]
fn a_file_holds_several_documents_and_every_wrong_one_is_named() {
    let file = "# jobs\nname: a\ntask: { noop: {} }\n---\n---\nname: b\ntask: { shell: x }\n";
    let names: Vec<_> = read_all(file).unwrap().into_iter().map(|draft| draft.name.to_string()).collect();
    assert_eq!(names, ["a", "b"]);

    let file = "name: a\ntask: { nop: {} }\n---\nname: b\ntask: { noop: {} }\n---\nname: c\npriority: 99\ntask: { noop: {} }\n";
    let errors: Vec<_> = read_all(file).unwrap_err().into_iter().map(|error| error.to_string()).collect();
    assert_eq!(
        errors,
        [
            "line 2, column 9: task.nop: unknown field; did you mean `noop`?",
            "line 8, column 11: priority: 0 to 9, and 9 goes first",
        ]
    );
    assert_eq!(read_all("").unwrap(), []);
}

#[test]
fn a_json_file_is_a_job_file() {
    let draft = read_one(r#"{"name": "hello", "task": {"shell": "echo"}, "schedule": [{"every": "1s"}]}"#);
    assert_eq!((draft.namespace.as_str(), draft.name.as_str()), ("default", "hello"));
    assert_eq!(draft.definition.schedules.len(), 1);
}

#[test]
fn what_is_written_reads_back_the_same() {
    let draft = read_one(&job(
        "namespace: payments\nlabels: { team: billing }\nsearch: [region]\nschedule: [{ cron: 0 1 * * *, timezone: Asia/Shanghai, jitter: 30s }, { manual: true }]\n\
         params: { region: east }\ntimeout: 1h\nretry: { attempts: 5, jitter: 20%, priority: 7 }\noverlap: queue\n\
         limits: [{ running: 2, per: '{{ params.a }}' }, { rate: 90/m, burst: 3, waiting: 5, beyond: oldest }, { rate: 1/10s }]\nunique: { key: k, for: 1h }\ndescription: \"two\\nlines\"",
    ));
    let form = JobFile::of(&draft.namespace, &draft.name, &draft.definition);
    assert_eq!(read_one(&crate::yaml::to_string(&form).unwrap()), draft);
    assert_eq!(read_one(&serde_json::to_string(&form).unwrap()), draft);

    let draft = read_one(&job(
        "task: { http: { url: 'https://a/{{ due | date }}', method: POST, headers: { A: '{{ run.id }}' }, timeout: 5s, \
         redirects: 1, body: { day: '{{ due | date }}', n: 1.5 }, expect: { status: [2xx, 404], body: ok, \
         condition: json.n > 1 }, tls: { ca: /ca.pem }, accept: { poll: 1s, all: 'https://a/all' } } }\nunique: { key: 'order-{{ params.order }}' }",
    ));
    let form = JobFile::of(&draft.namespace, &draft.name, &draft.definition);
    assert_eq!(read_one(&crate::yaml::to_string(&form).unwrap()), draft);
    assert_eq!(read_one(&serde_json::to_string(&form).unwrap()), draft);
}

#[test]
fn every_example_of_the_guides_is_a_job() {
    let guides = [
        include_str!("../../../../docs/guides/templates.md"),
        include_str!("../../../../docs/guides/http-tasks.md"),
        include_str!("../../../../docs/guides/grpc-tasks.md"),
    ];
    let mut examples = 0;
    for example in guides.iter().flat_map(|guide| guide.split("```yaml\n").skip(1)) {
        let example = example.split("```").next().unwrap();
        read_one(example);
        examples += 1;
    }
    assert_eq!(examples, 10);
}

#[test]
fn a_body_may_repeat_its_address_but_not_contradict_it() {
    let (namespace, name) = (Namespace::default(), "hello".parse::<Name>().unwrap());
    let read = |body: &str| {
        let node = Node::from_json(body.as_bytes())?;
        read_for(node, &namespace, &name).map(|draft| draft.name.to_string())
    };
    assert_eq!(read(r#"{"task":{"noop":{}}}"#).unwrap(), "hello");
    assert_eq!(read(r#"{"name":"hello","namespace":"default","task":{"noop":{}}}"#).unwrap(), "hello");
    assert_eq!(read(r#"{"name":"other","task":{"noop":{}}}"#).unwrap_err().field, "name");
    assert_eq!(read(r#"{"namespace":"other","task":{"noop":{}}}"#).unwrap_err().field, "namespace");
}

#[test]
fn a_body_is_refused_before_it_can_do_harm() {
    let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    let rows = [
        ("".to_owned(), "EOF while parsing a value"),
        ("{".to_owned(), "EOF while parsing an object"),
        (r#"{"a":1,"a":2}"#.to_owned(), "the key `a` is given twice"),
        ("{} {}".to_owned(), "trailing characters"),
        (format!(r#"{{"params":{deep}}}"#), "nested deeper than 96 levels"),
        ("[".repeat(100_000), "recursion limit exceeded"),
        ("\u{feff}{}".to_owned(), "expected value"),
        ("{'a':1}".to_owned(), "key must be a string"),
        (r#"{"a":1e999}"#.to_owned(), "number out of range"),
    ];
    for (body, message) in rows {
        let error = Node::from_json(body.as_bytes()).unwrap_err();
        assert_eq!((error.kind, error.message.as_str()), (Kind::Malformed, message));
    }
    let error = Node::from_json(b"{\"a\":\"\xff\"}").unwrap_err();
    assert_eq!(error.kind, Kind::Malformed);
}

#[test]
fn a_yaml_bomb_does_not_go_off() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..10 {
        let below = format!("*a{}, ", level - 1).repeat(10);
        bomb += &format!("a{level}: &a{level} [{below}]\n");
    }
    assert_eq!(read_all(&bomb).unwrap_err()[0].kind, Kind::Malformed);

    let deep = format!("name: a\nparams: {}{}\n", "{a: ".repeat(5000), "}".repeat(5000));
    assert_eq!(read_all(&deep).unwrap_err()[0].kind, Kind::Malformed);
}

#[test]
fn a_long_text_is_not_echoed() {
    let key = "k".repeat(100_000);
    let errors =
        read_all(&format!("name: a\ntask: {{ noop: {{}} }}\nretry: {{ ? {key} : 1 }}\n")).unwrap_err();
    assert!(errors[0].to_string().len() < 400, "{}", errors[0].to_string().len());
    let errors = read_all(&job(&format!("overlap: {key}"))).unwrap_err();
    assert!(errors[0].to_string().len() < 400);
    let errors = read_all(&job(&format!("schedule: {{ at: {key} }}"))).unwrap_err();
    assert_eq!(errors[0].message, "at most 64 bytes, this has 100000");
    let description = "d".repeat(punctual_core::limits::DESCRIPTION_BYTES_MAX + 1);
    assert_eq!(read_all(&job(&format!("description: {description}"))).unwrap_err()[0].field, "description");
}

#[track_caller]
fn patch(current: &str, patch: &str) -> Result<serde_json::Value, Error> {
    let draft = read_one(&job(current));
    let current = JobFile::of(&draft.namespace, &draft.name, &draft.definition);
    let patched = patched(&current, Node::from_json(patch.as_bytes()).unwrap())?;
    let form = JobFile::of(&patched.namespace, &patched.name, &patched.definition);
    Ok(serde_json::to_value(form).unwrap())
}

#[test]
fn a_patch_changes_what_it_names_and_leaves_the_rest() {
    let rows = [
        ("priority: 3", r#"{"priority": 7}"#, "/priority", "7"),
        ("priority: 3", r#"{"priority": null}"#, "/priority", "5"),
        ("priority: 3", r#"{}"#, "/priority", "3"),
        ("retry: { attempts: 3, delay: 5s }", r#"{"retry": {"attempts": 4}}"#, "/retry/delay", r#""5s""#),
        ("timeout: 5s", r#"{"timeout": null}"#, "/timeout", ""),
        ("params: { a: 1, b: 2 }", r#"{"params": {"a": null, "c": 3}}"#, "/params", r#"{"b":2,"c":3}"#),
        ("schedule: { every: 1s }", r#"{"schedule": {"every": "2s"}}"#, "/schedule/every", r#""2s""#),
        ("", r#"{"task": {"noop": null, "shell": "true"}}"#, "/task/shell", r#""true""#),
        ("", r#"{"name": "hello"}"#, "/name", r#""hello""#),
    ];
    for (current, change, pointer, expected) in rows {
        let json = patch(current, change).unwrap_or_else(|error| panic!("{change}: {error}"));
        let found = json.pointer(pointer).map(ToString::to_string).unwrap_or_default();
        assert_eq!(found, expected, "{current} with {change}");
    }
}

#[test]
fn a_patch_is_checked_as_the_job_it_makes() {
    let rows = [
        ("schedule: { every: 1s }", r#"{"schedule": {"cron": "* * * * *"}}"#, "schedule"),
        ("", r#"{"task": null}"#, "task"),
        ("", r#"{"task": {"shell": "true"}}"#, "task"),
        ("", r#"{"name": "other"}"#, "name"),
        ("", r#"{"namespace": "other"}"#, "namespace"),
        ("", r#"{"state": "paused"}"#, "state"),
        ("", r#"{"revision": 7}"#, "revision"),
        ("", r#"{"colour": "red"}"#, "colour"),
        ("retry: { attempts: 3 }", r#"{"at_most_once": true}"#, "at_most_once"),
        ("", r#"["task"]"#, ""),
        ("", r#"null"#, ""),
    ];
    for (current, change, field) in rows {
        assert_eq!(patch(current, change).unwrap_err().field, field, "{current} with {change}");
    }
}
