//! Asks a server for the schema of a service, by the reflection protocol of gRPC.
//!
//! The protocol has two versions, whose messages are the same. The older one is asked if the server does not know the
//! newer one.

use punctual_core::limits::GRPC_SCHEMA_BYTES_MAX;
use punctual_core::task::{Code, Grpc, Schema, SchemaFiles};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::MetadataMap;
use tonic::transport::Channel;
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{ServerReflectionRequest, ServerReflectionResponse};

use super::unary::message;

const VERSIONS: [&str; 2] = [
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

/// Why there is no schema.
enum Trouble {
    /// The call of the protocol ended with this status.
    Status(Status),
    /// In words, for the job's author.
    Other(String),
}

/// The schema of the service that a task calls. The error is written for the job's author.
pub(super) async fn schema(channel: &Channel, grpc: &Grpc, metadata: &MetadataMap) -> Result<Schema, String> {
    for version in VERSIONS {
        match ask(channel, version, grpc, metadata).await {
            Ok(schema) => return Ok(schema),
            Err(Trouble::Status(status)) if status.code() == tonic::Code::Unimplemented => {}
            Err(Trouble::Status(status)) if status.code() == tonic::Code::NotFound => {
                let (service, _) = grpc.service_and_method();
                let said = message(&status);
                return Err(format!("task.grpc.method: the server has no service `{service}`: {said}"));
            }
            Err(Trouble::Status(status)) => {
                let code = Code::of(status.code() as i32);
                return Err(format!(
                    "{} does not tell its schema: status {code}: {}",
                    grpc.address,
                    message(&status)
                ));
            }
            Err(Trouble::Other(why)) => return Err(why),
        }
    }
    Err(format!(
        "{} does not tell its schema: switch its reflection service on, or name a `descriptor`",
        grpc.address
    ))
}

async fn ask(
    channel: &Channel,
    version: &'static str,
    grpc: &Grpc,
    metadata: &MetadataMap,
) -> Result<Schema, Trouble> {
    let unreadable =
        |why: String| Trouble::Other(format!("{} tells a schema that is not usable: {why}", grpc.address));
    let (service, _) = grpc.service_and_method();
    let mut questions = Questions::open(channel.clone(), version, metadata.clone(), service).await?;
    let (mut files, mut asked) = (SchemaFiles::default(), None);
    loop {
        for file in questions.answer().await? {
            files.add(&file).map_err(unreadable)?;
        }
        let Some(name) = files.missing().map(str::to_owned) else { break };
        if asked.as_ref() == Some(&name) {
            return Err(unreadable(format!("it lacks the file `{name}`")));
        }
        questions.ask(MessageRequest::FileByFilename(name.clone())).await;
        asked = Some(name);
    }
    files.into_schema().map_err(unreadable)
}

/// A stream of questions, one at a time, and their answers.
struct Questions {
    asking: mpsc::Sender<ServerReflectionRequest>,
    answers: Streaming<ServerReflectionResponse>,
}

impl Questions {
    /// Opens the stream with the first question: some servers say nothing before it.
    async fn open(
        channel: Channel,
        version: &'static str,
        metadata: MetadataMap,
        service: &str,
    ) -> Result<Questions, Trouble> {
        let (asking, asked) = mpsc::channel(1);
        // The channel has room for it.
        let _ = asking.try_send(question(MessageRequest::FileContainingSymbol(service.to_owned())));
        let request = Request::from_parts(metadata, Default::default(), ReceiverStream::new(asked));
        let codec = ProstCodec::<ServerReflectionRequest, ServerReflectionResponse>::default();
        let mut client = tonic::client::Grpc::new(channel).max_decoding_message_size(GRPC_SCHEMA_BYTES_MAX);
        client.ready().await.map_err(|error| Trouble::Other(crate::causes::in_full(&error)))?;
        let answers = client.streaming(request, PathAndQuery::from_static(version), codec).await;
        Ok(Questions { asking, answers: answers.map_err(Trouble::Status)?.into_inner() })
    }

    async fn ask(&self, what: MessageRequest) {
        // An error means that the server ended the stream, which the answer will tell.
        let _ = self.asking.send(question(what)).await;
    }

    /// The files in the next answer.
    async fn answer(&mut self) -> Result<Vec<Vec<u8>>, Trouble> {
        let answer = self.answers.message().await.map_err(Trouble::Status)?;
        match answer.and_then(|answer| answer.message_response) {
            Some(MessageResponse::FileDescriptorResponse(files)) => Ok(files.file_descriptor_proto),
            Some(MessageResponse::ErrorResponse(error)) => {
                Err(Trouble::Status(Status::new(error.error_code.into(), error.error_message)))
            }
            _ => Err(Trouble::Other("the server ended the questions about its schema".to_owned())),
        }
    }
}

fn question(what: MessageRequest) -> ServerReflectionRequest {
    ServerReflectionRequest { host: String::new(), message_request: Some(what) }
}
