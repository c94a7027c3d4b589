//! The endpoint settings that an operator can tune.

use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Maximum open connections, in total and from one address. Further ones get 503 and are closed.
    pub connections: usize,
    pub connections_per_address: usize,
    /// The time limit for a request to arrive (head and body together), for a client to read the answer, and
    /// for a connection to be idle.
    pub request_time: Duration,
    /// Host names accepted in requests, besides IP addresses and localhost.
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
