//! The output of a command: it is copied to that of this process, and its end is kept.

use std::future;
use std::io::{self, Write};
use std::time::Duration;

use punctual_core::cut::keep_end;
use punctual_core::limits::PING_TEXT_BYTES_MAX;
use tokio::io::AsyncReadExt;
use tokio::process::{ChildStderr, ChildStdout};
use tokio::time::timeout;

const CHUNK: usize = 8 * 1024;
/// How long to read on after the end of the command: a process that it has left behind may keep the pipes open.
const LAST: Duration = Duration::from_secs(1);

pub(super) struct Tail {
    /// `None` means that the end was reached.
    out: Option<ChildStdout>,
    err: Option<ChildStderr>,
    kept: Vec<u8>,
}

impl Tail {
    pub(super) fn of(pipes: Option<(ChildStdout, ChildStderr)>) -> Tail {
        let (out, err) = pipes.unzip();
        Tail { out, err, kept: Vec::new() }
    }

    /// Copies the output, and never returns. Can be dropped at any time.
    pub(super) async fn never_ends(&mut self) {
        self.copy().await;
        future::pending::<()>().await;
    }

    /// Copies the rest of the output, and returns the end of all of it.
    pub(super) async fn finish(mut self) -> String {
        drop(timeout(LAST, self.copy()).await);
        let kept = String::from_utf8_lossy(&self.kept);
        keep_end(kept.trim_end(), PING_TEXT_BYTES_MAX).into_owned()
    }

    async fn copy(&mut self) {
        let (mut from_out, mut from_err) = (vec![0; CHUNK], vec![0; CHUNK]);
        while self.out.is_some() || self.err.is_some() {
            // Only the reads wait, so nothing that was read is lost when this is dropped.
            tokio::select! {
                read = read(&mut self.out, &mut from_out), if self.out.is_some() => match read {
                    Some(bytes) => {
                        self.pass_on(&from_out[..bytes], io::stdout());
                    }
                    None => self.out = None,
                },
                read = read(&mut self.err, &mut from_err), if self.err.is_some() => match read {
                    Some(bytes) => {
                        self.pass_on(&from_err[..bytes], io::stderr());
                    }
                    None => self.err = None,
                },
            }
        }
    }

    fn pass_on(&mut self, bytes: &[u8], mut to: impl Write) {
        // A reader that is gone does not stop the command.
        let _ = to.write_all(bytes).and_then(|()| to.flush());
        self.kept.extend_from_slice(bytes);
        if self.kept.len() > 2 * PING_TEXT_BYTES_MAX {
            self.kept.drain(..self.kept.len() - PING_TEXT_BYTES_MAX - CHUNK);
        }
    }
}

/// The number of bytes read. `None` means that there are no more.
async fn read(from: &mut Option<impl AsyncReadExt + Unpin>, into: &mut [u8]) -> Option<usize> {
    from.as_mut()?.read(into).await.ok().filter(|bytes| *bytes > 0)
}
