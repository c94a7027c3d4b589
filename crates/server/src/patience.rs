//! A connection that gives up when nobody takes what it writes.
//!
//! A client that asks for much and reads nothing would hold a connection and its buffers for ever. Waiting for the
//! client to *send* is bounded elsewhere, by the head's and the body's time.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

#[derive(Debug)]
pub(crate) struct Patient<S> {
    stream: S,
    time: Duration,
    /// Runs while a write waits.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    pub(crate) fn new(stream: S, time: Duration) -> Self {
        Patient { stream, time, waiting: None }
    }

    fn within<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let time = self.time;
        ready!(self.waiting.get_or_insert_with(|| Box::pin(sleep(time))).as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.within(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.within(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.within(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.within(cx, done)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn a_write_that_nobody_takes_is_given_up() {
        let (ours, _theirs) = duplex(16);
        let mut patient = Patient::new(ours, Duration::from_millis(20));
        patient.write_all(&[0; 16]).await.unwrap();
        assert_eq!(patient.write_all(&[0; 1]).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_slow_reader_that_reads_is_waited_for() {
        let (ours, mut theirs) = duplex(16);
        let mut patient = Patient::new(ours, Duration::from_secs(60));
        let writing = tokio::spawn(async move { patient.write_all(&[7; 64]).await });
        let mut read = [0; 64];
        theirs.read_exact(&mut read).await.unwrap();
        assert!(writing.await.unwrap().is_ok());
        assert_eq!(read, [7; 64]);
    }
}
