//! What all connections of this endpoint share.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use punctual_core::time::Clock;
use tokio::sync::broadcast;
use tokio::time::Instant;

use super::clients::Clients;
use super::counts::{Counts, Seen};
use super::names::NodeId;
use super::others::Others;
use super::password::Password;
use super::queues::Queues;
use super::scans::Scans;
use super::settings::{MONITORED_MAX, Settings};
use super::slowlog::Slowlog;
use crate::auth::Gate;

#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) queues: Arc<dyn Queues>,
    pub(super) gate: Arc<Gate>,
    pub(super) clock: Arc<dyn Clock>,
    /// The name of this node, and its id in this protocol.
    pub(super) name: Arc<str>,
    pub(super) node: NodeId,
    /// The address it listens on.
    pub(super) address: SocketAddr,
    pub(super) others: Others,
    pub(super) password: Option<Password>,
    pub(super) settings: Settings,
    pub(super) clients: Arc<Clients>,
    pub(super) scans: Scans,
    pub(super) slowlog: Slowlog,
    pub(super) monitors: broadcast::Sender<Arc<str>>,
    pub(super) counts: Arc<Counts>,
    /// No command runs before this time. `None` means no pause.
    pub(super) paused_until: Mutex<Option<Instant>>,
    pub(super) started: Instant,
}

pub(super) struct Behind {
    pub(super) queues: Arc<dyn Queues>,
    pub(super) gate: Arc<Gate>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) name: Arc<str>,
    pub(super) seen: Seen,
    pub(super) others: Others,
}

impl Endpoint {
    pub(super) fn new(behind: Behind, address: SocketAddr, settings: Settings) -> Endpoint {
        let Behind { queues, gate, clock, name, seen, others } = behind;
        Endpoint {
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
            clients: seen.clients,
            slowlog: Slowlog::default(),
            monitors: broadcast::Sender::new(MONITORED_MAX),
            counts: seen.counts,
            paused_until: Mutex::default(),
            started: Instant::now(),
        }
    }

    /// Whether every client may do everything without authentication.
    pub(super) fn is_open(&self) -> bool {
        self.password.is_none() && self.gate.is_open()
    }

    /// The number of live nodes, including this one.
    pub(super) fn nodes(&self) -> usize {
        self.queues.members().len().max(1)
    }
}
