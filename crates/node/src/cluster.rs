//! What a node of a cluster has beside a store: whoever keeps the sessions, its peers, and store time.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::ids::SessionId;
use punctual_store::{Error, Leases, Member, Session, Sessions, Store};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::driver::View;
use crate::peers::Peers;
use crate::store_clock::StoreClock;

/// How many tenths of a lease whoever keeps the sessions may take to answer. What we lead is ours for a lease from when we
/// asked: a keeper that is there and says nothing, as an etcd without its majority, must not use it up.
const KEEPER_TENTHS: u32 = 3;
/// How long a neighbour has to say that it is there.
const KNOCK_MAX: Duration = Duration::from_millis(300);

#[derive(Debug, Clone)]
pub struct Cluster {
    pub session: Session,
    pub sessions: Arc<dyn Sessions>,
    pub peers: Arc<dyn Peers>,
    pub clock: Arc<StoreClock>,
    /// How long a command may take to find its leader and be answered.
    pub patience: Duration,
}

impl Cluster {
    /// Says that we live, and looks who else does, who leads what, and what time it is.
    pub(crate) async fn look(
        &self,
        store: &dyn Store,
        session: &Session,
        ttl: Duration,
    ) -> Result<View, Error> {
        let patience = ttl * KEEPER_TENTHS / 10;
        let (members, leases) = tokio::join!(
            timeout(patience, self.sessions.renew(session, ttl)),
            timeout(ttl, self.leases(store))
        );
        let leases = leases.unwrap_or_else(|_| Err(Error::Unreachable("no answer within a lease".into())))?;
        let members = match members.unwrap_or_else(|_| Err(Error::Unreachable("no answer in time".into()))) {
            Ok(members) => Some(members),
            Err(Error::Unusable(why)) => return Err(Error::Unusable(why)),
            Err(error) => {
                tracing::warn!(%error, "nobody can say who lives: every node keeps what it has");
                None
            }
        };
        let refusing = match &members {
            Some(members) => self.knock(members, &leases).await,
            None => Vec::new(),
        };
        Ok(View { members, leases, refusing, is_time_known: self.clock.is_trusted() })
    }

    /// Who leads what; on the way the store's clock is read.
    pub async fn leases(&self, store: &dyn Store) -> Result<Leases, Error> {
        let asked = Instant::now();
        let leases = store.leases().await?;
        self.clock.measured(asked, Instant::now(), leases.now);
        Ok(leases)
    }

    /// Knocks at the doors of those who lead something.
    async fn knock(&self, members: &[Member], leases: &Leases) -> Vec<SessionId> {
        let mut knocks = JoinSet::new();
        for member in members {
            let Session { id, address, .. } = &member.session;
            let leads = leases.shards.iter().any(|lease| lease.owner == Some(*id));
            let Some(address) = address.clone().filter(|_| leads && *id != self.session.id) else { continue };
            let (peers, id) = (Arc::clone(&self.peers), *id);
            knocks.spawn(async move {
                let refuses = timeout(KNOCK_MAX, peers.refuses(&address)).await;
                refuses.unwrap_or(false).then_some(id)
            });
        }
        knocks.join_all().await.into_iter().flatten().collect()
    }
}
