//! What a node of a cluster needs besides the store: the session service, its peers, and the store's clock.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::ids::{RunId, SessionId, Token, WorkerId};
use punctual_store::{Error, Leases, Member, Session, Sessions, Store};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::driver::{LoadLimit, View};
use crate::peers::{self, Peers};
use crate::store_clock::StoreClock;

/// The session service (for example etcd) must answer within this many tenths of a lease. Our lease counts from the
/// moment the renewal was sent, so an etcd that hangs without a majority must not use it up.
const KEEPER_TENTHS: u32 = 3;
/// How long to wait for a peer to accept or refuse a connection.
const KNOCK_MAX: Duration = Duration::from_millis(300);

#[derive(Debug, Clone)]
pub struct Cluster {
    pub session: Session,
    pub sessions: Arc<dyn Sessions>,
    pub peers: Arc<dyn Peers>,
    pub clock: Arc<StoreClock>,
    /// How long a command may take to find its leader and be answered.
    pub patience: Duration,
    /// The load above which this node gives shards away.
    pub load_limit: LoadLimit,
}

impl Cluster {
    /// Renews our session and reads the members, the leader of each shard, and the store's time.
    pub(crate) async fn look(
        &self,
        store: &dyn Store,
        session: &Session,
        ttl: Duration,
    ) -> Result<View, Error> {
        let patience = ttl * KEEPER_TENTHS / 10;
        let renew = || timeout(patience, self.sessions.renew(session, ttl));
        let (mut members, leases) = tokio::join!(renew(), timeout(ttl, self.leases(store)));
        let leases = leases.unwrap_or_else(|_| Err(Error::Unreachable("no answer within a lease".into())))?;
        if let Ok(Ok(first)) = &members
            && View::has_unknown_leader(first, &leases)
        {
            members = renew().await;
        }
        let members = match members.unwrap_or_else(|_| Err(Error::Unreachable("no answer in time".into()))) {
            Ok(members) => Some(members),
            Err(Error::Unusable(why)) => return Err(Error::Unusable(why)),
            Err(error) => {
                tracing::warn!(%error, "the session service did not answer: every node keeps its shards");
                None
            }
        };
        let refusing = match &members {
            Some(members) => self.knock(members, &leases).await,
            None => Vec::new(),
        };
        Ok(View { members, leases, refusing, is_time_known: self.clock.is_trusted() })
    }

    /// Reads the leases, and with them the store's clock.
    pub async fn leases(&self, store: &dyn Store) -> Result<Leases, Error> {
        let asked = Instant::now();
        let leases = store.leases().await?;
        self.clock.measured(asked, Instant::now(), leases.now);
        Ok(leases)
    }

    /// Wakes the node that shards were released to. If it cannot be reached it may be gone, and the next node in rank
    /// does not know that it is next: then every other member is woken and the result is false, so that we look at the
    /// cluster too.
    pub(crate) async fn wake_heir(&self, heir: &Session, members: &[Session]) -> bool {
        let is_awake = self.peers.wake(&peers::address_of(heir)).await;
        if !is_awake {
            self.wake_all(members.iter().filter(|member| member.id != heir.id)).await;
        }
        is_awake
    }

    /// Ends our session and wakes every member, so that a node about to hand a shard over to us picks another heir.
    pub(crate) async fn leave(&self, members: &[Session]) -> Result<(), Error> {
        self.sessions.leave(self.session.id).await?;
        self.wake_all(members.iter()).await;
        Ok(())
    }

    async fn wake_all(&self, members: impl Iterator<Item = &Session>) {
        let mut wakes = JoinSet::new();
        for member in members.filter(|member| member.id != self.session.id) {
            let (peers, address) = (Arc::clone(&self.peers), peers::address_of(member));
            wakes.spawn(async move { peers.wake(&address).await });
        }
        wakes.join_all().await;
    }

    /// Tells every other member of a worker that does not stop these attempts.
    pub(crate) async fn distrust(&self, members: &[Session], worker: &WorkerId, attempts: &[(RunId, Token)]) {
        let mut told = JoinSet::new();
        let others = members.iter().filter(|member| member.id != self.session.id);
        // Workers dial only nodes that have an address.
        for address in others.filter_map(|member| member.address.clone()) {
            let (peers, worker, attempts) = (Arc::clone(&self.peers), worker.clone(), attempts.to_vec());
            told.spawn(async move { peers.distrust(&address, &worker, &attempts).await });
        }
        told.join_all().await;
    }

