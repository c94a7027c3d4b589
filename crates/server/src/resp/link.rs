//! The socket of one client, and what has been read of it and not yet been looked at.

use std::io;
use std::time::Duration;

use bytes::BytesMut;
use punctual_wire::resp::Replies;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use super::settings::AHEAD_BYTES_MAX;

/// Room for one read.
const READ_BYTES: usize = 16 * 1024;

pub(super) trait Duplex: AsyncRead + AsyncWrite + Send + Sync + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Sync + Unpin> Duplex for S {}

pub(super) struct Link {
    stream: Box<dyn Duplex>,
    pub(super) buffer: BytesMut,
    /// How long an answer may wait to be taken.
    time: Duration,
    /// Bytes read and written since somebody asked.
    moved: (u64, u64),
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("buffer", &self.buffer.len()).finish_non_exhaustive()
    }
}

impl Link {
    pub(super) fn new(stream: Box<dyn Duplex>, time: Duration) -> Link {
        Link { stream, buffer: BytesMut::new(), time, moved: (0, 0) }
    }

    /// Reads what there is; false: the other side has hung up.
    pub(super) async fn read(&mut self) -> io::Result<bool> {
        self.buffer.reserve(READ_BYTES);
        let read = self.stream.read_buf(&mut self.buffer).await?;
        self.moved.0 += u64::try_from(read).unwrap_or(0);
        Ok(read > 0)
    }

    /// Returns when the other side has hung up. What it still sends meanwhile is kept, within bounds; beyond them it
    /// has to wait, and so does the news that it is gone.
    pub(super) async fn hung_up(&mut self) {
        while self.buffer.len() < AHEAD_BYTES_MAX {
            if !matches!(self.read().await, Ok(true)) {
                return;
            }
        }
        std::future::pending::<()>().await;
    }

    /// Sends the answers. Whoever takes none of them for too long has gone.
    pub(super) async fn send(&mut self, replies: &mut Replies) -> io::Result<()> {
        let mut rest = replies.bytes();
        while !rest.is_empty() {
            let written = timeout(self.time, self.stream.write(rest)).await??;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            rest = rest.get(written..).unwrap_or_default();
        }
        timeout(self.time, self.stream.flush()).await??;
        self.moved.1 += u64::try_from(replies.len()).unwrap_or(0);
        replies.clear();
        Ok(())
    }

    pub(super) fn moved(&mut self) -> (u64, u64) {
        std::mem::take(&mut self.moved)
    }

    pub(super) async fn close(mut self) {
        // Whoever does not listen any more need not be told.
        drop(timeout(self.time, self.stream.shutdown()).await);
    }
}
