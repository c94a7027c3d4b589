//! Sessions: a session store has to pass these cases.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::ids::SessionId;

use super::given::wait_until;
use crate::{Result, Session, Sessions};

const LONG: Duration = Duration::from_secs(60);
/// Not shorter than the shortest ttl that every session store supports.
const SHORT: Duration = Duration::from_secs(1);

fn session(id: i64) -> Session {
    Session {
        id: SessionId(id),
        node: Arc::from(format!("node-{id}")),
        address: (id % 2 == 0).then(|| Arc::from("127.0.0.1:7400")),
        weight: 100,
        embedded: id % 3 == 0,
        load: 7,
    }
}

async fn ids(sessions: &dyn Sessions, me: i64) -> Result<Vec<i64>> {
    let members = sessions.renew(&session(me), LONG).await?;
    Ok(members.iter().map(|member| member.session.id.0).collect())
}

/// Every node that renews sees all live sessions, as they were last renewed.
pub async fn those_who_renew_see_each_other(sessions: &dyn Sessions) -> Result<()> {
    for id in [6, i64::MAX, 3] {
        sessions.renew(&session(id), LONG).await?;
    }
    let members = sessions.renew(&session(4), LONG).await?;
    let seen: Vec<Session> = members.into_iter().map(|member| member.session).collect();
    assert_eq!(seen, [3, 4, 6, i64::MAX].map(session));
    Ok(())
}

/// A renewal may change the fields of a session; its age continues.
pub async fn a_renewal_says_what_is_so_now(sessions: &dyn Sessions) -> Result<()> {
    sessions.renew(&session(1), LONG).await?;
    let busy = Session { load: 93, weight: 0, address: None, ..session(1) };
    sessions.renew(&busy, LONG).await?;
    let members = sessions.renew(&session(2), LONG).await?;
    assert_eq!(members[0].session, busy);
    Ok(())
}

/// A session that is not renewed within its ttl expires, and its age restarts with the next renewal.
pub async fn a_session_that_is_not_renewed_ends(sessions: &dyn Sessions) -> Result<()> {
    sessions.renew(&session(1), SHORT).await?;
    assert_eq!(ids(sessions, 2).await?, [1, 2]);
    wait_until("the session has ended", async || Ok(ids(sessions, 2).await? == [2])).await?;
    let members = sessions.renew(&session(1), LONG).await?;
    assert!(members[0].age < members[1].age, "a new life is as old as the one that ended");
    Ok(())
}

pub async fn a_session_that_is_renewed_gets_older(sessions: &dyn Sessions) -> Result<()> {
    sessions.renew(&session(1), LONG).await?;
    wait_until("it is older than its first ttl", async || {
        let members = sessions.renew(&session(1), SHORT).await?;
        Ok(members[0].age > SHORT)
    })
    .await
}

pub async fn a_session_ends_when_its_node_leaves(sessions: &dyn Sessions) -> Result<()> {
    sessions.renew(&session(1), LONG).await?;
    sessions.leave(SessionId(1)).await?;
    sessions.leave(SessionId(1)).await?;
    assert_eq!(ids(sessions, 2).await?, [2]);
    Ok(())
}
