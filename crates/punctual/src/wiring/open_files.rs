//! Fits the number of connections to the number of files that this process may open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::warn;

use crate::settings::Settings;

/// File descriptors of the store, the runtime and the listener, with some reserve.
const FILES_OF_NODE: usize = 64;
/// File descriptors of an attempt: its pipes and its process.
const FILES_PER_SLOT: usize = 6;

/// The file descriptors that a node with these settings uses at most.
pub fn files_wanted(settings: &Settings) -> usize {
    let queues = if settings.resp.listen.is_some() { settings.resp.connections } else { 0 };
    beside_connections(settings) + settings.server.connections + queues
}

fn beside_connections(settings: &Settings) -> usize {
    FILES_OF_NODE + settings.slots * FILES_PER_SLOT
}

/// The settings of the endpoints, with as many connections as file descriptors are left beside those of the
/// store and the attempts.
pub(super) fn limited(settings: &Settings) -> punctual_server::Settings {
    let mut server = settings.server.clone();
    let needed = beside_connections(settings);
    let files = raise_limit(files_wanted(settings));
    // Keep at least half for connections, so that a client can still ask why attempts fail.
    let fitting = files - needed.min(files / 2);
    if fitting < server.connections {
        warn!(files, connections = fitting, "few file descriptors: fewer connections than were asked for");
        server.connections = fitting;
    }
    server
}

/// The number of files this process may open, after raising the limit as far as `needed` and allowed.
fn raise_limit(needed: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let within =
        |most: Option<u64>| most.map_or(needed, |most| usize::try_from(most).unwrap_or(needed).min(needed));
    let (now, most) = (within(limit.current), within(limit.maximum));
    let raised = Rlimit { current: u64::try_from(most).ok(), maximum: limit.maximum };
    if now < most && setrlimit(Resource::Nofile, raised).is_ok() { most } else { now }
}
