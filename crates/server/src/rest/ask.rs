//! Sends one command to the node and turns its answer into a REST answer.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use punctual_core::command::{Answer, Command, Made, Refusal};
use punctual_core::ids::{JobId, RunId};
use punctual_core::job::Job;
use punctual_core::limits::PAGE_MAX;
use punctual_core::name::{Name, Namespace};
use punctual_wire::rest::{Code, Problem, Run};
use tracing::error;

use super::problem::{Failed, internal};
use crate::Endpoints;
use crate::auth::Caller;

impl Endpoints {
    /// Sends a command that answers with a job.
    pub(crate) async fn ask_job(&self, command: Command) -> Result<(Arc<Job>, Made), Failed> {
        match self.handle.command(command).await? {
            Answer::Job { job, made } => Ok((job, made)),
            other => Err(unexpected(&other)),
        }
    }

    /// The name of the caller's token. `None` means that the server asks for no token.
    pub(crate) async fn name_of_caller(&self, parts: &Parts) -> Result<Option<Box<str>>, Failed> {
        let caller = Caller::of(&parts.headers, &parts.extensions);
        let known = self.gate.who(&caller).await.map_err(|refused| Failed(refused.into()))?;
        Ok(known.map(|(name, _)| name.into()))
    }

    /// Sends a command that makes a run: 201 with the new run, or 200 with the run that its key made before.
    pub(crate) async fn ask_new_run(
        &self,
        namespace: &Namespace,
        command: Command,
    ) -> Result<Response, Failed> {
        let (status, run) = match self.handle.command(command).await? {
            Answer::Run(run) => (StatusCode::CREATED, Run::from(&*run)),
            Answer::Existing(run) => (StatusCode::OK, self.first_bearer(namespace, run).await?),
            other => return Err(unexpected(&other)),
        };
        Ok((status, axum::Json(run)).into_response())
    }

    async fn first_bearer(&self, namespace: &Namespace, run: RunId) -> Result<Run, Failed> {
        match self.handle.reads().run(namespace, run).await? {
            Some(record) => Ok(Run::from(&*record.run)),
            None => {
                let message = format!(
                    "the key belongs to run {run}, which is no longer kept; use a new key for a new request"
                );
                Err(Problem::new(Code::KeyUsed, message).into())
            }
        }
    }

    pub(crate) async fn find_job(&self, namespace: &Namespace, name: &Name) -> Result<Arc<Job>, Failed> {
        let job = self.handle.reads().job(namespace, name).await?;
        job.ok_or_else(|| no_such_job(namespace, name))
    }

    /// Every job that has or had this name, newest first. A deleted job keeps its history, and its name may
    /// be used again.
    pub(crate) async fn jobs_named(&self, namespace: &Namespace, name: &Name) -> Result<Vec<JobId>, Failed> {
        let store = self.handle.reads();
        let live = store.job(namespace, name).await?.map(|job| job.id);
        let mut ids: Vec<JobId> = Vec::new();
        loop {
            let page = store.deleted_jobs(Some((namespace, name)), ids.last().copied(), PAGE_MAX).await?;
            ids.extend(page.iter().map(|gone| gone.id));
            if page.len() < PAGE_MAX {
                break;
            }
        }
        // A job deleted between the two reads is in both.
        ids.extend(live.filter(|live| !ids.contains(live)));
        ids.reverse();
        if ids.is_empty() { Err(no_such_job(namespace, name)) } else { Ok(ids) }
    }
}

fn no_such_job(namespace: &Namespace, name: &Name) -> Failed {
    let (namespace, name) = (namespace.clone(), name.clone());
    Failed(Refusal::NoSuchJob { namespace, name }.into())
}

/// An answer that does not fit its command is a bug in this program.
pub(crate) fn unexpected(answer: &Answer) -> Failed {
    error!(?answer, "an answer does not fit its command");
    Failed(internal())
}
