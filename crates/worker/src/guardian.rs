//! The guardian: a tiny process between a worker and a command, so that nothing outlives the worker.
//!
//! A worker that is killed with SIGKILL cannot tidy up behind itself, and a grandchild that made itself a daemon has
//! left every process group we know. So the binary starts itself again as a guardian (`process`), which starts the
//! command, adopts whatever loses its parent below it (it is a child subreaper), and holds one end of a socket.
//! The worker's end closes when the worker dies, however it dies; then the guardian kills everyone below and goes.
//!
//! ```text
//!  worker ──Command, then END or KILL, or its death──▶ guardian ──▶ command ──▶ …
//!         ◀──────── Started or Refused, then Ended ───
//! ```
//!
//! The guardian ends after everyone below it: its own end says that nobody is left.

mod link;
mod process;

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use serde::{Deserialize, Serialize};

pub use link::{Link, NotStarted, Printing};
pub use process::main;

/// The first argument of a binary that is to be a guardian.
pub const ARGUMENT: &str = "__guardian";

/// Asks the command to end: SIGTERM to its process group.
const END: u8 = b'E';
/// Kills everyone below the guardian.
const KILL: u8 = b'K';

/// What a guardian starts. It comes over the socket, so that the guardian's own environment and arguments stay empty.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Command {
    program: Vec<u8>,
    arguments: Vec<Vec<u8>>,
    environment: Vec<(Vec<u8>, Vec<u8>)>,
    dir: Option<Vec<u8>>,
    /// What it reads on standard input.
    input: Vec<u8>,
}

/// A command as whoever wants it has it.
#[derive(Debug)]
pub struct Wanted<'a> {
    /// A path, or a name that is looked for along the `PATH` of its environment.
    pub program: &'a OsStr,
    /// The first is the name that the program is called by.
    pub arguments: &'a [String],
    /// All of it: nothing is inherited.
    pub environment: &'a [(OsString, OsString)],
    pub dir: Option<&'a str>,
    pub input: &'a [u8],
}

impl Command {
    fn of(wanted: &Wanted<'_>) -> Command {
        let bytes = |text: &OsString| text.as_bytes().to_vec();
        Command {
            program: wanted.program.as_bytes().to_vec(),
            arguments: wanted.arguments.iter().map(|argument| argument.as_bytes().to_vec()).collect(),
            environment: wanted.environment.iter().map(|(name, value)| (bytes(name), bytes(value))).collect(),
            dir: wanted.dir.map(|dir| dir.as_bytes().to_vec()),
            input: wanted.input.to_vec(),
        }
    }

    /// Its length, then itself.
    fn to_bytes(&self) -> io::Result<Vec<u8>> {
        let body = postcard::to_stdvec(self).map_err(io::Error::other)?;
        let length = u32::try_from(body.len()).map_err(io::Error::other)?;
        Ok([&length.to_le_bytes(), body.as_slice()].concat())
    }

    fn read(mut from: impl Read) -> io::Result<Command> {
        let mut length = [0; 4];
        from.read_exact(&mut length)?;
        let mut body = Vec::new();
        from.take(u32::from_le_bytes(length).into()).read_to_end(&mut body)?;
        postcard::from_bytes(&body).map_err(io::Error::other)
    }
}

fn os_string(bytes: Vec<u8>) -> OsString {
    OsString::from_vec(bytes)
}

/// What a guardian says, in five bytes: which, and a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    /// The command runs, as this process and the leader of a group of its own.
    Started { pid: i32 },
    /// It could not be started: the error's number.
    Refused { errno: i32 },
    /// The command has ended: the status exactly as Linux gave it, exit code or signal.
    Ended { status: i32 },
}

const SAID_BYTES: usize = 5;

impl Said {
    fn from_bytes(bytes: [u8; SAID_BYTES]) -> io::Result<Said> {
        let [which, number @ ..] = bytes;
        let number = i32::from_le_bytes(number);
        match which {
            1 => Ok(Said::Started { pid: number }),
            2 => Ok(Said::Refused { errno: number }),
            3 => Ok(Said::Ended { status: number }),
            _ => Err(io::Error::other(format!("a guardian said {which}"))),
        }
    }

    fn to_bytes(self) -> [u8; SAID_BYTES] {
        let (which, number) = match self {
            Said::Started { pid } => (1, pid),
            Said::Refused { errno } => (2, errno),
            Said::Ended { status } => (3, status),
        };
        let [a, b, c, d] = i32::to_le_bytes(number);
        [which, a, b, c, d]
    }

    fn write(self, mut to: impl Write) -> io::Result<()> {
        to.write_all(&self.to_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_on_the_socket_reads_back_the_same() {
        let environment = [("A".into(), OsString::from_vec(vec![0xFF, b'=', b'\n']))];
        let arguments = ["sh".to_owned(), String::new()];
        let command = Command::of(&Wanted {
            program: OsStr::new("/bin/sh"),
            arguments: &arguments,
            environment: &environment,
            dir: None,
            input: b"{}",
        });
        assert_eq!(Command::read(command.to_bytes().unwrap().as_slice()).unwrap(), command);
        for said in [Said::Started { pid: 7 }, Said::Refused { errno: 2 }, Said::Ended { status: 0x8B }] {
            assert_eq!(Said::from_bytes(said.to_bytes()).unwrap(), said);
        }
        assert!(Said::from_bytes([9; SAID_BYTES]).is_err());
        assert!(Command::read([200, 0, 0, 0, 1].as_slice()).is_err());
    }
}
