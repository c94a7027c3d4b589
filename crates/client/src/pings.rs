//! Pings: reports of programs outside Punctual.

use punctual_core::ids::RunId;
use punctual_core::name::{Name, Namespace};
use punctual_wire::rest::{PING_KEY_HEADER, PingKey, Pinged};
use reqwest::Method;

use crate::{Client, Result};

/// What a program reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ping<'a> {
    Started,
    /// The run with this id, or else the newest one, has succeeded, with this output.
    Succeeded {
        run: Option<RunId>,
        output: &'a str,
    },
    Failed {
        run: Option<RunId>,
        exit_code: Option<i32>,
        error: &'a str,
    },
}

impl Client {
    /// The key of a ping, for a caller that may edit its job.
    pub async fn ping_key(&self, namespace: &Namespace, name: &Name) -> Result<PingKey> {
        self.get(self.in_namespace(Method::GET, namespace, &format!("/pings/{name}/key"))).await
    }

    /// Reports for the ping with this key.
    pub async fn ping(
        &self,
        namespace: &Namespace,
        name: &Name,
        key: &str,
        ping: Ping<'_>,
    ) -> Result<Pinged> {
        let (path, run, exit_code, text) = match ping {
            Ping::Started => ("/start", None, None, ""),
            Ping::Succeeded { run, output } => ("", run, None, output),
            Ping::Failed { run, exit_code, error } => ("/fail", run, exit_code, error),
        };
        let run = run.map(|run| ("run", run.to_string()));
        let exit_code = exit_code.map(|code| ("exit_code", code.to_string()));
        let query: Vec<(&str, String)> = run.into_iter().chain(exit_code).collect();
        let request = self.in_namespace(Method::POST, namespace, &format!("/pings/{name}{path}"));
        self.get(request.query(&query).header(PING_KEY_HEADER, key).body(text.to_owned())).await
    }
}
