//! A node that is one of several.

use std::sync::Arc;

use punctual_core::ids::SessionId;
use punctual_node::Handle;
use punctual_node::cluster::Cluster;
use punctual_node::leaders::PATIENCE;
use punctual_node::store_clock::StoreClock;

use punctual_server::grpc::peer::{Dialled, Key, OFFER_BYTES};
use punctual_server::mail::Post;
use punctual_store::{Session, Sessions, Store};
use tokio::sync::watch;

/// A node's share of the shards, beside others that say nothing else.
const WEIGHT: u32 = 10_000;

/// How a node finds its place among others.
#[derive(Debug)]
pub struct Joining {
    pub session: SessionId,
    pub sessions: Arc<dyn Sessions>,
    /// Where the others reach it, `host:port`; none: it is embedded in an application, and cannot be dialled.
    pub address: Option<String>,
    /// Nodes speak TLS among each other, and trust these certificates, in PEM; none: in the clear.
    pub trusted: Option<Vec<u8>>,
}

/// A place among others.
#[derive(Debug)]
pub struct Joined {
    pub cluster: Cluster,
    /// What the nodes of the cluster prove themselves with.
    pub key: Key,
    /// It is to be carried for as long as the node lives.
    pub post: Post,
}

impl Joining {
    /// Agrees with the others on a key, and reads the store's clock for the first time.
    pub async fn join(self, store: &Arc<dyn Store>, name: &str) -> anyhow::Result<Joined> {
        let mut offer = [0; OFFER_BYTES];
        getrandom::fill(&mut offer)?;
        let key = Key::agree(&**store, &offer).await?;
        let peers = Dialled::new(key.clone());
        let peers = match self.trusted {
            Some(trusted) => peers.over_tls(trusted),
            None => peers,
        };
        let session = Session {
            id: self.session,
            node: name.into(),
            embedded: self.address.is_none(),
            address: self.address.map(Into::into),
            weight: WEIGHT,
            load: 0,
        };
        let clock = Arc::new(StoreClock::new());
        let post = Post::new(&session, Arc::clone(store), peers);
        let (sessions, peers) = (self.sessions, Arc::new(post.clone()));
        let cluster = Cluster { session, sessions, peers, clock, patience: PATIENCE };
        cluster.leases(&**store).await?;
        Ok(Joined { cluster, key, post })
    }
}

/// A life of a node: nobody else has this number.
pub fn session() -> anyhow::Result<SessionId> {
    Ok(SessionId((getrandom::u64()? >> 1).cast_signed()))
}

/// Tells workers where the nodes of the cluster are, whenever that changes.
pub async fn tell_workers(
    node: Handle,
    nodes: Arc<watch::Sender<Vec<String>>>,
    mut stop: watch::Receiver<bool>,
) {
    let mut told = Vec::new();
    loop {
        let members = |status: &punctual_node::handle::Status| {
            let dialled = status.members.iter().filter_map(|member| member.address.as_deref());
            dialled.map(str::to_owned).collect::<Vec<_>>()
        };
        tokio::select! {
            lives = node.wait_until(|status| members(status) != told) => if !lives { return },
            _ = stop.changed() => return,
        }
        told = members(&node.status());
        nodes.send_replace(told.clone());
    }
}
