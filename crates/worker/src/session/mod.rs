//! The transport to nodes over the network.
//!
//! The worker opens one long-lived stream to each scheduling node. It is given one address and learns the others from
//! the nodes. The modules, in reading order: connecting to a node, the stream, the messages to send on it, output to
//! send, the machine's load, and the transport, which connects them to the worker's loop.
//!
//! ```text
//! driver ──Output──▶ transport ──outbox──▶ link ──FromWorker──▶ node
//!        ◀──Input───           ◀──event───      ◀──FromNode────
//! ```
//!
//! A broken stream does not stop attempts. They go on until the node that assigned them has not heard from the worker
//! for the length of a lease, by the monotonic clock; then they are stopped, because the node has given them up.

mod dial;
mod link;
mod outbox;
pub(crate) mod logs;
mod load;
mod transport;

use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::worker::Announcement;
use punctual_wire::grpc::v1;
use tokio::sync::watch;
use tokio_stream::Stream;
use tonic::{Status as Refusal, Streaming};

use crate::driver::{Driver, HEARTBEAT};
use crate::worker::{Config, Error, Runner};
use logs::RemoteLogs;
use outbox::Outgoing;
use transport::Session;

#[derive(Debug, Clone)]
pub struct Settings {
    /// URLs of scheduling nodes; these nodes name the others.
    pub servers: Vec<String>,
    /// The scheduling node in this process; it names the others, too. `None` means there is none.
    pub near: Option<Arc<dyn Near>>,
    pub token: Option<String>,
    /// Certificates to trust in addition to the machine's own.
    pub ca: Option<Authorities>,
    pub name: String,
    /// A random number, different for each start of the process.
    pub life: u64,
    pub version: String,
    pub announcement: Announcement,
    /// How long running attempts may take to finish after a stop or a drain was requested; then they are yielded.
    pub drain: Duration,
}

/// Certificates in PEM.
#[derive(Debug, Clone)]
pub enum Authorities {
    Given(Vec<u8>),
    /// Read at each connect, because the file may have been replaced.
    File(PathBuf),
}

/// The messages of a worker on its stream.
#[derive(Debug)]
pub struct Saying(Outgoing);

impl Stream for Saying {
    type Item = v1::FromWorker;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<v1::FromWorker>> {
        Pin::new(&mut self.0).poll_next(cx)
    }
}

/// A scheduling node that is reached without a network.
#[async_trait]
pub trait Near: Send + Sync + fmt::Debug {
    /// Opens a stream, like a worker that connects.
    async fn session(&self, saying: Saying) -> Result<Streaming<v1::FromNode>, Refusal>;

    /// Whether the nodes that it names use TLS.
    fn over_tls(&self) -> bool;
}

/// A node refused the worker, and would refuse it again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);

#[derive(Debug, thiserror::Error)]
pub enum Ended {
    #[error(transparent)]
    Worker(#[from] Error),
    #[error(transparent)]
    Refused(#[from] Refused),
}

/// The state of the session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// The connected nodes.
    pub nodes: Vec<String>,
    /// Why the last missing node could not be reached.
    pub trouble: Option<String>,
}

/// Runs until it is stopped, or until the first node that answers refuses the worker. `config.logs` is replaced: output
/// goes to the nodes.
pub async fn run(
    settings: Settings,
    config: Config,
    status: watch::Sender<Status>,
    stop: impl Future<Output = ()>,
) -> Result<(), Ended> {
    let (logs, chunks) = RemoteLogs::new();
    let config = Config { logs: Arc::new(logs), ..config };
    let drain = settings.drain;
    let slots = settings.announcement.slots as usize;
    let mut driver = Driver::new(slots, config.kinds, HEARTBEAT).with_drain_time(drain);
    let mut session = Session::new(Arc::new(settings), chunks, status);
    session.dial_seeds(&mut driver);
    let session = Runner::open(config, driver, session).await?.run(stop, Some(drain)).await;
    Ok(session.refused.map_or(Ok(()), Err)?)
}
