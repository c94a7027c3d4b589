//! `punctual verify`: checks the promises over an exported history.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;

use clap::Args;
use punctual_client::Chunks;
use punctual_verify::{History, Options};

use super::failure::{Exit, Failure};
use super::{Session, progress};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  punctual verify                      check the history of the server
  punctual verify history.ndjson       check a history exported before, `-` for stdin
  punctual verify -o json              what was found, for a program
  curl -s $PUNCTUAL_SERVER/api/v1/export/history > history.ndjson")]
pub(crate) struct Verify {
    /// An exported history, `-` for stdin [default: ask the server]
    file: Option<PathBuf>,
}

impl Verify {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let history = match self.file {
            None => of_server(session.client.export(None, None).await?).await?,
            Some(file) if file.as_os_str() == "-" => of_lines(io::stdin().lock())?,
            Some(file) => {
                let opened = File::open(&file);
                let unreadable = |error| Failure::new(Exit::Failed, format!("{}: {error}", file.display()));
                of_lines(BufReader::new(opened.map_err(unreadable)?))?
            }
        };
        let report = history.check(&Options::default());
        session.output.show(&report, |_| report.to_string())?;
        match report.findings.len() {
            0 => Ok(()),
            _ => Err(Failure::new(Exit::Failed, "the history breaks a promise")
                .hint("keep the export: it is what a bug report needs")),
        }
    }
}

fn of_lines(lines: impl BufRead) -> Result<History, Failure> {
    let mut history = History::new();
    for line in lines.lines() {
        add(&mut history, &line.map_err(Failure::io)?)?;
    }
    Ok(history)
}

/// Reads lines from chunks, which do not end at line ends.
async fn of_server(mut chunks: Chunks) -> Result<History, Failure> {
    let mut history = History::new();
    let mut rest: Vec<u8> = Vec::new();
    let bar = progress::bytes("reading history");
    while let Some(chunk) = chunks.next().await? {
        bar.inc(u64::try_from(chunk.len()).unwrap_or(0));
        rest.extend(chunk);
        let mut begin = 0;
        while let Some(len) = rest[begin..].iter().position(|byte| *byte == b'\n') {
            add(&mut history, &String::from_utf8_lossy(&rest[begin..begin + len]))?;
            begin += len + 1;
        }
        rest.drain(..begin);
    }
    bar.finish_and_clear();
    add(&mut history, &String::from_utf8_lossy(&rest))?;
    Ok(history)
}

fn add(history: &mut History, line: &str) -> Result<(), Failure> {
    history.add_line(line).map_err(|error| {
        Failure::new(Exit::Failed, error)
            .hint("the file must be an unchanged export of /api/v1/export/history")
    })
}
