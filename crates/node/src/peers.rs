//! The other nodes of the cluster, as this one talks to them. Doors know how: they bring the network.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::command::{Answer, Command};
use punctual_core::ids::SessionId;
use punctual_store::Session;

use crate::handle::Failure;

#[async_trait]
pub trait Peers: Send + Sync + fmt::Debug {
    /// Has the node at an address carry out a command, if it leads the command's shard: it never passes one on.
    ///
    /// `NotLed`: nothing happened, because it does not, or because nobody was reached. `Unknown`: it was sent, and no
    /// answer came within the deadline. Everything else is what the leader said.
    async fn ask(&self, address: &str, command: &Command, deadline: Duration) -> Result<Answer, Failure>;

    /// Whether the address refuses connections: nobody listens there any more. One that does not answer at all does
    /// not refuse.
    async fn refuses(&self, address: &str) -> bool {
        let _ = address;
        false
    }

    /// Has a node look at the cluster now. False: nobody there has heard it, as far as we know.
    async fn wake(&self, address: &str) -> bool {
        let _ = address;
        false
    }
}

/// How the address of a node that cannot be dialled begins; its session follows. No `host:port` looks like it.
const BY_MAIL: &str = "by mail to ";

/// Where a node is reached: at its address, or through the store.
pub fn address_of(session: &Session) -> Arc<str> {
    session.address.clone().unwrap_or_else(|| format!("{BY_MAIL}{}", session.id.0).into())
}

/// Whose address this is, if it is one that mail goes to.
pub fn by_mail(address: &str) -> Option<SessionId> {
    address.strip_prefix(BY_MAIL)?.parse().ok().map(SessionId)
}

/// There are none.
#[derive(Debug)]
pub(crate) struct None;

#[async_trait]
impl Peers for None {
    async fn ask(&self, address: &str, _: &Command, _: Duration) -> Result<Answer, Failure> {
        Err(Failure::NotLed(format!("this node is alone and has no way to `{address}`")))
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
