//! The connected clients: for CLIENT LIST, and for ending connections from outside.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

#[derive(Debug, Default)]
pub(super) struct Clients {
    last: AtomicU64,
    here: Mutex<BTreeMap<u64, Arc<Client>>>,
    /// Whether new clients are refused.
    closed: std::sync::atomic::AtomicBool,
}

/// One connection, as others see it.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) id: u64,
    pub(super) address: SocketAddr,
    since: Instant,
    about: Mutex<About>,
    ending: watch::Sender<bool>,
}

#[derive(Debug, Clone)]
struct About {
    name: String,
    lib_name: String,
    lib_version: String,
    protocol: i64,
    last_command: &'static str,
    last_at: Instant,
    is_waiting: bool,
}

impl Clients {
    pub(super) fn enter(&self, address: SocketAddr) -> Arc<Client> {
        let now = Instant::now();
        let client = Arc::new(Client {
            id: self.last.fetch_add(1, Relaxed) + 1,
            address,
            since: now,
            about: Mutex::new(About {
                name: String::new(),
                lib_name: String::new(),
                lib_version: String::new(),
                protocol: 2,
                last_command: "NULL",
                last_at: now,
                is_waiting: false,
            }),
            ending: watch::Sender::new(false),
        });
        self.here.lock().insert(client.id, Arc::clone(&client));
        // Check after the insert: either `close` sees this client, or this client sees `closed`.
        if self.is_closed() {
            client.end();
        }
        client
    }

    pub(super) fn leave(&self, client: &Client) {
        self.here.lock().remove(&client.id);
    }

    pub(super) fn all(&self) -> Vec<Arc<Client>> {
        self.here.lock().values().cloned().collect()
    }

    pub(super) fn len(&self) -> usize {
        self.here.lock().len()
    }

    pub(super) fn waiting(&self) -> usize {
        self.here.lock().values().filter(|client| client.about.lock().is_waiting).count()
    }

    /// Asks every client's connection to end after the current commands are answered.
    pub(super) fn close(&self) {
        self.closed.store(true, std::sync::atomic::Ordering::SeqCst);
        for client in self.all() {
            client.end();
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(std::sync::atomic::Ordering::SeqCst)
    }
}

impl Client {
    pub(super) fn end(&self) {
        self.ending.send_replace(true);
    }

    pub(super) fn is_ending(&self) -> bool {
        *self.ending.borrow()
    }

    pub(super) async fn ended(&self) {
        // An error would mean that the client itself is gone.
        drop(self.ending.subscribe().wait_for(|ending| *ending).await);
    }

    pub(super) fn did(&self, command: &'static str) {
        let mut about = self.about.lock();
        about.last_command = command;
        about.last_at = Instant::now();
    }

    pub(super) fn waits(&self, waits: bool) {
        self.about.lock().is_waiting = waits;
    }

    pub(super) fn name(&self) -> String {
        self.about.lock().name.clone()
    }

    pub(super) fn set_name(&self, name: &str) {
        name.clone_into(&mut self.about.lock().name);
    }

    pub(super) fn set_library(&self, name: Option<&str>, version: Option<&str>) {
        let mut about = self.about.lock();
        if let Some(name) = name {
            name.clone_into(&mut about.lib_name);
        }
        if let Some(version) = version {
            version.clone_into(&mut about.lib_version);
        }
    }

    pub(super) fn speaks(&self, protocol: i64) {
        self.about.lock().protocol = protocol;
    }

    /// A line of CLIENT LIST.
    pub(super) fn line(&self) -> String {
        let about = self.about.lock().clone();
        let flags = if about.is_waiting { "b" } else { "N" };
        format!(
            "id={} addr={} name={} age={} idle={} flags={flags} db=0 cmd={} resp={} lib-name={} lib-ver={}\n",
            self.id,
            self.address,
            about.name,
            self.since.elapsed().as_secs(),
            about.last_at.elapsed().as_secs(),
            about.last_command,
            about.protocol,
            about.lib_name,
            about.lib_version,
        )
    }
}
