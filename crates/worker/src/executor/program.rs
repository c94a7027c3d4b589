//! A started program and its descendants, with or without a guardian.
//!
//! Under a guardian no descendant outlives the program: when the guardian has ended, all are gone. Without a guardian
//! the process group is ended as a whole; processes that left the group are ended only when the program is stopped.

use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, Signal};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::group::{Group, Groups, KILL_MAX};
use crate::guardian::{self, NotStarted, Printing, Wanted};

#[derive(Debug)]
pub(super) enum Program {
    Bare(Bare),
    Guarded(Guarded),
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Status(ExitStatus),
    /// It is stuck in the kernel and did not end even when killed.
    Stuck,
    /// Its guardian was killed, and then the program was killed too.
    Unguarded,
}

#[derive(Debug)]
pub(super) struct Pipes {
    /// `None` means the guardian passes the parameters.
    pub(super) stdin: Option<ChildStdin>,
    pub(super) stdout: Option<ChildStdout>,
    pub(super) stderr: Option<ChildStderr>,
}

impl Program {
    pub(super) fn pipes(&mut self) -> Pipes {
        let child = match self {
            Program::Bare(bare) => &mut bare.child,
            Program::Guarded(guarded) => guarded.link.child(),
        };
        Pipes { stdin: child.stdin.take(), stdout: child.stdout.take(), stderr: child.stderr.take() }
    }

    /// Waits for the program's end and kills what it left behind. Cancel safe: may be dropped and called again. False
    /// means a process that was left behind cannot be killed.
    pub(super) async fn ended(&mut self) -> (End, bool) {
        match self {
            Program::Bare(bare) => {
                let end = bare.end().await;
                (end, bare.group.kill().await)
            }
            Program::Guarded(guarded) => {
                let end = guarded.end().await;
                (end, timeout(KILL_MAX, guarded.everyone_gone()).await.is_ok())
            }
        }
    }

    /// Sends SIGTERM to the program and its group.
    pub(super) fn ask_to_end(&mut self) {
        match self {
            Program::Bare(bare) => {
                bare.group.signal(Signal::TERM);
            }
            Program::Guarded(guarded) => guarded.link.ask_to_end(),
        }
    }

    /// Waits, after [`Program::ask_to_end`], until the program and all processes of its group have ended.
    pub(super) async fn gone(&mut self) {
        match self {
            Program::Bare(bare) => {
                bare.end().await;
                bare.group.wait_until_empty().await;
            }
            Program::Guarded(guarded) => guarded.everyone_gone().await,
        }
    }

    /// Kills what is left; daemons too, unless the caller looks for them later.
    pub(super) async fn kill(&mut self, daemons: bool) -> End {
        match self {
            Program::Bare(bare) => {
                bare.group.kill().await;
                if daemons {
                    bare.group.kill_daemons().await;
                }
                timeout(KILL_MAX, bare.end()).await.unwrap_or(End::Stuck)
            }
            Program::Guarded(guarded) => {
                guarded.link.kill();
                let killed = timeout(KILL_MAX, guarded.everyone_gone()).await;
                guarded.ended.filter(|_| killed.is_ok()).unwrap_or(End::Stuck)
            }
        }
    }

    /// The program is over: removes its record.
    pub(super) fn leave(self) {
        match self {
            Program::Bare(bare) => bare.group.leave(),
            Program::Guarded(guarded) => guarded.group.into_iter().for_each(Group::leave),
        }
    }
}

/// A program in its own process group.
#[derive(Debug)]
pub(super) struct Bare {
    child: Child,
    group: Group,
}

impl Bare {
    pub(super) fn start(wanted: &Wanted<'_>, groups: &Groups, mark: String) -> io::Result<Bare> {
        // With a path, spawning does not copy our memory map first.
        let mut command = Command::new(wanted.program);
        if let Some((name, arguments)) = wanted.arguments.split_first() {
            command.arg0(name).args(arguments);
        }
        command.env_clear().envs(wanted.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0).kill_on_drop(true);
        if let Some(dir) = wanted.dir {
            command.current_dir(dir);
        }
        let child = command.spawn()?;
        let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        let leader = pid.expect("a child that nobody has waited for has a pid");
        Ok(Bare { child, group: groups.enter(leader, mark) })
    }

    async fn end(&mut self) -> End {
        self.child.wait().await.map_or(End::Stuck, End::Status)
    }
}

/// A program under a guardian. When this is dropped, the guardian notices and kills the program.
#[derive(Debug)]
pub(super) struct Guarded {
    link: guardian::Link,
    ended: Option<End>,
    /// The program's group, needed if the guardian is killed. `None` means the program has ended and its pid may be
    /// reused.
    group: Option<Group>,
}

impl Guarded {
    pub(super) async fn start(
        guardian: &Path,
        wanted: &Wanted<'_>,
        groups: &Groups,
        mark: String,
    ) -> Result<Guarded, NotStarted> {
        let (link, leader) = guardian::Link::start(guardian, wanted, Printing::Piped).await?;
        Ok(Guarded { link, ended: None, group: leader.map(|leader| groups.enter(leader, mark)) })
    }

    async fn end(&mut self) -> End {
        if let Some(end) = self.ended {
            return end;
        }
        let end = match self.link.ended().await {
            Ok(status) => {
                self.group.take().into_iter().for_each(Group::leave);
                End::Status(status)
            }
            Err(_) => {
                if let Some(group) = &self.group {
                    group.kill().await;
                    group.kill_daemons().await;
                }
                End::Unguarded
            }
        };
        self.ended = Some(end);
        end
    }

    async fn everyone_gone(&mut self) {
        self.end().await;
        self.link.gone().await;
    }
}
