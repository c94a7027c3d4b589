//! One command for one message: its body on stdin, everyone it starts in one process group that ends as a whole.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use punctual_core::name::Namespace;
use punctual_wire::rest::Taken;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// Between being asked to end and being killed.
const GRACE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    group: Option<Pid>,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    Done,
    Failed(String),
}

impl Running {
    pub(super) fn start(command: &[String], namespace: &Namespace, message: &Taken) -> io::Result<Running> {
        let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut child = Command::new(program)
            .args(arguments)
            .env("PUNCTUAL_MESSAGE_ID", &message.id)
            .env("PUNCTUAL_QUEUE", &message.queue)
            .env("PUNCTUAL_NAMESPACE", namespace.as_str())
            .env("PUNCTUAL_DELIVERIES", message.deliveries().to_string())
            .stdin(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let group = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        if let Some(mut stdin) = child.stdin.take() {
            let body = message.bytes();
            // A command that does not read its body is free to do so; the task ends when the pipe does.
            tokio::spawn(async move { drop(stdin.write_all(&body).await) });
        }
        Ok(Running { child, group })
    }

    /// Waits for its end. May be dropped while it waits, and called again.
    pub(super) async fn ended(&mut self) -> End {
        let end = match self.child.wait().await {
            Ok(status) if status.success() => End::Done,
            Ok(status) => End::Failed(status.to_string()),
            Err(error) => End::Failed(error.to_string()),
        };
        // Whoever it left behind does not work on a message that is settled.
        self.signal(Signal::KILL);
        end
    }

    /// Asks it to end, and kills it if it does not.
    pub(super) async fn stop(&mut self) {
        self.signal(Signal::TERM);
        if timeout(GRACE, self.child.wait()).await.is_err() {
            self.signal(Signal::KILL);
            // It was killed: only one that is stuck in the kernel takes longer.
            drop(timeout(GRACE, self.child.wait()).await);
        }
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // Nobody is left in it: that is what was wanted.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use punctual_wire::rest::MessageState;
    use punctual_wire::text::Span;

    use super::*;

    fn message(body: &str) -> Taken {
        Taken {
            id: "D-0a1b2c3d-AAAAAAAAAAAAAAAAAAAAAAAA-05a1".to_owned(),
            queue: "mail".to_owned(),
            state: MessageState::Active,
            body: Some(body.to_owned()),
            body_base64: None,
            ttl: Span(Duration::from_secs(60)),
            at_most_once: false,
            nacks: 1,
            redeliveries: 0,
            node: "n1".to_owned(),
        }
    }

    fn start(script: &str) -> Running {
        let command = ["sh", "-c", script].map(str::to_owned);
        Running::start(&command, &Namespace::default(), &message("hello")).unwrap()
    }

    #[tokio::test]
    async fn a_command_finds_its_message_on_stdin_and_in_its_environment() {
        let script = "test \"$(cat)\" = hello && test $PUNCTUAL_QUEUE$PUNCTUAL_DELIVERIES = mail2 \
                      && test ${#PUNCTUAL_MESSAGE_ID} = 40 && test $PUNCTUAL_NAMESPACE = default";
        assert_eq!(start(script).ended().await, End::Done);
    }

    #[tokio::test]
    async fn a_command_that_reads_nothing_is_no_failure_and_one_that_fails_says_how() {
        assert_eq!(start("exit 0").ended().await, End::Done);
        assert_eq!(start("exit 7").ended().await, End::Failed("exit status: 7".to_owned()));
        let missing = ["/no/such/program".to_owned()];
        assert!(Running::start(&missing, &Namespace::default(), &message("")).is_err());
    }

    #[tokio::test]
    async fn a_command_is_stopped_with_everyone_it_started() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("pid");
        let mut running = start(&format!("sleep 600 & echo $! > {}; wait", file.display()));
        let pid = loop {
            match std::fs::read_to_string(&file).unwrap_or_default().trim().parse::<i32>() {
                Ok(pid) => break pid,
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        };
        running.stop().await;
        let is_there = || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            !stat.is_empty() && !stat.contains(") Z ")
        };
        for _ in 0..400 {
            if !is_there() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("its child {pid} is still there");
    }
}
