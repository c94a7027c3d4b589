//! The HTTP clients, and the egress check of their connections.

use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Certificate, Client, redirect};
use tokio::sync::OnceCell;

use super::poll::Polls;
use crate::egress::{Egress, Refused};
use crate::executor::failure::innermost;

/// Connect timeout; the rest of the task's timeout is for the response.
pub(in crate::executor) const CONNECT_MAX: Duration = Duration::from_secs(10);

tokio::task_local! {
    /// The port of the current call: the client resolves names without passing the port.
    static PORT: u16;
}

/// Clients are created on first use: reading the machine's certificates is slow.
#[derive(Debug)]
pub(crate) struct Clients {
    egress: Arc<Egress>,
    plain: OnceCell<Client>,
    secure: OnceCell<Client>,
    polls: Polls,
}

impl Clients {
    pub(crate) fn new(egress: Arc<Egress>) -> Clients {
        Clients { egress, plain: OnceCell::new(), secure: OnceCell::new(), polls: Polls::default() }
    }

    pub(in crate::executor) fn egress(&self) -> &Arc<Egress> {
        &self.egress
    }

    pub(super) fn polls(&self) -> &Polls {
        &self.polls
    }

    /// A client that keeps one connection to each host open.
    pub(super) async fn kept(&self, is_secure: bool, ca: Option<&str>) -> Result<Client, String> {
        let trust = match (is_secure, ca) {
            (false, _) => Trust::Nobody,
            (true, None) => Trust::System,
            (true, Some(path)) => Trust::Also(certificates(path).await?),
        };
        make(Arc::clone(&self.egress), trust, 1).await
    }

    /// A client for a URL. A task with its own certificates gets its own client.
    pub(super) async fn get(&self, is_secure: bool, ca: Option<&str>) -> Result<Client, String> {
        let egress = Arc::clone(&self.egress);
        match (is_secure, ca) {
            (false, _) => self.plain.get_or_try_init(|| make(egress, Trust::Nobody, 0)).await.cloned(),
            (true, None) => self.secure.get_or_try_init(|| make(egress, Trust::System, 0)).await.cloned(),
            (true, Some(path)) => make(egress, Trust::Also(certificates(path).await?), 0).await,
        }
    }
}

enum Trust {
    /// No certificates: for calls without TLS.
    Nobody,
    System,
    Also(Vec<Certificate>),
}

async fn certificates(path: &str) -> Result<Vec<Certificate>, String> {
    Ok(read_ca("task.http.tls.ca", path).await?.1)
}

/// The certificates in a PEM file of the worker, as text and parsed.
pub(in crate::executor) async fn read_ca(
    field: &str,
    path: &str,
) -> Result<(Vec<u8>, Vec<Certificate>), String> {
    let bytes = tokio::fs::read(path).await.map_err(|error| format!("cannot read {field}: {error}"))?;
    let found = Certificate::from_pem_bundle(&bytes).unwrap_or_default();
    if found.is_empty() { Err(format!("{field} has no certificate in PEM")) } else { Ok((bytes, found)) }
}

/// A client that keeps so many idle connections to a host. With 0 every call opens a new connection, so every call is
/// checked.
async fn make(egress: Arc<Egress>, trust: Trust, idle_max: usize) -> Result<Client, String> {
    let making = tokio::task::spawn_blocking(move || {
        // `reqwest` takes the provider of the process. An error means that it has one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = Client::builder()
            .user_agent(concat!("punctual/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .referer(false)
            // A proxy would connect for us, to any address.
            .no_proxy()
            .pool_max_idle_per_host(idle_max)
            .connect_timeout(CONNECT_MAX)
            .dns_resolver(Gate(egress));
        let builder = match trust {
            Trust::Nobody => builder.tls_certs_only([]),
            Trust::System => builder,
            Trust::Also(certificates) => builder.tls_certs_merge(certificates),
        };
        builder.build()
    });
    let made = making.await.map_err(|error| error.to_string())?;
    made.map_err(|error| format!("cannot make ready for HTTP: {}", innermost(&error)))
}

/// Runs a call; names resolved in it are checked for this port.
pub(super) async fn to_port<T>(port: u16, call: impl Future<Output = T>) -> T {
    PORT.scope(port, call).await
}

/// A resolver that returns only allowed addresses.
struct Gate(Arc<Egress>);

impl Resolve for Gate {
    fn resolve(&self, name: Name) -> Resolving {
        let egress = Arc::clone(&self.0);
        let port = PORT.try_with(|port| *port);
        Box::pin(async move {
            // Outside of a call, which does not happen, it allows nothing.
            let port = port.map_err(|_| Refused::NoAddress {
                host: name.as_str().to_owned(),
                why: "nobody asked for it".to_owned(),
            })?;
            let addresses = egress.addresses(name.as_str(), port).await?;
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}
