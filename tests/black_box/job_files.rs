//! A folder of job files is what the server has: shown first, then made so, and nothing twice.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use punctual_tests::api::JOBS;
use punctual_tests::{Cli, Node, Scene, binary};
use serde_json::Value;

/// Ten jobs: eight files with one each, and one file with two, of which one is in another namespace.
fn ten_jobs(scene: &Scene) -> PathBuf {
    let folder = scene.path("jobs");
    fs::create_dir(&folder).expect("a folder can be made");
    for number in 1..=8 {
        let job = format!(
            "name: job-{number}\nschedule: {{ cron: \"{number} 3 * * *\" }}\ntask: {{ noop: {{}} }}\n"
        );
        write(&folder, &format!("job-{number}.yaml"), &job);
    }
    let two = "name: job-9\ntask: { shell: \"echo nine\" }\n---\n\
               name: job-10\nnamespace: payments\ntask: { noop: {} }\nschedule: { every: 1h }\n";
    write(&folder, "two.yml", two);
    write(&folder, "notes.txt", "this is no job file");
    folder
}

fn write(folder: &Path, name: &str, text: &str) {
    fs::write(folder.join(name), text).expect("a file can be written");
}

#[track_caller]
fn job(node: &Node, verb: &str, folder: &Path, options: &[&str]) -> Cli {
    let words = ["job", verb].map(str::to_owned);
    let folder = folder.to_str().expect("a path of ours is text").to_owned();
    node.cli(words.into_iter().chain([folder]).chain(options.iter().map(|word| (*word).to_owned())))
}

fn lines_with(text: &str, word: &str) -> usize {
    text.lines().filter(|line| line.contains(word)).count()
}

#[test]
fn what_only_the_server_refuses_is_told_with_its_line() {
    let scene = Scene::new();
    let node = scene.start();
    let folder = scene.path("jobs");
    fs::create_dir(&folder).expect("a folder can be made");
    let jobs = "name: first\ntask: { noop: {} }\n---\nname: again\nschedule:\n  after:\n    job: again\n\
                task: { noop: {} }\n";
    write(&folder, "two.yaml", jobs);
    let refused = job(&node, "apply", &folder, &[]);
    assert_eq!(refused.status.code(), Some(4), "{refused:?}");
    assert!(
        refused.err.contains("two.yaml: line 7, column 10: job `again`: schedule.after.job: "),
        "{refused:?}"
    );
}

#[test]
fn a_folder_of_ten_jobs_is_compared_applied_and_pruned() {
    let scene = Scene::new();
    let node = scene.start();
    let folder = ten_jobs(&scene);

    let new = job(&node, "diff", &folder, &[]);
    assert_eq!(new.status.code(), Some(1), "something differs: {new:?}");
    assert_eq!(lines_with(&new.out, "+ "), 10, "{new:?}");
    assert_eq!(node.api().get(JOBS).expect("the node answers").ok()["items"], Value::Array(vec![]));

    let applied = job(&node, "apply", &folder, &[]).ok();
    assert_eq!(lines_with(&applied, "created "), 10, "{applied}");
    let again = job(&node, "apply", &folder, &[]).ok();
    assert_eq!(lines_with(&again, "unchanged "), 10, "{again}");
    let same = job(&node, "diff", &folder, &[]);
    assert_eq!((same.status.code(), same.out.as_str()), (Some(0), ""), "{same:?}");

    write(
        &folder,
        "job-3.yaml",
        "name: job-3\nschedule: { cron: \"30 4 * * *\" }\ntask: { noop: {} }\ntimeout: 1h\n",
    );
    let edited = job(&node, "diff", &folder, &[]);
    assert_eq!(edited.status.code(), Some(1), "{edited:?}");
    assert!(edited.out.contains("~ schedule.cron: \"3 3 * * *\" -> \"30 4 * * *\""), "{edited:?}");
    assert!(edited.out.contains("+ timeout: \"1h\""), "{edited:?}");
    assert_eq!(edited.out.lines().count(), 3, "the job and two differences: {edited:?}");
    let steps = job(&node, "diff", &folder, &["-o", "json"]);
    let steps: Value = serde_json::from_str(&steps.out).expect("-o json is JSON");
    assert_eq!((&steps[0]["action"], &steps[0]["name"]), (&"change".into(), &"job-3".into()));
    let applied = job(&node, "apply", &folder, &[]).ok();
    let changed = applied.lines().filter(|line| line.starts_with("changed ")).count();
    assert_eq!((changed, lines_with(&applied, "unchanged ")), (1, 9), "{applied}");
    let shown = node.cli(["job", "show", "job-3", "-o", "json"]).json();
    assert_eq!(shown["revision"], 2);
}