    /// Connects to every other member that leads or could lead; returns those whose address refuses connections.
    async fn knock(&self, members: &[Member], leases: &Leases) -> Vec<SessionId> {
        let mut knocks = JoinSet::new();
        for member in members {
            let Session { id, address, .. } = &member.session;
            let is_asked = *id != self.session.id && View::is_knocked_at(&member.session, leases);
            let Some(address) = address.clone().filter(|_| is_asked) else { continue };
            let (peers, id) = (Arc::clone(&self.peers), *id);
            knocks.spawn(async move {
                let refuses = timeout(KNOCK_MAX, peers.refuses(&address)).await;
                refuses.unwrap_or(false).then_some(id)
            });
        }
        knocks.join_all().await.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use parking_lot::Mutex;
    use punctual_core::command::{Answer, Command};
    use punctual_store::memory::Memory;

    use super::*;
    use crate::failure::Failure;

    const TTL: Duration = Duration::from_secs(3);

    /// Peers that record calls to `wake`; those listed in `broken` refuse connections.
    #[derive(Debug, Default)]
    struct Bells {
        broken: Vec<&'static str>,
        rung: Mutex<Vec<String>>,
    }

    #[async_trait]
    impl Peers for Bells {
        async fn ask(&self, _: &str, _: &Command, _: Duration) -> Result<Answer, Failure> {
            Err(Failure::NotLed("this peer answers no command".to_owned()))
        }

        async fn wake(&self, address: &str) -> bool {
            self.rung.lock().push(address.to_owned());
            !self.broken.contains(&address)
        }

        async fn refuses(&self, address: &str) -> bool {
            self.broken.contains(&address)
        }
    }

    fn session(id: i64) -> Session {
        Session {
            id: SessionId(id),
            node: Arc::from(format!("n{id}")),
            address: Some(Arc::from(format!("n{id}:1"))),
            weight: 100,
            embedded: false,
            load: 0,
        }
    }

    /// The first of three nodes, its peers, and all members.
    async fn cluster(broken: Vec<&'static str>) -> (Cluster, Arc<Bells>, Vec<Session>) {
        let sessions = Arc::new(Memory::new(1));
        let members: Vec<Session> = (1..=3).map(session).collect();
        for member in &members {
            sessions.renew(member, TTL).await.unwrap();
        }
        let bells = Arc::new(Bells { broken, ..Bells::default() });
        let cluster = Cluster {
            load_limit: LoadLimit::default(),
            session: session(1),
            sessions,
            peers: Arc::clone(&bells) as Arc<dyn Peers>,
            clock: Arc::default(),
            patience: TTL,
        };
        (cluster, bells, members)
    }

    fn rung(bells: &Bells) -> Vec<String> {
        let mut rung = std::mem::take(&mut *bells.rung.lock());
        rung.sort();
        rung
    }

    #[tokio::test]
    async fn only_the_heir_is_woken_while_it_can_be_reached() {
        let (cluster, bells, members) = cluster(vec![]).await;
        assert!(cluster.wake_heir(&members[1], &members).await);
        assert_eq!(rung(&bells), ["n2:1"]);
    }

    #[tokio::test]
    async fn a_shard_left_to_a_lost_heir_wakes_every_node() {
        let (cluster, bells, members) = cluster(vec!["n2:1"]).await;
        assert!(!cluster.wake_heir(&members[1], &members).await, "this node should read the cluster too");
        assert_eq!(rung(&bells), ["n2:1", "n3:1"]);
    }

    /// Its session lives on until it expires, and shards would be handed over to it.
    #[tokio::test]
    async fn a_dead_member_is_noticed_even_if_it_leads_nothing() {
        let (cluster, ..) = cluster(vec!["n2:1"]).await;
        let view = cluster.look(&Memory::new(1), &session(1), TTL).await.unwrap();
        assert_eq!(view.members.map(|members| members.len()), Some(3));
        assert_eq!(view.refusing, [SessionId(2)]);
    }

    #[tokio::test]
    async fn a_node_that_leaves_wakes_every_member() {
        let (cluster, bells, members) = cluster(vec!["n2:1"]).await;
        cluster.leave(&members).await.unwrap();
        assert_eq!(rung(&bells), ["n2:1", "n3:1"]);
        let left = cluster.sessions.renew(&members[2], TTL).await.unwrap();
        assert_eq!(left.iter().map(|member| member.session.id.0).collect::<Vec<_>>(), [2, 3]);
    }
}
