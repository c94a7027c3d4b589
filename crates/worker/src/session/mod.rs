//! The transport to nodes over the network.
//!
//! The worker dials out: one long-lived stream to each scheduling node. It is given one address and hears of the others.
//! The modules, in reading order: how a node is reached, the stream to it, what is to be said on it, output on its way,
//! how busy the machine is, and the transport, which connects them to the worker's loop.
//!
//! ```text
//! driver ──Output──▶ transport ──outbox──▶ link ──FromWorker──▶ node
//!        ◀──Input───           ◀──event───      ◀──FromNode────
//! ```
//!
//! A cut stream stops nothing by itself. What runs goes on until the node that assigned it has not heard the worker for
//! a lease, by the monotonic clock; then it is stopped, because the node has given it up by then.

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
    /// URLs of scheduling nodes: the others are heard of.
    pub servers: Vec<String>,
    /// The scheduling node in this very process, if there is one. It names the others, too.
    pub near: Option<Arc<dyn Near>>,
    pub token: Option<String>,
    /// Certificates to trust beside the machine's own.
    pub ca: Option<Authorities>,
    pub name: String,
    /// Another number each time the process starts, and nobody's guess.
    pub life: u64,
    pub version: String,
    pub announcement: Announcement,
    /// How long what runs may take to finish once someone asked for the end; then it is stopped.
    pub drain: Duration,
}

/// Certificates in PEM.
#[derive(Debug, Clone)]
pub enum Authorities {
    Given(Vec<u8>),
    /// Read whenever a node is dialled: it may have been replaced.
    File(PathBuf),
}

/// What a worker says on its stream.
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
    /// Opens a stream, as a worker that dials does.
    async fn session(&self, saying: Saying) -> Result<Streaming<v1::FromNode>, Refusal>;

    /// Whether the nodes that it names speak TLS.
    fn over_tls(&self) -> bool;
}

/// A node said no, and will say so again.
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

/// How the session stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// The nodes that give us work.
    pub nodes: Vec<String>,
    /// Why the last node that is missing is.
    pub trouble: Option<String>,
}

/// Works until it is asked to stop, or until the first node that answers refuses it. `config.logs` is replaced: output goes
/// to the nodes.
pub async fn run(
    settings: Settings,
    config: Config,
    status: watch::Sender<Status>,
    stop: impl Future<Output = ()>,
) -> Result<(), Ended> {
    let (logs, chunks) = RemoteLogs::new();
    let config = Config { logs: Arc::new(logs), ..config };
    let mut driver = Driver::new(settings.announcement.slots as usize, config.kinds, HEARTBEAT);
    let drain = settings.drain;
    let mut session = Session::new(Arc::new(settings), chunks, status);
    session.dial_seeds(&mut driver);
    let session = Runner::open(config, driver, session).await?.run(stop, Some(drain)).await;
    Ok(session.refused.map_or(Ok(()), Err)?)
}
