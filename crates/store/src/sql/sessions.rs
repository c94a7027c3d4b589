//! Sessions, by the clock of the database: one row per node, renewed every second.
//!
//! An expired row stays for a while. It does not count, and a renewal restarts its age.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::ids::SessionId;
use punctual_failpoint::midway;

use super::backend::{Backend, Purpose, Scope, work};
use super::connection::{Connection, ask};
use super::queries::sessions as queries;
use super::value::Row;
use crate::{Member, Result, Session, Sessions};

/// A row that expired this long ago is deleted.
const SWEPT_AFTER_MILLIS: i64 = 60_000;

#[async_trait]
impl<B: Backend> Sessions for B {
    async fn renew(&self, session: &Session, ttl: Duration) -> Result<Vec<Member>> {
        let session = session.clone();
        let renewing = self.run(Purpose::Session, Scope::Statement, work!(|c| renew(c, session, ttl).await));
        match B::RENEWING {
            Some(point) => midway(point, renewing).await,
            None => renewing.await,
        }
    }

    async fn leave(&self, session: SessionId) -> Result<()> {
        self.execute(Purpose::Session, ask!(queries::LEAVE, session.0)).await.map(|_| ())
    }
}

/// Renews and reads in one round trip.
async fn renew(c: &mut dyn Connection, session: Session, ttl: Duration) -> Result<Vec<Member>> {
    let ttl = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX / 2);
    let Session { id, node, address, weight, embedded, load } = &session;
    let renew = ask!(queries::RENEW, id.0, &**node, address.as_deref(), *weight, *embedded, *load, ttl);
    let (mut members, mut is_swept) = (Vec::new(), true);
    c.query(&[renew, ask!(queries::ALL)], &mut |_, row| {
        let left = row.int(7)?;
        if left > 0 {
            members.push(member(row)?);
        }
        is_swept &= left > -SWEPT_AFTER_MILLIS;
        Ok(true)
    })
    .await?;
    if !is_swept {
        c.execute(&[ask!(queries::SWEEP, SWEPT_AFTER_MILLIS)]).await?;
    }
    Ok(members)
}

fn member(row: &dyn Row) -> Result<Member> {
    let session = Session {
        id: SessionId(row.int(0)?),
        node: Arc::from(row.text(1)?),
        address: row.text_or_none(2)?.map(Arc::from),
        weight: row.number(3)?,
        embedded: row.flag(4)?,
        load: row.number(5)?,
    };
    Ok(Member { session, age: Duration::from_millis(row.int(6)?.max(0).cast_unsigned()) })
}
