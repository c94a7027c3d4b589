//! Pings: programs outside Punctual report their runs, by the command line or by a plain request.

use punctual_tests::{Node, Scene};
use serde_json::Value;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/ping.yaml");

fn node_with_ping(scene: &Scene) -> Node {
    let node = scene.start();
    node.cli(["job", "apply", EXAMPLE]).ok();
    node
}

fn runs(node: &Node) -> Vec<Value> {
    node.api().runs_of("backup-of-host-7")
}

#[test]
fn a_command_is_reported_with_its_output_and_its_exit_code() {
    let scene = Scene::new();
    let node = node_with_ping(&scene);
    let done = node.cli(["ping", "backup-of-host-7", "--", "sh", "-c", "echo copied; echo slowly >&2"]);
    assert_eq!((done.status.code(), done.out.as_str(), done.err.as_str()), (Some(0), "copied\n", "slowly\n"));
    let failed = node.cli(["ping", "backup-of-host-7", "--", "sh", "-c", "echo disk full >&2; exit 3"]);
    assert_eq!((failed.status.code(), failed.err.as_str()), (Some(3), "disk full\n"));

    let runs = runs(&node);
    assert_eq!(runs.len(), 2, "{runs:#?}");
    let by_state = |state: &str| runs.iter().find(|run| run["state"] == state).expect("a run in this state");
    let succeeded = by_state("succeeded");
    let output = succeeded["output"].as_str().expect("a text");
    assert!(output.contains("copied") && output.contains("slowly"), "{succeeded:#}");
    assert_eq!(
        (&succeeded["trigger"], &succeeded["worker"]),
        (&"ping".into(), &"ping backup-of-host-7".into())
    );
    let error = by_state("failed")["error"].as_str().expect("a text");
    assert_eq!(error, "exit status: 3\ndisk full");
    assert_eq!(by_state("failed")["exit_code"], 3);
    let incidents = node.cli(["incident", "list", "-o", "json"]).json();
    assert_eq!(
        (&incidents[0]["job"], &incidents[0]["on"]["on"]),
        (&"backup-of-host-7".into(), &"failed".into())
    );
}

#[test]
fn a_line_of_a_crontab_needs_the_address_alone() {
    let scene = Scene::new();
    let node = node_with_ping(&scene);
    let shown = node.cli(["ping", "backup-of-host-7", "--show", "-o", "json"]).json();
    let (key, path) = (shown["key"].as_str().expect("a key"), shown["path"].as_str().expect("a path"));
    let addresses = node.cli(["ping", "backup-of-host-7", "--show"]).ok();
    assert!(addresses.contains(&format!("{}{path}/fail?key={key}", node.api().address())), "{addresses}");
    let pinged = node.api().get(&format!("{path}?key={key}")).expect("the node answers");
    assert_eq!((pinged.status, &pinged.json()["state"]), (200, &"succeeded".into()));
    let refused = node.api().get(path).expect("the node answers");
    assert_eq!(refused.status, 401);

    let run = node.cli(["ping", "backup-of-host-7", "--start"]).ok();
    let key_alone =
        ["ping", "backup-of-host-7", "--key", key, "--run", run.trim(), "--fail", "--message", "no disk"];
    assert_eq!(node.cli(key_alone).ok(), "", "cron mails what is printed");
    let ended = node.api().run(run.trim());
    assert_eq!((&ended["state"], &ended["error"]), (&"failed".into(), &"no disk".into()));
}

/// A report must not be the reason why a backup is missing.
#[test]
fn a_command_runs_though_its_reports_are_refused() {
    let scene = Scene::new();
    let node = node_with_ping(&scene);
    let words = ["ping", "backup-of-host-7", "--key", "pcp_1_1_0", "--", "sh", "-c", "echo done; exit 4"];
    let said = node.cli(words);
    assert_eq!((said.status.code(), said.out.as_str()), (Some(4), "done\n"), "{said:?}");
    assert!(said.err.contains("warning: the start of the command could not be reported"), "{said:?}");
    assert!(said.err.contains("warning: the end of the command could not be reported"), "{said:?}");
    assert!(runs(&node).is_empty());
}

/// The runs that a kill interrupts are still there, and a repeated end changes nothing.
#[test]
fn a_run_survives_a_killed_node() {
    let scene = Scene::new();
    let mut node = node_with_ping(&scene);
    let run = node.cli(["ping", "backup-of-host-7", "--start"]).ok();
    node.kill();
    node.start();
    assert_eq!(node.api().run(run.trim())["state"], "running");
    for _ in 0..2 {
        node.cli(["ping", "backup-of-host-7", "--run", run.trim()]).ok();
    }
    let runs = runs(&node);
    assert_eq!((runs.len(), &runs[0]["state"]), (1, &"succeeded".into()), "{runs:#?}");
}
