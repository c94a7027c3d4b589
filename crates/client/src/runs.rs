//! Runs and dead letters.

use punctual_core::Timestamp;
use punctual_core::ids::RunId;
use punctual_core::name::{Name, Namespace};
use punctual_wire::Text;
use punctual_wire::rest::{
    Again, Approval, Cancel, Comment, DeadLetter, Decide, Decisions, Graph, Move, Page, Progress, Run,
    Submit, Why,
};
use reqwest::Method;
use serde::Serialize;

use crate::{ANSWER_MAX, Client, Result, keyed};

/// Which runs a listing shows, newest first.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RunQuery {
    pub job: Option<Name>,
    /// One or several states, separated by commas.
    pub state: Option<String>,
    /// One or several triggers, separated by commas.
    pub trigger: Option<String>,
    /// The key that the runs were submitted with.
    pub key: Option<String>,
    pub since: Option<Text<Timestamp>>,
    pub until: Option<Text<Timestamp>>,
    pub limit: Option<usize>,
    pub after: Option<String>,
    /// Include every attempt of each run.
    pub attempts: Option<bool>,
    /// Only the child runs of this run, oldest first.
    pub parent: Option<Text<RunId>>,
    /// Also list child runs: parts of split runs and steps of workflows.
    pub children: Option<bool>,
}

/// Which dead letters a listing shows, oldest first.
#[derive(Debug, Clone, Default, Serialize)]
pub struct DeadLetterQuery {
    pub job: Option<Name>,
    /// Only letters that became dead at this time or later.
    pub since: Option<Text<Timestamp>>,
    pub limit: Option<usize>,
    pub after: Option<String>,
}

impl Client {
    pub async fn runs(&self, namespace: &Namespace, query: &RunQuery) -> Result<Page<Run>> {
        self.get(self.in_namespace(Method::GET, namespace, "/runs").query(query)).await
    }

    pub async fn submit(&self, namespace: &Namespace, submit: &Submit) -> Result<Run> {
        let request = self.in_namespace(Method::POST, namespace, "/runs");
        self.post(keyed(request, submit.key.as_deref()), submit).await
    }

    /// A run; if it is split, without its child runs: for requests that are repeated until it has ended.
    pub async fn poll_run(&self, namespace: &Namespace, run: RunId) -> Result<Run> {
        let request = self.in_namespace(Method::GET, namespace, &format!("/runs/{run}"));
        self.get(request.query(&[("children", false)])).await
    }

    pub async fn run(&self, namespace: &Namespace, run: RunId, events: bool) -> Result<Run> {
        let request = self.in_namespace(Method::GET, namespace, &format!("/runs/{run}"));
        self.get(request.query(&[("events", events)])).await
    }

    /// Why a run waits, was skipped or has not started.
    pub async fn why_run(&self, namespace: &Namespace, run: RunId) -> Result<Why> {
        self.get(self.in_namespace(Method::GET, namespace, &format!("/runs/{run}/why"))).await
    }

    pub async fn cancel_run(&self, namespace: &Namespace, run: RunId, cancel: &Cancel) -> Result<Run> {
        let request = self.in_namespace(Method::POST, namespace, &format!("/runs/{run}/cancel"));
        self.get(request.json(cancel)).await
    }

    /// A page of the steps of a workflow, and what became of each.
    pub async fn run_graph(&self, namespace: &Namespace, run: RunId, after: Option<&str>) -> Result<Graph> {
        let request = self.in_namespace(Method::GET, namespace, &format!("/runs/{run}/graph"));
        self.get(request.query(&after.map(|after| [("after", after)]))).await
    }

    /// The steps that wait for an approval.
    pub async fn approvals(
        &self,
        namespace: &Namespace,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Approval>> {
        let request = self.in_namespace(Method::GET, namespace, "/approvals").query(&[("limit", limit)]);
        self.get(request.query(&after.map(|after| [("after", after)]))).await
    }

    /// Decides on a step: `decision` is `approve`, `reject`, `skip` or `cancel`.
    pub async fn decide_step(
        &self,
        namespace: &Namespace,
        run: RunId,
        step: &str,
        decision: &str,
        comment: &Comment,
    ) -> Result<Run> {
        let path = format!("/runs/{run}/steps/{}/{decision}", step.replace('/', "%2F"));
        self.get(self.in_namespace(Method::POST, namespace, &path).json(comment)).await
    }

    /// Starts no further step of a workflow.
    pub async fn pause_run(&self, namespace: &Namespace, run: RunId, comment: &Comment) -> Result<Run> {
        let request = self.in_namespace(Method::POST, namespace, &format!("/runs/{run}/pause"));
        self.get(request.json(comment)).await
    }

    pub async fn resume_run(&self, namespace: &Namespace, run: RunId, comment: &Comment) -> Result<Run> {
        let request = self.in_namespace(Method::POST, namespace, &format!("/runs/{run}/resume"));
        self.get(request.json(comment)).await
    }

    /// Stops the attempt of a run, which goes on with another worker.
    pub async fn move_run(&self, namespace: &Namespace, run: RunId, to: &Move) -> Result<Run> {
        let request = self.in_namespace(Method::POST, namespace, &format!("/runs/{run}/move"));
        self.get(request.json(to)).await
    }

    /// Reports the progress of an attempt; refused if a newer attempt exists.
    pub async fn progress(&self, namespace: &Namespace, run: RunId, progress: &Progress) -> Result<()> {
        let request = self.in_namespace(Method::POST, namespace, &format!("/runs/{run}/progress"));
        self.send(request.json(progress).timeout(ANSWER_MAX)).await.map(drop)
    }

    pub async fn retry_run(&self, namespace: &Namespace, run: RunId, again: &Again) -> Result<Run> {
        let request = self.in_namespace(Method::POST, namespace, &format!("/runs/{run}/retry"));
        self.post(keyed(request, again.key.as_deref()), again).await
    }

    pub async fn dead_letters(
        &self,
        namespace: &Namespace,
        query: &DeadLetterQuery,
    ) -> Result<Page<DeadLetter>> {
        self.get(self.in_namespace(Method::GET, namespace, "/dead-letters").query(query)).await
    }

    pub async fn dead_letter(&self, namespace: &Namespace, letter: RunId) -> Result<DeadLetter> {
        self.get(self.in_namespace(Method::GET, namespace, &format!("/dead-letters/{letter}"))).await
    }

    /// Replays or discards many letters, and answers for each.
    pub async fn decide(&self, namespace: &Namespace, decide: &Decide) -> Result<Decisions> {
        self.post(self.in_namespace(Method::POST, namespace, "/dead-letters"), decide).await
    }

    pub async fn replay(&self, namespace: &Namespace, letter: RunId, again: &Again) -> Result<Run> {
        let path = format!("/dead-letters/{letter}/replay");
        let request = self.in_namespace(Method::POST, namespace, &path);
        self.post(keyed(request, again.key.as_deref()), again).await
    }

    pub async fn discard(&self, namespace: &Namespace, letter: RunId) -> Result<()> {
        let path = format!("/dead-letters/{letter}/discard");
        let request = self.in_namespace(Method::POST, namespace, &path);
        self.send(request.timeout(ANSWER_MAX)).await.map(drop)
    }
}
