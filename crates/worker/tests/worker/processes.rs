//! Programs: how they are started, what they are given, what becomes of them.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use punctual_core::attempt::{Assignment, End, Outcome};
use punctual_core::log::Chunk;
use punctual_core::run::Part;
use punctual_core::task::{Params, Process, Task};
use punctual_worker::{LogSink, Order};

use crate::rig::{Rig, assignment, is_alive, process, shell, until};

async fn check(task: Task) -> Outcome {
    let mut rig = Rig::start().await;
    let outcome = rig.outcome_of(task).await;
    rig.shut_down().await;
    outcome
}

async fn check_fails_to_start(process: Process, error: &str) {
    let outcome = check(Task::Process(process)).await;
    assert_eq!((outcome.end, outcome.exit_code, &*outcome.error), (End::Failed, None, error));
}

#[tokio::test]
async fn a_failing_shell_leaves_its_output_its_code_and_its_last_complaint() {
    let outcome = check(shell("echo hi; echo first >&2; echo last >&2; echo >&2; exit 3")).await;
    assert_eq!((outcome.end, outcome.exit_code), (End::Failed, Some(3)));
    assert_eq!((&*outcome.output, &*outcome.error), ("hi", "exit code 3: last"));
}

#[tokio::test]
async fn a_succeeding_shell_leaves_its_output_and_no_error() {
    let outcome = check(shell("echo one; echo two; echo noise >&2")).await;
    assert_eq!((outcome.end, outcome.exit_code), (End::Succeeded, Some(0)));
    assert_eq!((&*outcome.output, &*outcome.error), ("one\ntwo", ""));
}

#[tokio::test]
async fn a_program_killed_by_a_signal_says_which() {
    let outcome = check(shell("kill -9 $$")).await;
    assert_eq!((outcome.end, outcome.exit_code), (End::Failed, None));
    assert_eq!(&*outcome.error, "killed by signal 9 (SIGKILL)");
}

#[tokio::test]
async fn the_pipe_for_reports_is_for_its_user_alone_and_goes_with_the_attempt() {
    let outcome = check(shell(
        "stat -c '%a %F' $PUNCTUAL_REPORT; stat -c %a ${PUNCTUAL_REPORT%/*}; echo $PUNCTUAL_REPORT",
    ))
    .await;
    let lines: Vec<&str> = outcome.output.lines().collect();
    assert_eq!(lines[..2], ["600 fifo", "700"]);
    assert!(lines[2].ends_with("/report"), "{lines:?}");
}

#[tokio::test]
async fn a_process_gets_its_arguments_as_they_are() {
    let outcome = check(Task::Process(process(&["printf", "%s|", "a b", "$HOME", ";", "-x", "*"]))).await;
    assert_eq!(&*outcome.output, "a b|$HOME|;|-x|*|");
}

#[tokio::test]
async fn a_process_runs_in_its_folder_with_its_environment() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("say");
    std::fs::write(&script, "#!/bin/sh\npwd\necho $GREETING\necho $0\n").unwrap();
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    let outcome = check(Task::Process(Process {
        env: [("GREETING".to_owned(), "hello".to_owned())].into(),
        dir: Some(folder.path().to_str().unwrap().to_owned()),
        ..process(&["./say"])
    }))
    .await;
    let output: Vec<&str> = outcome.output.lines().collect();
    assert_eq!(&output[..2], [folder.path().to_str().unwrap(), "hello"], "{}", outcome.error);
}

#[tokio::test]
async fn a_program_is_looked_for_along_the_path_that_the_job_sets() {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/bin/echo", folder.path().join("a-program-of-its-own")).unwrap();
    let outcome = check(Task::Process(Process {
        env: [("PATH".to_owned(), folder.path().to_str().unwrap().to_owned())].into(),
        ..process(&["a-program-of-its-own", "hi"])
    }))
    .await;
    assert_eq!(&*outcome.output, "hi", "{}", outcome.error);
}

#[tokio::test]
async fn a_program_that_cannot_be_started_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, mode: u32| {
        let path = folder.path().join(name);
        std::fs::write(&path, "#!/no/such/interpreter\n").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (plain, lost) = (file("plain", 0o644), file("lost", 0o755));
    check_fails_to_start(process(&["no-such-program"]), "no such program `no-such-program`").await;
    check_fails_to_start(process(&["/no/such"]), "no such program `/no/such`").await;
    check_fails_to_start(process(&[&plain]), &format!("`{plain}` may not be executed")).await;
    let error = format!("cannot start `{lost}`: the interpreter that it names is missing");
    check_fails_to_start(process(&[&lost]), &error).await;
    let dir = Some("/no/such".to_owned());
    check_fails_to_start(Process { dir, ..process(&["true"]) }, "no such folder `/no/such`").await;
    let long = "x".repeat(200 * 1024);
    let error = "cannot start `true`: its arguments and its environment are too long together";
    check_fails_to_start(process(&["true", &long]), error).await;
}

