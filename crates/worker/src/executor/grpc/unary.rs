//! One call of a unary method, with messages as bytes: their types are known only to the schema.

use prost::bytes::{Buf, BufMut, Bytes};
use punctual_core::limits::GRPC_ANSWER_BYTES_MAX;
use punctual_core::task::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::MetadataMap;
use tonic::transport::Channel;
use tonic::{Request, Status};

use crate::causes::in_full;

/// The answer with its metadata, or the status that the call ended with.
pub(super) async fn call(
    channel: Channel,
    grpc: &Grpc,
    metadata: MetadataMap,
    message: Vec<u8>,
) -> Result<(MetadataMap, Bytes), Status> {
    let path = format!("/{}", grpc.method);
    let path = PathAndQuery::try_from(path).map_err(|error| Status::internal(error.to_string()))?;
    let mut request = Request::from_parts(metadata, Default::default(), Bytes::from(message));
    // The attempt's own timeout began earlier, so it passes first.
    request.set_timeout(grpc.timeout);
    let mut client = tonic::client::Grpc::new(channel).max_decoding_message_size(GRPC_ANSWER_BYTES_MAX);
    client.ready().await.map_err(|error| Status::unavailable(in_full(&error)))?;
    let (metadata, answer, _) = client.unary(request, path, Raw).await?.into_parts();
    Ok((metadata, answer))
}

/// What a status says. If the network caused it, only its causes say more.
pub(super) fn message(status: &Status) -> String {
    if status.message().is_empty() || status.message() == "transport error" {
        return in_full(status);
    }
    status.message().to_owned()
}

/// Passes messages on as they are.
#[derive(Debug, Clone, Copy)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Raw;
    type Decoder = Raw;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Raw {
        Raw
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(message);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}
