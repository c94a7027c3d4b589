//! The settings of this endpoint that an operator can tune, and its fixed limits.

use std::time::Duration;

use tokio::sync::watch;

/// Replies not yet read by the client. A client that requests more at once loses its connection.
pub const OUTPUT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Requests handled together.
pub const BATCH_MAX: usize = 1024;
/// Bytes read ahead while a client waits for a job: needed to notice that it disconnects.
pub const AHEAD_BYTES_MAX: usize = 1024 * 1024;
/// Queues that one GETJOB may name.
pub const QUEUES_MAX: usize = 1024;
/// Jobs that one WAITJOB may name.
pub const WAITED_MAX: usize = 1000;
/// Commands between MULTI and EXEC, and their total size: as large as one request may be.
pub const TRANSACTION_MAX: usize = 10_000;
pub const TRANSACTION_BYTES_MAX: usize = punctual_wire::resp::REQUEST_BYTES_MAX;
/// Concurrent scans; with more, the oldest is forgotten.
pub const SCANS_MAX: usize = 1024;
/// Commands that a monitoring client may lag behind.
pub const MONITORED_MAX: usize = 1024;

/// Replies are sent when they reach this size.
pub(super) const FLUSH_BYTES: usize = 1024 * 1024;

#[derive(Debug, Clone)]
pub struct Settings {
    /// The password of clients. `None` means that they need a token, or nothing if the gate is open.
    pub password: Option<String>,
    /// Clients need no authentication, even if REST does. `listen` must then be on this machine only.
    pub open: bool,
    /// Maximum open connections, in total and from one address.
    pub connections: usize,
    pub connections_per_address: usize,
    /// The time limit for a request to arrive, for a client to read a reply, and for authentication.
    pub request_time: Duration,
    /// How long a client may be idle. `None` means forever.
    pub idle_time: Option<Duration>,
    /// Whether DEBUG FLUSHALL is allowed, which deletes everything.
    pub flush: bool,
    /// The REST address of this node, for INFO. `None` means that there is no REST.
    pub rest_url: Option<String>,
    /// SHUTDOWN sends `true` here. `None` means that SHUTDOWN is refused.
    pub shutdown: Option<watch::Sender<bool>>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            password: None,
            open: false,
            connections: 10_000,
            connections_per_address: 10_000,
            request_time: Duration::from_secs(30),
            idle_time: None,
            flush: false,
            rest_url: None,
            shutdown: None,
        }
    }
}
