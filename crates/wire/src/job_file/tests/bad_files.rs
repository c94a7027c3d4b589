//! Files that cannot be taken: each with the kind of mistake and the field that is to blame. Nothing of such a file is
//! read, not even its good documents. Calendars, templates and tasks of other kinds have tables of their own.

use super::{Kind, job, read_all};

/// What follows name and task in a job, and the field that is refused.
const FIELDS: &[(&str, &[&str])] = &[
    ("route", &["route: local", "route: [local]"]),
    ("route.strategy", &["route: { strategy: best }", "route: { strategy: 1 }"]),
    ("route.stratgy", &["route: { stratgy: local }"]),
    ("route.selector", &["route: { selector: disk }", "route: { selector: { '': ssd } }"]),
    ("route.selector.disk", &["route: { selector: { disk: 1 } }", "route: { selector: { disk: [ssd] } }"]),
    (
        "route.key",
        &[
            "route: { key: k }",
            "route: { strategy: sticky, key: '' }",
            "route: { strategy: sticky, key: '{{ region }}' }",
            "route: { strategy: consistent_hash, key: '{{ started }}' }",
        ],
    ),
    (
        "schedule.cron",
        &[
            "schedule: { cron: '' }",
            "schedule: { cron: '*' }",
            "schedule: { cron: '60 * * * *' }",
            "schedule: { cron: '* 24 * * *' }",
            "schedule: { cron: '* * 32 * *' }",
            "schedule: { cron: '* * * 13 *' }",
            "schedule: { cron: '* * * * 8' }",
            "schedule: { cron: '* * * * * * * *' }",
            "schedule: { cron: '*/0 * * * *' }",
            "schedule: { cron: '1- * * * *' }",
            "schedule: { cron: '1,,2 * * * *' }",
            "schedule: { cron: '? * * * *' }",
            "schedule: { cron: '0 0 L-31 * *' }",
            "schedule: { cron: '0 0 1-5W * *' }",
            "schedule: { cron: '0 0 * * 1#6' }",
            "schedule: { cron: '0 0 * * L' }",
            "schedule: { cron: '0 0 30 2 *' }",
            "schedule: { cron: '0 0 0 1 1 * 2100' }",
            "schedule: { cron: '@reboot' }",
            "schedule: { cron: '@every' }",
            "schedule: { cron: '@every 5' }",
            "schedule: { cron: 'H(9-1) * * * *' }",
            "schedule: { cron: \"* * * * \\u202e1\" }",
            "schedule: { cron: \"* * * * \\0\" }",
            "schedule: { cron: 5 }",
            "schedule: { cron: true }",
            "schedule: { cron: [a] }",
            "schedule: { cron: { a: b } }",
            "schedule:\n  cron: >\n    0 1\n    * *",
        ],
    ),
    (
        "schedule.timezone",
        &[
            "schedule: { cron: '@daily', timezone: '' }",
            "schedule: { cron: '@daily', timezone: Mars/Olympus }",
            "schedule: { cron: '@daily', timezone: +08:00 }",
            "schedule: { cron: '@daily', timezone: CEST }",
            "schedule: { cron: '@daily', timezone: ../etc/localtime }",
            "schedule: { cron: '@daily', timezone: 上海 }",
            "schedule: { cron: '@daily', timezone: 8 }",
            "schedule: { cron: '@daily', timezone: [UTC] }",
            "schedule: { every: 1s, timezone: UTC }",
        ],
    ),
    (
        "schedule.weekdays",
        &["schedule: { cron: '@daily', weekdays: lunar }", "schedule: { every: 1s, weekdays: unix }"],
    ),
    (
        "schedule.every",
        &[
            "schedule: { every: '' }",
            "schedule: { every: 0s }",
            "schedule: { every: -1s }",
            "schedule: { every: 30 }",
            "schedule: { every: 1.5h }",
            "schedule: { every: 1 h }",
            "schedule: { every: 5min }",
            "schedule: { every: 1s1m }",
            "schedule: { every: 1:30 }",
            "schedule: { every: 1_000s }",
            "schedule: { every: 0x10s }",
            "schedule: { every: 99999999999999999999s }",
            "schedule: { every: soon }",
            "schedule: { every: true }",
        ],
    ),
    (
        "schedule.at",
        &[
            "schedule: { at: tomorrow }",
            "schedule: { at: 2026-12-01 }",
            "schedule: { at: 2026-12-01T08:00:00 }",
            "schedule: { at: 2026-02-30T00:00:00Z }",
            "schedule: { at: 1960-01-01T00:00:00Z }",
            "schedule: { at: 9999-12-31T23:59:59Z }",
            "schedule: { at: 1764547200 }",
        ],
    ),
    (
        "schedule",
        &[
            "schedule: every day",
            "schedule: 5",
            "schedule: {}",
            "schedule: { manual: false }",
            "schedule: { every: 1s, at: 2026-12-01T08:00:00Z }",
            "schedule: { every: ~ }",
        ],
    ),
    ("schedule.after.job", &["schedule: { after: { job: 'a b' } }", "schedule: { after: { job: [a] } }"]),
    (
        "schedule.after.on",
        &[
            "schedule: { after: { job: a, on: success } }",
            "schedule: { after: { job: a, on: [failed] } }",
            "schedule: { after: { job: a, on: true } }",
        ],
    ),
    (
        "schedule.event",
        &[
            "schedule: { event: paid }",
            "schedule: { event: {} }",
            "schedule: { event: { name: paid, queue: orders } }",
        ],
    ),
    ("schedule.event.name", &["schedule: { event: { name: 'a b' } }", "schedule: { event: { name: 5 } }"]),
    ("schedule.event.when", &["schedule: { event: { name: paid, when: 'event.params.' } }"]),
    ("schedule.event.key", &["schedule: { event: { queue: orders, key: order-7 } }"]),
    (
        "schedule.event.debounce",
        &[
            "schedule: { event: { name: paid, debounce: 0s } }",
            "schedule: { event: { name: paid, debounce: 25h } }",
            "schedule: { event: { name: paid, debounce: 5 } }",
            "schedule: { event: { name: paid, debounce: soon } }",
        ],
    ),
    (
        "schedule.event.batch",
        &[
            "schedule: { event: { name: paid, batch: 5 } }",
            "schedule: { event: { name: paid, debounce: 5s, batch: { max: 5, within: 5s } } }",
        ],
    ),
    (
        "schedule.event.batch.max",
        &[
            "schedule: { event: { name: paid, batch: { max: 0, within: 5s } } }",
            "schedule: { event: { name: paid, batch: { max: 1001, within: 5s } } }",
            "schedule: { event: { name: paid, batch: { max: -1, within: 5s } } }",
            "schedule: { event: { name: paid, batch: { max: many, within: 5s } } }",
        ],
    ),
    (
        "schedule.event.batch.within",
        &[
            "schedule: { event: { name: paid, batch: { max: 5, within: 0s } } }",
            "schedule: { event: { name: paid, batch: { max: 5, within: 25h } } }",
            "schedule: { event: { name: paid, batch: { max: 5, within: 5 } } }",
        ],
    ),
    ("schedule[1]", &["schedule: [{ every: 1s }, {}]", "schedule: [{ every: 1s }, 5]"]),
    ("schedule[0].cron", &["schedule: [{ cron: x }]"]),
    ("schedule.moon", &["schedule: { every: 1s, moon: full }"]),
    (
        "schedule.max_runs",
        &[
            "schedule: { every: 1s, max_runs: 0 }",
            "schedule: { every: 1s, max_runs: -1 }",
            "schedule: { every: 1s, max_runs: 1.5 }",
            "schedule: { every: 1s, max_runs: '3' }",
            "schedule: { every: 1s, max_runs: 5000000000 }",
            "schedule: { every: 1s, max_runs: many }",
        ],
    ),
    ("schedule.jitter", &["schedule: { every: 1s, jitter: 5 }", "schedule: { every: 1s, jitter: some }"]),
    (
        "schedule.end",
        &[
            "schedule: { every: 1s, end: never }",
            "schedule: { every: 1s, start: 2026-02-01T00:00:00Z, end: 2026-01-01T00:00:00Z }",
        ],
    ),
    ("task", &["task:", "task: {}", "task: []", "task: echo hi", "task: { shell: a, noop: {} }"]),
    (
        "task.shell",
        &["task: { shell: '' }", "task: { shell: [a] }", "task: { shell: 5 }", "task: { shell: \"a\\0b\" }"],
    ),
    ("task.shel", &["task: { shel: a }"]),
    (
        "task.process.command",
        &[
            "task: { process: {} }",
            "task: { process: { command: [] } }",
            "task: { process: { command: ls } }",
            "task: { process: { command: [''] } }",
            "task: { process: { command: [a, \"b\\0\"] } }",
        ],
    ),
    (
        "task.process.command[0]",
        &["task: { process: { command: [~] } }", "task: { process: { command: [5] } }"],
    ),
    (
        "task.process.env",
        &[
            "task: { process: { command: [a], env: { LD_PRELOAD: x } } }",
            "task: { process: { command: [a], env: { '': x } } }",
            "task: { process: { command: [a], env: [A=B] } }",
        ],
    ),
    (
        "task.process.env.A",
        &[
            "task: { process: { command: [a], env: { A: 5 } } }",
            "task: { process: { command: [a], env: { A: ~ } } }",
        ],
    ),
    ("params", &["params: [1]", "params: x", "params: 5"]),
    ("timeout", &["timeout: 0s", "timeout: 5", "timeout: 5000w", "timeout: forever", "timeout: [1s]"]),
    ("retry", &["retry: 3", "retry: [3]", "retry: yes"]),
    (
        "retry.attempts",
        &[
            "retry: { attempts: 0 }",
            "retry: { attempts: 101 }",
            "retry: { attempts: -1 }",
            "retry: { attempts: '3' }",
            "retry: { attempts: 1e2 }",
        ],
    ),
    (
        "retry.on",
        &[
            "retry: { on: [] }",
            "retry: { on: error }",
            "retry: { on: [600] }",
            "retry: { on: [6xx] }",
            "retry: { on: [504-500] }",
        ],
    ),
    ("retry.on[0]", &["retry: { on: [errors] }", "retry: { on: [1.5] }", "retry: { on: [[5xx]] }"]),
    ("retry.delay", &["retry: { delay: 10 }", "retry: { delay: 5000w }"]),
    ("retry.backoff", &["retry: { backoff: fibonacci }", "retry: { backoff: 2 }"]),
    ("retry.jitter", &["retry: { jitter: 20 }", "retry: { jitter: 120% }", "retry: { jitter: some }"]),
    ("retry.priority", &["retry: { priority: 10 }", "retry: { priority: high }"]),
    ("at_most_once", &["at_most_once: 1", "at_most_once: yes", "at_most_once: true\nretry: { attempts: 2 }"]),
    ("overlap", &["overlap: sometimes", "overlap: [skip]", "overlap: true"]),
    ("misfire.policy", &["misfire: { policy: never }", "misfire: { policy: 1 }"]),
    ("misfire", &["misfire: once"]),
    (
        "priority",
        &[
            "priority: 10",
            "priority: -1",
            "priority: 300",
            "priority: '5'",
            "priority: 5.0",
            "priority: high",
        ],
    ),
    ("limits.running", &["limits: { running: 0 }", "limits: { running: one }"]),
    ("unique.key", &["unique: {}", "unique: { key: '' }", "unique: { key: 5 }"]),
    ("keep", &["keep: { runs: 0 }", "keep: forever"]),
    ("keep.days", &["keep: { days: -1 }"]),
    ("share", &["share: crawl", "share: 70", "share: [crawl]"]),
    (
        "share.key",
        &["share: {}", "share: { weight: 70 }", "share: { key: '' }", "share: { key: '{{ nobody }}' }"],
    ),
    (
        "share.weight",
        &["share: { key: a, weight: 0 }", "share: { key: a, weight: -1 }", "share: { key: a, weight: 1001 }"],
    ),
    ("dead_letter", &["dead_letter: maybe", "dead_letter: on"]),
    (
        "pause_after",
        &["pause_after: 0", "pause_after: -1", "pause_after: 1001", "pause_after: never", "pause_after: 1.5"],
    ),
    ("alerts", &["alerts: failed"]),
    ("alerts[0]", &["alerts: [failed]"]),
    ("alerts[0].after", &["alerts: { on: failed, after: 0 }"]),
    ("alerts.on", &["alerts: { after: 2 }", "alerts: { on: sad }"]),
    (
        "alerts.after",
        &["alerts: { on: late, by: 1m, after: 2 }", "alerts: { on: failed, of: 3, in: 1h, after: 2 }"],
    ),
    ("alerts.in", &["alerts: { on: failed, of: 3 }", "alerts: { on: failed, of: 3, in: soon }"]),
    ("alerts.of", &["alerts: { on: failed, in: 24h }"]),
    ("alerts.by", &["alerts: { on: late }", "alerts: { on: long, by: soon }"]),
    ("alerts.within", &["alerts: { on: missing }", "alerts: { on: failed, within: 1h }"]),
    ("alerts.at", &["alerts: { on: deadline }", "alerts: { on: deadline, at: noon }"]),
    ("alerts.timezone", &["alerts: { on: deadline, at: '06:00', timezone: Moon }"]),
    ("alerts[0].by", &["alerts: [{ on: long, by: 0s }]"]),
    ("alerts[1].on", &["alerts: [{ on: failed }, { on: failed, after: 1 }]"]),
    ("alerts[0].repeat", &["alerts: [{ on: failed, repeat: 1s }]"]),
    ("description", &["description: [a]", "description: 5"]),
    (
        "namespace",
        &["namespace: Payments", "namespace: ''", "namespace: a//b", "namespace: 支付", "namespace: 5"],
    ),
    ("labels", &["labels: billing", "labels: [a]", "labels: { '': a }", "labels: { a=b: c }"]),
    ("labels.team", &["labels: { team: 1 }", "labels: { team: [a] }"]),
    ("search", &["search: customer", "search: { a: b }", "search: [a, b, c, d, e, f, g, h, i, j, k]"]),
    ("search[0]", &["search: [1]", "search: ['']"]),
    ("search[1]", &["search: [a, a]"]),
    ("colour", &["colour: red"]),
    ("1", &["1: a"]),
    ("\u{202e}x", &["\"\\u202ex\": 1"]),
];

