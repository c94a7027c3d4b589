//! How a connection is opened: its address, its encryption, and its limits.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use punctual_core::ids::SessionId;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres::config::{SslMode, TargetSessionAttrs};
use tokio_postgres::{Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::connection::PgConnection;
use super::failure::Failure;
use super::{durability, queries, writes};
use crate::{Durability, Error, Result};

const CONNECT_MAX: Duration = Duration::from_secs(5);
/// A connection whose peer acknowledges nothing for this long counts as lost.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(5);
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);

/// What a connection is for: it decides its limits and its durability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Commits of shards.
    Commit,
    /// Acquisitions, and compare-and-swap changes such as calendars: durable, seldom.
    Lease,
    /// Renewals: losing one is harmless, so they do not wait for a disk.
    Session,
    Read,
    /// Output, and pruning.
    Log,
}

/// Settings of every connection. `jit` costs more than it saves for statements of a few rows. The plan of a prepared
/// statement lives as long as the connection: a plan made while a table was small must not scan it when it is large.
pub(super) const ALWAYS: &str = "SET search_path = punctual; SET client_min_messages = warning; SET jit = off; \
     SET default_transaction_isolation = 'read committed'; SET plan_cache_mode = force_generic_plan; \
     SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; \
     SET idle_in_transaction_session_timeout = '2s'; ";

impl Role {
    /// A lock that is not granted within `lock_timeout` is given up; the transaction is then known to be rolled back.
    fn settings(self) -> &'static str {
        match self {
            // Short: all shards of a commit wait together with the one whose rows are locked.
            Role::Commit => "SET lock_timeout = '1s'; SET statement_timeout = '10s'",
            // Short: an acquisition that waits too long for a former owner ends that owner's connections and tries
            // again.
            Role::Lease => "SET lock_timeout = '300ms'; SET statement_timeout = '10s'",
            Role::Session => {
                "SET synchronous_commit = off; SET lock_timeout = '500ms'; SET statement_timeout = '2s'"
            }
            Role::Read => "SET default_transaction_read_only = on; SET statement_timeout = '30s'",
            Role::Log => {
                "SET synchronous_commit = off; SET lock_timeout = '2s'; SET statement_timeout = '30s'"
            }
        }
    }

    fn is_durable(self) -> bool {
        matches!(self, Role::Commit | Role::Lease)
    }
}

/// Opens connections to the database.
pub(super) struct Connector {
    config: Config,
    tls: Option<MakeRustlsConnect>,
    durability: Durability,
}

impl std::fmt::Debug for Connector {
    /// Leaves out the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (hosts, database) = (self.config.get_hosts(), self.config.get_dbname());
        f.debug_struct("Connector")
            .field("hosts", &hosts)
            .field("database", &database)
            .finish_non_exhaustive()
    }
}

impl Connector {
    pub(super) fn new(url: &str, session: Option<SessionId>, durability: Durability) -> Result<Connector> {
        let (url, private) = Private::parse(url)?;
        let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
            Error::Unusable(format!("the address of the store cannot be read: {error}"))
        })?;
        config.application_name(application_name(session));
        // After a failover the old primary may come back as a read-only standby.
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        config.tcp_user_timeout(UNACKNOWLEDGED_MAX).keepalives_idle(KEEPALIVE_IDLE);
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_MAX);
        }
        config.ssl_mode(if private.is_some() { SslMode::Require } else { SslMode::Disable });
        let tls = private.map(|private| private.tls()).transpose()?;
        Ok(Connector { config, tls, durability })
    }

    /// Without a name in the address, the server takes the name of the user.
    pub(super) fn database(&self) -> &str {
        self.config.get_dbname().or(self.config.get_user()).unwrap_or_default()
    }

    pub(super) async fn connect(&self, role: Role) -> Result<PgConnection> {
        let mut connection = self.bare().await?;
        connection.batch(ALWAYS).await.map_err(Failure::reading)?;
        connection.batch(role.settings()).await.map_err(Failure::reading)?;
        if role.is_durable() {
            durability::check(&mut connection, self.durability).await?;
        }
        if role == Role::Commit {
            // Prepared now, so that no commit has to wait for it.
            let own = [queries::BEGIN, queries::COMMIT, queries::ROLLBACK, queries::shards::FENCE];
            let writes = writes::STATEMENTS.iter().map(String::as_str);
            connection.prepare(own.into_iter().chain(writes)).await.map_err(Failure::reading)?;
        }
        Ok(connection)
    }

    /// A connection without settings, for use before the schema exists.
    pub(super) async fn bare(&self) -> Result<PgConnection> {
        let (client, task) = match &self.tls {
            Some(tls) => {
                let (client, connection) = self.config.connect(tls.clone()).await.map_err(cannot_connect)?;
                (client, tokio::spawn(drive(connection)))
            }
            None => {
                let (client, connection) = self.config.connect(NoTls).await.map_err(cannot_connect)?;
                (client, tokio::spawn(drive(connection)))
            }
        };
        Ok(PgConnection::new(client, task))
    }
}

