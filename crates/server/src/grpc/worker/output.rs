//! Stores the output of attempts, apart from a worker's other messages: a slow disk must not delay its heartbeats.
//!
//! Output is accepted only for this worker's own attempts. The node knows those that it assigned; others (another node
//! assigned them, or they have ended) are looked up in the store.

use std::collections::HashMap;

use punctual_core::change::Want;
use punctual_core::ids::{RunId, Token, WorkerId};
use punctual_core::log::Chunk;
use punctual_core::run::Assignee;
use punctual_node::Handle;
use punctual_wire::grpc::{self, v1};
use tokio::sync::mpsc;
use tracing::debug;

/// Chunks written together.
const BATCH_MAX: usize = 64;
/// Looked-up attempts that are remembered.
const KNOWN_MAX: usize = 1024;

/// Chunks that were stored, or refused for good, and their size.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) acks: Vec<v1::LogAck>,
    pub(super) bytes: usize,
}

pub(super) struct Keeper {
    pub(super) worker: WorkerId,
    pub(super) handle: Handle,
    /// Bounded by the log window of the stream.
    pub(super) printed: mpsc::UnboundedReceiver<Chunk>,
    pub(super) written: mpsc::UnboundedSender<Written>,
    pub(super) known: HashMap<(RunId, Token), bool>,
}

impl Keeper {
    /// Returns when the session has ended and all its output is stored.
    pub(super) async fn run(mut self) {
        let mut batch = Vec::new();
        while self.printed.recv_many(&mut batch, BATCH_MAX).await > 0 {
            let mut written = Written { acks: Vec::new(), bytes: 0 };
            let mut chunks = Vec::new();
            for chunk in batch.drain(..) {
                let attempt = Some(grpc::attempt(chunk.run, chunk.token));
                written.acks.push(v1::LogAck { attempt, number: chunk.number });
                written.bytes += chunk.bytes.len();
                if self.is_theirs(chunk.run, chunk.token).await {
                    chunks.push(chunk);
                } else {
                    let (run, token) = (chunk.run, chunk.token);
                    debug!(worker = %self.worker, %run, %token, "output of an attempt that is not theirs");
                }
            }
            self.handle.keep_output(chunks).await;
            // The session may have ended; then no acknowledgement is needed.
            drop(self.written.send(written));
        }
    }

    async fn is_theirs(&mut self, run: RunId, token: Token) -> bool {
        if let Some(known) = self.known.get(&(run, token)) {
            return *known;
        }
        let is_theirs = self.handle.has_attempt(self.worker.clone(), run, token).await
            || self.is_stored_as_theirs(run, token).await;
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        self.known.insert((run, token), is_theirs);
        is_theirs
    }
    async fn is_stored_as_theirs(&self, run: RunId, token: Token) -> bool {
        let store = self.handle.reads();
        if run.shard().0 >= store.shards() {
            return false;
        }
        let Ok(found) = store.fetch(vec![(run.shard(), Want::Run(run))]).await else { return false };
        found.runs.iter().any(|record| {
            record.run.id == run
                && record.run.token == token
                && record.run.assignee.as_ref().and_then(Assignee::worker) == Some(&self.worker)
        })
    }
}