/// Whole files that are no YAML, or not of a kind that is safe to read.
const MALFORMED: &[&str] = &[
    "name: 'a",
    "name: \"a",
    "name: a\n  task: b\n",
    "name: [a\n",
    "name: {a: b\n",
    "a: b: c\n",
    "- a\nb: c\n",
    "name: a\nname: b\n",
    "name: a\ntask: { noop: {}, noop: {} }\n",
    "name: a\nparams: { b: { c: 1, c: 2 } }\n",
    "name: *nobody\n",
    "name: a\nparams: &x { y: *z }\n",
    "name: a\nschedule: { cron: * * * * * }\n",
    "name: a\nschedule: { cron: @daily }\n",
    "name: a\ndescription: %x\n",
    "name: a\ntask:\n\tnoop: {}\n",
    "name: \"\\q\"\n",
    "name: \"\\ud800\"\n",
    "name: \"\\U00110000\"\n",
    "name: a\0b\n",
    "name: \u{1}\n",
    "name: a\nparams: { x: .nan }\n",
    "name: a\nparams: { x: -.inf }\n",
    "? [a, b]\n: c\n",
    "? { a: b }\n: c\n",
    "name: !!binary not-base64!\n",
    "name: a\n--- b: c\n",
    "}",
    "]",
    "{\"name\": \"a\",, \"task\": {}}",
    "name: a\n...\nname: b\n... x\n",
];

