//! Workflows in a real process (R78 to R81; P15).

use std::fs;
use std::process::Command;

use punctual_tests::api::RUNS;
use punctual_tests::history::has_ended;
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Cli, Export, Node, Scene, binary};
use punctual_verify::Options;
use serde_json::{Value, json};

pub(crate) const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples");

pub(crate) fn node(scene: &Scene) -> Node {
    let mut node = scene.node().with_env("PUNCTUAL_SLOTS", "4").with_env("PUNCTUAL_DURABILITY", "relaxed");
    node.start();
    node
}

/// Starts a job whose task is this workflow, and returns the id of its run.
fn start(node: &Node, workflow: &Value) -> String {
    let job = json!({ "schedule": { "manual": true }, "task": { "workflow": workflow } });
    node.api().put_job("flow", &job);
    node.api().start_job("flow")["id"].as_str().expect("a run has an id").to_owned()
}

#[track_caller]
pub(crate) fn ended(node: &Node, run: &str) -> Value {
    wait::until("the workflow ends", SOON, || Some(node.api().run(run)).filter(has_ended))
}

/// The runs of the steps, by the name of the step.
fn steps(node: &Node, run: &str) -> Vec<(String, String)> {
    let page = node.api().get(&format!("{RUNS}?parent={run}")).expect("the node answers").ok();
    let runs = page["items"].as_array().expect("a page has items").iter();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut steps: Vec<_> = runs.map(|run| (text(&run["step"]), text(&run["state"]))).collect();
    steps.sort();
    steps
}

pub(crate) fn verify(scene: &Scene, node: &Node) {
    let options = Options { may_be_empty: true, still: true, ..Options::default() };
    Export::of(node).verify(scene, node, &options);
}

#[test]
fn a_diamond_runs_in_order_and_its_branches_overlap() {
    let scene = Scene::new();
    let node = node(&scene);
    let folder = scene.path("");
    // Each branch waits until the other one is under way.
    let branch = |own: &str, other: &str| {
        let script = format!(
            "test -e top || exit 1; touch {own}; until test -e {other}; do sleep 0.02; done; echo {own} of $1"
        );
        let command = json!(["sh", "-c", script, "sh", "{{ steps.top.output.day }}"]);
        json!({ "needs": ["top"], "task": { "process": { "command": command, "dir": folder } } })
    };
    let top = "touch top; echo '{\"day\": \"monday\"}'";
    let workflow = json!({
        "steps": {
            "join": { "needs": ["left", "right"], "task": { "process": {
                "command": ["echo", "-n", "{{ steps.left.output | trim }}, {{ steps.right.output | trim }}"] } } },
            "left": branch("left", "right"),
            "right": branch("right", "left"),
            "top": { "task": { "process": { "command": ["sh", "-c", top], "dir": folder } } },
        },
        "output": "steps.join.output",
    });
    let run = start(&node, &workflow);
    let whole = ended(&node, &run);
    assert_eq!(whole["state"], "succeeded", "{whole:#}");
    assert_eq!((&whole["output"], &whole["attempt"]), (&json!("left of monday, right of monday"), &json!(0)));
    let told: Vec<_> = steps(&node, &run).into_iter().map(|(step, _)| step).collect();
    assert_eq!(told, ["join", "left", "right", "top"]);
    let shown = node.api().get("/api/v1/namespaces/default/jobs/flow").expect("the node answers").ok();
    assert_eq!(shown["task"]["workflow"]["steps"]["join"]["needs"], json!(["left", "right"]));
    verify(&scene, &node);
}

#[test]
fn a_failing_step_runs_the_failure_branch_and_finally() {
    let scene = Scene::new();
    let node = node(&scene);
    let workflow = json!({
        "steps": {
            "load": { "task": { "shell": "echo no disk >&2; exit 3" }, "retry": { "attempts": 2, "delay": "10ms" } },
            "settle": { "needs": ["load"], "task": { "noop": {} } },
            "alarm": { "needs": ["load"], "rule": "any_failed", "task": { "noop": {} } },
            "calm": { "needs": ["load"], "when": "steps.load.failed == 0", "rule": "all_done", "task": { "noop": {} } },
        },
        "finally": { "clean": { "task": { "shell": format!("touch {}", scene.path("cleaned").display()) } } },
    });
    let run = start(&node, &workflow);
    let whole = ended(&node, &run);
    assert_eq!(whole["state"], "failed", "{whole:#}");
    assert_eq!(whole["reason"], "1 of 5 steps failed, the first of them is `load`");
    assert!(whole["error"].as_str().unwrap_or_default().starts_with("step `load`: "), "{whole:#}");
    let expected = [("alarm", "succeeded"), ("clean", "succeeded"), ("load", "failed")];
    assert_eq!(steps(&node, &run), expected.map(|(step, state)| (step.to_owned(), state.to_owned())));
    assert!(fs::exists(scene.path("cleaned")).unwrap_or(false));
    verify(&scene, &node);
}