#[test]
fn jobs_without_a_file_are_deleted_only_on_request() {
    let scene = Scene::new();
    let node = scene.start();
    let folder = ten_jobs(&scene);
    job(&node, "apply", &folder, &[]).ok();
    let elsewhere = scene.write("elsewhere.yaml", "name: other\nnamespace: elsewhere\ntask: { noop: {} }\n");
    job(&node, "apply", &elsewhere, &[]).ok();
    fs::remove_file(folder.join("job-5.yaml")).expect("a file can be removed");

    let plain = job(&node, "apply", &folder, &[]).ok();
    assert_eq!(lines_with(&plain, "deleted"), 0, "nobody asked for it: {plain}");
    let differs = job(&node, "diff", &folder, &["--prune"]);
    assert_eq!(
        (differs.status.code(), lines_with(&differs.out, "- default/job-5")),
        (Some(1), 1),
        "{differs:?}"
    );
    let dry = job(&node, "apply", &folder, &["--prune", "--dry-run"]).ok();
    assert_eq!((lines_with(&dry, "- default/job-5"), lines_with(&dry, "unchanged")), (1, 9), "{dry}");

    let refused = job(&node, "apply", &folder, &["--prune"]);
    assert_eq!(refused.status.code(), Some(2), "a script is not asked: {refused:?}");
    assert!(refused.err.contains("--yes"), "{refused:?}");
    assert!(node.cli(["job", "show", "job-5"]).status.success(), "nothing was done");

    let pruned = job(&node, "apply", &folder, &["--prune", "--yes"]).ok();
    assert_eq!(
        (lines_with(&pruned, "deleted default/job-5"), lines_with(&pruned, "unchanged ")),
        (1, 9),
        "{pruned}"
    );
    assert_eq!(node.cli(["job", "show", "job-5"]).status.code(), Some(3));
    assert!(
        node.cli(["job", "show", "other", "-n", "elsewhere"]).status.success(),
        "no business of these files"
    );

    let empty = scene.path("empty");
    fs::create_dir(&empty).expect("a folder can be made");
    let refused = job(&node, "apply", &empty, &["--prune", "--yes"]);
    assert!(refused.status.code() == Some(2) && refused.err.contains("there is no job in"), "{refused:?}");
    assert!(node.cli(["job", "show", "job-1"]).status.success(), "files that name nothing take nothing away");
}

#[test]
fn a_mistake_in_one_file_is_located_and_nothing_is_applied() {
    let scene = Scene::new();
    let node = scene.start();
    let folder = ten_jobs(&scene);
    write(&folder, "job-4.yaml", "name: job-4\ntask: { noop: {} }\nschedule:\n  cron: \"61 * * * *\"\n");
    for verb in ["apply", "diff"] {
        let refused = job(&node, verb, &folder, &[]);
        assert_eq!(refused.status.code(), Some(4), "{verb}: {refused:?}");
        assert!(refused.err.contains("job-4.yaml: line 4, column 9: schedule.cron: "), "{verb}: {refused:?}");
    }
    let missing = job(&node, "diff", &scene.path("nowhere.yaml"), &[]);
    assert_eq!(missing.status.code(), Some(2), "1 would say that something differs: {missing:?}");
    assert_eq!(node.api().get(JOBS).expect("the node answers").ok()["items"], Value::Array(vec![]));
}

/// `punctual job graph` of a file, with no server to talk to.
#[track_caller]
fn graph(scene: &Scene, text: &str, options: &[&str]) -> Cli {
    let file = scene.path("flow.yaml");
    fs::write(&file, text).expect("a file can be written");
    let mut command = Command::new(binary::path());
    // Nobody listens on port 1.
    Cli::run(
        command.args(["job", "graph"]).arg(file).args(options).env("PUNCTUAL_SERVER", "http://127.0.0.1:1"),
    )
}

#[test]
fn the_graph_of_a_workflow_is_drawn_without_a_server() {
    let scene = Scene::new();
    let flow = "name: flow\ntask:\n  workflow:\n    steps:\n      a: { task: { noop: {} } }\n      b: { job: x, needs: [a] }\n";
    let table = graph(&scene, flow, &[]);
    assert!(table.status.success(), "{table:?}");
    assert!(table.out.contains("default/flow: 2 steps, 1 edge, depth 2"), "{table:?}");
    assert!(graph(&scene, flow, &["-o", "dot"]).out.contains("n0 -> n1;"));
    assert!(graph(&scene, flow, &["-o", "mermaid"]).out.contains("n0 --> n1"));
    let json: Value =
        serde_json::from_str(&graph(&scene, flow, &["-o", "json"]).out).expect("it prints JSON");
    assert_eq!(json["edges"], serde_json::json!([{ "from": "a", "to": "b" }]));
    assert_eq!(json["nodes"][1]["kind"], "job");

    let cycle = graph(&scene, &flow.replace("a: { task", "a: { needs: [b], task"), &[]);
    assert_eq!(cycle.status.code(), Some(4), "{cycle:?}");
    assert!(cycle.err.contains("line 5, column 19: task.workflow.steps.a.needs: "), "{cycle:?}");
    assert!(cycle.err.contains("a → b → a"), "{cycle:?}");
    assert_eq!(graph(&scene, "name: a\ntask: { noop: {} }\n", &[]).status.code(), Some(3));
    let both = format!("{flow}---\n{}", flow.replace("name: flow", "name: other"));
    assert_eq!(graph(&scene, &both, &[]).status.code(), Some(2));
    assert!(graph(&scene, &both, &["--job", "other"]).out.contains("default/other: "));
    let list = Cli::run(Command::new(binary::path()).args(["job", "list", "-o", "dot"]));
    assert_eq!(list.status.code(), Some(2), "{list:?}");
}
