//! REST, as a stranger would speak it: plain JSON, no types of ours.

use std::sync::OnceLock;
use std::time::Duration;

use reqwest::{Certificate, Client, Method};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

/// A request that takes longer than this has failed; slow disks are part of some scenes.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// The runs of the namespace that all scenes play in.
pub const RUNS: &str = "/api/v1/namespaces/default/runs";
pub const JOBS: &str = "/api/v1/namespaces/default/jobs";

#[derive(Debug, Clone)]
pub struct Api {
    address: String,
    client: Client,
    token: Option<String>,
}

#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub content_type: String,
    /// What it says about trying again.
    pub retry_after: Option<String>,
    pub text: String,
}

impl Api {
    pub fn new(address: &str) -> Api {
        Api::trusting(address, None)
    }

    /// Trusts this authority too, in PEM.
    pub fn trusting(address: &str, ca: Option<&[u8]>) -> Api {
        let address = if address.contains("://") { address.to_owned() } else { format!("http://{address}") };
        // `reqwest` takes the provider of the process. An error means that it has one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut client = Client::builder().timeout(ANSWER_MAX).no_proxy();
        if let Some(pem) = ca {
            client = client.add_root_certificate(Certificate::from_pem(pem).expect("it is a certificate"));
        }
        Api { address, client: client.build().expect("a client can be made"), token: None }
    }

    /// From now on it shows this token.
    #[must_use]
    pub fn with_token(mut self, token: Option<String>) -> Api {
        self.token = token;
        self
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    /// None: there was no answer, as from a process that was just killed.
    pub fn get(&self, path: &str) -> Option<Answer> {
        self.send(Method::GET, path, None, None)
    }

    pub fn post(&self, path: &str, body: &Value) -> Option<Answer> {
        self.send(Method::POST, path, Some(body.to_string()), None)
    }

    pub fn put(&self, path: &str, body: &Value) -> Option<Answer> {
        self.send(Method::PUT, path, Some(body.to_string()), None)
    }

    /// The whole of a request by hand, for what no well-behaved client sends.
    pub fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
        header: Option<(&str, &str)>,
    ) -> Option<Answer> {
        runtime().block_on(self.sending(method, path, body, header))
    }

    async fn sending(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
        header: Option<(&str, &str)>,
    ) -> Option<Answer> {
        let mut request = self.client.request(method, format!("{}{path}", self.address));
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body);
        }
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        if let Some((name, value)) = header {
            request = request.header(name, value);
        }
        let response = request.send().await.ok()?;
        let header = |name| Some(response.headers().get(name)?.to_str().ok()?.to_owned());
        let content_type = header("content-type").unwrap_or_default();
        let retry_after = header("retry-after");
        let status = response.status().as_u16();
        Some(Answer { status, content_type, retry_after, text: response.text().await.ok()? })
    }

    /// The same request many times at once.
    pub fn post_at_once(&self, path: &str, body: &Value, times: usize) -> Vec<Option<Answer>> {
        let requests = (0..times).map(|_| {
            let (api, path, body) = (self.clone(), path.to_owned(), body.to_string());
            runtime().spawn(async move { api.sending(Method::POST, &path, Some(body), None).await })
        });
        let requests: Vec<_> = requests.collect();
        let answers = requests.into_iter().map(|request| runtime().block_on(request));
        answers.map(|answer| answer.expect("a request does not panic")).collect()
    }

    #[track_caller]
    pub fn put_job(&self, name: &str, definition: &Value) -> Value {
        self.put(&format!("{JOBS}/{name}"), definition).expect("the node answers").ok()
    }

    /// Submits a run by itself and returns it.
    #[track_caller]
    pub fn submit(&self, body: &Value) -> Value {
        self.post(RUNS, body).expect("the node answers").ok()
    }

    #[track_caller]
    pub fn run(&self, id: &str) -> Value {
        self.get(&format!("{RUNS}/{id}")).expect("the node answers").ok()
    }

    /// All runs of a job, the newest first.
    #[track_caller]
    pub fn runs_of(&self, job: &str) -> Vec<Value> {
        let mut runs = Vec::new();
        let mut after = String::new();
        loop {
            let page =
                self.get(&format!("{RUNS}?job={job}&limit=1000{after}")).expect("the node answers").ok();
            runs.extend(page["items"].as_array().expect("a page has items").iter().cloned());
            match page["next"].as_str() {
                Some(next) => after = format!("&after={next}"),
                None => return runs,
            }
        }
    }

    #[track_caller]
    pub fn start_job(&self, name: &str) -> Value {
        self.post(&format!("{JOBS}/{name}/run"), &json!({})).expect("the node answers").ok()
    }
}

impl Answer {
    pub fn is_ok(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The body of an answer that went well.
    #[track_caller]
    pub fn ok(self) -> Value {
        assert!(self.is_ok(), "{self:?}");
        self.json()
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("not JSON ({error}): {self:?}"))
    }
}

/// What everything of the harness that waits without a thread runs on.
pub(crate) fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let make = || Builder::new_multi_thread().worker_threads(1).enable_all().build();
    RUNTIME.get_or_init(|| make().expect("a runtime can be made"))
}
