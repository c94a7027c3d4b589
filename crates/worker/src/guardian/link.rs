//! The side of whoever starts a guardian: it tells it what to do, and hears how its command ended.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use rustix::process::Pid;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};

use super::{ARGUMENT, END, KILL, SAID_BYTES, Said, Wanted};

/// A guardian and the command below it. When this is dropped, the guardian hears it, and kills.
#[derive(Debug)]
pub struct Link {
    guardian: Child,
    socket: UnixStream,
    heard: [u8; SAID_BYTES],
    heard_bytes: usize,
    ended: Option<ExitStatus>,
}

/// Where the command prints to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Printing {
    /// To us.
    Piped,
    /// To where we print to.
    Inherited,
}

/// Who could not be started.
#[derive(Debug, thiserror::Error)]
pub enum NotStarted {
    #[error("{0}")]
    Command(#[source] io::Error),
    #[error("its guardian: {0}")]
    Guardian(#[source] io::Error),
}

impl Link {
    /// Starts a guardian and, below it, the command, whose pid is that of a process group of its own.
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

    /// The guardian itself, which holds what the command prints.
    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.guardian
    }

    /// Asks the command and its group to end.
    pub fn ask_to_end(&mut self) {
        self.say(END);
    }

    /// Kills everyone below the guardian.
    pub fn kill(&mut self) {
        self.say(KILL);
    }

    /// How the command ended; an error: the guardian went before it. May be dropped while it waits, and called again.
    pub async fn ended(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.ended {
            return Ok(status);
        }
        match self.hear().await? {
            Said::Ended { status } => Ok(*self.ended.insert(ExitStatus::from_raw(status))),
            said => Err(io::Error::other(format!("it ended with {said:?}"))),
        }
    }

    /// Waits for the end of the guardian, which ends after everyone below it.
    pub async fn gone(&mut self) {
        // However it ended: what it had to say was said on the socket.
        let _ = self.guardian.wait().await;
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
}
