//! The service that scheduling nodes offer each other, and the connections to their peers.
//!
//! A command that arrives here is carried out by this node or refused: it is never passed on, so it cannot
//! loop. A peer authenticates with a key kept in the store, which only nodes can read.

mod dial;
mod key;
mod trust;
mod waits;

use punctual_core::ids::WorkerId;
use punctual_failpoint::{Point, hit};
use punctual_node::Failure;
use punctual_wire::grpc::peer::{self, MESSAGE_BYTES_MAX};
use punctual_wire::grpc::read_attempts;
use punctual_wire::grpc::v1::peer_server::{Peer, PeerServer};
use punctual_wire::grpc::v1::{
    AskRequest, AskResponse, DistrustWorker, Distrusted, DrainWorker, Drained, LookRequest, LookResponse,
    WaitRequest, WakeRequest, WakeResponse,
};
use tonic::service::interceptor::InterceptedService;
use tonic::{Request, Response, Status, Streaming};
use tracing::error;

use crate::Endpoints;

pub use dial::Dialled;
pub use key::{Key, OFFER_BYTES};
pub use trust::Trusted;

/// The service as mounted: the key is checked before the request is read.
pub type Service = InterceptedService<PeerServer<Answering>, Key>;

pub(crate) fn service(endpoints: Endpoints, key: Key) -> Service {
    let server = PeerServer::new(Answering { endpoints })
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    InterceptedService::new(server, key)
}

/// Answers peers.
#[derive(Debug)]
pub struct Answering {
    endpoints: Endpoints,
}

#[tonic::async_trait]
impl Peer for Answering {
    type WaitStream = waits::Answers;

    async fn ask(&self, request: Request<AskRequest>) -> Result<Response<AskResponse>, Status> {
        let command =
            peer::command(request.get_ref()).map_err(|error| Status::invalid_argument(error.to_string()))?;
        hit(Point::NodePeerAsked);
        let result = self.endpoints.handle.command_here(command).await.map_err(told);
        hit(Point::NodePeerAnswered);
        peer::response(&result).map(Response::new).map_err(|error| {
            error!(%error, "an answer to a peer cannot be written");
            Status::internal("the answer cannot be written")
        })
    }

    async fn wake(&self, _: Request<WakeRequest>) -> Result<Response<WakeResponse>, Status> {
        self.endpoints.handle.look_at_cluster();
        Ok(Response::new(WakeResponse {}))
    }

    async fn drain(&self, request: Request<DrainWorker>) -> Result<Response<Drained>, Status> {
        let DrainWorker { worker, on } = request.into_inner();
        Ok(Response::new(Drained { told: self.endpoints.handle.drain(&worker, on).await }))
    }

    async fn distrust(&self, request: Request<DistrustWorker>) -> Result<Response<Distrusted>, Status> {
        let DistrustWorker { worker, attempts } = request.into_inner();
        let attempts =
            read_attempts(attempts).map_err(|error| Status::invalid_argument(error.to_string()))?;
        self.endpoints.handle.distrust(WorkerId(worker.into()), attempts).await;
        Ok(Response::new(Distrusted {}))
    }

    async fn look(&self, _: Request<LookRequest>) -> Result<Response<LookResponse>, Status> {
        let (node, workers) = (self.endpoints.this_node(), self.endpoints.its_workers().await);
        peer::told(&node, &workers).map(Response::new).map_err(|error| {
            error!(%error, "what a peer asked cannot be written");
            Status::internal("the answer cannot be written")
        })
    }

    async fn wait(
        &self,
        request: Request<Streaming<WaitRequest>>,
    ) -> Result<Response<waits::Answers>, Status> {
        let closing = self.endpoints.sessions.closing();
        Ok(Response::new(waits::answers(self.endpoints.handle.clone(), request.into_inner(), closing)))
    }
}

pub(crate) fn told(failure: Failure) -> peer::Failure {
    match failure {
        Failure::Refused(refusal) => peer::Failure::Refused(refusal),
        Failure::NotLed(why) => peer::Failure::NotLed(why),
        Failure::Unavailable(why) => peer::Failure::Unavailable(why),
        Failure::Unknown(why) => peer::Failure::Unknown(why),
        Failure::Full(why) => peer::Failure::Full(why),
    }
}

pub(crate) fn heard(failure: peer::Failure) -> Failure {
    match failure {
        peer::Failure::Refused(refusal) => Failure::Refused(refusal),
        peer::Failure::NotLed(why) => Failure::NotLed(why),
        peer::Failure::Unavailable(why) => Failure::Unavailable(why),
        peer::Failure::Unknown(why) => Failure::Unknown(why),
        peer::Failure::Full(why) => Failure::Full(why),
    }
}

#[cfg(test)]
mod tests;
