//! TLS: the certificate that we show, and whose certificates we take from workers.
//!
//! Certificates are renewed under a running server, so the files are looked at again when a connection comes, at most
//! once a second. What cannot be used (half of a pair is written, a file is gone) leaves the old ones in force.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::crypto::aws_lc_rs;
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

/// How long a handshake may take: two round trips, and patience for a slow line.
const HANDSHAKE_MAX: Duration = Duration::from_secs(5);
/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// What we speak over it, the best first: exactly what `listen` can serve.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];
/// Whoever may read the key can be us.
const OTHERS_MAY: u32 = 0o007;

/// Where the certificate and its key are and, if workers have to show one, whose certificates are taken.
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
    /// What the files looked like when they were read.
    read: Vec<Stamp>,
    /// What they looked like when they could not be used: it is said once.
    unusable: Vec<Stamp>,
    looked: Instant,
}

/// What changes when a file is written anew or replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl Stamp {
    /// `None` means that there is no such file.
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
    /// It showed a certificate that was signed by whom we trust.
    pub(crate) certified: bool,
}

impl Tls {
    /// Reads the files; what cannot be used is told by its name.
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

    /// None: it came to nothing, and there is nobody to tell.
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

    /// A file that is not there has no stamp, which differs from any.
    fn stamps(&self) -> Vec<Stamp> {
        self.paths().filter_map(Stamp::of).collect()
    }

    fn read(&self) -> Result<Arc<ServerConfig>, String> {
        let chain = certificates(&self.cert)?;
        let key = key(&self.key)?;
        let provider = Arc::new(aws_lc_rs::default_provider());
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
                // People come with a token only; who needs a certificate is the gate's to say.
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
