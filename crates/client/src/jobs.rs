//! Jobs.

use punctual_core::Timestamp;
use punctual_core::command::Expect;
use punctual_core::name::{Name, Namespace};
use punctual_wire::Text;
use punctual_wire::job_file::{JobFile, JsonObject};
use punctual_wire::rest::{
    Backfill, BackfillJob, Checked, Diff, Fire, Job, LogRecord, MADE_HEADER, Made, Page, PauseJob, Revision,
    RevisionFile, Run, SendEvent, SentEvent, Skip, Start, Why,
};
use reqwest::header::{CONTENT_TYPE, IF_MATCH, IF_NONE_MATCH};
use reqwest::{Method, RequestBuilder};

use crate::{ANSWER_MAX, Client, Result, keyed};

/// What a put did, and the resulting job.
#[derive(Debug, Clone, PartialEq)]
pub struct Put {
    pub made: Made,
    pub job: Job,
}

impl Client {
    pub async fn put_job(
        &self,
        namespace: &Namespace,
        name: &Name,
        file: &JobFile,
        expect: Expect,
    ) -> Result<Put> {
        let request = self.in_namespace(Method::PUT, namespace, &format!("/jobs/{name}")).json(file);
        self.edit(expecting(request, expect)).await
    }

    /// Applies a JSON merge patch: null removes a field, a field that is not named stays.
    pub async fn patch_job(
        &self,
        namespace: &Namespace,
        name: &Name,
        patch: &JsonObject,
        expect: Expect,
    ) -> Result<Put> {
        let request = self.in_namespace(Method::PATCH, namespace, &format!("/jobs/{name}"));
        let request = request.header(CONTENT_TYPE, "application/merge-patch+json").json(patch);
        self.edit(expecting(request, expect)).await
    }

    async fn edit(&self, request: RequestBuilder) -> Result<Put> {
        let response = self.send(request.timeout(ANSWER_MAX)).await?;
        let made = response.headers().get(MADE_HEADER).and_then(|made| made.to_str().ok());
        let made = made.and_then(Made::parse).unwrap_or(Made::Changed);
        Ok(Put { made, job: self.read(response).await? })
    }

    /// Says what a put would do, without doing it.
    pub async fn validate_job(&self, namespace: &Namespace, file: &JobFile) -> Result<Checked> {
        self.post(self.in_namespace(Method::POST, namespace, "/jobs/validate"), file).await
    }

    pub async fn job(&self, namespace: &Namespace, name: &Name) -> Result<Job> {
        self.get(self.in_namespace(Method::GET, namespace, &format!("/jobs/{name}"))).await
    }

    /// Why a job does not run now.
    pub async fn why_job(&self, namespace: &Namespace, name: &Name) -> Result<Why> {
        self.get(self.in_namespace(Method::GET, namespace, &format!("/jobs/{name}/why"))).await
    }

    pub async fn jobs(&self, namespace: &Namespace, after: Option<&str>, limit: usize) -> Result<Page<Job>> {
        let request = self.in_namespace(Method::GET, namespace, "/jobs").query(&[("limit", limit)]);
        self.get(request.query(&after.map(|after| [("after", after)]))).await
    }

    pub async fn delete_job(&self, namespace: &Namespace, name: &Name, expect: Expect) -> Result<()> {
        let request = self.in_namespace(Method::DELETE, namespace, &format!("/jobs/{name}"));
        self.send(expecting(request, expect).timeout(ANSWER_MAX)).await.map(drop)
    }

    pub async fn run_job(&self, namespace: &Namespace, name: &Name, start: &Start) -> Result<Run> {
        let request = self.in_namespace(Method::POST, namespace, &format!("/jobs/{name}/run"));
        self.post(keyed(request, start.key.as_deref()), start).await
    }

    /// Makes up for the due times of a job in a span of time.
    pub async fn backfill_job(
        &self,
        namespace: &Namespace,
        name: &Name,
        ask: &BackfillJob,
    ) -> Result<Backfill> {
        let request = self.in_namespace(Method::POST, namespace, &format!("/jobs/{name}/backfill"));
        self.get(request.json(ask).timeout(ANSWER_MAX)).await
    }

    pub async fn send_event(
        &self,
        namespace: &Namespace,
        name: &Name,
        event: &SendEvent,
    ) -> Result<SentEvent> {
        let request = self.in_namespace(Method::POST, namespace, &format!("/events/{name}"));
        self.post(keyed(request, event.key.as_deref()), event).await
    }

    pub async fn pause_job(&self, namespace: &Namespace, name: &Name, pause: &PauseJob) -> Result<Job> {
        let request = self.in_namespace(Method::POST, namespace, &format!("/jobs/{name}/pause"));
        self.get(request.json(pause)).await
    }

    pub async fn resume_job(&self, namespace: &Namespace, name: &Name) -> Result<Job> {
        self.get(self.in_namespace(Method::POST, namespace, &format!("/jobs/{name}/resume"))).await
    }

    /// The next fires, from `from` on. `None` means from now on.
    pub async fn next_fires(
        &self,
        namespace: &Namespace,
        name: &Name,
        count: usize,
        from: Option<Text<Timestamp>>,
    ) -> Result<Page<Fire>> {
        let request = self.in_namespace(Method::GET, namespace, &format!("/jobs/{name}/next"));
        self.get(request.query(&[("count", count)]).query(&from.map(|from| [("from", from)]))).await
    }

    /// Newest first.
    pub async fn revisions(
        &self,
        namespace: &Namespace,
        name: &Name,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Revision>> {
        let request = self.in_namespace(Method::GET, namespace, &format!("/jobs/{name}/revisions"));
        self.get(request.query(&[("limit", limit)]).query(&after.map(|after| [("after", after)]))).await
    }

    pub async fn revision(&self, namespace: &Namespace, name: &Name, number: u32) -> Result<RevisionFile> {
        self.get(self.in_namespace(Method::GET, namespace, &format!("/jobs/{name}/revisions/{number}"))).await
    }

    /// What changed between two revisions. `from: None` means the revision before `to`.
    pub async fn revision_diff(
        &self,
        namespace: &Namespace,
        name: &Name,
        from: Option<u32>,
        to: u32,
    ) -> Result<Diff> {
        let path = format!("/jobs/{name}/revisions/{to}/diff");
        let request = self.in_namespace(Method::GET, namespace, &path);
        self.get(request.query(&from.map(|from| [("from", from)]))).await
    }

    /// Skipped due times, newest first; also of a deleted job.
    pub async fn skips(
        &self,
        namespace: &Namespace,
        name: &Name,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Skip>> {
        let request = self.in_namespace(Method::GET, namespace, &format!("/jobs/{name}/skips"));
        self.get(request.query(&[("limit", limit)]).query(&after.map(|after| [("after", after)]))).await
    }

    /// One line per run, newest first.
    pub async fn job_log(
        &self,
        namespace: &Namespace,
        name: &Name,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<LogRecord>> {
        let request = self.in_namespace(Method::GET, namespace, &format!("/jobs/{name}/log"));
        self.get(request.query(&[("limit", limit)]).query(&after.map(|after| [("after", after)]))).await
    }
}

fn expecting(request: RequestBuilder, expect: Expect) -> RequestBuilder {
    match expect {
        Expect::Anything => request,
        Expect::Absent => request.header(IF_NONE_MATCH, "*"),
        Expect::Revision(revision) => request.header(IF_MATCH, format!("\"{revision}\"")),
    }
}
