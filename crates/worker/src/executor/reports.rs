//! The files of a program's attempt: a FIFO that it writes reports to, and the checkpoint that it continues from.
//!
//! A report is one line of JSON. A line that is not understood becomes a line of the log, and changes nothing.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use punctual_core::attempt::{Assignment, Report};
use punctual_core::limits::CHECKPOINT_BYTES_MAX;
use punctual_core::progress::Progress;
use punctual_wire::rest::ProgressLine;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, oneshot};

use crate::log::Transcript;

/// A line with the longest checkpoint and message, with room for the names of its fields.
const REPORT_BYTES_MAX: usize = CHECKPOINT_BYTES_MAX + 4 * 1024;

/// The folder of one attempt. It is removed on drop.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    /// Makes the folder with its files, for this user alone.
    pub(super) fn make(attempts: &Path, assignment: &Assignment) -> io::Result<Folder> {
        let folder = Folder(attempts.join(format!("{}-{}", assignment.run, assignment.token)));
        DirBuilder::new().mode(0o700).create(&folder.0)?;
        mknodat(CWD, folder.reports(), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        if let Some(json) = &assignment.checkpoint {
            let mut file =
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(folder.checkpoint())?;
            file.write_all(json.as_bytes())?;
        }
        Ok(folder)
    }

    pub(super) fn reports(&self) -> PathBuf {
        self.0.join("report")
    }

    pub(super) fn checkpoint(&self) -> PathBuf {
        self.0.join("checkpoint.json")
    }

    pub(super) fn reader(&self) -> io::Result<Reader> {
        // Open for writing too: the FIFO then has no end when a program closes it, and the next may open it.
        let pipe = pipe::OpenOptions::new().read_write(true).open_receiver(self.reports())?;
        Ok(Reader { pipe, pending: Vec::new(), is_too_long: false })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Reads the reports of a program.
#[derive(Debug)]
pub(super) struct Reader {
    pipe: pipe::Receiver,
    /// What was read and not passed on yet.
    pending: Vec<u8>,
    /// The line whose end has not come yet is longer than a report may be, and its beginning was dropped.
    is_too_long: bool,
}

/// Where reports go.
pub(super) struct Destination<'a> {
    pub(super) assignment: &'a Assignment,
    pub(super) reports: &'a mpsc::Sender<Report>,
    pub(super) transcript: &'a Transcript,
}

impl Reader {
    /// Passes reports on until the program is over, and then those that it left in the pipe.
    pub(super) async fn pass_on(
        &mut self,
        to: &Destination<'_>,
        mut over: oneshot::Receiver<()>,
    ) -> io::Result<()> {
        loop {
            tokio::select! {
                biased;
                _ = &mut over => return self.read_available(to).await,
                ready = self.pipe.readable() => ready?,
            }
            self.read_available(to).await?;
        }
    }

    async fn read_available(&mut self, to: &Destination<'_>) -> io::Result<()> {
        let mut bytes = [0; 4096];
        loop {
            self.pass_on_lines(to).await;
            match self.pipe.try_read(&mut bytes) {
                Ok(0) => return Ok(()),
                Ok(read) => self.pending.extend_from_slice(&bytes[..read]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    async fn pass_on_lines(&mut self, to: &Destination<'_>) {
        while let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
            to.take(&self.pending[..end], self.is_too_long || end > REPORT_BYTES_MAX).await;
            self.pending.drain(..=end);
            self.is_too_long = false;
        }
        if self.pending.len() > REPORT_BYTES_MAX {
            self.pending.clear();
            self.is_too_long = true;
        }
    }
}

impl Destination<'_> {
    async fn take(&self, line: &[u8], is_too_long: bool) {
        if line.trim_ascii().is_empty() && !is_too_long {
            return;
        }
        let read =
            if is_too_long { Err(format!("it is longer than {REPORT_BYTES_MAX} bytes")) } else { read(line) };
        match read {
            Ok(progress) => {
                let Assignment { run, token, .. } = *self.assignment;
                // An error means that the worker is gone, and this attempt with it.
                let _ = self.reports.send(Report::Progress { run, token, progress }).await;
            }
            Err(why) => self.transcript.note(&format!("a report was not understood: {why}")).await,
        }
    }
}

fn read(line: &[u8]) -> Result<Progress, String> {
    let line: ProgressLine = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    line.into_core().map_err(|error| error.to_string())
}
