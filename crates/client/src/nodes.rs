//! Nodes, workers and the exported history.

use punctual_core::Timestamp;
use punctual_wire::Text;
use punctual_wire::rest::{Node, Page, Worker};
use reqwest::Method;

use crate::{ANSWER_MAX, Chunks, Client, Error, Result};

impl Client {
    pub async fn nodes(&self) -> Result<Page<Node>> {
        self.get(self.request(Method::GET, "/api/v1/nodes")).await
    }

    pub async fn workers(&self) -> Result<Page<Worker>> {
        self.get(self.request(Method::GET, "/api/v1/workers")).await
    }

    /// Tells a worker to take no more work.
    pub async fn drain_worker(&self, worker: &str) -> Result<()> {
        self.tell_worker(worker, "drain").await
    }

    /// Tells a drained worker to work again.
    pub async fn resume_worker(&self, worker: &str) -> Result<()> {
        self.tell_worker(worker, "resume").await
    }

    async fn tell_worker(&self, worker: &str, what: &str) -> Result<()> {
        let request = self.request(Method::POST, &format!("/api/v1/workers/{worker}/{what}"));
        self.send(request.timeout(ANSWER_MAX)).await.map(drop)
    }

    /// The exported history, as lines of JSON.
    pub async fn export(&self, from: Option<Timestamp>, to: Option<Timestamp>) -> Result<Chunks> {
        let query = [("from", from), ("to", to)];
        let query: Vec<_> = query.into_iter().filter_map(|(name, at)| Some((name, Text(at?)))).collect();
        self.stream(self.request(Method::GET, "/api/v1/export/history").query(&query)).await
    }

    /// The metrics of the node, as Prometheus reads them.
    pub async fn metrics(&self) -> Result<String> {
        let response = self.send(self.request(Method::GET, "/metrics").timeout(ANSWER_MAX)).await?;
        response.text().await.map_err(|source| self.unreachable(source))
    }

    /// Whether the server is ready.
    pub async fn is_ready(&self) -> Result<bool> {
        match self.send(self.request(Method::GET, "/readyz").timeout(ANSWER_MAX)).await {
            Ok(_) => Ok(true),
            Err(Error::Strange { status: 503, .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
