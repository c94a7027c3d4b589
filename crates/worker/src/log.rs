//! The output of attempts on its way to the log, and its limit.
//!
//! A [`Transcript`] numbers the chunks of one attempt and enforces the run's limit for this attempt; the node counts
//! all attempts. Output beyond the limit is still read, so that the program does not block on a full pipe, and a note
//! marks where it was cut.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use async_trait::async_trait;
use punctual_core::ids::{RunId, Token};
use punctual_core::log::{CUT_MARK, Chunk, RUN_BYTES_MAX, Stream};
use punctual_core::time::Clock;

/// Takes output. Waiting in `append` blocks only the program that prints. It must not wait for ever, because the
/// attempt ends only after its output is taken.
#[async_trait]
pub trait LogSink: Send + Sync + fmt::Debug {
    async fn append(&self, chunk: Chunk);
}

/// The output of one attempt on its way to the sink, shared by both streams.
#[derive(Debug)]
pub(crate) struct Transcript {
    run: RunId,
    token: Token,
    clock: Arc<dyn Clock>,
    sink: Arc<dyn LogSink>,
    /// The number of the next chunk.
    next: AtomicU32,
    /// Bytes of output given to the sink.
    kept: AtomicU64,
    /// Bytes of output beyond the limit of the run or of a line.
    dropped: AtomicU64,
    cut: AtomicBool,
    /// Bytes read from the program, whether kept or not.
    read: AtomicU64,
    /// Number of appends waiting for the sink.
    appending: AtomicUsize,
}

impl Transcript {
    pub(crate) fn new(run: RunId, token: Token, clock: Arc<dyn Clock>, sink: Arc<dyn LogSink>) -> Self {
        Transcript {
            run,
            token,
            clock,
            sink,
            next: AtomicU32::new(0),
            kept: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            cut: AtomicBool::new(false),
            read: AtomicU64::new(0),
            appending: AtomicUsize::new(0),
        }
    }

    /// Takes output up to the limit, notes once that it was reached, and drops the rest.
    pub(crate) async fn output(&self, stream: Stream, mut bytes: Vec<u8>) {
        let room = usize::try_from(RUN_BYTES_MAX - self.kept.load(Relaxed)).unwrap_or(usize::MAX);
        let dropped = bytes.len().saturating_sub(room);
        bytes.truncate(room);
        self.kept.fetch_add(bytes.len() as u64, Relaxed);
        if !bytes.is_empty() {
            self.append(stream, bytes).await;
        }
        if dropped > 0 {
            self.dropped.fetch_add(dropped as u64, Relaxed);
            if !self.cut.swap(true, Relaxed) {
                let limit = RUN_BYTES_MAX / (1024 * 1024);
                self.note(&format!("{CUT_MARK}: the limit of {limit} MiB is reached")).await;
            }
        }
    }

    /// Counts bytes that were dropped earlier.
    pub(crate) fn left_out(&self, bytes: usize) {
        self.dropped.fetch_add(bytes as u64, Relaxed);
    }

    pub(crate) async fn note(&self, text: &str) {
        self.append(Stream::Note, text.as_bytes().to_vec()).await;
    }

    /// Notes how many bytes are missing, if any.
    pub(crate) async fn close(&self) {
        let dropped = self.dropped.load(Relaxed);
        if dropped > 0 {
            self.note(&format!("{dropped} bytes of output were not kept")).await;
        }
    }

    pub(crate) fn count_read(&self, bytes: usize) {
        self.read.fetch_add(bytes as u64, Relaxed);
    }

    pub(crate) fn bytes_read(&self) -> u64 {
        self.read.load(Relaxed)
    }

    /// Whether output waits for the sink: then silence does not mean that the program prints nothing more.
    pub(crate) fn is_held_up(&self) -> bool {
        self.appending.load(Relaxed) > 0
    }

    async fn append(&self, stream: Stream, bytes: Vec<u8>) {
        let number = self.next.fetch_add(1, Relaxed);
        let at = self.clock.now();
        let chunk = Chunk { run: self.run, token: self.token, number, at, stream, bytes };
        self.appending.fetch_add(1, Relaxed);
        self.sink.append(chunk).await;
        self.appending.fetch_sub(1, Relaxed);
    }
}
