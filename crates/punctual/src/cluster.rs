//! Joins a node to its cluster.

use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use punctual_core::ids::SessionId;
use punctual_node::cluster::Cluster;
use punctual_node::driver::LoadLimit;
use punctual_node::leaders::PATIENCE;
use punctual_node::store_clock::StoreClock;
use punctual_node::{Handle, Peers};

use punctual_server::grpc::peer::{Dialled, Key, OFFER_BYTES, Trusted};
use punctual_server::mail::Post;
use punctual_store::{Session, Sessions, Store};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

/// How often a start checks whether another node has the same name.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long an expired session may still be listed: within this time a check removes it.
const EXPIRY_MAX: Duration = Duration::from_secs(1);
/// The default weight of a node, which decides its share of the shards.
const WEIGHT: u32 = 10_000;

/// What a node needs to join a cluster.
#[derive(Debug)]
pub struct Joining {
    pub session: SessionId,
    pub sessions: Arc<dyn Sessions>,
    /// Where other nodes reach it, `host:port`. `None` means that it is embedded and cannot be dialled.
    pub address: Option<String>,
    /// The certificates that nodes trust among each other. `None` means without TLS.
    pub trusted: Option<Trusted>,
    /// From what load on the node gives shards away.
    pub load_limit: LoadLimit,
}

/// The result of joining.
#[derive(Debug)]
pub struct Joined {
    pub cluster: Cluster,
    /// The key that the nodes of the cluster authenticate with.
    pub key: Key,
    /// The mail, to be carried as long as the node lives.
    pub post: Post,
}

impl Joining {
    /// Agrees with the cluster on a key, fails while another live node has this name, and reads the store's
    /// clock for the first time. `lease` is how long a silent node counts as alive.
    pub async fn join(self, store: &Arc<dyn Store>, name: &str, lease: Duration) -> anyhow::Result<Joined> {
        let mut offer = [0; OFFER_BYTES];
        getrandom::fill(&mut offer)?;
        let key = Key::agree(&**store, &offer).await?;
        let peers = Dialled::new(key.clone());
        let peers = match self.trusted {
            Some(trusted) => peers.over_tls(trusted).map_err(anyhow::Error::msg)?,
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
        let post = Post::new(&session, Arc::clone(store) as _, peers);
        if let Err(taken) = wait_for_name(&session, &*self.sessions, &post, lease).await {
            self.sessions.leave(session.id).await?;
            return Err(taken);
        }
        let (sessions, peers) = (self.sessions, Arc::new(post.clone()));
        let cluster =
            Cluster { session, sessions, peers, clock, patience: PATIENCE, load_limit: self.load_limit };
        cluster.leases(&**store).await?;
        Ok(Joined { cluster, key, post })
    }
}

/// Returns once no other live node has this node's name.
///
/// After a kill, the session of this node's earlier process may stay listed for a lease. Its address then
/// refuses connections, or is our own, where nothing answers yet.
async fn wait_for_name(
    me: &Session,
    sessions: &dyn Sessions,
    post: &Post,
    lease: Duration,
) -> anyhow::Result<()> {
    // Nodes that cannot be dialled may share a name, because nothing depends on it.
    let Some(own) = &me.address else { return Ok(()) };
    // With weight 0 this node gets no shards, because it may still be refused.
    let visitor = Session { weight: 0, ..me.clone() };
    let began = Instant::now();
    loop {
        let members = sessions.renew(&visitor, lease).await?;
        let named = members.iter().map(|member| &member.session);
        let mut named = named.filter(|other| other.id != me.id && other.node == me.node);
        let Some((other, address)) = named.find_map(|other| Some((other, other.address.as_deref()?))) else {
            return Ok(());
        };
        let answers = post.look(address).await.is_some_and(|(node, _)| node.name == *other.node);
        let is_earlier_life = !answers && (address == &**own || post.refuses(address).await);
        if is_earlier_life {
            return Ok(());
        }
        if answers || began.elapsed() > lease + EXPIRY_MAX {
            bail!(
                "a node named `{}` is in the cluster already, at {address}; give this one another name with --name, \
                 or stop the other one first",
                me.node
            );
        }
        sleep(LOOK_EVERY).await;
    }
}

/// A new random session id, unique for each start.
pub fn session() -> anyhow::Result<SessionId> {
    Ok(SessionId((getrandom::u64()? >> 1).cast_signed()))
}

/// Sends workers the addresses of the cluster's nodes whenever they change.
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