#[test]
fn a_map_goes_on_where_it_was_when_its_node_is_killed() {
    let scene = Scene::new();
    let mut node = node(&scene);
    let gate = scene.path("gate");
    let script = format!("until test -e {}; do sleep 0.02; done; echo \"{{\\\"n\\\": $1}}\"", gate.display());
    let workflow = json!({
        "steps": {
            "list": { "task": { "shell": "echo '[3, 1, 4, 1, 5, 9, 2]'" } },
            "each": {
                "needs": ["list"], "map": "steps.list.output", "parallel": 3,
                "task": { "process": { "command": ["sh", "-c", script, "sh", "{{ item * 10 + index }}"] } },
            },
            "rest": { "needs": ["each"], "wait": { "for": "50ms" } },
        },
        "output": "steps.each.output",
    });
    let run = start(&node, &workflow);
    wait::until_so("three items are under way", SOON, || {
        steps(&node, &run)
            .iter()
            .filter(|(step, state)| step.starts_with("each[") && state == "running")
            .count()
            == 3
    });
    node.kill();
    fs::write(&gate, "").expect("a file of the scene can be written");
    node.start();
    let whole = ended(&node, &run);
    assert_eq!(whole["state"], "succeeded", "{whole:#}");
    let outputs: Value = serde_json::from_str(whole["output"].as_str().unwrap_or_default()).expect("JSON");
    let numbers = [30, 11, 42, 13, 54, 95, 26].map(|n| json!({ "n": n }));
    assert_eq!(outputs, json!(numbers));
    assert_eq!(steps(&node, &run).len(), 8);
    verify(&scene, &node);
}

#[test]
fn a_cancelled_workflow_stops_its_steps_and_cleans_up() {
    let scene = Scene::new();
    let node = node(&scene);
    let workflow = json!({
        "steps": { "long": { "task": { "shell": "sleep 600" } }, "never": { "needs": ["long"], "task": { "noop": {} } } },
        "finally": { "clean": { "task": { "noop": {} } } },
    });
    let run = start(&node, &workflow);
    wait::until_so("the step is under way", SOON, || {
        steps(&node, &run) == [("long".to_owned(), "running".to_owned())]
    });
    node.cli(["run", "cancel", &run, "--comment", "wrong day"]).ok();
    let whole = ended(&node, &run);
    assert_eq!(whole["state"], "cancelled", "{whole:#}");
    let shown = node.cli(["run", "show", &run]).ok();
    assert!(shown.contains("cancelled by hand: wrong day"), "{shown}");
    let expected = [("clean", "succeeded"), ("long", "cancelled")];
    assert_eq!(steps(&node, &run), expected.map(|(step, state)| (step.to_owned(), state.to_owned())));
    verify(&scene, &node);
}

