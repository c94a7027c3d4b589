//! The id of a node in this protocol: forty hexadecimal digits derived from its name, so that it stays the
//! same across restarts and on every node.

use std::fmt::Write;

use sha2::{Digest, Sha256};

const DIGITS: usize = 40;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeId(String);

impl NodeId {
    pub(crate) fn of(name: &str) -> NodeId {
        let mut text = String::with_capacity(DIGITS);
        for byte in Sha256::digest(name.as_bytes()).iter().take(DIGITS / 2) {
            // Writing into a string cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        NodeId(text)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}
