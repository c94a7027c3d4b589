//! Progress that attempts report over REST.
//!
//! A caller with the key of an attempt reports for that attempt alone: the key names it.

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use punctual_core::command::{Answer, Command, Refusal};
use punctual_core::ids::{RunId, Token};
use punctual_core::run::Run;
use punctual_store::RunFilter;
use punctual_wire::Text;
use punctual_wire::rest::{Code, Problem, Progress, TaskProgress, TaskProgressed};

use super::ask::unexpected;
use super::problem::Failed;
use super::request::{self, RunAt};
use crate::Endpoints;
use crate::auth::{AttemptOf, Refused};

pub(crate) async fn report(
    State(endpoints): State<Endpoints>,
    at: RunAt,
    key: Option<Extension<AttemptOf>>,
    request::Json(body): request::Json<Progress>,
) -> Result<StatusCode, Failed> {
    let (token, progress, durable) = body.into_core()?;
    let Some(token) = keyed(key, at.run, token)? else {
        let message = "is missing; write the value of PUNCTUAL_ATTEMPT_TOKEN";
        return Err(Failed(Problem::new(Code::Invalid, message).about("token")));
    };
    let command = Command::Progress { namespace: at.namespace, run: at.run, token, progress, durable };
    endpoints.note(command).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The same in the plain shape: without a namespace, and without a token if it is about the newest attempt.
pub(crate) async fn report_plainly(
    State(endpoints): State<Endpoints>,
    key: Option<Extension<AttemptOf>>,
    request::Json(body): request::Json<TaskProgress>,
) -> Result<Json<TaskProgressed>, Failed> {
    let (run, progress, durable) = body.into_core()?;
    let token = keyed(key, run, None)?;
    let found = endpoints.find_anywhere(run).await?;
    let token = token.unwrap_or(found.token);
    let command = Command::Progress { namespace: found.namespace.clone(), run, token, progress, durable };
    endpoints.note(command).await?;
    Ok(Json(TaskProgressed { execution_id: Text(run) }))
}

/// The token of the attempt: that of the key if there is one. The key must be that of this attempt.
fn keyed(
    key: Option<Extension<AttemptOf>>,
    run: RunId,
    token: Option<Token>,
) -> Result<Option<Token>, Failed> {
    match key {
        Some(Extension(key)) if key.run == run && token.is_none_or(|token| token == key.token) => {
            Ok(Some(key.token))
        }
        Some(_) => Err(Failed(Problem::new(Code::Unauthenticated, Refused::WrongKey.to_string()))),
        None => Ok(token),
    }
}

impl Endpoints {
    async fn note(&self, report: Command) -> Result<(), Failed> {
        match self.handle.command(report).await? {
            Answer::Noted => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// A run of any namespace.
    async fn find_anywhere(&self, id: RunId) -> Result<std::sync::Arc<Run>, Failed> {
        // Runs are listed newest first: this one is the first after the next id.
        let after = RunId(id.0.saturating_add(1));
        let found = self.handle.reads().runs(&RunFilter::default(), Some(after), 1).await?;
        let found = found.into_iter().find(|run| run.id == id);
        found.ok_or_else(|| Failed(Refusal::NoSuchRun(id).into()))
    }
}
