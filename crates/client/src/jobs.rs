//! Jobs.

use punctual_core::command::Expect;
use punctual_core::name::{Name, Namespace};
use punctual_wire::job_file::JobFile;
use punctual_wire::rest::{Fire, Job, MADE_HEADER, Made, Page, Run, Start};
use reqwest::Method;
use reqwest::header::{IF_MATCH, IF_NONE_MATCH};

use crate::{ANSWER_MAX, Client, Result};

/// What a put did, and the job as it now is.
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
        let request = match expect {
            Expect::Anything => request,
            Expect::Absent => request.header(IF_NONE_MATCH, "*"),
            Expect::Revision(revision) => request.header(IF_MATCH, format!("\"{revision}\"")),
        };
        let response = self.send(request.timeout(ANSWER_MAX)).await?;
        let made = response.headers().get(MADE_HEADER).and_then(|made| made.to_str().ok());
        let made = made.and_then(Made::parse).unwrap_or(Made::Changed);
        Ok(Put { made, job: self.read(response).await? })
    }

    pub async fn job(&self, namespace: &Namespace, name: &Name) -> Result<Job> {
        self.get(self.in_namespace(Method::GET, namespace, &format!("/jobs/{name}"))).await
    }

    pub async fn jobs(&self, namespace: &Namespace, after: Option<&str>, limit: usize) -> Result<Page<Job>> {
        let request = self.in_namespace(Method::GET, namespace, "/jobs").query(&[("limit", limit)]);
        self.get(request.query(&after.map(|after| [("after", after)]))).await
    }

    pub async fn delete_job(&self, namespace: &Namespace, name: &Name) -> Result<()> {
        let request = self.in_namespace(Method::DELETE, namespace, &format!("/jobs/{name}"));
        self.send(request.timeout(ANSWER_MAX)).await.map(drop)
    }

    pub async fn run_job(&self, namespace: &Namespace, name: &Name, start: &Start) -> Result<Run> {
        self.post(self.in_namespace(Method::POST, namespace, &format!("/jobs/{name}/run")), start).await
    }

    pub async fn pause_job(&self, namespace: &Namespace, name: &Name) -> Result<Job> {
        self.get(self.in_namespace(Method::POST, namespace, &format!("/jobs/{name}/pause"))).await
    }

    pub async fn resume_job(&self, namespace: &Namespace, name: &Name) -> Result<Job> {
        self.get(self.in_namespace(Method::POST, namespace, &format!("/jobs/{name}/resume"))).await
    }

    pub async fn next_fires(&self, namespace: &Namespace, name: &Name, count: usize) -> Result<Page<Fire>> {
        let request = self.in_namespace(Method::GET, namespace, &format!("/jobs/{name}/next"));
        self.get(request.query(&[("count", count)])).await
    }
}
