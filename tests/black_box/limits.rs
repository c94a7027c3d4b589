//! A machine that gives little: memory and threads (T-30; file descriptors are in `http_frame`).

use std::fs;
use std::process::Command;
use std::time::Duration;

use punctual_tests::api::RUNS;
use punctual_tests::history::has_ended;
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Node, Scene, binary};
use rustix::process::geteuid;
use serde_json::{Value, json};

const MEMORY: u64 = 256 << 20;
/// Nobody in particular: limits on threads do not hold for root.
const NOBODY: &str = "65534";

/// Submits a shell run and waits for its end.
#[track_caller]
fn ended(node: &Node, shell: &str) -> Value {
    let run = node.api().submit(&json!({ "task": { "shell": shell } }));
    let id = run["id"].as_str().expect("a run has an id").to_owned();
    wait::until("the run ends", SOON, || Some(node.api().run(&id)).filter(has_ended))
}

/// How many threads its user may have from now on; said by that user, who may say so without further rights.
#[track_caller]
fn limit_threads(node: &Node, count: &str) {
    let pid = node.pid().to_string();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]);
    let limited = command.args(["prlimit", "--pid", &pid, &format!("--nproc={count}:")]).output();
    let limited = limited.expect("it can be started");
    assert!(limited.status.success(), "{}", String::from_utf8_lossy(&limited.stderr));
}

/// Memory that a process has, in bytes.
fn resident(node: &Node) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", node.pid())).expect("it lives");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it has memory");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

#[test]
fn a_node_with_a_quarter_of_a_gibibyte_takes_a_flood_and_goes_on() {
    let scene = Scene::new();
    let shell = format!(
        "ulimit -d {}; exec {} dev --http 127.0.0.1:0 --data {}",
        MEMORY >> 10,
        binary::path().display(),
        scene.data().display()
    );
    // The allocator takes what it is given, not a gibibyte beforehand.
    let mut node =
        scene.node().with_program("sh", ["-c", &shell]).with_env("MIMALLOC_ARENA_EAGER_COMMIT", "0");
    node.start();
    let params = json!({ "filler": "x".repeat(200 << 10) });
    let mut taken = 0;
    for number in 0..400 {
        let body = json!({ "task": { "noop": {} }, "params": params, "delay": "1h" });
        let answer = node.api().post(RUNS, &body).expect("the node answers, whatever it says");
        // More than it can remember is refused in words, and never with a crash.
        match answer.status {
            201 => taken += 1,
            429 | 503 | 507 => assert!(answer.json()["code"].is_string(), "{answer:?}"),
            _ => panic!("after {number}: {answer:?}"),
        }
    }
    assert!(taken > 0 && node.is_running());
    assert_eq!(ended(&node, "seq 1 200000")["state"], "succeeded");
    let resident = resident(&node);
    assert!(resident < MEMORY, "{} MiB", resident >> 20);
    println!("{taken} large runs taken, {} MiB", resident >> 20);
    // No loop of crashes: it starts again with all of it, under the same limit.
    node.kill();
    node.start();
    assert_eq!(ended(&node, "echo hi")["output"], "hi");
}

#[test]
fn a_node_out_of_threads_fails_runs_and_keeps_working() {
    let scene = Scene::new();
    assert!(geteuid().is_root(), "to be another user takes root: run the tests as root");
    // A copy that nobody in particular may start, in a folder of its own.
    let (folder, program) = (scene.path("own"), scene.path("own/punctual"));
    fs::create_dir(&folder).expect("a folder of the scene can be made");
    fs::copy(binary::path(), &program).expect("the binary can be copied");
    for path in [scene.path(""), folder.clone()] {
        let owned = Command::new("chown").arg(format!("{NOBODY}:{NOBODY}")).arg(path).status();
        assert!(owned.is_ok_and(|status| status.success()));
    }
    let data = folder.join("data").display().to_string();
    let words = ["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--no-new-privs"];
    let said = ["dev", "--http", "127.0.0.1:0", "--data", &data];
    let program = program.display().to_string();
    let words: Vec<&str> = words.iter().copied().chain([program.as_str()]).chain(said).collect();
    let mut node = scene.node().with_data(&data).with_program("setpriv", words);
    node.start();
    assert_eq!(ended(&node, "echo hi")["output"], "hi");

    limit_threads(&node, "1");
    let refused = ended(&node, "echo hi");
    assert_eq!(refused["state"], "failed", "{refused}");
    let error = refused["error"].as_str().unwrap_or_default();
    assert!(error.contains("temporarily unavailable"), "{refused}");
    // All else is as ever, for as long as it takes.
    wait::pass(Duration::from_secs(1));
    let noop = node.api().submit(&json!({ "task": { "noop": {} } }));
    let id = noop["id"].as_str().expect("a run has an id");
    wait::until_so("it works", SOON, || node.api().run(id)["state"] == "succeeded");
    assert!(node.is_running() && node.is_ready());

    limit_threads(&node, "4096");
    assert_eq!(ended(&node, "echo again")["output"], "again");
    assert!(node.stop().success());
}
