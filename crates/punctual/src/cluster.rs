//! A node that is one of several.

use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use punctual_core::ids::SessionId;
use punctual_node::cluster::Cluster;
use punctual_node::driver::Hot;
use punctual_node::leaders::PATIENCE;
use punctual_node::store_clock::StoreClock;
use punctual_node::{Handle, Peers};

use punctual_server::grpc::peer::{Dialled, Key, OFFER_BYTES, Trusted};
use punctual_server::mail::Post;
use punctual_store::{Session, Sessions, Store};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

/// Between two looks at whether another node of our name lives.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long a session that nobody renews may be listed after its lease: by then a look has removed it.
const EXPIRY_MAX: Duration = Duration::from_secs(1);
/// A node's share of the shards, beside others that say nothing else.
const WEIGHT: u32 = 10_000;

/// How a node finds its place among others.
#[derive(Debug)]
pub struct Joining {
    pub session: SessionId,
    pub sessions: Arc<dyn Sessions>,
    /// Where the others reach it, `host:port`; none: it is embedded in an application, and cannot be dialled.
    pub address: Option<String>,
    /// Nodes speak TLS among each other, and trust these certificates. `None` means in the clear.
    pub trusted: Option<Trusted>,
    /// From when on it is too busy, and gives shards away.
    pub hot: Hot,
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
    /// Agrees with the others on a key, refuses to go on while another node of this name lives, and reads the store's
    /// clock for the first time. `lease` is how long a node that says nothing counts as alive.
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
        let post = Post::new(&session, Arc::clone(store), peers);
        if let Err(taken) = wait_for_name(&session, &*self.sessions, &post, lease).await {
            self.sessions.leave(session.id).await?;
            return Err(taken);
        }
        let (sessions, peers) = (self.sessions, Arc::new(post.clone()));
        let cluster = Cluster { session, sessions, peers, clock, patience: PATIENCE, hot: self.hot };
        cluster.leases(&**store).await?;
        Ok(Joined { cluster, key, post })
    }
}

/// Returns once no other node of our name lives.
///
/// An earlier life of this node may still be listed for a lease after it was killed. Its address then refuses connections,
/// or is ours: nothing answers there yet.
async fn wait_for_name(
    me: &Session,
    sessions: &dyn Sessions,
    post: &Post,
    lease: Duration,
) -> anyhow::Result<()> {
    // Nodes that cannot be dialled may share a name: nothing of theirs goes by it.
    let Some(own) = &me.address else { return Ok(()) };
    // A node of weight 0 leads nothing, so nothing is left to a node that may be refused.
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