/// Every connection carries its session's id, so that a node that takes over a shard can find and end its open
/// transactions.
fn application_name(session: Option<SessionId>) -> String {
    session.map_or_else(|| "punctual".to_owned(), |session| format!("punctual/{session}"))
}

/// Drives the connection. The caller of a request gets its error; the end of an idle connection is only logged.
async fn drive(connection: impl Future<Output = std::result::Result<(), tokio_postgres::Error>>) {
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a connection to the database has ended");
    }
}

/// Even a refused password may be accepted later: a running node keeps trying.
fn cannot_connect(error: tokio_postgres::Error) -> Error {
    Error::Unreachable(Failure::from(error).to_string())
}

/// TLS settings: the server's certificate is always checked.
#[derive(Debug, PartialEq, Eq)]
struct Private {
    /// A file of certificates to trust. `None` means those that the system trusts.
    roots: Option<String>,
}

impl Private {
    /// Removes `sslmode` and `sslrootcert` from an address.
    fn parse(url: &str) -> Result<(String, Option<Private>)> {
        let Some((before, query)) = url.split_once('?') else { return Ok((url.to_owned(), None)) };
        let (mut rest, mut is_private, mut roots) = (Vec::new(), false, None);
        for parameter in query.split('&') {
            match parameter.split_once('=') {
                Some(("sslmode", "disable")) => is_private = false,
                Some(("sslmode", "require" | "verify-ca" | "verify-full")) => is_private = true,
                Some(("sslmode", other)) => {
                    return Err(Error::Unusable(format!(
                        "sslmode is `disable`, `require` or `verify-full`, not `{other}`: correct the address of the store"
                    )));
                }
                Some(("sslrootcert", path)) => roots = Some(path.to_owned()),
                _ => rest.push(parameter),
            }
        }
        let url = if rest.is_empty() { before.to_owned() } else { format!("{before}?{}", rest.join("&")) };
        Ok((url, is_private.then_some(Private { roots })))
    }

    fn tls(&self) -> Result<MakeRustlsConnect> {
        let roots = match &self.roots {
            Some(path) => given_roots(Path::new(path))?,
            None => system_roots()?,
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map_err(|error| Error::Unusable(format!("cannot speak TLS: {error}")))?;
        Ok(MakeRustlsConnect::new(config.with_root_certificates(roots).with_no_client_auth()))
    }
}

fn given_roots(path: &Path) -> Result<RootCertStore> {
    let unreadable = |error: &dyn std::fmt::Display| {
        Error::Unusable(format!("cannot read the certificates in {}: {error}", path.display()))
    };
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(path).map_err(|error| unreadable(&error))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| unreadable(&error))?;
        roots.add(certificate).map_err(|error| unreadable(&error))?;
    }
    Ok(roots)
}

fn system_roots() -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(Error::Unusable(
            "this system trusts no certificates: name a file of them with sslrootcert".to_owned(),
        ));
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_address_says_about_privacy_is_taken_out() {
        let parse = |url| Private::parse(url).unwrap();
        assert_eq!(parse("postgres://h/d"), ("postgres://h/d".to_owned(), None));
        assert_eq!(parse("p://h/d?sslmode=disable"), ("p://h/d".to_owned(), None));
        let given = Private { roots: Some("/ca.pem".to_owned()) };
        assert_eq!(
            parse("p://h/d?sslmode=verify-full&a=1&sslrootcert=/ca.pem"),
            ("p://h/d?a=1".to_owned(), Some(given))
        );
        assert!(Private::parse("p://h/d?sslmode=prefer").is_err());
    }

    #[test]
    fn a_session_names_its_connections_as_a_taker_looks_for_them() {
        assert_eq!(application_name(Some(SessionId(255))), "punctual/00000000000000ff");
        assert_eq!(application_name(Some(SessionId(-1))), "punctual/ffffffffffffffff");
        assert_eq!(application_name(None), "punctual");
    }
}
