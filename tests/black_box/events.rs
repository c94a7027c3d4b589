//! Jobs that start without a clock: after another job, by an event (R8), and for a step of a workflow.

use punctual_core::limits::{CYCLE_JOBS_MAX, EVENT_BYTES_MAX, QUEUE_LISTENERS_MAX};
use punctual_tests::api::RUNS;
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Node, Scene, binary};
use serde_json::{Map, Value, json};

use crate::workflows::{EXAMPLES, ended, node, verify};

const EVENTS: &str = "/api/v1/namespaces/default/events";
const JOBS: &str = "/api/v1/namespaces/default/jobs";

fn runs(node: &Node, job: &str) -> Vec<Value> {
    let page = node.api().get(&format!("{RUNS}?job={job}")).expect("the node answers").ok();
    page["items"].as_array().expect("a page has items").clone()
}

/// The only run of a job, once it has ended.
fn only_run(node: &Node, job: &str) -> Value {
    wait::until_so(&format!("job {job} starts"), SOON, || !runs(node, job).is_empty());
    let runs = runs(node, job);
    assert_eq!(runs.len(), 1, "{runs:#?}");
    ended(node, runs[0]["id"].as_str().expect("a run has an id"))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default().trim()
}

#[test]
fn the_examples_of_jobs_without_a_clock_do_what_they_say() {
    let scene = Scene::new();
    let node = node(&scene);
    for example in ["after-a-job", "event"] {
        node.cli(["job", "apply", &format!("{EXAMPLES}/{example}.yaml")]).ok();
    }
    let import = node.api().start_job("import")["id"].as_str().expect("a run has an id").to_owned();
    let report = only_run(&node, "report");
    assert_eq!(
        (text(&report["trigger"]), text(&report["started_by"])),
        ("after", import.as_str()),
        "{report:#}"
    );
    assert_eq!(text(&report["output"]), format!("42 rows of run {import}"));
    let sent =
        node.cli(["event", "send", "order-paid", "--key", "order-7", "--params", r#"{"amount": 120}"#]).ok();
    assert!(sent.starts_with("event ") && sent.trim().ends_with(" is stored"), "{sent}");
    let receipt = only_run(&node, "send-receipt");
    let said = (text(&receipt["trigger"]), text(&receipt["output"]));
    assert_eq!(said, ("event", "a receipt for order-7 over 120"), "{receipt:#}");
    verify(&scene, &node);
}

#[test]
fn an_event_is_stored_when_it_is_answered() {
    let scene = Scene::new();
    let mut node = node(&scene);
    let schedule = json!({ "event": { "name": "paid" } });
    node.api().put_job("settle", &json!({ "schedule": schedule, "task": { "noop": {} } }));
    let send = |node: &Node, body: &Value| {
        node.api().post(&format!("{EVENTS}/paid"), body).expect("the node answers")
    };
    let first = send(&node, &json!({ "key": "order-7" }));
    assert_eq!(first.status, 202);
    node.kill();
    node.start();
    only_run(&node, "settle");
    assert_eq!(send(&node, &json!({ "key": "order-7" })).ok(), first.ok(), "the same key has one effect");
    only_run(&node, "settle");
    verify(&scene, &node);
}

#[test]
fn a_wrong_or_long_event_is_refused_by_its_field() {
    let scene = Scene::new();
    let node = node(&scene);
    let send = |body: &Value| node.api().post(&format!("{EVENTS}/paid"), body).expect("the node answers");
    // `{"text":""}` has 11 bytes, and the key counts too.
    let long = |bytes: usize| json!({ "key": "order-7", "params": { "text": "x".repeat(bytes - 11 - 7) } });
    assert_eq!(send(&long(EVENT_BYTES_MAX)).status, 202);
    for (bad, field) in [
        (json!({ "key": "" }), "key"),
        (json!({ "key": "k".repeat(257) }), "key"),
        (json!({ "params": [] }), "params"),
        (long(EVENT_BYTES_MAX + 1), "params"),
        (json!({ "kay": "order-7" }), "kay"),
    ] {
        let refused = send(&bad);
        let problem = refused.json();
        let found = (refused.status, text(&problem["code"]), text(&problem["field"]));
        assert_eq!(found, (422, "invalid", field), "{problem:#}");
    }
}

#[test]
fn a_job_that_is_one_listener_too_many_is_refused() {
    let scene = Scene::new();
    let node = node(&scene);
    let listens = json!({ "schedule": { "event": { "queue": "orders" } }, "task": { "noop": {} } });
    for number in 0..QUEUE_LISTENERS_MAX {
        node.api().put_job(&format!("job-{number}"), &listens);
    }
    let refused = node.api().put(&format!("{JOBS}/more"), &listens).expect("the node answers");
    assert_eq!((refused.status, text(&refused.json()["field"])), (422, "schedule.event.queue"));
    assert_eq!(node.api().get(&format!("{JOBS}/more")).expect("the node answers").status, 404);
    node.api().put_job("job-0", &listens);
}

#[test]
fn jobs_that_would_start_each_other_are_refused_with_their_path() {
    let scene = Scene::new();
    let node = node(&scene);
    let after = |job: &str| json!({ "schedule": { "after": { "job": job } }, "task": { "noop": {} } });
    node.api().put_job("b", &after("a"));
    node.api().put_job("c", &after("b"));
    let refused = node.api().put(&format!("{JOBS}/a"), &after("c")).expect("the node answers");
    assert_eq!(refused.status, 422);
    let message = &refused.text;
    assert!(message.contains("schedule.after.job") && message.contains("a → b → c → a"), "{message}");
    assert_eq!(node.api().get(&format!("{JOBS}/a")).expect("the node answers").status, 404);
}

#[test]
fn a_cycle_over_steps_and_ends_is_refused_with_its_path() {
    let scene = Scene::new();
    let node = node(&scene);
    let starts = |job: &str| json!({ "task": { "workflow": { "steps": { "go": { "job": job } } } } });
    let inner = json!({ "task": starts("itself")["task"] });
    let nested = json!({ "task": { "workflow": { "steps": { "outer": inner } } } });
    let after = |job: &str| json!({ "schedule": { "after": { "job": job } }, "task": { "noop": {} } });
    let refused = |job: &str, file: &Value, field: &str, path: &str| {
        let refused = node.api().put(&format!("{JOBS}/{job}"), file).expect("the node answers");
        assert_eq!(refused.status, 422, "{}", refused.text);
        assert!(refused.text.contains(field) && refused.text.contains(path), "{}", refused.text);
    };
    refused("itself", &nested, "task.workflow.steps.outer.task.workflow.steps.go.job", "itself → itself");
    // A step starts b, and c follows b; so c must not start a.
    node.api().put_job("a", &starts("b"));
    node.api().put_job("b", &json!({ "task": { "noop": {} } }));
    node.api().put_job("c", &after("b"));
    let both = json!({ "schedule": { "after": { "job": "b" } }, "task": starts("a")["task"] });
    refused("c", &both, "task.workflow.steps.go.job", "c → a → b → c");
    // The same cycle, closed by its other edges.
    node.api().put_job("a", &json!({ "task": { "noop": {} } }));
    node.api().put_job("c", &both);
    refused("a", &starts("b"), "task.workflow.steps.go.job", "a → b → c → a");
    refused("b", &after("c"), "schedule.after.job", "b → c → b");
    // A former edge closes nothing.
    node.api().put_job("c", &starts("a"));
    node.api().put_job("a", &starts("b"));
    refused("b", &starts("c"), "task.workflow.steps.go.job", "b → c → a → b");
}

#[test]
fn a_cycle_beyond_what_a_check_reads_is_accepted() {
    let scene = Scene::new();
    let node = node(&scene);
    // `back` comes last, so the check reads it as the last of all jobs, or not at all.
    let starts = |others: usize| {
        let others = (0..others).map(|at| (format!("s{at:04}"), json!({ "job": format!("job-{at}") })));
        let steps: Map<_, _> = others.chain([("z".to_owned(), json!({ "job": "back" }))]).collect();
        json!({ "task": { "workflow": { "steps": steps } } })
    };
    let back = json!({ "task": { "workflow": { "steps": { "go": { "job": "first" } } } } });
    node.api().put_job("back", &back);
    let put = |file: &Value| node.api().put(&format!("{JOBS}/first"), file).expect("the node answers");
    let refused = put(&starts(CYCLE_JOBS_MAX - 1));
    assert_eq!(refused.status, 422, "{}", refused.text);
    assert!(refused.text.contains("first → back → first"), "{}", refused.text);
    let accepted = put(&starts(CYCLE_JOBS_MAX));
    assert_eq!(accepted.status, 201, "{}", accepted.text);
}

#[test]
fn a_step_starts_another_job_and_waits_for_it() {
    let scene = Scene::new();
    let node = node(&scene);
    let settle = json!({ "task": { "shell": "echo '{\"paid\": 3}'" }, "params": { "bank": "a" } });
    node.api().put_job("settle", &settle);
    let steps = json!({
        "settle": { "job": "settle", "params": { "day": "{{ due | date }}" } },
        "report": {
            "needs": ["settle"],
            "task": { "process": { "command": ["echo", "{{ steps.settle.output.paid }} paid"] } },
        },
    });
    let workflow = json!({ "steps": steps, "output": "steps.report.output" });
    node.api().put_job("flow", &json!({ "task": { "workflow": workflow } }));
    let flow = node.api().start_job("flow")["id"].as_str().expect("a run has an id").to_owned();
    let flow = ended(&node, &flow);
    assert_eq!((text(&flow["state"]), text(&flow["output"])), ("succeeded", "3 paid"), "{flow:#}");
    let settled = only_run(&node, "settle");
    assert_eq!(text(&settled["trigger"]), "workflow", "{settled:#}");
    let step = node.api().run(text(&settled["started_by"]));
    assert_eq!((&step["started"], text(&step["worker"])), (&settled["id"], "job settle"), "{step:#}");
    verify(&scene, &node);
}

#[test]
fn a_step_waits_for_the_event_with_its_key() {
    let scene = Scene::new();
    let mut node = node(&scene);
    let steps = json!({
        "paid": { "wait": { "event": { "name": "paid", "key": "order-{{ params.order }}", "within": "1h" } } },
        "ship": {
            "needs": ["paid"],
            "task": { "process": { "command": ["echo", "{{ steps.paid.output.params.amount }} paid"] } },
        },
    });
    let workflow = json!({ "steps": steps, "output": "steps.ship.output" });
    node.api().put_job("ship", &json!({ "task": { "workflow": workflow }, "params": { "order": 7 } }));
    let run = node.api().start_job("ship")["id"].as_str().expect("a run has an id").to_owned();
    let waits = |node: &Node| {
        let graph = node.api().get(&format!("{RUNS}/{run}/graph")).expect("the node answers").ok();
        graph["nodes"][0]["started_at"].is_string()
    };
    wait::until_so("the step waits", SOON, || waits(&node));
    node.kill();
    node.start();
    for (order, amount) in [("order-8", 1), ("order-7", 120)] {
        let event = json!({ "key": order, "params": { "amount": amount } });
        node.api().post(&format!("{EVENTS}/paid"), &event).expect("the node answers").ok();
    }
    let run = ended(&node, &run);
    assert_eq!((text(&run["state"]), text(&run["output"])), ("succeeded", "120 paid"), "{run:#}");
    verify(&scene, &node);
}

#[test]
fn one_run_has_many_events() {
    let scene = Scene::new();
    let mut node = node(&scene);
    let schedule = json!({ "event": { "name": "changed", "batch": { "max": 3, "within": "1h" } } });
    let page = |index: usize| format!("{{{{ params.events[{index}].params.page }}}}");
    let command = ["echo".to_owned(), page(0), page(1), page(2)];
    node.api()
        .put_job("index", &json!({ "schedule": schedule, "task": { "process": { "command": command } } }));
    for page in 1..=3 {
        if page == 3 {
            node.kill();
            node.start();
        }
        let event = json!({ "params": { "page": page } });
        node.api().post(&format!("{EVENTS}/changed"), &event).expect("the node answers").ok();
    }
    let run = only_run(&node, "index");
    // Their order is that of their arrival at the shard of the job.
    let mut pages: Vec<&str> = text(&run["output"]).split(' ').collect();
    pages.sort_unstable();
    assert_eq!(pages, ["1", "2", "3"], "{run:#}");
    verify(&scene, &node);
}

#[test]
fn a_scheduled_job_works_off_a_backlog_in_one_run() {
    const BACKLOG: usize = 250;
    let scene = Scene::new();
    let node = node(&scene);
    let queue = "/api/v1/namespaces/default/queues/orders/batch";
    let messages: Vec<Value> = (0..BACKLOG).map(|number| json!({ "body": number.to_string() })).collect();
    node.api().post(queue, &json!({ "messages": messages })).expect("the node answers").ok();
    let (punctual, server) = (binary::path().display(), node.api().address());
    let script = format!(
        "{punctual} --server {server} queue get orders --count 1000 --ack -o json | grep -o '\"body\"' | wc -l | tr -d ' '"
    );
    let schedule = json!({ "every": "1s", "max_runs": 1 });
    let task = json!({ "process": { "command": ["sh", "-c", script] } });
    node.api().put_job("drain", &json!({ "schedule": schedule, "task": task }));
    let run = only_run(&node, "drain");
    assert_eq!((text(&run["trigger"]), text(&run["output"])), ("schedule", "250"), "{run:#}");
    verify(&scene, &node);
}

#[test]
fn a_message_in_a_queue_starts_a_job() {
    let scene = Scene::new();
    let mut node = node(&scene);
    let schedule = json!({ "event": { "queue": "orders" } });
    let task =
        json!({ "process": { "command": ["echo", "{{ params.amount }} from {{ params.event.queue }}"] } });
    node.api().put_job("fulfil", &json!({ "schedule": schedule, "task": task }));
    let queue = "/api/v1/namespaces/default/queues/orders/messages";
    node.api().post(queue, &json!({ "body": r#"{"amount": 7}"# })).expect("the node answers").ok();
    node.kill();
    node.start();
    let run = only_run(&node, "fulfil");
    assert_eq!((text(&run["trigger"]), text(&run["output"])), ("event", "7 from orders"), "{run:#}");
    verify(&scene, &node);
}
