//! A way to a server that breaks as it is told to: a TCP proxy of our own.
//!
//! It listens on a free port of this machine and carries every connection to one address. While it is used, a test
//! makes it slow, silent or deaf, or cuts it, at once or at a chosen moment ([`Cut`]); [`Proxy::repair`] ends all of it.
//!
//! ```text
//!  client ──▶ gate ──▶ message by message ──▶ server      Way::There
//!         ◀── gate ◀───────────────────────── server      Way::Back
//! ```
//!
//! The one surprise: what is held is kept, not lost. A network that drops everything for a while loses nothing of a
//! connection that outlives it, so an old COMMIT may arrive when the proxy is repaired, and it must do no harm.

mod carry;
mod message;
mod owner;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use message::Language;

use crate::api::runtime;

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// To the server.
    There,
    Back,
}

impl Way {
    pub const BOTH: [Way; 2] = [Way::There, Way::Back];
}

/// Whose connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    Everyones,
    /// Those that this process made.
    Process(u32),
}

/// What happens to a transaction when its client says COMMIT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// The server never hears of it, and the connection is cut.
    Before,
    /// It is passed on and the connection cut at once, whatever comes of it.
    Amid,
    /// The server has committed, and the answer is lost with the connection.
    After,
    /// It is kept back, so that the transaction stays open, until the proxy is repaired.
    Held,
}

/// What came by, and what was done to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub connections: u64,
    /// Connections that were cut.
    pub cuts: u64,
    pub commits: u64,
    /// Of those, how many met their [`Cut`].
    pub commits_met: u64,
    pub bytes: u64,
}

#[derive(Debug)]
pub struct Proxy {
    place: SocketAddr,
    shared: Arc<Shared>,
    listening: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    server: SocketAddr,
    language: Language,
    rules: watch::Sender<Rules>,
    /// Bytes that may still pass before a connection is cut.
    budget: AtomicI64,
    commit: Mutex<Option<(Vec<u8>, Cut)>>,
    hush: Mutex<Option<(Vec<u8>, Vec<Whose>)>>,
    tally: Tally,
}

#[derive(Debug, Default)]
struct Tally {
    connections: AtomicU64,
    cuts: AtomicU64,
    commits: AtomicU64,
    commits_met: AtomicU64,
    bytes: AtomicU64,
}

/// What stands between a client and the server now.
#[derive(Debug, Clone, Default)]
struct Rules {
    held: Vec<(Way, Whose)>,
    delay: Duration,
    /// Bytes a second, for each connection and way.
    rate: Option<u32>,
    refusing: bool,
    /// Connections that were there when these were said are cut.
    resets: Vec<Whose>,
    /// How often the proxy was repaired: everything that was held before then is released.
    repaired: u64,
}

impl Rules {
    /// Whose connections are held this way.
    fn held(&self, way: Way) -> Vec<Whose> {
        self.held.iter().filter(|(held, _)| *held == way).map(|(_, whose)| *whose).collect()
    }
}

impl Proxy {
    /// A way to a server whose language does not matter.
    pub fn to(server: SocketAddr) -> Proxy {
        Proxy::speaking(Language::Any, server)
    }

    /// A way to a server on this machine whose messages are told apart.
    pub fn speaking(language: Language, server: SocketAddr) -> Proxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
        let place = listener.local_addr().expect("it is bound");
        let shared = Arc::new(Shared {
            server,
            language,
            rules: watch::Sender::new(Rules::default()),
            budget: AtomicI64::new(i64::MAX),
            commit: Mutex::new(None),
            hush: Mutex::new(None),
            tally: Tally::default(),
        });
        let listening = runtime().spawn(carry::listen(listener, Arc::clone(&shared)));
        Proxy { place, shared, listening }
    }

    /// A way to whatever listens on this port of this machine.
    pub fn local(language: Language, port: u16) -> Proxy {
        Proxy::speaking(language, SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
    }

    /// Where it listens.
    pub fn place(&self) -> SocketAddr {
        self.place
    }

    /// The same URL, by this way.
    pub fn instead(&self, url: &str) -> String {
        let (there, here) = (self.shared.server.to_string(), self.place.to_string());
        assert!(url.contains(&there), "{url} does not lead to {there}");
        url.replace(&there, &here)
    }

    /// Nothing is in the way any more. What was held goes on.
    pub fn repair(&self) {
        (*self.commit(), *self.hush()) = (None, None);
        self.shared.budget.store(i64::MAX, Ordering::Relaxed);
        self.shared.rules.send_modify(|rules| {
            let (resets, repaired) = (std::mem::take(&mut rules.resets), rules.repaired + 1);
            *rules = Rules { resets, repaired, ..Rules::default() };
        });
    }

    /// Nothing passes this way, and nobody is told.
    pub fn hold(&self, ways: &[Way], whose: Whose) {
        let held = ways.iter().map(|way| (*way, whose));
        self.shared.rules.send_modify(|rules| rules.held.extend(held));
    }

    /// Everything arrives so much later.
    pub fn delay(&self, span: Duration) {
        self.shared.rules.send_modify(|rules| rules.delay = span);
    }

    /// No more than so many bytes a second pass, for each connection and way.
    pub fn throttle(&self, bytes_a_second: u32) {
        self.shared.rules.send_modify(|rules| rules.rate = Some(bytes_a_second));
    }

    /// Cuts connections; new ones may be made.
    pub fn reset(&self, whose: Whose) {
        self.shared.rules.send_modify(|rules| rules.resets.push(whose));
    }

    /// Cuts all connections and refuses new ones.
    pub fn refuse(&self) {
        self.shared.rules.send_modify(|rules| {
            rules.resets.push(Whose::Everyones);
            rules.refusing = true;
        });
    }

    /// So many bytes pass, of all connections and both ways; then every connection that
    /// sends more is cut.
    pub fn cut_after(&self, bytes: u32) {
        self.shared.budget.store(i64::from(bytes), Ordering::Relaxed);
    }

    /// The next transaction in which this is written meets its end like that. Once.
    pub fn cut_commit(&self, of: &str, cut: Cut) {
        *self.commit() = Some((self.shared.language.written(of), cut));
    }

    /// When the server says this word to one of these clients, and before the client hears it, nothing of these clients
    /// passes to the server any more. The word may go to other clients.
    pub fn hush_after(&self, word: &str, whose: &[Whose]) {
        *self.hush() = Some((word.as_bytes().to_vec(), whose.to_vec()));
    }

    pub fn counts(&self) -> Counts {
        let Tally { connections, cuts, commits, commits_met, bytes } = &self.shared.tally;
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counts {
            connections: read(connections),
            cuts: read(cuts),
            commits: read(commits),
            commits_met: read(commits_met),
            bytes: read(bytes),
        }
    }

    fn commit(&self) -> MutexGuard<'_, Option<(Vec<u8>, Cut)>> {
        self.shared.commit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hush(&self) -> MutexGuard<'_, Option<(Vec<u8>, Vec<Whose>)>> {
        self.shared.hush.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

#[cfg(test)]
mod tests;
