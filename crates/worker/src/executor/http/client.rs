//! The clients that carry requests, and the gate that each of their connections passes.

use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Certificate, Client, redirect};
use tokio::sync::OnceCell;

use crate::egress::{Egress, Refused};

/// How long a connection may take to come about; the rest of the task's time is for the answer.
const CONNECT_MAX: Duration = Duration::from_secs(10);

tokio::task_local! {
    /// The port of the call under way: the client asks for the addresses of a name without saying which port it wants.
    static PORT: u16;
}

/// Clients are made when they are first needed: reading the machine's certificates takes a while.
#[derive(Debug)]
pub(crate) struct Clients {
    egress: Arc<Egress>,
    plain: OnceCell<Client>,
    secure: OnceCell<Client>,
}

impl Clients {
    pub(crate) fn new(egress: Arc<Egress>) -> Clients {
        Clients { egress, plain: OnceCell::new(), secure: OnceCell::new() }
    }

    pub(super) fn egress(&self) -> &Egress {
        &self.egress
    }

    /// A client for a URL; with certificates of the task's own, one for it alone.
    pub(super) async fn get(&self, is_secure: bool, ca: Option<&str>) -> Result<Client, String> {
        let egress = Arc::clone(&self.egress);
        match (is_secure, ca) {
            (false, _) => self.plain.get_or_try_init(|| make(egress, Trust::Nobody)).await.cloned(),
            (true, None) => self.secure.get_or_try_init(|| make(egress, Trust::System)).await.cloned(),
            (true, Some(path)) => make(egress, Trust::Also(certificates(path).await?)).await,
        }
    }
}

enum Trust {
    /// For calls without TLS.
    Nobody,
    System,
    Also(Vec<Certificate>),
}

async fn certificates(path: &str) -> Result<Vec<Certificate>, String> {
    let bytes =
        tokio::fs::read(path).await.map_err(|error| format!("cannot read task.http.tls.ca: {error}"))?;
    let found = Certificate::from_pem_bundle(&bytes).unwrap_or_default();
    if found.is_empty() { Err("task.http.tls.ca has no certificate in PEM".to_owned()) } else { Ok(found) }
}

async fn make(egress: Arc<Egress>, trust: Trust) -> Result<Client, String> {
    let making = tokio::task::spawn_blocking(move || {
        let builder = Client::builder()
            .user_agent(concat!("punctual/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .referer(false)
            // A proxy would connect for us, to wherever the name leads it.
            .no_proxy()
            // Every call connects anew, so every call passes the gate.
            .pool_max_idle_per_host(0)
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
    made.map_err(|error| format!("cannot make ready for HTTP: {}", super::failure::innermost(&error)))
}

/// Within this, names are resolved for calls to a port.
pub(super) async fn to_port<T>(port: u16, call: impl Future<Output = T>) -> T {
    PORT.scope(port, call).await
}

/// Gives a client only addresses that may be called.
struct Gate(Arc<Egress>);

impl Resolve for Gate {
    fn resolve(&self, name: Name) -> Resolving {
        let egress = Arc::clone(&self.0);
        let port = PORT.try_with(|port| *port);
        Box::pin(async move {
            // Asked outside of a call, which does not happen, it opens nothing.
            let port = port.map_err(|_| Refused::NoAddress {
                host: name.as_str().to_owned(),
                why: "nobody asked for it".to_owned(),
            })?;
            let addresses = egress.addresses(name.as_str(), port).await?;
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}
