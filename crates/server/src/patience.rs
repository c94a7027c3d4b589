//! A connection that times out when the client does not read, and records when a request began to arrive.
//!
//! A client that asks for much and reads nothing would hold a connection and its buffers forever. Waiting for
//! the client to *send* is limited elsewhere, by one time for head and body. That time starts with the first
//! byte, which is visible only here. The first bytes of a connection, which tell HTTP/1 from HTTP/2, are also
//! limited here.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// When the first byte of the current request arrived.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reading(Arc<Mutex<Option<Instant>>>);

impl Reading {
    /// A request that arrived together with the one before it begins now, when it is parsed.
    pub(crate) fn began(&self) -> Instant {
        self.0.lock().unwrap_or_else(Instant::now)
    }
}

#[derive(Debug)]
pub(crate) struct Patient<S> {
    stream: S,
    time: Duration,
    reading: Reading,
    /// The timer of a blocked write. `None` means that no write is blocked.
    waiting: Option<Pin<Box<Sleep>>>,
    /// The timer for the first bytes. `None` means that the protocol is known.
    beginning: Option<Pin<Box<Sleep>>>,
    begun: usize,
}

/// The length of the HTTP/2 preface, which tells HTTP/2 from HTTP/1.
const PREFACE_BYTES: usize = 24;

impl<S> Patient<S> {
    pub(crate) fn new(stream: S, time: Duration, reading: Reading) -> Self {
        let beginning = Some(Box::pin(sleep(time)));
        Patient { stream, time, reading, waiting: None, beginning, begun: 0 }
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
        let before = into.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, into);
        if into.filled().len() > before {
            self.reading.0.lock().get_or_insert_with(Instant::now);
        }
        let Some(beginning) = &mut self.beginning else { return read };
        if read.is_pending() {
            ready!(beginning.as_mut().poll(cx));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        self.begun += into.filled().len() - before;
        if self.begun >= PREFACE_BYTES {
            self.beginning = None;
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        // The answer to the current request has begun: the next byte read belongs to another request.
        *self.reading.0.lock() = None;
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.within(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        *self.reading.0.lock() = None;
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
        let mut patient = Patient::new(ours, Duration::from_millis(20), Reading::default());
        patient.write_all(&[0; 16]).await.unwrap();
        assert_eq!(patient.write_all(&[0; 1]).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_client_that_does_not_begin_is_given_up() {
        let (ours, mut theirs) = duplex(64);
        let mut patient = Patient::new(ours, Duration::from_millis(20), Reading::default());
        theirs.write_all(b"PRI").await.unwrap();
        let mut read = [0; 64];
        assert_eq!(patient.read(&mut read).await.unwrap(), 3);
        assert_eq!(patient.read(&mut read).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_slow_reader_that_reads_is_waited_for() {
        let (ours, mut theirs) = duplex(16);
        let mut patient = Patient::new(ours, Duration::from_secs(60), Reading::default());
        let writing = tokio::spawn(async move { patient.write_all(&[7; 64]).await });
        let mut read = [0; 64];
        theirs.read_exact(&mut read).await.unwrap();
        assert!(writing.await.unwrap().is_ok());
        assert_eq!(read, [7; 64]);
    }

    #[tokio::test]
    async fn a_request_begins_with_its_first_byte_and_ends_with_its_answer() {
        let (ours, mut theirs) = duplex(16);
        let reading = Reading::default();
        let mut patient = Patient::new(ours, Duration::from_secs(60), reading.clone());
        let mut byte = [0; 1];
        let mut began = Vec::new();
        for _ in 0..3 {
            theirs.write_all(&[7]).await.unwrap();
            patient.read_exact(&mut byte).await.unwrap();
            began.push(reading.began());
        }
        assert!(began.iter().all(|at| *at == began[0]), "{began:?}");
        patient.write_all(&[7]).await.unwrap();
        assert!(reading.began() > began[0], "the next one has not begun");
        theirs.write_all(&[7]).await.unwrap();
        patient.read_exact(&mut byte).await.unwrap();
        let next = reading.began();
        assert!(next > began[0] && reading.began() == next);
    }
}
