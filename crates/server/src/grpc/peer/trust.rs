//! The certificates that a node trusts when it dials its peers.
//!
//! Certificates are replaced while a node runs, even by those of another authority. So the files are checked
//! for changes, at most once a second. A file that cannot be used leaves the previous certificates in force.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tonic::transport::{Certificate, ClientTlsConfig};
use tracing::{info, warn};

use crate::tls::Stamp;

/// How often the files are checked for changes.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Trusted certificates in PEM, besides those of the system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trusted {
    Given(Vec<u8>),
    /// Read again whenever they change.
    Files(Vec<PathBuf>),
}

impl Trusted {
    /// Reads the certificates; a file that cannot be read is named.
    pub fn read(&self) -> Result<Vec<u8>, String> {
        let files = match self {
            Trusted::Given(pem) => return Ok(pem.clone()),
            Trusted::Files(files) => files,
        };
        let read =
            |path: &PathBuf| std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
        Ok(files.iter().map(read).collect::<Result<Vec<_>, _>>()?.join(&b'\n'))
    }

    fn stamps(&self) -> Vec<Option<Stamp>> {
        match self {
            Trusted::Given(_) => Vec::new(),
            Trusted::Files(files) => files.iter().map(|path| Stamp::of(path)).collect(),
        }
    }
}

#[derive(Debug)]
pub(super) struct Trust {
    trusted: Trusted,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    config: ClientTlsConfig,
    /// How often the files were read; a connection remembers the number it was made with.
    number: u64,
    /// The file stamps at the last read, successful or not.
    seen: Vec<Option<Stamp>>,
    looked: Instant,
}

impl Trust {
    pub(super) fn new(trusted: Trusted) -> Result<Trust, String> {
        let seen = trusted.stamps();
        let config = config(trusted.read()?);
        let state = State { config, number: 0, seen, looked: Instant::now() };
        Ok(Trust { trusted, state: Mutex::new(state) })
    }

    /// The certificates trusted now, and their number.
    pub(super) fn now(&self) -> (ClientTlsConfig, u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.looked.elapsed() >= LOOK_EVERY {
            state.looked = Instant::now();
            state.look(&self.trusted);
        }
        (state.config.clone(), state.number)
    }
}

impl State {
    fn look(&mut self, trusted: &Trusted) {
        let now = trusted.stamps();
        if now == self.seen {
            return;
        }
        self.seen = now;
        match trusted.read() {
            Ok(pem) => {
                info!("the certificates that this node trusts were read again");
                (self.config, self.number) = (config(pem), self.number + 1);
            }
            Err(error) => warn!(error, "the new certificates cannot be read: the old ones are trusted"),
        }
    }
}

fn config(pem: Vec<u8>) -> ClientTlsConfig {
    ClientTlsConfig::new().with_native_roots().ca_certificate(Certificate::from_pem(pem))
}
