//! Requests of the node itself, such as notifications. They pass the same egress rules as those of tasks.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::time::timeout;

use super::call::{admit, parse};
use super::client::{Clients, to_port};
use crate::egress::Egress;
use crate::executor::failure::explain;

/// How much of a response is read. Receivers answer with a few words.
const REPLY_BYTES_MAX: usize = 4096;

/// Sends requests under the egress rules. It follows no redirects: a secret may be part of the URL.
#[derive(Debug)]
pub struct Caller(Clients);

/// The beginning of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    pub body: String,
}

impl Caller {
    pub fn new(egress: Arc<Egress>) -> Caller {
        Caller(Clients::new(egress))
    }

    /// The egress rules, for other protocols than HTTP.
    pub fn egress(&self) -> &Arc<Egress> {
        self.0.egress()
    }

    /// Sends a JSON body, and waits at most `within` for the response.
    pub async fn post(
        &self,
        url: &str,
        headers: &[(&'static str, String)],
        body: String,
        within: Duration,
    ) -> Result<Reply, String> {
        let url = parse(url).map_err(|_| "the URL cannot be read".to_owned())?;
        let place = admit(&url, &self.0).await?;
        let client = self.0.get(place.is_secure, None).await?;
        let mut all = HeaderMap::new();
        all.insert("content-type", HeaderValue::from_static("application/json"));
        for (name, value) in headers {
            let value = HeaderValue::from_str(value).map_err(|_| format!("header {name} cannot be sent"))?;
            all.insert(HeaderName::from_static(name), value);
        }
        let exchange = async {
            let sent = to_port(place.port, client.post(url).headers(all).body(body).send()).await;
            let mut response = sent.map_err(|error| explain(&error, &place.name, place.is_secure))?;
            let (status, mut read) = (response.status().as_u16(), Vec::new());
            while read.len() < REPLY_BYTES_MAX
                && let Ok(Some(chunk)) = response.chunk().await
            {
                read.extend_from_slice(&chunk);
            }
            read.truncate(REPLY_BYTES_MAX);
            Ok(Reply { status, body: String::from_utf8_lossy(&read).into_owned() })
        };
        match timeout(within, exchange).await {
            Ok(result) => result,
            Err(_) => Err(format!("no response within {} s", within.as_secs())),
        }
    }
}
