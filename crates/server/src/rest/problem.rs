//! Turns errors into problem+json answers.

use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use punctual_core::command::Refusal;
use punctual_node::Failure;
use punctual_wire::rest::{Code, Problem};
use tracing::error;

/// A request that ends in a problem.
#[derive(Debug, Clone)]
pub(crate) struct Failed(pub(crate) Problem);

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&self.0).unwrap_or_default();
        let mut response = (status, body).into_response();
        // For layers that count answers.
        response.extensions_mut().insert(self.0.code);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        // The rest of the request is not read, so the connection cannot be used again.
        if matches!(self.0.code, Code::BodyTooLarge | Code::TooSlow) {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        if let Some(seconds) = self.0.code.retry_after() {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

impl From<Refusal> for Failed {
    fn from(refusal: Refusal) -> Failed {
        Failed(refusal.into())
    }
}

impl From<Problem> for Failed {
    fn from(problem: Problem) -> Self {
        Failed(problem)
    }
}

impl From<punctual_wire::Error> for Failed {
    fn from(error: punctual_wire::Error) -> Self {
        Failed(error.into())
    }
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Self {
        Failed(match failure {
            Failure::Refused(refusal) => refusal.into(),
            Failure::Unavailable(message) | Failure::NotLed(message) | Failure::Unknown(message) => {
                Problem::new(Code::Unavailable, message)
            }
            Failure::Full(message) => Problem::new(Code::Full, message),
        })
    }
}

/// A failed read. The store's message (paths, statements) goes to the log, not to the client.
impl From<punctual_store::Error> for Failed {
    fn from(error: punctual_store::Error) -> Self {
        error!(%error, "a read failed");
        Failed(match error {
            punctual_store::Error::Unreachable(_) => {
                Problem::new(Code::Unavailable, "the store cannot be reached; try again")
            }
            _ => internal(),
        })
    }
}

pub(crate) fn internal() -> Problem {
    Problem::new(Code::Internal, "internal error; the server's log has the cause")
}

pub(crate) async fn no_such_route(uri: Uri) -> Failed {
    let path: String = uri.path().chars().take(200).collect();
    Failed(Problem::new(
        Code::NoSuchRoute,
        format!("no route `{path}`; /api/v1/openapi.json lists all routes"),
    ))
}

pub(crate) async fn method_not_allowed(method: Method) -> Failed {
    let method: String = method.as_str().chars().take(20).collect();
    Failed(Problem::new(
        Code::MethodNotAllowed,
        format!("`{method}` is not allowed here; the header Allow names the methods"),
    ))
}