#[track_caller]
fn refused(text: &str) -> (Kind, String) {
    let errors = match read_all(text) {
        Ok(drafts) => panic!("{text:.200}\nwas taken: {drafts:?}"),
        Err(errors) => errors,
    };
    let shown = errors[0].to_string();
    // It can be found, and be shown on a terminal.
    assert!(shown.starts_with("line ") || text.is_empty(), "{text:.200}\n{shown}");
    assert!(
        shown.len() < 500 && !shown.contains(|c: char| c.is_control() || c == '\u{202e}'),
        "{text:.200}\n{shown}"
    );
    (errors[0].kind, errors[0].field.clone())
}

#[test]
fn a_bad_field_is_named() {
    let (mut rows, mut wrong) = (0, Vec::new());
    for (field, texts) in FIELDS {
        for text in *texts {
            let found = refused(&job(text));
            if found != (Kind::Invalid, (*field).to_owned()) {
                wrong.push(format!("{text}: {found:?} instead of {field}"));
            }
            rows += 1;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(rows >= 150, "{rows}");
}

#[test]
fn what_is_no_yaml_is_refused_as_a_whole() {
    for text in MALFORMED {
        assert_eq!(refused(text).0, Kind::Malformed, "{text}");
    }
}

#[test]
fn a_bomb_does_not_go_off() {
    let aliases = |levels: usize, each: usize| {
        let mut text = "name: a\ntask: { noop: {} }\nparams:\n  a0: &a0 [x]\n".to_owned();
        for level in 1..levels {
            let below = vec![format!("*a{}", level - 1); each].join(", ");
            text += &format!("  a{level}: &a{level} [{below}]\n");
        }
        text
    };
    let maps =
        "name: a\nparams:\n  a: &a { b: &b { c: &c { d: 1 } } }\n".to_owned() + &"  - *a\n".repeat(20_000);
    let block: String = (0..2000).map(|level| format!("{}a:\n", " ".repeat(level))).collect();
    let bombs = [
        ("aliases of aliases", aliases(30, 10)),
        ("many aliases", aliases(3, 20_000)),
        ("aliases in a mess", maps),
        ("an anchor in itself", "name: a\nparams: &x { y: *x }\n".to_owned()),
        ("flow maps", format!("name: a\nparams: {}{}\n", "{a: ".repeat(50_000), "}".repeat(50_000))),
        ("flow lists", format!("name: a\nparams: {}{}\n", "[".repeat(50_000), "]".repeat(50_000))),
        ("block maps", block),
        ("block lists", format!("name: a\nparams:\n  {}x\n", "- ".repeat(50_000))),
        ("just too deep", format!("name: a\nparams: {}1{}\n", "{a: ".repeat(96), "}".repeat(96))),
        ("quotes", "name: ".to_owned() + &"\"".repeat(100_001)),
        ("documents", "---\nname: a\n".repeat(20_000)),
        (
            "merge keys",
            "name: a\nx: &x { k: 1 }\nparams: { <<: [".to_owned() + &"*x, ".repeat(20_000) + "] }\n",
        ),
    ];
    for (what, text) in bombs {
        let errors = read_all(&text).expect_err(what);
        assert!(errors[0].to_string().len() < 500, "{what}: {}", errors[0]);
    }
}

#[test]
fn a_large_scalar_is_refused_by_its_field_and_a_large_file_as_a_whole() {
    let mib = "x".repeat(1024 * 1024);
    let rows = [
        (format!("description: {mib}"), "description"),
        (format!("params: {{ a: {mib} }}"), "params"),
        (format!("task: {{ shell: {mib} }}"), "task.shell"),
        (format!("namespace: {mib}"), "namespace"),
        (format!("schedule: {{ cron: {mib} }}"), "schedule.cron"),
        (format!("schedule: {{ every: {mib} }}"), "schedule.every"),
        (format!("overlap: {mib}"), "overlap"),
    ];
    for (text, field) in rows {
        assert_eq!(refused(&job(&text)), (Kind::Invalid, field.to_owned()));
    }
    let errors = read_all(&"# a comment\n".repeat(2 * 1024 * 1024)).expect_err("more than 16 MiB");
    assert_eq!((errors[0].kind, errors[0].message.as_str()), (Kind::Malformed, "at most 16 MiB a file"));
}

#[test]
fn what_looks_strange_but_is_plain_yaml_is_taken() {
    let rows = [
        "\u{feff}name: a\ntask: { noop: {} }\n",
        "%YAML 1.2\n---\nname: a\ntask: { noop: {} }\n",
        "name: a\ntask: &t { noop: {} }\n",
        "name: a\ntask: { noop: {} }\nparams: { x: &x [1], y: *x }\n",
        "{ name: a, task: { noop: {} } }",
        "name: !!str a\ntask: { noop: {} }\n",
        "name: a\r\ntask: { noop: {} }\r\n",
        "name: a\ntask: { noop: {} }\ndescription: 你好 \u{1f600}\n",
        "---\nname: a\ntask: { noop: {} }\n...\n",
    ];
    for text in rows {
        assert_eq!(
            read_all(text).unwrap_or_else(|errors| panic!("{text}: {}", errors[0])).len(),
            1,
            "{text}"
        );
    }
}
