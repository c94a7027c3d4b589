//! Progress that attempts report over REST.

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use punctual_wire::Text;
use punctual_wire::rest::{Code, Problem, Progress, TaskProgress, TaskProgressed};

use super::body;
use super::problem::Failed;
use super::request::RunAt;
use crate::Endpoints;
use crate::auth::AttemptOf;
use crate::reports::{Outcome, Reporting, keyed};

/// The outcome goes with the answer: `access_check` counts it.
pub(crate) async fn report(
    State(endpoints): State<Endpoints>,
    at: RunAt,
    key: Option<Extension<AttemptOf>>,
    body::Json(body): body::Json<Progress>,
) -> Result<(StatusCode, Extension<Outcome>), Failed> {
    let (token, progress, durable) = body.into_core()?;
    let Some(token) = keyed(key.map(|key| key.0), at.run, token)? else {
        let message = "is missing; write the value of PUNCTUAL_ATTEMPT_TOKEN";
        return Err(Failed(Problem::new(Code::Invalid, message).about("token")));
    };
    let attempt = Reporting { namespace: at.namespace, run: at.run, token };
    let outcome = endpoints.note(attempt, progress, durable).await?;
    Ok((StatusCode::NO_CONTENT, Extension(outcome)))
}

/// The same in the plain shape: without a namespace, and without a token if it is about the newest attempt.
pub(crate) async fn report_plainly(
    State(endpoints): State<Endpoints>,
    key: Option<Extension<AttemptOf>>,
    body::Json(body): body::Json<TaskProgress>,
) -> Result<(Extension<Outcome>, Json<TaskProgressed>), Failed> {
    let (run, progress, durable) = body.into_core()?;
    let attempt = endpoints.attempt_named(key.map(|key| key.0), Some(run), None).await?;
    let outcome = endpoints.note(attempt, progress, durable).await?;
    Ok((Extension(outcome), Json(TaskProgressed { execution_id: Text(run) })))
}
