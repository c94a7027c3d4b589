//! The other nodes of the cluster, as this one talks to them. Doors know how: they bring the network.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::command::{Answer, Command};

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

    /// Has a node look at the cluster now. It need not arrive.
    async fn wake(&self, address: &str) {
        let _ = address;
    }
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
