//! The service for attempts: they report their progress, as over REST.

use axum::Router;
use punctual_wire::grpc::read_progress;
use punctual_wire::grpc::v1::attempts_server::{Attempts, AttemptsServer};
use punctual_wire::grpc::v1::{ReportRequest, ReportResponse};
use punctual_wire::rest::{ATTEMPT_KEY_HEADER, Problem};
use tonic::metadata::{AsciiMetadataValue, MetadataMap};
use tonic::{Code, Request, Response, Status};

use crate::Endpoints;
use crate::auth::{AttemptOf, Caller};
use crate::limits::BODY_BYTES_MAX;
use crate::reports::{Outcome, Way};
use crate::rest::problem::Failed;
use crate::routes::Right;

/// The metadata of an error: the code of REST, and the field.
const CODE: &str = "punctual-code";
const FIELD: &str = "punctual-field";

pub(crate) fn router(endpoints: Endpoints) -> Router {
    let service = AttemptsServer::new(Answering { endpoints })
        .max_decoding_message_size(BODY_BYTES_MAX)
        .max_encoding_message_size(BODY_BYTES_MAX);
    Router::new().route_service("/punctual.v1.Attempts/{*method}", service)
}

#[derive(Debug)]
struct Answering {
    endpoints: Endpoints,
}

#[tonic::async_trait]
impl Attempts for Answering {
    async fn report(&self, request: Request<ReportRequest>) -> Result<Response<ReportResponse>, Status> {
        let reported = self.take(request).await;
        let (run, outcome) = match &reported {
            Ok((run, outcome)) => (*run, *outcome),
            Err(Failed(problem)) => (0, Outcome::of_problem(problem.code)),
        };
        self.endpoints.reports.count(Way::Grpc, outcome);
        reported.map(|_| Response::new(ReportResponse { run })).map_err(|Failed(problem)| status(&problem))
    }
}

impl Answering {
    /// The id of the run, and what became of the report.
    async fn take(&self, request: Request<ReportRequest>) -> Result<(i64, Outcome), Failed> {
        let key = self.check(&request).await?;
        let report = read_progress(request.into_inner())?;
        let attempt = self.endpoints.attempt_named(key, report.run, report.token).await?;
        let run = attempt.run.0;
        Ok((run, self.endpoints.note(attempt, report.progress, report.durable).await?))
    }

    /// The attempt whose key the caller shows. `None` means that its token may run jobs.
    async fn check(&self, request: &Request<ReportRequest>) -> Result<Option<AttemptOf>, Failed> {
        let Endpoints { gate, handle, .. } = &self.endpoints;
        let headers: &axum::http::HeaderMap = request.metadata().as_ref();
        let caller = Caller::of(headers, request.extensions());
        let checked = match headers.get(ATTEMPT_KEY_HEADER) {
            Some(key) => {
                let shown = key.to_str().unwrap_or_default();
                gate.attempt_of(&caller, handle.attempt_keys(), shown).map(Some)
            }
            None => gate.check(&caller, Right::Report).await.map(|()| None),
        };
        checked.map_err(|refused| Failed(refused.into()))
    }
}

/// An error of REST as one of gRPC.
fn status(problem: &Problem) -> Status {
    let code = match problem.status {
        401 => Code::Unauthenticated,
        403 => Code::PermissionDenied,
        404 => Code::NotFound,
        409 | 412 => Code::FailedPrecondition,
        429 | 507 => Code::ResourceExhausted,
        503 => Code::Unavailable,
        400..500 => Code::InvalidArgument,
        _ => Code::Internal,
    };
    let mut metadata = MetadataMap::new();
    metadata.insert(CODE, AsciiMetadataValue::from_static(problem.code.as_str()));
    if let Some(field) = problem.field.as_ref().and_then(|field| field.parse().ok()) {
        metadata.insert(FIELD, field);
    }
    Status::with_metadata(code, problem.to_string(), metadata)
}
