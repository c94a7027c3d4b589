//! What a job says: numbers, words, tasks.

use super::*;

pub(super) fn numbers() -> Vec<Row> {
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

pub(super) fn words() -> Vec<Row> {
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

pub(super) fn tasks() -> Vec<Row> {
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
