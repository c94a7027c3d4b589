//! The service for attempts: they report their progress, as over REST.

use axum::Router;
use axum::extract::{Request as HttpRequest, State};
use axum::http::request::Parts;
use axum::middleware::{self, Next};
use axum::response::Response as HttpResponse;
use punctual_wire::grpc::read_progress;
use punctual_wire::grpc::v1::attempts_server::{Attempts, AttemptsServer};
use punctual_wire::grpc::v1::{ReportRequest, ReportResponse};
use punctual_wire::rest::{ATTEMPT_KEY_HEADER, Problem};
use tokio::time::timeout_at;
use tonic::metadata::{AsciiMetadataValue, MetadataMap};
use tonic::{Code, Request, Response, Status};

use crate::Endpoints;
use crate::auth::{AttemptOf, Caller, Refused};
use crate::limits::BODY_BYTES_MAX;
use crate::reports::{Outcome, Way};
use crate::rest::problem::Failed;
use crate::rest::request::Deadline;
use crate::routes::Right;

/// The metadata of an error: the code of REST, and the field.
const CODE: &str = "punctual-code";
const FIELD: &str = "punctual-field";

pub(crate) fn router(endpoints: Endpoints) -> Router {
    let service = AttemptsServer::new(Answering { endpoints: endpoints.clone() })
        .max_decoding_message_size(BODY_BYTES_MAX)
        .max_encoding_message_size(BODY_BYTES_MAX);
    Router::new()
        .route_service("/punctual.v1.Attempts/{*method}", service)
        .layer(middleware::from_fn_with_state(endpoints, admit))
}

/// The attempt whose key the caller shows. `None` means that its token may run jobs.
#[derive(Debug, Clone, Copy)]
struct Admitted(Option<AttemptOf>);

/// Checks the caller before the message is read, and limits the time in which it must arrive and be answered.
async fn admit(State(endpoints): State<Endpoints>, request: HttpRequest, next: Next) -> HttpResponse {
    let (parts, body) = request.into_parts();
    let admitted = match check(&endpoints, &parts).await {
        Ok(attempt) => Admitted(attempt),
        Err(refused) => {
            let problem = Problem::from(refused);
            endpoints.reports.count(Way::Grpc, Outcome::of_problem(problem.code));
            return status(&problem).into_http();
        }
    };
    let mut request = HttpRequest::from_parts(parts, body);
    let Deadline { until, time } = Deadline::of(&request);
    request.extensions_mut().insert(admitted);
    timeout_at(until, next.run(request)).await.unwrap_or_else(|_| {
        Status::deadline_exceeded(format!("no whole request within {} s", time.as_secs())).into_http()
    })
}

async fn check(endpoints: &Endpoints, request: &Parts) -> Result<Option<AttemptOf>, Refused> {
    let caller = Caller::of(&request.headers, &request.extensions);
    match request.headers.get(ATTEMPT_KEY_HEADER) {
        Some(key) => {
            let shown = key.to_str().unwrap_or_default();
            endpoints.gate.attempt_of(&caller, endpoints.handle.attempt_keys(), shown).map(Some)
        }
        None => endpoints.gate.check(&caller, Right::Report).await.map(|()| None),
    }
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
        let Some(Admitted(key)) = request.extensions().get().copied() else {
            return Err(Failed(Refused::NoToken.into()));
        };
        let report = read_progress(request.into_inner())?;
        let attempt = self.endpoints.attempt_named(key, report.run, report.token).await?;
        let run = attempt.run.0;
        Ok((run, self.endpoints.note(attempt, report.progress, report.durable).await?))
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
