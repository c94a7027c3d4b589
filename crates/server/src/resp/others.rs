//! The addresses of the Redis-protocol endpoints of the other nodes.
//!
//! Each node is asked once per session: its endpoint does not move while its process lives.

use std::collections::HashMap;
use std::net::SocketAddr;

use futures_util::future::join_all;
use parking_lot::Mutex;
use punctual_core::ids::SessionId;
use punctual_store::Session;

use crate::mail::Post;

/// Where clients reach an endpoint of a node: if it listens on all addresses, on the host of the node's address.
pub(crate) fn reached_at(endpoint: SocketAddr, node: Option<&Session>) -> (String, u16) {
    let host = node.and_then(|node| host_of(node.address.as_deref()?));
    match host.filter(|_| endpoint.ip().is_unspecified()) {
        Some(host) => (host.to_owned(), endpoint.port()),
        None => (endpoint.ip().to_string(), endpoint.port()),
    }
}

/// Splits `host:port`, without the brackets of IPv6.
pub(super) fn parts_of(address: &str) -> Option<(String, u16)> {
    let (_, port) = address.rsplit_once(':')?;
    Some((host_of(address)?.to_owned(), port.parse().ok()?))
}

fn host_of(address: &str) -> Option<&str> {
    let (host, _) = address.rsplit_once(':')?;
    Some(host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host))
}

#[derive(Debug, Default)]
pub(crate) struct Others {
    /// `None` means that there are no other nodes.
    post: Option<Post>,
    /// The answers of nodes. `None` means that the node has no such endpoint.
    known: Mutex<HashMap<SessionId, Option<(String, u16)>>>,
}

impl Others {
    pub(crate) fn by(post: Option<Post>) -> Others {
        Others { post, known: Mutex::default() }
    }

    /// The endpoints of these nodes, which must be all others. `None` means no endpoint, or no answer now.
    pub(super) async fn endpoints_of(&self, nodes: &[Session]) -> Vec<Option<(String, u16)>> {
        self.known.lock().retain(|id, _| nodes.iter().any(|node| node.id == *id));
        join_all(nodes.iter().map(|node| self.endpoint_of(node))).await
    }

    async fn endpoint_of(&self, node: &Session) -> Option<(String, u16)> {
        if let Some(known) = self.known.lock().get(&node.id) {
            return known.clone();
        }
        let (told, _) = self.post.as_ref()?.look(node.address.as_deref()?).await?;
        // If the node has restarted, its new process answers here; the entry goes when the old session ends.
        let endpoint = told.resp.as_deref().and_then(parts_of);
        self.known.lock().insert(node.id, endpoint.clone());
        endpoint
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(address: &str) -> Session {
        Session {
            id: SessionId(1),
            node: "n".into(),
            address: Some(address.into()),
            weight: 1,
            embedded: false,
            load: 0,
        }
    }

    #[track_caller]
    fn check(endpoint: &str, node: Option<&Session>, reached: (&str, u16)) {
        let (host, port) = reached_at(endpoint.parse().unwrap(), node);
        assert_eq!((host.as_str(), port), reached);
    }

    #[test]
    fn an_endpoint_that_is_open_everywhere_is_where_its_node_is() {
        check("127.0.0.1:7711", Some(&node("10.0.0.7:7400")), ("127.0.0.1", 7711));
        check("0.0.0.0:7711", Some(&node("db-1.local:7400")), ("db-1.local", 7711));
        check("[::]:7711", Some(&node("[fd00::7]:7400")), ("fd00::7", 7711));
        check("0.0.0.0:7711", None, ("0.0.0.0", 7711));
    }

    #[test]
    fn an_address_has_a_host_and_a_port() {
        assert_eq!(parts_of("[::1]:7711"), Some(("::1".to_owned(), 7711)));
        assert_eq!(parts_of("host:7711"), Some(("host".to_owned(), 7711)));
        assert_eq!(parts_of("host"), None);
    }
}
