//! The endpoint for a worker in the same process: the same protocol as over the network, without the network.

use std::sync::Arc;

use punctual_node::Handle;
use punctual_wire::grpc::MESSAGE_BYTES_MAX;
use punctual_wire::grpc::v1;
use punctual_wire::grpc::v1::worker_client::WorkerClient;
use punctual_wire::grpc::v1::worker_server::WorkerServer;
use tokio_stream::Stream;
use tonic::{Response, Status, Streaming};

use super::{Endpoint, Sessions, Workers};

#[derive(Debug, Clone)]
pub struct Nearby {
    endpoint: Endpoint,
}

impl Nearby {
    pub fn new(workers: Workers, handle: Handle) -> Nearby {
        Nearby {
            endpoint: Endpoint { workers, handle, sessions: Arc::new(Sessions::default()), is_near: true },
        }
    }

    /// Opens a stream, as a remote worker does.
    pub async fn session(
        &self,
        saying: impl Stream<Item = v1::FromWorker> + Send + 'static,
    ) -> Result<Streaming<v1::FromNode>, Status> {
        let service = WorkerServer::new(self.endpoint.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX);
        let client = WorkerClient::new(service);
        client.max_decoding_message_size(MESSAGE_BYTES_MAX).session(saying).await.map(Response::into_inner)
    }

    /// Ends every stream, and waits until all have ended.
    pub async fn close(&self) {
        self.endpoint.sessions.close();
        self.endpoint.sessions.closed().await;
    }
}
