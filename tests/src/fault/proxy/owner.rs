//! Whose a connection is: the process at its other end, as the system knows it.

use std::fs;
use std::net::SocketAddr;

/// The process on this machine that made a connection from here; none: it has gone.
pub(super) fn of(client: SocketAddr) -> Option<u32> {
    let socket = format!("socket:[{}]", inode(client)?);
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|pid| {
        let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        open.filter_map(|entry| fs::read_link(entry.path()).ok()).any(|link| *link.as_os_str() == *socket)
    })
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
