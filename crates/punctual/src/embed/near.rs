//! Connects the worker of an embedded node to its scheduler without a network.

use async_trait::async_trait;
use punctual_core::log::Chunk;
use punctual_server::Nearby;
use punctual_wire::grpc::v1;
use punctual_worker::LogSink;
use punctual_worker::session::{Near, Saying};
use tonic::{Status, Streaming};

#[derive(Debug)]
pub(super) struct InProcess {
    pub(super) endpoint: Nearby,
    /// Whether nodes that can be dialled use TLS.
    pub(super) over_tls: bool,
}

#[async_trait]
impl Near for InProcess {
    async fn session(&self, saying: Saying) -> Result<Streaming<v1::FromNode>, Status> {
        self.endpoint.session(saying).await
    }

    fn over_tls(&self) -> bool {
        self.over_tls
    }
}

/// Discards output here: the session sends it to the node itself.
#[derive(Debug)]
pub(super) struct Nowhere;

#[async_trait]
impl LogSink for Nowhere {
    async fn append(&self, _chunk: Chunk) {}
}
