//! What an operator tunes about this door, and what nobody does: its limits.

use std::time::Duration;

use tokio::sync::watch;

/// Answers that wait to be taken. A client that asks for more than this at once loses its connection.
pub const OUTPUT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Requests that are looked at together.
pub const BATCH_MAX: usize = 1024;
/// What is read of a client that waits for a job: enough to notice that it has gone, or what else it wants.
pub const AHEAD_BYTES_MAX: usize = 1024 * 1024;
/// Queues that one GETJOB may name.
pub const QUEUES_MAX: usize = 1024;
/// Jobs that one WAITJOB may name.
pub const WAITED_MAX: usize = 1000;
/// Commands between MULTI and EXEC, and how large they are together: as large as one request may be.
pub const TRANSACTION_MAX: usize = 10_000;
pub const TRANSACTION_BYTES_MAX: usize = punctual_wire::resp::REQUEST_BYTES_MAX;
/// Scans that are under way at once; the oldest is forgotten.
pub const SCANS_MAX: usize = 1024;
/// Commands that somebody who monitors may be behind.
pub const MONITORED_MAX: usize = 1024;

/// Answers are sent before there are more of them than this.
pub(super) const FLUSH_BYTES: usize = 1024 * 1024;

#[derive(Debug, Clone)]
pub struct Settings {
    /// What clients have to say first; none: a token of ours, or nothing where everyone may come in.
    pub password: Option<String>,
    /// Clients are asked for nothing, though REST asks for a token. `listen` must be on this machine only.
    pub open: bool,
    /// Connections held at once, in all and from one address.
    pub connections: usize,
    pub connections_per_address: usize,
    /// How long a request may take to arrive, an answer to be taken, and a stranger to say who they are.
    pub request_time: Duration,
    /// How long a client may rest that waits for nothing; none: for ever.
    pub idle_time: Option<Duration>,
    /// DEBUG FLUSHALL deletes everything.
    pub flush: bool,
    /// Where REST of this node is, for INFO to tell; none: there is no REST.
    pub rest_url: Option<String>,
    /// SHUTDOWN says so here; none: it is refused.
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
