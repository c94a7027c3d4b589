//! What all connections of this door share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use punctual_core::time::Clock;
use tokio::sync::broadcast;
use tokio::time::Instant;

use super::clients::Clients;
use super::names::NodeId;
use super::others::Others;
use super::password::Password;
use super::queues::Queues;
use super::scans::Scans;
use super::settings::{MONITORED_MAX, Settings};
use super::slowlog::Slowlog;
use super::table;
use crate::auth::Gate;

#[derive(Debug)]
pub(super) struct Door {
    pub(super) queues: Arc<dyn Queues>,
    pub(super) gate: Arc<Gate>,
    pub(super) clock: Arc<dyn Clock>,
    /// The name of this node, and what it is called over this protocol.
    pub(super) name: Arc<str>,
    pub(super) node: NodeId,
    /// Where it listens.
    pub(super) address: SocketAddr,
    pub(super) others: Others,
    pub(super) password: Option<Password>,
    pub(super) settings: Settings,
    pub(super) clients: Clients,
    pub(super) scans: Scans,
    pub(super) slowlog: Slowlog,
    pub(super) monitors: broadcast::Sender<Arc<str>>,
    pub(super) counts: Counts,
    /// Nobody's command is looked at before.
    pub(super) paused_until: Mutex<Option<Instant>>,
    pub(super) started: Instant,
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) connections: AtomicU64,
    pub(super) rejected: AtomicU64,
    pub(super) commands: AtomicU64,
    pub(super) bytes_in: AtomicU64,
    pub(super) bytes_out: AtomicU64,
    /// Calls and microseconds, by row of the table.
    pub(super) by_command: Vec<(AtomicU64, AtomicU64)>,
    /// When somebody last asked how many there are a second, and how many there were in all.
    last_look: Mutex<Option<(Instant, u64)>>,
}

pub(super) struct Behind {
    pub(super) queues: Arc<dyn Queues>,
    pub(super) gate: Arc<Gate>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) name: Arc<str>,
    pub(super) others: Others,
}

impl Door {
    pub(super) fn new(behind: Behind, address: SocketAddr, settings: Settings) -> Door {
        let Behind { queues, gate, clock, name, others } = behind;
        let by_command = table::commands().iter().map(|_| Default::default()).collect();
        Door {
            node: NodeId::of(&name),
            scans: Scans::new(u64::try_from(clock.now().as_millis()).unwrap_or(0)),
            queues,
            gate,
            clock,
            name,
            address,
            others,
            password: settings.password.as_deref().map(Password::new),
            settings,
            clients: Clients::default(),
            slowlog: Slowlog::default(),
            monitors: broadcast::Sender::new(MONITORED_MAX),
            counts: Counts { by_command, ..Counts::default() },
            paused_until: Mutex::default(),
            started: Instant::now(),
        }
    }

    /// Whether anyone may do anything without a word.
    pub(super) fn is_open(&self) -> bool {
        self.password.is_none() && self.gate.is_open()
    }

    /// Nodes that live, this one included.
    pub(super) fn nodes(&self) -> usize {
        self.queues.members().len().max(1)
    }
}

impl Counts {
    pub(super) fn did(&self, row: usize, calls: usize, took: Duration) {
        let calls = u64::try_from(calls).unwrap_or(0);
        self.commands.fetch_add(calls, Relaxed);
        if let Some((count, micros)) = self.by_command.get(row) {
            count.fetch_add(calls, Relaxed);
            micros.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Relaxed);
        }
    }

    /// Commands a second since somebody asked last.
    pub(super) fn per_second(&self, started: Instant) -> u64 {
        let (now, all) = (Instant::now(), self.commands.load(Relaxed));
        let (since, before) = self.last_look.lock().replace((now, all)).unwrap_or((started, 0));
        let millis = u64::try_from(now.duration_since(since).as_millis()).unwrap_or(u64::MAX).max(1);
        all.saturating_sub(before).saturating_mul(1000) / millis
    }

    pub(super) fn reset(&self) {
        let own = [&self.connections, &self.rejected, &self.commands, &self.bytes_in, &self.bytes_out];
        let by_command = self.by_command.iter().flat_map(|(calls, micros)| [calls, micros]);
        own.into_iter().chain(by_command).for_each(|count| count.store(0, Relaxed));
        *self.last_look.lock() = None;
    }
}
