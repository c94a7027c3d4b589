//! TLS: the server's certificate, and the authorities whose worker certificates are accepted.
//!
//! Certificates are renewed while the server runs, so the files are checked again when a connection comes, at
//! most once a second. Files that cannot be used (only half of a pair is written, a file is missing) leave
//! the old certificates in force.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoClientAuth, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::{debug, info, warn};

/// How long a handshake may take: two round trips, also over a slow network.
const HANDSHAKE_MAX: Duration = Duration::from_secs(5);
/// How often the files are checked for changes.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The ALPN protocols, preferred first: exactly what `listen` can serve.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];
/// The permission bits that make a key file readable by other users, who could then impersonate this server.
const OTHERS_MAY: u32 = 0o007;

/// The paths of the certificate, its key and, if workers need certificates, the authority that signs those.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    pub cert: PathBuf,
    pub key: PathBuf,
    pub client_ca: Option<PathBuf>,
}

#[derive(Debug)]
pub struct Tls {
    files: Files,
    state: Mutex<State>,
}

struct State {
    config: Arc<ServerConfig>,
    /// The file stamps at the last successful read.
    read: Vec<Stamp>,
    /// The file stamps at the last failed read, so that each failure is logged once.
    unusable: Vec<Stamp>,
    looked: Instant,
}

/// File metadata that changes when a file is rewritten or replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl Stamp {
    /// `None` means that the file does not exist.
    pub(crate) fn of(path: &Path) -> Option<Stamp> {
        let found = fs::metadata(path).ok()?;
        let modified = (found.mtime(), found.mtime_nsec());
        Some(Stamp { inode: found.ino(), size: found.size(), modified })
    }
}

/// A connection after its handshake.
#[derive(Debug)]
pub(crate) struct Shaken {
    pub(crate) stream: TlsStream<TcpStream>,
    /// Whether the client showed a certificate signed by the authority in `client_ca`.
    pub(crate) certified: bool,
}

impl Tls {
    /// Reads the files; the error names what cannot be used.
    pub fn open(files: Files) -> Result<Tls, String> {
        let read = files.stamps();
        let config = files.read()?;
        let state = State { config, read, unusable: Vec::new(), looked: Instant::now() };
        Ok(Tls { files, state: Mutex::new(state) })
    }

    /// Whether workers have to show a certificate.
    pub fn asks_workers(&self) -> bool {
        self.files.client_ca.is_some()
    }

    /// The TLS stream. `None` means that the handshake failed; a client without TLS cannot be answered.
    pub(crate) async fn shake(&self, stream: TcpStream) -> Option<Shaken> {
        let acceptor = TlsAcceptor::from(self.config());
        match timeout(HANDSHAKE_MAX, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => {
                let certified = stream.get_ref().1.peer_certificates().is_some_and(|shown| !shown.is_empty());
                Some(Shaken { stream, certified })
            }
            Ok(Err(error)) => {
                debug!(%error, "a handshake failed");
                None
            }
            Err(_) => {
                debug!("a handshake took too long");
                None
            }
        }
    }

    fn config(&self) -> Arc<ServerConfig> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.looked.elapsed() >= LOOK_EVERY {
            state.looked = Instant::now();
            state.look(&self.files);
        }
        Arc::clone(&state.config)
    }
}

impl State {
    fn look(&mut self, files: &Files) {
        let now = files.stamps();
        if now == self.read {
            return;
        }
        match files.read() {
            Ok(config) => {
                info!(cert = %files.cert.display(), "the certificate was read again");
                (self.config, self.read) = (config, now);
                self.unusable.clear();
            }
            Err(error) if now != self.unusable => {
                warn!(error, "the new certificate cannot be used: the old one stays");
                self.unusable = now;
            }
            Err(_) => {}
        }
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("read", &self.read).finish_non_exhaustive()
    }
}

impl Files {
    fn paths(&self) -> impl Iterator<Item = &Path> {
        [&self.cert, &self.key].into_iter().chain(&self.client_ca).map(PathBuf::as_path)
    }

    /// A missing file has no stamp, so the list differs from one where the file exists.
    fn stamps(&self) -> Vec<Stamp> {
        self.paths().filter_map(Stamp::of).collect()
    }

    fn read(&self) -> Result<Arc<ServerConfig>, String> {
        let chain = certificates(&self.cert)?;
        let key = key(&self.key)?;
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS cannot be used here: {error}"))?;
        let clients: Arc<dyn ClientCertVerifier> = match &self.client_ca {
            None => Arc::new(NoClientAuth),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(path)? {
                    roots.add(certificate).map_err(|error| about(path, &error))?;
                }
                // Clients with only a token connect without a certificate; the gate decides which callers need one.
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                verifier.allow_unauthenticated().build().map_err(|error| about(path, &error))?
            }
        };
        let mut config = builder
            .with_client_cert_verifier(clients)
            .with_single_cert(chain, key)
            .map_err(|error| format!("{} and its key: {error}", self.cert.display()))?;
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        Ok(Arc::new(config))
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let bytes = fs::read(path).map_err(|error| about(path, &error))?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match all.map_err(|error| about(path, &error))? {
        none if none.is_empty() => Err(about(path, &"no certificate in PEM is in it")),
        some => Ok(some),
    }
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let mode = fs::metadata(path).map_err(|error| about(path, &error))?.permissions().mode();
    if mode & OTHERS_MAY != 0 {
        let what =
            format!("everyone may read this key (mode {:o}): `chmod o= {}`", mode & 0o777, path.display());
        return Err(about(path, &what));
    }
    let bytes = fs::read(path).map_err(|error| about(path, &error))?;
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|_| about(path, &"no private key in PEM is in it"))
}

fn about(path: &Path, what: &impl std::fmt::Display) -> String {
    format!("{}: {what}", path.display())
}

#[cfg(test)]
mod tests;
