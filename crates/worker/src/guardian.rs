//! The guardian: a small process between a worker and a command, so that no process outlives the worker.
//!
//! A worker killed with SIGKILL cannot clean up, and a grandchild that became a daemon has left all known process
//! groups. So the binary starts itself again as a guardian (`process`), which starts the command, adopts its orphaned
//! descendants (it is a child subreaper), and holds one end of a socket. The worker's end closes when the worker dies
//! for any reason; then the guardian kills all its descendants and exits.
//!
//! ```text
//!  worker ──Command, then END or KILL, or its death──▶ guardian ──▶ command ──▶ …
//!         ◀──────── Started or Refused, then Ended ───
//! ```
//!
//! The guardian exits after all its descendants: its exit means that none is left.

mod link;
mod process;

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use serde::{Deserialize, Serialize};

pub use link::{Link, NotStarted, Printing};
pub use process::main;

/// The first argument that makes the binary a guardian.
pub const ARGUMENT: &str = "__guardian";

/// Asks the command to end: SIGTERM to its process group.
const END: u8 = b'E';
/// Kills all descendants of the guardian.
const KILL: u8 = b'K';

/// What a guardian starts. It is sent over the socket, so that the guardian's own environment and arguments stay empty.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Command {
    program: Vec<u8>,
    arguments: Vec<Vec<u8>>,
    environment: Vec<(Vec<u8>, Vec<u8>)>,
    dir: Option<Vec<u8>>,
    /// The bytes on its standard input.
    input: Vec<u8>,
}

/// A command as the caller describes it.
#[derive(Debug)]
pub struct Wanted<'a> {
    /// A path, or a name that is searched in the `PATH` of its environment.
    pub program: &'a OsStr,
    /// The first argument is the program's name.
    pub arguments: &'a [String],
    /// The whole environment: nothing is inherited.
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

    /// Its length, then its body.
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

/// A message of the guardian in five bytes: its kind and a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    /// The command runs with this pid and leads its own process group.
    Started { pid: i32 },
    /// It could not be started, with this error number.
    Refused { errno: i32 },
    /// The command has ended: the raw wait status of Linux, exit code or signal.
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