#[test]
fn a_release_waits_for_its_approval_and_says_who_gave_it() {
    let scene = Scene::new();
    let node = node(&scene);
    let workflow = json!({ "steps": {
        "build": { "task": { "noop": {} } },
        "release": { "needs": ["build"], "task": { "workflow": { "steps": {
            "review": { "approve": { "within": "1h" } },
            "ship": { "needs": ["review"], "task": { "noop": {} } },
        } } } },
        "tell": { "needs": ["release"], "wait": { "for": "1h" } },
    } });
    let run = start(&node, &workflow);
    let graph = || node.api().get(&format!("{RUNS}/{run}/graph")).expect("the node answers").ok();
    let state = |step: &str| {
        let graph = graph();
        let nodes = graph["nodes"].as_array().expect("a graph has nodes");
        let found = nodes.iter().find(|node| node["step"] == step).cloned();
        found.unwrap_or_else(|| panic!("no step {step} in {graph:#}"))
    };
    wait::until_so("the review waits", SOON, || state("release/review")["state"] == "active");
    let told = node.cli(["run", "approvals"]).ok();
    let inner = state("release")["run"].as_str().expect("a sub-workflow has a run").to_owned();
    assert!(told.contains(&inner) && told.contains("review") && told.contains("flow"), "{told}");
    let listed = |options: &[&str]| node.cli([&["run", "list", "--job", "flow"], options].concat()).ok();
    assert!(listed(&[]).contains(&run) && !listed(&[]).contains(&inner), "a list leaves steps out");
    assert!(listed(&["--children"]).contains(&inner));
    assert!(!listed(&["--parent", &run]).contains("manual") && listed(&["--parent", &run]).contains(&inner));
    let act = |path: &str| {
        let body = json!({ "comment": "checked with the bank" });
        node.api().post(&format!("{RUNS}/{run}/{path}"), &body).expect("the node answers")
    };
    assert_eq!(act("steps/release%2Fship/approve").status, 409, "it is no approval");
    assert_eq!(act("steps/nothing/approve").status, 404);
    act("steps/release%2Freview/approve").ok();
    wait::until_so("the release is over", SOON, || state("release")["state"] == "succeeded");
    let review = state("release/review");
    assert_eq!(
        (&review["reason"], &review["by_hand"]["comment"]),
        (&json!("approved"), &json!("checked with the bank"))
    );
    assert!(!node.cli(["run", "approvals"]).ok().contains(&inner));
    assert_eq!(act("steps/release%2Freview/reject").status, 409);
    act("pause").ok();
    assert_eq!(graph()["paused"]["comment"], "checked with the bank");
    assert_eq!(act("pause").status, 409);
    act("resume").ok();
    let shown = node.cli(["run", "skip", &run, "tell"]).ok();
    assert_eq!(shown.trim(), format!("skipped step tell of run {run}"));
    assert_eq!(ended(&node, &run)["state"], "succeeded");
    let table = node.cli(["run", "graph", &run]).ok();
    assert!(table.contains("release/ship") && table.contains("skipped: by hand"), "{table}");
    verify(&scene, &node);
}

#[test]
fn a_rejection_by_a_command_fails_the_step_with_its_comment() {
    let scene = Scene::new();
    let node = node(&scene);
    let noop = json!({ "noop": {} });
    let workflow = json!({ "steps": {
        "review": { "approve": { "within": "1h" } },
        "ship": { "needs": ["review"], "task": noop },
        "undo": { "needs": ["review"], "rule": "any_failed", "task": noop },
    } });
    let run = start(&node, &workflow);
    wait::until_so("the review waits", SOON, || node.cli(["run", "approvals"]).ok().contains(&run));
    let reject = || node.cli(["run", "reject", &run, "review", "--comment", "the numbers are wrong"]);
    assert_eq!(reject().ok().trim(), format!("rejected step review of run {run}"));
    let whole = ended(&node, &run);
    assert_eq!(whole["state"], "failed", "{whole:#}");
    assert_eq!(steps(&node, &run), [("undo".to_owned(), "succeeded".to_owned())]);
    let table = node.cli(["run", "graph", &run]).ok();
    let review = table.lines().find(|line| line.contains("review")).unwrap_or_default();
    assert!(review.contains("rejected") && review.ends_with("by hand: the numbers are wrong"), "{table}");
    assert_eq!(reject().status.code(), Some(4), "it is too late");
    verify(&scene, &node);
}

/// The expressions of a step: field, and value or error. Those that were not evaluated have neither.
fn expressions(node: &Node, run: &str, step: &str) -> Vec<(String, Option<String>)> {
    let path = format!("{RUNS}/{run}/steps/{step}/expressions");
    let told = node.api().get(&path).expect("the node answers").ok();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let expressions = told["expressions"].as_array().expect("a list").iter();
    let told =
        |of: &Value| (text(&of["field"]).unwrap_or_default(), text(&of["value"]).or(text(&of["error"])));
    expressions.map(told).collect()
}

