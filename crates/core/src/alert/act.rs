//! What people and nodes tell the shard about incidents.

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::ids::{IncidentId, ShardId};
use crate::name::{Name, Namespace};

/// A person decides on an incident that is open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActOnIncident {
    pub namespace: Namespace,
    pub incident: IncidentId,
    pub act: IncidentAct,
    /// The name of the caller's token. `None` means that the server asks for no token.
    pub by: Option<Box<str>>,
    pub comment: Box<str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IncidentAct {
    /// A person knows about the incident: it is not repeated any more.
    Acknowledge,
    /// Nothing is sent about it until then. `None` ends a silence.
    Silence(Option<Timestamp>),
}

/// Whether notifications of a namespace can be sent to a channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoteChannel {
    pub namespace: Namespace,
    pub channel: Name,
    /// Why the last ones could not be sent. `None` means that one was sent.
    pub error: Option<Box<str>>,
}

impl NoteChannel {
    /// The shard that keeps the incident of the channel.
    pub fn shard(&self, shards: u16) -> ShardId {
        let parts = [self.namespace.as_str().as_bytes(), b"channel", self.channel.as_str().as_bytes()];
        ShardId::of(&parts, shards)
    }
}
