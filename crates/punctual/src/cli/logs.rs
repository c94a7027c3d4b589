//! `punctual run logs`: the output of a run, on stdout and stderr as the task wrote it, live with `--follow`.

use std::io::{self, IsTerminal, Write};

use clap::Args;
use punctual_client::{LogEvent, LogQuery};
use punctual_core::ids::RunId;
use punctual_wire::rest::LogStream;

use super::Session;
use super::failure::{Exit, Failure};
use super::plain::Plain;

#[derive(Debug, Args)]
pub(crate) struct Logs {
    id: RunId,
    /// Follow the output until the run has ended
    #[arg(short, long)]
    follow: bool,
    /// Only the output of this attempt, counted from 1
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,
    /// Print the bytes as they are; without it, a terminal gets only text and colours, and an open last line is ended
    #[arg(long)]
    raw: bool,
}

impl Logs {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let query = LogQuery { follow: self.follow, attempt: self.attempt };
        let mut logs = session.client.logs(&session.namespace, self.id, query).await?;
        let mut out = Sink::new(io::stdout(), self.raw);
        let mut err = Sink::new(io::stderr(), self.raw);
        while let LogEvent::Output(chunk) = logs.next().await? {
            let stream = chunk.stream;
            let unknown =
                || Failure::new(Exit::Failed, "the server wrote output in a way that is not known here");
            let bytes = chunk.into_bytes().ok_or_else(unknown)?;
            match stream {
                LogStream::Stdout => err.end_line().and_then(|()| out.write(&bytes)),
                LogStream::Stderr => out.end_line().and_then(|()| err.write(&bytes)),
                LogStream::Note => {
                    let note = format!("[punctual] {}\n", String::from_utf8_lossy(&bytes).trim_end());
                    out.end_line().and_then(|()| err.end_line()).and_then(|()| err.write(note.as_bytes()))
                }
            }
            .map_err(Failure::io)?;
        }
        out.finish().and_then(|()| err.finish()).map_err(Failure::io)
    }
}

/// Our stdout or stderr. A program that reads it gets the bytes; a terminal gets only what is safe to show.
struct Sink<W> {
    writer: W,
    plain: Option<Plain>,
    /// Pass the bytes through unchanged, and add nothing.
    raw: bool,
    /// Whether the last line has no line break yet.
    in_line: bool,
}

impl<W: Write + IsTerminal> Sink<W> {
    fn new(writer: W, raw: bool) -> Self {
        let plain = (writer.is_terminal() && !raw).then(Plain::default);
        Sink { writer, plain, raw, in_line: false }
    }

    /// Writes and flushes at once, because a user may be watching.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.plain {
            Some(plain) => self.writer.write_all(plain.show(bytes).as_bytes())?,
            None => self.writer.write_all(bytes)?,
        }
        self.in_line = bytes.last().map_or(self.in_line, |last| *last != b'\n');
        self.writer.flush()
    }

    /// Ends a line that the task left open, so that the next output begins on a new line.
    fn end_line(&mut self) -> io::Result<()> {
        if !self.in_line || self.raw {
            return Ok(());
        }
        self.write(b"\n")
    }

    fn finish(&mut self) -> io::Result<()> {
        self.end_line()?;
        let rest = self.plain.take().map(Plain::finish).unwrap_or_default();
        self.writer.write_all(rest.as_bytes())?;
        self.writer.flush()
    }
}
