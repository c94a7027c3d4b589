//! The endpoint for workers: gRPC on the port of REST.
//!
//! A worker dials and keeps one stream open. `admission` decides which workers may connect, `names` keeps
//! their names unique, `session` carries messages between worker and node, `output` stores what attempts
//! print, and `output_window` bounds how much of it is under way. A worker's message is untrusted input: an
//! impossible one ends the stream with a status that says why, whether it is noticed here or by the node.

mod admission;
mod names;
mod nearby;
mod output;
mod output_window;
mod session;
mod sessions;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use punctual_node::{Handle, Links};
use punctual_wire::grpc::MESSAGE_BYTES_MAX;
use punctual_wire::grpc::v1;
use punctual_wire::grpc::v1::worker_server::{Worker, WorkerServer};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::auth::Caller;
pub use admission::{Admission, NodesToo};
pub use nearby::Nearby;
use session::Session;
pub(crate) use sessions::Sessions;

/// Messages to a worker that wait for the network.
const MESSAGES_MAX: usize = 4;

/// What the endpoint for workers needs besides the node.
#[derive(Debug, Clone)]
pub struct Workers {
    pub links: Links,
    /// Decides which workers may connect.
    pub admission: Arc<dyn Admission>,
    /// The id of this node since its start: a worker that reaches it by two addresses keeps one stream.
    pub node: Arc<str>,
    /// How long a worker may be silent before its attempts are given up. The heartbeat interval is a third of it.
    pub lease: Duration,
    /// The addresses (`host:port`) of the scheduling nodes of the cluster, kept up to date.
    pub nodes: watch::Receiver<Vec<String>>,
}

#[derive(Debug, Clone)]
struct Endpoint {
    workers: Workers,
    handle: Handle,
    sessions: Arc<Sessions>,
    /// Whether the worker is in this process.
    is_near: bool,
}

pub(crate) fn router(workers: Workers, handle: Handle, sessions: Arc<Sessions>) -> Router {
    let service = WorkerServer::new(Endpoint { workers, handle, sessions, is_near: false })
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    Router::new().route_service("/punctual.v1.Worker/{*method}", service)
}

#[tonic::async_trait]
impl Worker for Endpoint {
    type SessionStream = ReceiverStream<Result<v1::FromNode, Status>>;

    async fn session(
        &self,
        request: Request<Streaming<v1::FromWorker>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let bearer = admission::bearer(request.metadata())?;
        let caller = Caller { bearer, peer: request.extensions().get().copied() };
        if !self.workers.admission.admits(caller).await {
            return Err(Status::unauthenticated(admission::REFUSED));
        }
        let (outgoing, messages) = mpsc::channel(MESSAGES_MAX);
        let closing = self.sessions.closing();
        let session = Session {
            workers: self.workers.clone(),
            handle: self.handle.clone(),
            incoming: request.into_inner(),
            outgoing,
            closing,
            names: self.sessions.names(),
            is_near: self.is_near,
        };
        self.sessions.begin(session.run())?;
        Ok(Response::new(ReceiverStream::new(messages)))
    }
}
