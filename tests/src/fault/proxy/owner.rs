//! Whose a connection is: the process at its other end, as the system knows it.
//!
//! Nobody asks until somebody's connections are to be broken, so a way that carries everyone's costs nothing.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use super::Whose;

/// How often the table is read in vain: one that changes while it is read may leave rows out.
const READS: u32 = 5;

/// The client's end of a connection.
#[derive(Debug)]
pub(super) struct End {
    client: SocketAddr,
    /// What is known of processes that were asked about.
    known: Mutex<BTreeMap<u32, bool>>,
}

impl End {
    pub(super) fn new(client: SocketAddr) -> End {
        End { client, known: Mutex::default() }
    }

    pub(super) fn is(&self, whose: Whose) -> bool {
        let Whose::Process(pid) = whose else { return true };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        *known.entry(pid).or_insert_with(|| (0..READS).any(|_| has(pid, self.client)))
    }
}

/// Whether this process has the socket that has this address.
fn has(pid: u32, client: SocketAddr) -> bool {
    let Some(inode) = inode(client) else { return false };
    let socket = format!("socket:[{inode}]");
    let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    open.filter_map(|entry| fs::read_link(entry.path()).ok()).any(|link| *link.as_os_str() == *socket)
}

/// The number of its socket, by the table of the system: `sl local remote state … inode`.
fn inode(client: SocketAddr) -> Option<u64> {
    let SocketAddr::V4(client) = client else { return None };
    // The address stands there as the machine keeps it, the port as people write it.
    let address = u32::from_ne_bytes(client.ip().octets());
    let local = format!("{address:08X}:{:04X}", client.port());
    let table = fs::read_to_string("/proc/net/tcp").ok()?;
    let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row.get(1) == Some(&local.as_str())).find_map(|row| row.get(9)?.parse().ok())
}
