//! What only a guardian can promise: nothing outlives its program, nor its worker.

use std::fs;

use punctual_core::attempt::End;
use punctual_core::log::Stream;
use rustix::process::{Pid, Signal, kill_process};

use crate::endings::kill_a_worker;
use crate::rig::{Rig, is_alive, shell, until};

#[tokio::test]
async fn a_worker_that_is_killed_leaves_no_process_behind() {
    let (_scratch, pids) = kill_a_worker();
    until("everything it had started is gone", || !pids.iter().any(|pid| is_alive(*pid))).await;
}

#[tokio::test]
async fn a_daemon_is_gone_when_its_program_is_reported() {
    let mut rig = Rig::start().await;
    // Each is started by a shell that is gone at once, in a session of its own, and knows nothing of its origin.
    let daemon = r#"env -i setsid sh -c "sh -c 'echo \$\$ >> $pids; exec sleep 1000' &" &"#;
    let wait = "while [ $(wc -l < $pids) -lt 2 ]; do sleep 0.01; done; cat $pids; rm $pids";
    let outcome = rig.outcome_of(shell(&format!("pids=$(mktemp); {daemon} {daemon} {wait}"))).await;
    assert_eq!(outcome.end, End::Succeeded);
    let pids: Vec<u32> = outcome.output.lines().filter_map(|line| line.parse().ok()).collect();
    assert_eq!(pids.len(), 2, "{}", outcome.output);
    assert!(!pids.iter().any(|pid| is_alive(*pid)));
    assert_eq!(rig.logs.text(1, Stream::Note), "");
    rig.shut_down().await;
}

#[tokio::test]
async fn the_end_of_a_program_is_recorded_exactly_code_or_signal() {
    let mut rig = Rig::start().await;
    for (run, code) in (1..).zip([0, 1, 2, 126, 127, 128, 137, 255]) {
        rig.assign(run, shell(&format!("exit {code}"))).await;
        assert_eq!(rig.finished(run).await.exit_code, Some(code));
    }
    // Those that a Rust program ignores or catches by itself are among them.
    for (run, signal) in (100..).zip([1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 13, 14, 15, 24, 31, 34, 64]) {
        rig.assign(run, shell(&format!("ulimit -c 0; kill -{signal} $$; sleep 10"))).await;
        let outcome = rig.finished(run).await;
        let said = format!("killed by signal {signal}");
        assert!(outcome.exit_code.is_none() && outcome.error.starts_with(&said), "{signal}: {outcome:?}");
    }
    rig.shut_down().await;
}

/// The parent of a process.
fn parent(pid: u32) -> u32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(')').unwrap().1.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_guardian_that_is_killed_fails_its_attempt_and_leaves_no_process() {
    let mut rig = Rig::start().await;
    rig.assign(1, shell("echo $$; setsid sh -c 'echo $$; exec sleep 1000' & sleep 1000")).await;
    let pids = rig.logs.pids(1, 2).await;
    let guardian = Pid::from_raw(parent(pids[0]).cast_signed()).unwrap();
    kill_process(guardian, Signal::KILL).unwrap();
    let outcome = rig.finished(1).await;
    assert_eq!((outcome.end, &*outcome.error), (End::Failed, "its guardian was killed, and so was it"));
    assert!(!pids.iter().any(|pid| is_alive(*pid)));
    rig.shut_down().await;
}

#[tokio::test]
async fn orphans_that_end_are_collected_while_the_program_runs_on() {
    let rig = Rig::start().await;
    rig.assign(1, shell("for n in 1 2 3 4 5 6 7 8; do sh -c 'sh -c \"exit\" &'; done; echo $$; sleep 1000"))
        .await;
    let program = rig.logs.pids(1, 1).await[0];
    let guardian = parent(program);
    until("the guardian has only the program left", || {
        let children = fs::read_to_string(format!("/proc/{guardian}/task/{guardian}/children")).unwrap();
        children.split_whitespace().eq([program.to_string().as_str()])
    })
    .await;
    rig.shut_down().await;
}

#[tokio::test]
async fn a_program_has_no_terminal_and_a_session_of_its_own() {
    let mut rig = Rig::start().await;
    let outcome =
        rig.outcome_of(shell("(: < /dev/tty) 2>/dev/null || echo none; cut -d' ' -f6 /proc/$$/stat")).await;
    let ours = session_of(&fs::read_to_string("/proc/self/stat").unwrap());
    let (terminal, session) = outcome.output.trim_end().split_once('\n').unwrap();
    assert_eq!(terminal, "none");
    assert_ne!(session, ours);
    rig.shut_down().await;
}

/// The sixth field of `/proc/PID/stat`. Not `getsid`: the session of a process in a container is 0 when its leader is
/// outside.
fn session_of(stat: &str) -> String {
    let after_name = &stat[stat.rfind(')').unwrap() + 2..];
    after_name.split(' ').nth(3).unwrap().to_owned()
}
