//! Runs and dead letters.

use punctual_core::Timestamp;
use punctual_core::ids::RunId;
use punctual_core::name::{Name, Namespace};
use punctual_wire::Text;
use punctual_wire::rest::{Again, DeadLetter, Page, Run, Submit};
use reqwest::Method;
use serde::Serialize;

use crate::{ANSWER_MAX, Chunks, Client, Result};

/// Which runs a listing shows, newest first.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RunQuery {
    pub job: Option<Name>,
    /// One state or several, with commas between.
    pub state: Option<String>,
    pub since: Option<Text<Timestamp>>,
    pub until: Option<Text<Timestamp>>,
    pub limit: Option<usize>,
    pub after: Option<String>,
}

impl Client {
    pub async fn runs(&self, namespace: &Namespace, query: &RunQuery) -> Result<Page<Run>> {
        self.get(self.in_namespace(Method::GET, namespace, "/runs").query(query)).await
    }

    pub async fn submit(&self, namespace: &Namespace, submit: &Submit) -> Result<Run> {
        self.post(self.in_namespace(Method::POST, namespace, "/runs"), submit).await
    }

    pub async fn run(&self, namespace: &Namespace, run: RunId, events: bool) -> Result<Run> {
        let request = self.in_namespace(Method::GET, namespace, &format!("/runs/{run}"));
        self.get(request.query(&[("events", events)])).await
    }

    /// What the attempts of a run printed.
    pub async fn logs(&self, namespace: &Namespace, run: RunId) -> Result<Chunks> {
        self.stream(self.in_namespace(Method::GET, namespace, &format!("/runs/{run}/logs"))).await
    }

    pub async fn cancel_run(&self, namespace: &Namespace, run: RunId) -> Result<Run> {
        self.get(self.in_namespace(Method::POST, namespace, &format!("/runs/{run}/cancel"))).await
    }

    pub async fn retry_run(&self, namespace: &Namespace, run: RunId, again: &Again) -> Result<Run> {
        self.post(self.in_namespace(Method::POST, namespace, &format!("/runs/{run}/retry")), again).await
    }

    pub async fn dead_letters(
        &self,
        namespace: &Namespace,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<DeadLetter>> {
        let request = self.in_namespace(Method::GET, namespace, "/dead-letters").query(&[("limit", limit)]);
        self.get(request.query(&after.map(|after| [("after", after)]))).await
    }

    pub async fn replay(&self, namespace: &Namespace, letter: RunId, again: &Again) -> Result<Run> {
        let path = format!("/dead-letters/{letter}/replay");
        self.post(self.in_namespace(Method::POST, namespace, &path), again).await
    }

    pub async fn discard(&self, namespace: &Namespace, letter: RunId) -> Result<()> {
        let path = format!("/dead-letters/{letter}/discard");
        let request = self.in_namespace(Method::POST, namespace, &path);
        self.send(request.timeout(ANSWER_MAX)).await.map(drop)
    }
}
