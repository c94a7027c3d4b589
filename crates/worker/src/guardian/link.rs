//! The starter's side of a guardian: sends requests and learns how the command ended.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use rustix::process::Pid;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::process::{Child, ChildStderr, ChildStdout, Command};

use super::{ARGUMENT, END, KILL, SAID_BYTES, Said, Wanted};

/// A guardian and its command. When this is dropped, the guardian notices and kills the command.
#[derive(Debug)]
pub struct Link {
    guardian: Child,
    socket: UnixStream,
    heard: [u8; SAID_BYTES],
    heard_bytes: usize,
    ended: Option<ExitStatus>,
}

/// Where the output of the command goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Printing {
    /// To a pipe that we read.
    Piped,
    /// To our own standard output and error.
    Inherited,
}

/// What could not be started.
#[derive(Debug, thiserror::Error)]
pub enum NotStarted {
    #[error("{0}")]
    Command(#[source] io::Error),
    #[error("its guardian: {0}")]
    Guardian(#[source] io::Error),
}

impl Link {
    /// Starts a guardian and its command; the returned pid is also the id of the command's own process group.
    pub async fn start(
        guardian: &Path,
        wanted: &Wanted<'_>,
        printing: Printing,
    ) -> Result<(Link, Option<Pid>), NotStarted> {
        let command = super::Command::of(wanted).to_bytes().map_err(NotStarted::Guardian)?;
        let mut link = Link::spawn(guardian, printing).map_err(NotStarted::Guardian)?;
        link.socket.write_all(&command).await.map_err(NotStarted::Guardian)?;
        match link.hear().await.map_err(NotStarted::Guardian)? {
            Said::Started { pid } => Ok((link, Pid::from_raw(pid))),
            Said::Refused { errno } => Err(NotStarted::Command(io::Error::from_raw_os_error(errno))),
            said @ Said::Ended { .. } => {
                Err(NotStarted::Guardian(io::Error::other(format!("it began with {said:?}"))))
            }
        }
    }

    fn spawn(guardian: &Path, printing: Printing) -> io::Result<Link> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let mut command = Command::new(guardian);
        command.arg0("punctual").arg(ARGUMENT).env_clear();
        // The binary's allocator would clear huge pages at once, 4 MiB for a process that needs a few KiB.
        command.env("MIMALLOC_ALLOW_THP", "0");
        command.stdin(Stdio::from(OwnedFd::from(theirs)));
        if printing == Printing::Piped {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        Ok(Link {
            guardian: command.spawn()?,
            socket: UnixStream::from_std(ours)?,
            heard: [0; SAID_BYTES],
            heard_bytes: 0,
            ended: None,
        })
    }

    /// The guardian's process, which holds the pipes of the command's output.
    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.guardian
    }

    /// The pipes of the command's output. `None` means that it is not piped, or that they were taken before.
    pub fn take_pipes(&mut self) -> Option<(ChildStdout, ChildStderr)> {
        self.guardian.stdout.take().zip(self.guardian.stderr.take())
    }

    /// Asks the command and its group to end.
    pub fn ask_to_end(&mut self) {
        self.say(END);
    }

    /// Kills all descendants of the guardian.
    pub fn kill(&mut self) {
        self.say(KILL);
    }

    /// How the command ended. An error means the guardian ended first. Cancel safe.
    pub async fn ended(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.ended {
            return Ok(status);
        }
        match self.hear().await? {
            Said::Ended { status } => Ok(*self.ended.insert(ExitStatus::from_raw(status))),
            said => Err(io::Error::other(format!("it ended with {said:?}"))),
        }
    }

    /// Waits for the end of the guardian, which ends after all its descendants.
    pub async fn gone(&mut self) {
        // Its exit status does not matter: its messages came over the socket.
        let _ = self.guardian.wait().await;
    }

    /// The next message of the guardian. Cancel safe: a partly read message is kept.
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
        // One byte always fits, and a guardian that is gone needs none.
        let _ = self.socket.try_write(&[word]);
    }
}
