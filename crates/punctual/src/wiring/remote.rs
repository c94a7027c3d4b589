//! A worker that is connected to nodes over the network.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::ids::WorkerId;
use punctual_core::log::Chunk;
use punctual_core::worker::Announcement;
use punctual_worker::function::Functions;
use punctual_worker::session::{self, Authorities, Ended, Status};
use punctual_worker::{Egress, LogSink, Rule};
use tokio::sync::watch;

use super::{OURSELVES, SystemClock};

/// The configuration of a worker.
#[derive(Debug, Clone)]
pub(crate) struct Remote {
    pub(crate) servers: Vec<String>,
    pub(crate) token: Option<String>,
    pub(crate) ca: Option<Authorities>,
    pub(crate) name: String,
    pub(crate) announcement: Announcement,
    /// A folder for this worker alone.
    pub(crate) data: PathBuf,
    pub(crate) drain: Duration,
    pub(crate) egress: Vec<Rule>,
}

/// Works until `stop` completes and running attempts have ended, or until it is refused.
pub(crate) async fn work(
    remote: Remote,
    status: watch::Sender<Status>,
    stop: impl Future<Output = ()>,
) -> Result<(), Ended> {
    let life = life();
    let config = punctual_worker::Config {
        id: WorkerId::new(&remote.name, life),
        slots: remote.announcement.slots as usize,
        clock: Arc::new(SystemClock::new()),
        logs: Arc::new(Nowhere),
        scratch: remote.data,
        guardian: Some(OURSELVES.into()),
        heartbeat: punctual_worker::HEARTBEAT,
        grace: punctual_worker::GRACE,
        egress: Arc::new(Egress::new(remote.egress)),
        kinds: remote.announcement.kinds,
        functions: Functions::default(),
    };
    let settings = session::Settings {
        servers: remote.servers,
        near: None,
        token: remote.token,
        ca: remote.ca,
        name: remote.name,
        life,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        announcement: remote.announcement,
        drain: remote.drain,
    };
    session::run(settings, config, status, stop).await
}

/// A random number for each start. It must be hard to guess: with it, another process could act as this worker.
pub(super) fn life() -> u64 {
    // Without random numbers, use the time.
    getrandom::u64().unwrap_or_else(|_| u64::try_from(super::now().as_millis()).unwrap_or(0)) >> 1
}

/// Discards output here: the session sends it to the node itself.
#[derive(Debug)]
struct Nowhere;

#[async_trait]
impl LogSink for Nowhere {
    async fn append(&self, _chunk: Chunk) {}
}
