//! Sessions stored outside the store, in etcd or Redis. They are liveness only: the store's epochs do the fencing, so
//! if etcd or Redis lose everything, the worst effect is a pause.

mod etcd;
mod redis;

use std::sync::Arc;
use std::time::Duration;

use punctual_core::ids::SessionId;
use serde::{Deserialize, Serialize};

use crate::{Error, Result, Session, Sessions};

/// How long a session store may take to answer before it counts as unreachable.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// Opens the session store at an address: `etcd://host:2379[,host:2379…]` or `redis://host:6379`; `etcds://` and
/// `rediss://` with TLS. It does not connect yet.
pub fn open(address: &str) -> Result<Arc<dyn Sessions>> {
    match address.split_once("://") {
        Some(("etcd" | "etcds", _)) => Ok(Arc::new(etcd::Etcd::new(address)?)),
        Some(("redis" | "rediss", _)) => Ok(Arc::new(redis::Redis::new(address)?)),
        _ => Err(Error::Unusable(format!(
            "`{address}` names no keeper of sessions; write etcd://host:2379 or redis://host:6379"
        ))),
    }
}

/// A session as it is stored, in JSON.
#[derive(Debug, Serialize, Deserialize)]
struct Written {
    id: i64,
    node: Arc<str>,
    address: Option<Arc<str>>,
    weight: u32,
    embedded: bool,
    load: u8,
}

impl From<&Session> for Written {
    fn from(session: &Session) -> Self {
        let Session { id, node, address, weight, embedded, load } = session.clone();
        Written { id: id.0, node, address, weight, embedded, load }
    }
}

impl From<Written> for Session {
    fn from(written: Written) -> Self {
        let Written { id, node, address, weight, embedded, load } = written;
        Session { id: SessionId(id), node, address, weight, embedded, load }
    }
}

fn strange(what: impl std::fmt::Display) -> Error {
    Error::Unreachable(format!("a session is not as this version writes it: {what}"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Member;
    use crate::conformance::servers::{Supervised, etcd, redis};

    async fn open_redis() -> (Kept, Supervised) {
        let server = redis::start();
        (Kept(open(&redis::url(&server)).unwrap()), server)
    }

    async fn open_etcd() -> (Kept, Supervised) {
        let server = etcd::start();
        (Kept(open(&etcd::url(&server)).unwrap()), server)
    }

    /// The suite wants a value.
    #[derive(Debug)]
    struct Kept(Arc<dyn Sessions>);

    #[async_trait::async_trait]
    impl Sessions for Kept {
        async fn renew(&self, session: &Session, ttl: Duration) -> Result<Vec<Member>> {
            self.0.renew(session, ttl).await
        }

        async fn leave(&self, session: SessionId) -> Result<()> {
            self.0.leave(session).await
        }
    }

    crate::sessions_conformance!(in_redis, open_redis);
    crate::sessions_conformance!(in_etcd, open_etcd);

    fn session() -> Session {
        Session {
            id: SessionId(7),
            node: Arc::from("n7"),
            address: None,
            weight: 100,
            embedded: false,
            load: 0,
        }
    }

    /// Cut off, then back: the same keeper is asked again without a restart of ours.
    async fn is_found_again_after_a_restart(sessions: Kept, server: Supervised) {
        let ttl = Duration::from_secs(3);
        sessions.renew(&session(), ttl).await.unwrap();
        server.stop();
        assert!(matches!(sessions.renew(&session(), ttl).await, Err(Error::Unreachable(_))));
        server.start_again();
        for _ in 0..100 {
            if sessions.renew(&session(), ttl).await.is_ok_and(|members| members.len() == 1) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("it was not found again");
    }

    #[tokio::test]
    async fn redis_is_found_again_after_a_restart() {
        let (sessions, server) = open_redis().await;
        is_found_again_after_a_restart(sessions, server).await;
    }

    #[tokio::test]
    async fn etcd_is_found_again_after_a_restart() {
        let (sessions, server) = open_etcd().await;
        is_found_again_after_a_restart(sessions, server).await;
    }

    #[test]
    fn another_address_is_refused_with_what_to_write() {
        let error = open("zookeeper://here").err().unwrap().to_string();
        assert!(error.contains("etcd://host:2379"), "{error}");
    }
}
