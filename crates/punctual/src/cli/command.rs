//! Runs a command for a message, under a lock or for a ping, with all its processes under a guardian that ends them together.
//!
//! The guardian notices when this process ends, even if it is killed, and leaves no process behind.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

pub(super) use punctual_worker::guardian::Printing;
use punctual_worker::guardian::{Link, NotStarted, Wanted};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{ChildStderr, ChildStdout};
use tokio::time::timeout;

use crate::wiring::OWN_BINARY;

/// The time between asking a command to end and killing it, and then for it to be gone. Only a process stuck
/// in the kernel takes longer.
pub(super) const GRACE: Duration = Duration::from_secs(5);

/// The exit code that shells give a command that was killed.
const KILLED: u8 = 128 + 9;

#[derive(Debug)]
pub(super) struct Running {
    link: Link,
    /// The command's process group, to kill it if the guardian is killed. `None` means that the command has ended.
    group: Option<Pid>,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    Done,
    Failed {
        /// The exit code, or that of a shell for a signal.
        code: u8,
        why: String,
    },
}

impl Running {
    /// `environment` is the whole environment of the command, and `input` what it reads from stdin.
    pub(super) async fn start(
        command: &[String],
        environment: &[(OsString, OsString)],
        input: &[u8],
        printing: Printing,
    ) -> Result<Running, NotStarted> {
        let wanted = Wanted {
            program: OsStr::new(command.first().map_or("", String::as_str)),
            arguments: command,
            environment,
            dir: None,
            input,
        };
        let (link, group) = Link::start(Path::new(OWN_BINARY), &wanted, printing).await?;
        Ok(Running { link, group })
    }

    /// The pipes of its output, if it prints into pipes.
    pub(super) fn take_pipes(&mut self) -> Option<(ChildStdout, ChildStderr)> {
        self.link.take_pipes()
    }

    /// Waits for the end of the command. Can be dropped and called again.
    pub(super) async fn ended(&mut self) -> End {
        let end = self.end().await;
        // Wait for processes that the command left behind: none may work on a settled message.
        drop(timeout(GRACE, self.link.gone()).await);
        end
    }

    /// Asks the command to end, and kills it if it has not ended after the grace period.
    pub(super) async fn stop(&mut self, grace: Duration) {
        self.link.ask_to_end();
        if timeout(grace, self.everyone_gone()).await.is_err() {
            self.link.kill();
            drop(timeout(GRACE, self.everyone_gone()).await);
        }
    }

    async fn end(&mut self) -> End {
        match self.link.ended().await {
            Ok(status) => {
                self.group = None;
                if status.success() { End::Done } else { failed(status) }
            }
            Err(_) => {
                if let Some(group) = self.group.take() {
                    // An error means that the group is empty, as wanted.
                    let _ = kill_process_group(group, Signal::KILL);
                }
                End::Failed { code: KILLED, why: "its guardian was killed, and so was it".to_owned() }
            }
        }
    }

    async fn everyone_gone(&mut self) {
        self.end().await;
        self.link.gone().await;
    }
}

fn failed(status: ExitStatus) -> End {
    let of_signal = status.signal().map(|signal| 128 + signal);
    let code = status.code().or(of_signal).and_then(|code| u8::try_from(code).ok());
    End::Failed { code: code.unwrap_or(KILLED), why: status.to_string() }
}
