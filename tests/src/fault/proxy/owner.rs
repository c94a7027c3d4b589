//! Whose a connection is: the process at its other end, as the system knows it.
//!
//! Nobody asks until one process is to be cut off. Even then asking must not cost what is carried for the others their
//! time: the table of the system takes long to read and nodes dial each other again and again, so it is read for
//! all who ask together, a few times a second.
//!
//! The one surprise: two connections may begin at the same address, if they lead to different ones. Both ends name one.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::Whose;
use crate::api::runtime;
use crate::wait;

/// How often a connection is looked for in vain: a table that changes while it is read may leave rows out.
const READS: u32 = 2;
/// Between two looks at the table.
const REST: Duration = Duration::from_millis(100);

/// The client's end of a connection.
#[derive(Debug)]
pub(super) struct End {
    client: SocketAddr,
    /// Where it leads to: the proxy.
    place: SocketAddr,
    since: Instant,
    /// Processes that were asked about.
    known: Mutex<BTreeMap<u32, bool>>,
}

impl End {
    pub(super) fn new(client: SocketAddr, place: SocketAddr) -> End {
        End { client, place, since: wait::now(), known: Mutex::default() }
    }

    /// A connection that is closed has no owner.
    pub(super) async fn is(&self, whose: Whose) -> bool {
        let Whose::Process(pid) = whose else { return true };
        let known = lock(&self.known).get(&pid).copied();
        if let Some(known) = known {
            return known;
        }
        let is_theirs = match self.inode().await {
            Some(inode) => spawn_blocking(move || has(pid, inode)).await.expect("looking does not panic"),
            None => false,
        };
        lock(&self.known).insert(pid, is_theirs);
        is_theirs
    }

    /// The number of its socket, by a table that was read since it was made.
    async fn inode(&self) -> Option<u64> {
        let ends = (written(self.client), written(self.place));
        let mut since = self.since;
        for _ in 0..READS {
            let table = Table::read_since(since).await;
            if let Some(inode) = table.inodes.get(&ends) {
                return Some(*inode);
            }
            since = wait::now();
        }
        None
    }
}

/// Whether this process has this socket.
fn has(pid: u32, inode: u64) -> bool {
    let socket = format!("socket:[{inode}]");
    let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    open.filter_map(|entry| fs::read_link(entry.path()).ok()).any(|link| *link.as_os_str() == *socket)
}

/// The connections of this machine by their ends, each with the number of its socket.
#[derive(Debug)]
struct Table {
    read: Instant,
    inodes: HashMap<(String, String), u64>,
}

impl Table {
    /// The last one that was read, if that is not too old; else the next.
    async fn read_since(since: Instant) -> Arc<Table> {
        static READER: OnceLock<Reader> = OnceLock::new();
        let reader = READER.get_or_init(Reader::start);
        reader.wanted.notify_one();
        let mut tables = reader.tables.clone();
        let read = tables.wait_for(|table| table.read >= since).await;
        Arc::clone(&read.expect("the reader lives as long as the tests"))
    }

    /// `sl local remote state … inode`; those that are closed have none.
    fn read() -> Table {
        let read = wait::now();
        let text = fs::read_to_string("/proc/net/tcp").unwrap_or_default();
        let rows = text.lines().filter_map(|line| {
            let mut fields = line.split_whitespace().skip(1);
            let ends = (fields.next()?.to_owned(), fields.next()?.to_owned());
            let inode = fields.nth(6)?.parse().ok().filter(|inode| *inode > 0)?;
            Some((ends, inode))
        });
        Table { read, inodes: rows.collect() }
    }
}

/// Reads the table when it is wanted, once for all who wait for it.
struct Reader {
    wanted: Arc<Notify>,
    tables: watch::Receiver<Arc<Table>>,
}

impl Reader {
    fn start() -> Reader {
        let wanted = Arc::new(Notify::new());
        let (told, tables) = watch::channel(Arc::new(Table::read()));
        let asked = Arc::clone(&wanted);
        runtime().spawn(async move {
            loop {
                asked.notified().await;
                let table = spawn_blocking(Table::read).await.expect("reading does not panic");
                told.send_replace(Arc::new(table));
                sleep(REST).await;
            }
        });
        Reader { wanted, tables }
    }
}

/// An address as it stands in the table: as the machine keeps it, and the port as people write it.
fn written(address: SocketAddr) -> String {
    let SocketAddr::V4(address) = address else { return address.to_string() };
    let host = u32::from_ne_bytes(address.ip().octets());
    format!("{host:08X}:{:04X}", address.port())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
