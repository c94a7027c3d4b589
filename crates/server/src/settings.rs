//! What an operator tunes about the doors.

use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Connections held at once, in all and from one address. Beyond them: 503, and closed.
    pub connections: usize,
    pub connections_per_address: usize,
    /// How long a request may take to arrive, its head and its body together; how long an answer may wait to be
    /// taken; how long a connection may be idle.
    pub request_time: Duration,
    /// Names by which this server may be asked, besides IP addresses and localhost.
    pub hosts: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            connections: 1024,
            connections_per_address: 256,
            request_time: Duration::from_secs(30),
            hosts: Vec::new(),
        }
    }
}
