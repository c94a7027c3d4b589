//! Calls from this node to the other nodes of the cluster. The endpoints implement them over the network.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::command::{Answer, Command};
use punctual_core::ids::{RunId, SessionId, Token, WorkerId};
use punctual_store::Session;

use crate::failure::Failure;

#[async_trait]
pub trait Peers: Send + Sync + fmt::Debug {
    /// Asks the node at an address to carry out a command. It does so only if it leads the command's shard, and never
    /// forwards.
    ///
    /// `NotLed`: nothing happened, because the node does not lead the shard or could not be reached. `Unknown`: the
    /// command was sent, and no answer came within the deadline. Any other result is the leader's answer.
    async fn ask(&self, address: &str, command: &Command, deadline: Duration) -> Result<Answer, Failure>;

    /// Whether the address refuses connections, so no process listens there. An address that does not answer is not
    /// refusing.
    async fn refuses(&self, address: &str) -> bool {
        let _ = address;
        false
    }

    /// Makes a node read the state of the cluster now. False means the node was probably not reached.
    async fn wake(&self, address: &str) -> bool {
        let _ = address;
        false
    }

    /// Tells a node that a worker does not stop these attempts: no node gives it work meanwhile.
    async fn distrust(&self, address: &str, worker: &WorkerId, attempts: &[(RunId, Token)]) {
        let _ = (address, worker, attempts);
    }
}

/// Prefix of the address of a node that cannot be dialled; its session id follows. No `host:port` looks like it.
const BY_MAIL: &str = "by mail to ";

/// The address of a node: its network address, or its mail address in the store.
pub fn address_of(session: &Session) -> Arc<str> {
    session.address.clone().unwrap_or_else(|| format!("{BY_MAIL}{}", session.id.0).into())
}

/// The session id in a mail address. `None` means it is a network address.
pub fn by_mail(address: &str) -> Option<SessionId> {
    address.strip_prefix(BY_MAIL)?.parse().ok().map(SessionId)
}

/// The peers of a single node.
#[derive(Debug)]
pub(crate) struct None;

#[async_trait]
impl Peers for None {
    async fn ask(&self, address: &str, _: &Command, _: Duration) -> Result<Answer, Failure> {
        Err(Failure::NotLed(format!(
            "this node is in no cluster and cannot reach `{address}`; ask that node"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_cannot_be_dialled_is_reached_by_mail() {
        let dialled = Session {
            id: SessionId(i64::MAX),
            node: "n".into(),
            address: Some("mail:80".into()),
            weight: 1,
            embedded: false,
            load: 0,
        };
        assert_eq!((&*address_of(&dialled), by_mail("mail:80")), ("mail:80", Option::None));
        let embedded = Session { address: Option::None, ..dialled };
        assert_eq!(by_mail(&address_of(&embedded)), Some(embedded.id));
    }
}