#[test]
fn the_expressions_of_steps_are_shown_with_their_values() {
    let scene = Scene::new();
    let node = node(&scene);
    let noop = json!({ "noop": {} });
    let workflow = json!({ "steps": {
        "extract": { "task": { "shell": "echo '{\"tables\": [\"a\", \"b\"], \"rows\": 7}'" } },
        "load": { "needs": ["extract"], "map": "steps.extract.output.tables", "task": noop },
        "tell": {
            "needs": ["load"], "when": "steps.load.succeeded == 2", "task": noop,
            "params": { "rows": "{{ steps.extract.output.rows }}" },
        },
        "alarm": { "needs": ["load"], "when": "steps.load.failed > 0", "task": noop, "params": { "to": "ops" } },
        "broken": { "needs": ["extract"], "rule": "all_done", "when": "steps.extract.output.rows", "task": noop },
        "review": { "needs": ["tell"], "approve": {} },
        "ship": { "needs": ["review"], "when": "params.ship", "task": noop },
    } });
    let run = start(&node, &workflow);
    wait::until_so("the review begins", SOON, || node.cli(["run", "approvals"]).ok().contains(&run));
    let known = |field: &str, value: &str| (format!("steps.{field}"), Some(value.to_owned()));
    assert_eq!(expressions(&node, &run, "extract"), []);
    assert_eq!(expressions(&node, &run, "load"), [known("load.map", "[\"a\",\"b\"]")]);
    assert_eq!(
        expressions(&node, &run, "tell"),
        [known("tell.when", "true"), known("tell.params", "{\"rows\":7}")]
    );
    let unknown = |field: &str| (format!("steps.{field}"), None);
    assert_eq!(expressions(&node, &run, "alarm"), [known("alarm.when", "false"), unknown("alarm.params")]);
    assert_eq!(expressions(&node, &run, "broken"), [known("broken.when", "7")]);
    assert_eq!(expressions(&node, &run, "ship"), [unknown("ship.when")], "the step is not decided");
    let drawn = node.cli(["run", "show", &run, "-o", "mermaid"]).ok();
    assert!(drawn.starts_with("flowchart") && drawn.contains("review"), "{drawn}");
    assert_eq!(drawn, node.cli(["run", "graph", &run, "-o", "mermaid"]).ok());
    let drawn = node.cli(["run", "show", &run, "-o", "dot"]).ok();
    assert!(drawn.starts_with("digraph \"flow\" {") && drawn.contains("label=\"review\\napprove"), "{drawn}");
    assert!(drawn.contains("n0 -> n1;") && drawn.trim_end().ends_with('}'), "{drawn}");
    assert_eq!(drawn, node.cli(["run", "graph", &run, "-o", "dot"]).ok());
    let table = node.cli(["run", "show", &run]).ok();
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().take(4).collect()).collect();
    for row in [
        ["LEVEL", "STEP", "KIND", "NEEDS"],
        ["1", "extract", "shell", "-"],
        ["2", "load", "noop", "extract"],
        ["3", "tell", "noop", "load"],
    ] {
        assert!(rows.iter().any(|found| found[..] == row), "{row:?} in {table}");
    }
}