#[tokio::test]
async fn parameters_arrive_on_standard_input_and_in_the_environment() {
    let mut rig = Rig::start().await;
    let params = Params(Arc::from(r#"{"region":"east; rm -rf /"}"#));
    let task = shell(r#"cat; echo; echo "$PUNCTUAL_PARAMS""#);
    rig.order(vec![Order::Assign(Assignment { params: params.clone(), ..assignment(1, task) })]).await;
    let outcome = rig.finished(1).await;
    assert_eq!(&*outcome.output, format!("{0}\n{0}", params.0));
    rig.shut_down().await;
}

#[tokio::test]
async fn a_part_of_a_split_run_is_told_its_number() {
    let mut rig = Rig::start().await;
    let say = || shell("echo $PUNCTUAL_SHARD_INDEX of $PUNCTUAL_SHARD_TOTAL");
    let part = Part { index: 2, total: 4 };
    rig.order(vec![
        Order::Assign(Assignment { part, ..assignment(1, say()) }),
        Order::Assign(assignment(2, say())),
    ])
    .await;
    assert_eq!(&*rig.finished(1).await.output, "2 of 4");
    assert_eq!(&*rig.finished(2).await.output, "0 of 1");
    rig.shut_down().await;
}

#[tokio::test]
async fn long_parameters_arrive_on_standard_input_only_and_need_not_be_read() {
    let mut rig = Rig::start().await;
    let params = Params(Arc::from("x".repeat(256 * 1024)));
    let cases = [("wc -c; echo ${PUNCTUAL_PARAMS-none}", "262144\nnone"), ("echo unread; exit", "unread")];
    for (run, (text, output)) in (1..).zip(cases) {
        let assignment = Assignment { params: params.clone(), ..assignment(run, shell(text)) };
        rig.order(vec![Order::Assign(assignment)]).await;
        assert_eq!(&*rig.finished(run).await.output, output);
    }
    rig.shut_down().await;
}

#[tokio::test]
async fn a_program_knows_its_run_and_nothing_of_the_environment_of_the_server() {
    let mut rig = Rig::start().await;
    let given = Assignment { attempt_key: Some("pck_1_2_3".into()), ..assignment(1, shell("env")) };
    rig.order(vec![Order::Assign(given)]).await;
    let outcome = rig.finished(1).await;
    rig.shut_down().await;
    let ours =
        ["PUNCTUAL_RUN_ID=1", "PUNCTUAL_ATTEMPT=2", "PUNCTUAL_ATTEMPT_TOKEN=1", "PUNCTUAL_JOB=nightly"];
    let also = [
        "PUNCTUAL_ATTEMPT_KEY=pck_1_2_3",
        "PUNCTUAL_NAMESPACE=default",
        "PUNCTUAL_DUE=2027-01-15T08:00:00.000Z",
        "PUNCTUAL_PARAMS={}",
    ];
    for entry in ours.iter().chain(&also) {
        assert!(outcome.output.lines().any(|line| line == *entry), "{entry} is missing: {}", outcome.output);
    }
    // Cargo sets a good many for this test, as an operator sets secrets for a server.
    let allowed = ["PATH", "HOME", "LANG", "TZ", "TMPDIR", "USER", "PWD", "OLDPWD", "SHLVL", "_"];
    for name in outcome.output.lines().filter_map(|line| Some(line.split_once('=')?.0)) {
        let is_ours = name.starts_with("PUNCTUAL_") || name.starts_with("LC_");
        assert!(is_ours || allowed.contains(&name), "{name} leaked");
    }
    assert!(outcome.output.contains("PATH="));
}

/// A sink with a bug.
#[derive(Debug, Default)]
struct Broken(Mutex<String>);

#[async_trait]
impl LogSink for Broken {
    async fn append(&self, chunk: Chunk) {
        *self.0.lock() = String::from_utf8(chunk.bytes).unwrap();
        panic!("no ink left");
    }
}

#[tokio::test]
async fn a_panic_in_an_executor_fails_the_attempt_and_leaves_no_process() {
    let logs = Arc::new(Broken::default());
    let mut rig = Rig::start_with(|config| config.logs = logs.clone()).await;
    let outcome = rig.outcome_of(shell("echo $$; sleep 1000")).await;
    assert_eq!(outcome.end, End::Failed);
    assert_eq!(&*outcome.error, "the executor panicked, which is a bug in Punctual: no ink left");
    let pid = logs.0.lock().trim().parse().unwrap();
    until("the program is gone", || !is_alive(pid)).await;
    rig.shut_down().await;
}
