//! A started program and everyone it started, however they are watched over.
//!
//! Below a guardian, nobody outlives the program, whatever they made of themselves: when the guardian is gone, all are.
//! Without one, the process group is ended as a whole, and what left the group only when the program is stopped.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, Signal};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::group::{Group, Groups, KILL_MAX};
use crate::guardian::{self, SAID_BYTES, Said, Wanted};

#[derive(Debug)]
pub(super) enum Program {
    Bare(Bare),
    Guarded(Guarded),
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Status(ExitStatus),
    /// It is stuck in the kernel, and did not even go when it was killed.
    Stuck,
    /// Its guardian was killed, by whom ever, and it was killed then.
    Unguarded,
}

/// What is connected to it.
#[derive(Debug)]
pub(super) struct Pipes {
    /// None: its parameters are on their way already.
    pub(super) stdin: Option<ChildStdin>,
    pub(super) stdout: Option<ChildStdout>,
    pub(super) stderr: Option<ChildStderr>,
}

#[derive(Debug)]
pub(super) enum NotStarted {
    Command(io::Error),
    Guardian(io::Error),
}

impl Program {
    pub(super) fn pipes(&mut self) -> Pipes {
        let child = match self {
            Program::Bare(bare) => &mut bare.child,
            Program::Guarded(guarded) => &mut guarded.guardian,
        };
        Pipes { stdin: child.stdin.take(), stdout: child.stdout.take(), stderr: child.stderr.take() }
    }

    /// Waits for the program's end, and sees to it that what it left behind is killed. May be dropped while it waits,
    /// and called again. False: something that was left behind cannot be killed.
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

    /// Asks the program and its group to end.
    pub(super) fn ask_to_end(&mut self) {
        match self {
            Program::Bare(bare) => {
                bare.group.signal(Signal::TERM);
            }
            Program::Guarded(guarded) => guarded.say(guardian::END),
        }
    }

    /// Waits, after it was asked to end, until the program and everyone in its group has.
    pub(super) async fn gone(&mut self) {
        match self {
            Program::Bare(bare) => {
                bare.end().await;
                bare.group.wait_until_empty().await;
            }
            Program::Guarded(guarded) => guarded.everyone_gone().await,
        }
    }

    /// Kills what is left, daemons too unless someone else looks for them.
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
                guarded.say(guardian::KILL);
                let killed = timeout(KILL_MAX, guarded.everyone_gone()).await;
                guarded.ended.filter(|_| killed.is_ok()).unwrap_or(End::Stuck)
            }
        }
    }

    /// It is over, and needs no record any longer.
    pub(super) fn leave(self) {
        match self {
            Program::Bare(bare) => bare.group.leave(),
            Program::Guarded(guarded) => guarded.group.into_iter().for_each(Group::leave),
        }
    }
}

/// A program in a process group of its own.
#[derive(Debug)]
pub(super) struct Bare {
    child: Child,
    group: Group,
}

impl Bare {
    pub(super) fn start(wanted: &Wanted<'_>, groups: &Groups, mark: String) -> io::Result<Bare> {
        // Given as a path, the program is started without copying our memory map first.
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

/// A program below a guardian. When this is dropped, the guardian hears it, and kills.
#[derive(Debug)]
pub(super) struct Guarded {
    guardian: Child,
    socket: UnixStream,
    heard: [u8; SAID_BYTES],
    heard_bytes: usize,
    ended: Option<End>,
    /// The program's, for the day when the guardian is killed. None: the program has ended, and its pid may be
    /// another's.
    group: Option<Group>,
}

impl Guarded {
    pub(super) async fn start(
        guardian: &Path,
        wanted: &Wanted<'_>,
        groups: &Groups,
        mark: String,
    ) -> Result<Guarded, NotStarted> {
        let command = guardian::Command::of(wanted).to_bytes().map_err(NotStarted::Guardian)?;
        let mut guarded = Guarded::spawn(guardian).map_err(NotStarted::Guardian)?;
        guarded.socket.write_all(&command).await.map_err(NotStarted::Guardian)?;
        match guarded.hear().await.map_err(NotStarted::Guardian)? {
            Said::Started { pid } => {
                guarded.group = Pid::from_raw(pid).map(|leader| groups.enter(leader, mark));
                Ok(guarded)
            }
            Said::Refused { errno } => Err(NotStarted::Command(io::Error::from_raw_os_error(errno))),
            said @ Said::Ended { .. } => {
                Err(NotStarted::Guardian(io::Error::other(format!("it began with {said:?}"))))
            }
        }
    }

    fn spawn(guardian: &Path) -> io::Result<Guarded> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let mut command = Command::new(guardian);
        command.arg0("punctual").arg(guardian::ARGUMENT).env_clear();
        // The binary's allocator would clear huge pages at once, 4 MiB for a process that needs a few KiB.
        command.env("MIMALLOC_ALLOW_THP", "0");
        command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::piped()).stderr(Stdio::piped());
        let guardian = command.spawn()?;
        Ok(Guarded {
            guardian,
            socket: UnixStream::from_std(ours)?,
            heard: [0; SAID_BYTES],
            heard_bytes: 0,
            ended: None,
            group: None,
        })
    }

    /// The next thing the guardian says. May be dropped while it waits: what was heard of it is kept.
    async fn hear(&mut self) -> io::Result<Said> {
        while self.heard_bytes < SAID_BYTES {
            match self.socket.read(&mut self.heard[self.heard_bytes..]).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                bytes => self.heard_bytes += bytes,
            }
        }
        self.heard_bytes = 0;
        Said::from_bytes(self.heard)
    }

    fn say(&mut self, word: u8) {
        // A word always fits, and a guardian that is gone needs none.
        let _ = self.socket.try_write(&[word]);
    }

    async fn end(&mut self) -> End {
        if let Some(end) = self.ended {
            return end;
        }
        let end = match self.hear().await {
            Ok(Said::Ended { status }) => {
                self.group.take().into_iter().for_each(Group::leave);
                End::Status(ExitStatus::from_raw(status))
            }
            Ok(_) | Err(_) => {
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
        // However it ended: what it had to say was said on the socket.
        let _ = self.guardian.wait().await;
    }
}