#[test]
fn a_graph_is_read_in_pages() {
    let scene = Scene::new();
    let node = node(&scene);
    let step = |needs: &[&str]| json!({ "needs": needs, "task": { "noop": {} } });
    let workflow = json!({ "steps": {
        "a": step(&[]), "b": step(&["a"]), "c": step(&["a"]), "d": step(&["b", "c"]), "e": step(&["d"]),
    } });
    let run = start(&node, &workflow);
    ended(&node, &run);
    let (mut names, mut edges, mut after) = (Vec::new(), 0, String::new());
    loop {
        let path = format!("{RUNS}/{run}/graph?limit=2{after}");
        let page = node.api().get(&path).expect("the node answers").ok();
        let nodes = page["nodes"].as_array().expect("a list");
        assert!(nodes.len() <= 2 && nodes.iter().all(|node| node["state"] == "succeeded"), "{page:#}");
        names.extend(nodes.iter().map(|node| node["step"].as_str().unwrap_or_default().to_owned()));
        edges += page["edges"].as_array().expect("a list").len();
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    assert_eq!((names.join(" "), edges), ("a b c d e".to_owned(), 5));
    let refused = node.api().get(&format!("{RUNS}/{run}/graph?limit=0")).expect("the node answers");
    assert_eq!(refused.status, 400);
}

#[test]
fn a_retry_from_the_failed_step_reuses_what_succeeded() {
    let scene = Scene::new();
    let node = node(&scene);
    let (count, fixed) = (scene.path("count"), scene.path("fixed"));
    let inner = json!({ "workflow": { "steps": { "book": { "task": { "noop": {} } } } } });
    let workflow = json!({
        "steps": {
            "extract": { "task": { "shell": format!("echo x >> {}; echo '{{\"rows\": 7}}'", count.display()) } },
            "settle": { "needs": ["extract"], "task": inner },
            "load": {
                "needs": ["extract"], "params": { "day": 1 },
                "task": { "shell": format!("test -e {}", fixed.display()) },
            },
        },
        "output": "steps.extract.output.rows",
    });
    let old = start(&node, &workflow);
    assert_eq!(ended(&node, &old)["state"], "failed");
    let retry =
        |body: &Value| node.api().post(&format!("{RUNS}/{old}/retry"), body).expect("the node answers");
    for (body, field) in [
        (json!({ "from": ["nobody"] }), "from[0]"),
        (json!({ "from": [] }), "from"),
        (json!({ "from": "load" }), "from"),
        (json!({ "steps": { "nobody": { "params": {} } } }), "steps.nobody"),
    ] {
        let refused = retry(&body);
        assert_eq!((refused.status, &refused.json()["field"]), (422, &json!(field)), "{body}");
    }
    fs::write(&fixed, "").expect("a file of the scene can be written");
    let made =
        node.cli(["run", "retry", &old, "--from", "failed", "--step-params", "load={\"day\": 2}", "--wait"]);
    made.ok();
    let runs = node.api().runs_of("flow");
    let whole = runs.iter().find(|run| run["retry_of"] == old.as_str()).expect("a retry was made");
    assert_eq!((&whole["state"], &whole["output"]), (&json!("succeeded"), &json!("7")), "{whole:#}");
    let run = whole["id"].as_str().expect("a run has an id");
    assert_eq!(steps(&node, run), [("load".to_owned(), "succeeded".to_owned())]);
    assert_eq!(fs::read_to_string(&count).expect("the step wrote it"), "x\n", "it was executed once");
    let graph = node.cli(["run", "graph", run]).ok();
    assert_eq!(graph.matches("reused").count(), 3, "{graph}");
    verify(&scene, &node);
}

/// Applies an example, starts it, and returns the id of its run.
fn start_example(node: &Node, name: &str) -> String {
    node.cli(["job", "apply", &format!("{EXAMPLES}/{name}.yaml")]).ok();
    node.api().start_job(name)["id"].as_str().expect("a run has an id").to_owned()
}

#[test]
fn the_examples_of_workflows_do_what_they_say() {
    let scene = Scene::new();
    let node = node(&scene);
    let (etl, settlement) = (start_example(&node, "etl"), start_example(&node, "settlement"));
    let release = start_example(&node, "release");
    let etl = ended(&node, &etl);
    assert_eq!((&etl["state"], &etl["output"]), (&json!("succeeded"), &json!("3 tables")), "{etl:#}");
    let failed = ended(&node, &settlement);
    assert_eq!(failed["state"], "failed", "{failed:#}");
    let expected =
        [("alarm", "succeeded"), ("collect", "succeeded"), ("pay", "failed"), ("unlock", "succeeded")];
    assert_eq!(steps(&node, &settlement), expected.map(|(step, state)| (step.to_owned(), state.to_owned())));
    wait::until_so("the release can be approved", SOON, || {
        node.cli(["run", "approve", &release, "review", "--comment", "looks good"]).status.success()
    });
    assert_eq!(ended(&node, &release)["state"], "succeeded");
    let shown = node.cli(["run", "show", &release]).ok();
    assert!(shown.contains("approved; by hand: looks good") && shown.contains("apologise"), "{shown}");
    verify(&scene, &node);
}

#[test]
fn a_benchmark_of_workflows_measures_every_shape() {
    let scene = Scene::new();
    let mut command = Command::new(binary::path());
    command.args(["bench", "workflow", "--chain", "20", "--fan", "30", "--map", "40", "--repeat", "1"]);
    let found = Cli::run(command.args(["-o", "json", "--data"]).arg(scene.path("bench"))).json();
    let fields =
        ["step_p50_ms", "step_p99_ms", "chain_seconds", "fan_seconds", "map_seconds", "runs_seconds"];
    for field in fields.iter().chain(&["fan_ratio", "parent_bytes_written", "validate_ms", "graph_ms"]) {
        assert!(found[field].as_f64() > Some(0.0), "{field} of {found:#}");
    }
}
