//! The socket of one client, and a buffer of bytes not parsed yet.

use std::io;
use std::time::Duration;

use bytes::BytesMut;
use punctual_wire::resp::Replies;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use super::settings::AHEAD_BYTES_MAX;

/// Buffer space for one read.
const READ_BYTES: usize = 16 * 1024;

pub(super) trait Duplex: AsyncRead + AsyncWrite + Send + Sync + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Sync + Unpin> Duplex for S {}

pub(super) struct Link {
    stream: Box<dyn Duplex>,
    pub(super) buffer: BytesMut,
    /// How long a client may take to read a reply.
    time: Duration,
    /// Bytes read and written since the last call of `moved`.
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

    /// Reads once. `false` means that the client has closed the connection.
    pub(super) async fn read(&mut self) -> io::Result<bool> {
        self.buffer.reserve(READ_BYTES);
        let read = self.stream.read_buf(&mut self.buffer).await?;
        self.moved.0 += u64::try_from(read).unwrap_or(0);
        Ok(read > 0)
    }

    /// Returns when the client has closed the connection. What it sends meanwhile is buffered up to a limit;
    /// after that a close is not noticed.
    pub(super) async fn hung_up(&mut self) {
        while self.buffer.len() < AHEAD_BYTES_MAX {
            if !matches!(self.read().await, Ok(true)) {
                return;
            }
        }
        std::future::pending::<()>().await;
    }

    /// Sends the replies. A client that reads nothing for too long counts as gone.
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
        // The client may be gone already; then the close need not succeed.
        drop(timeout(self.time, self.stream.shutdown()).await);
    }
}
