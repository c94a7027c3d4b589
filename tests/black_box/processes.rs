//! No process outlives its run, nor the node that started it: not even one that did all it could to be forgotten.

use std::fs;
use std::path::Path;

use punctual_tests::history::has_ended;
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Api, Node, Scene};
use serde_json::{Value, json};

/// A session of its own with a child in it, of which the shell that started it knows nothing more.
const SETSID: &str = "setsid sh -c 'echo $$ >> PIDS; sleep 1000 & echo $! >> PIDS; sleep 1000' &";
/// The classic daemon: forked twice, its parents gone, its environment empty, in another folder, its output closed.
const FORKED_TWICE: &str =
    "env -i setsid sh -c 'cd /; sh -c \"echo \\$\\$ >> PIDS; exec sleep 1000\" > /dev/null 2>&1 &' &";

/// Starts a shell with daemons, and gives the run with the ids of all processes that belong to it.
fn run_with(scene: &Scene, node: &Node, daemons: &[&str], processes: usize) -> (String, Vec<u32>) {
    let file = scene.path("pids");
    let text = format!("echo $$ >> PIDS; {} sleep 1000", daemons.join(" "));
    let text = text.replace("PIDS", &file.display().to_string());
    let run = node.api().submit(&json!({ "task": { "shell": text } }));
    let pids = wait::until("all of them run", SOON, || pids_in(&file).filter(|pids| pids.len() == processes));
    assert!(pids.iter().all(|pid| is_alive(*pid)), "{pids:?}");
    (run["id"].as_str().expect("a run has an id").to_owned(), pids)
}

fn pids_in(file: &Path) -> Option<Vec<u32>> {
    let text = fs::read_to_string(file).ok()?;
    text.ends_with('\n').then(|| text.lines().filter_map(|line| line.trim().parse().ok()).collect())
}

/// State and parent.
fn stat(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// A zombie is dead: only nobody has asked after it yet.
fn is_alive(pid: u32) -> bool {
    stat(pid).is_some_and(|(state, _)| state != 'Z')
}

fn children_of(parent: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("this is Linux").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| stat(*pid).is_some_and(|(_, of)| of == parent)).collect()
}

fn check_kill_leaves_nothing(daemons: &[&str], processes: usize) {
    let scene = Scene::new();
    let mut node = scene.start();
    let (_, mut pids) = run_with(&scene, &node, daemons, processes);
    pids.extend(children_of(node.pid()));
    node.kill();
    wait::until_so("no process is left, and nobody started another node", SOON, || {
        !pids.iter().any(|pid| is_alive(*pid))
    });
}

#[test]
fn kill_dash_nine_of_dev_leaves_no_process() {
    check_kill_leaves_nothing(&[SETSID], 3);
}

#[test]
fn kill_dash_nine_of_dev_leaves_no_daemon_that_was_forked_twice() {
    check_kill_leaves_nothing(&[FORKED_TWICE, SETSID, FORKED_TWICE], 5);
}

#[track_caller]
fn wait_for_end(api: &Api, id: &str) -> Value {
    wait::until(&format!("run {id} ends"), SOON, || Some(api.run(id)).filter(has_ended))
}

#[test]
fn cancel_of_a_run_kills_its_daemonised_grandchild() {
    let scene = Scene::new();
    let node = scene.start();
    let (id, pids) = run_with(&scene, &node, &[FORKED_TWICE, SETSID], 4);
    node.cli(["run", "cancel", &id]).ok();
    let run = wait_for_end(node.api(), &id);
    assert_eq!(run["state"], "cancelled", "{run}");
    assert!(!pids.iter().any(|pid| is_alive(*pid)), "a run that has ended has no processes");
}

#[test]
fn a_run_that_ends_by_itself_leaves_no_daemon() {
    let scene = Scene::new();
    let node = scene.start();
    let file = scene.path("pids");
    let wait_for_them = "while [ ! -s PIDS ]; do sleep 0.01; done";
    let text = format!("{FORKED_TWICE} {wait_for_them}").replace("PIDS", &file.display().to_string());
    let run = node.api().submit(&json!({ "task": { "shell": text } }));
    let run = wait_for_end(node.api(), run["id"].as_str().expect("a run has an id"));
    assert_eq!(run["state"], "succeeded", "{run}");
    let pids = pids_in(&file).expect("it was there");
    assert!(!pids.is_empty() && !pids.iter().any(|pid| is_alive(*pid)), "{pids:?}");
}
