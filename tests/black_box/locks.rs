//! Locks from the command line: a command runs under a lock, one at a time.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use punctual_tests::wait::{self, SOON};
use punctual_tests::{Node, Scene, binary};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// `punctual lock` beside the test; it goes with the test.
struct Holder(Child);

impl Holder {
    fn start(node: &Node, words: &[&str]) -> Holder {
        let mut command = Command::new(binary::path());
        command.arg("lock").args(words).env("PUNCTUAL_SERVER", node.api().address());
        Holder(command.process_group(0).stdin(Stdio::null()).spawn().expect("the binary can be started"))
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.0.id().cast_signed()).expect("a child has a pid");
        kill_process(pid, signal).expect("it is there");
    }

    #[track_caller]
    fn code(&mut self) -> Option<i32> {
        wait::until("the command ends", SOON, || self.0.try_wait().expect("a child can be asked")).code()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn lock(node: &Node, name: &str) -> Option<Value> {
    let answer = node.api().get(&format!("/api/v1/namespaces/default/locks/{name}"))?;
    (answer.status == 200).then(|| answer.json())
}

#[track_caller]
fn wait_until_held(node: &Node, name: &str) -> Value {
    wait::until("the lock is held", SOON, || lock(node, name))
}

/// R119.
#[test]
fn a_command_runs_under_a_lock() {
    let scene = Scene::new();
    let node = scene.start();
    let said = node.cli(["lock", "a", "--", "sh", "-c", "echo $PUNCTUAL_LOCK $PUNCTUAL_FENCE; exit 7"]);
    assert_eq!(said.status.code(), Some(7), "{said:?}");
    let fence: u64 =
        said.out.trim().strip_prefix("a ").and_then(|fence| fence.parse().ok()).expect("a fence");
    assert_eq!(lock(&node, "a"), None, "it is released");
    let next = node.cli(["lock", "a", "--", "sh", "-c", "echo $PUNCTUAL_FENCE"]).ok();
    assert!(next.trim().parse::<u64>().expect("a fence") > fence);
    let said = node.cli(["lock", "a", "--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(said.status.code(), Some(137), "{said:?}");

    let mut holder = Holder::start(&node, &["a", "--owner", "first", "--", "sleep", "600"]);
    let held = wait_until_held(&node, "a");
    assert_eq!(held["owner"], "first");
    let said = node.cli(["lock", "a", "--wait", "0s", "--", "true"]);
    assert_eq!(said.status.code(), Some(4), "{said:?}");
    assert!(said.err.contains("lock `a` is held by `first` until "), "{said:?}");

    let mut second = Holder::start(&node, &["a", "--owner", "second", "--", "sh", "-c", "exit 3"]);
    wait::until_so("the second waits", SOON, || {
        lock(&node, "a").is_some_and(|lock| lock["waiting"][0]["owner"] == "second")
    });
    holder.signal(Signal::TERM);
    assert_eq!(holder.code(), Some(130), "it was stopped");
    assert_eq!(second.code(), Some(3));
}

#[test]
fn a_lock_that_is_taken_away_stops_its_command() {
    let scene = Scene::new();
    let node = scene.start();
    let (began, ended) = (scene.path("began"), scene.path("ended"));
    let script =
        format!("trap 'touch {}; exit 0' TERM; touch {}; sleep 600 & wait", ended.display(), began.display());
    let mut holder = Holder::start(&node, &["a", "--ttl", "6s", "--", "sh", "-c", &script]);
    wait::until_so("the command runs", SOON, || began.exists());
    let listed = node.cli(["lock", "list", "-o", "json"]).json();
    assert_eq!(listed[0]["name"], "a", "{listed:#}");
    let shown = node.cli(["lock", "show", "a"]).ok();
    assert!(shown.contains("held for 6s without a renewal"), "{shown}");
    let unsure = node.cli(["lock", "release", "a"]);
    assert_eq!(unsure.status.code(), Some(2), "a script has to say --yes: {unsure:?}");
    node.cli(["lock", "release", "a", "--yes"]).ok();
    assert_eq!(holder.code(), Some(1));
    assert!(ended.exists(), "it got SIGTERM");
    let gone = node.cli(["lock", "show", "a"]);
    assert_eq!(gone.status.code(), Some(3), "{gone:?}");
}

/// Its guardian ends the command, so nothing works without the lock.
#[test]
fn a_killed_holder_frees_its_lock() {
    let scene = Scene::new();
    let node = scene.start();
    let file = scene.path("pid");
    let script = format!("echo $$ > {0}.new; mv {0}.new {0}; exec sleep 600", file.display());
    let holder = Holder::start(&node, &["a", "--ttl", "2s", "--", "sh", "-c", &script]);
    wait::until_so("the command runs", SOON, || file.exists());
    let pid = std::fs::read_to_string(&file).expect("it was written");
    let before = wait_until_held(&node, "a")["fence"].clone();
    holder.signal(Signal::KILL);
    let said = node.cli(["lock", "a", "--wait", "30s", "--", "sh", "-c", "echo $PUNCTUAL_FENCE"]).ok();
    assert_ne!(said.trim(), before);
    assert!(!Path::new("/proc").join(pid.trim()).exists(), "the command has ended before");
}

/// A command that ignores SIGTERM must not work beside the next holder.
#[test]
fn a_command_that_does_not_stop_is_killed_before_the_lock_ends() {
    let scene = Scene::new();
    let mut node = scene.start();
    let beats = scene.path("beats");
    let script = format!("trap '' TERM; while :; do date +%s%3N >> {}; sleep 0.05; done", beats.display());
    let mut holder = Holder::start(&node, &["a", "--ttl", "2s", "--", "sh", "-c", &script]);
    wait::until_so("the command runs", SOON, || beats.exists());
    let last_beat = || -> u64 {
        let beats = std::fs::read_to_string(&beats).unwrap_or_default();
        beats.lines().last().and_then(|beat| beat.parse().ok()).unwrap_or_default()
    };
    let killed = last_beat();
    node.kill();
    assert_eq!(holder.code(), Some(1), "the lock was lost");
    let lasted = last_beat() - killed;
    // With five seconds for SIGTERM it would run for seven.
    assert!(lasted < 4_500, "the command ran for {lasted} ms after the last renewal");
}
