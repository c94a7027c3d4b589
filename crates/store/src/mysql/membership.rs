//! Sessions: one row per node, renewed every second.
//!
//! An expired row stays for a while; it does not count, and a renewal restarts its age.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::ids::SessionId;
use punctual_failpoint::{Point, midway};

use super::failure::{Failure, Moment};
use super::link::Held;
use super::{Mysql, queries};
use crate::sql::backend::Backend;
use crate::sql::value::Row;
use crate::{Member, Result, Session, Sessions};

/// A row that expired this long ago is deleted.
const SWEPT_AFTER: Duration = Duration::from_secs(60);

#[async_trait]
impl Sessions for Mysql {
    async fn renew(&self, session: &Session, ttl: Duration) -> Result<Vec<Member>> {
        let mut held = self.sessions.take().await?;
        let members = midway(Point::MysqlRenewUnderWay, renew(&mut held, session, ttl)).await;
        held.finish(members, Moment::Reading).await
    }

    async fn leave(&self, session: SessionId) -> Result<()> {
        self.end_session(session).await
    }
}

async fn renew(held: &mut Held<'_>, session: &Session, ttl: Duration) -> Result<Vec<Member>, Failure> {
    let ttl = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX);
    let (weight, embedded, load) = (session.weight, session.embedded, session.load);
    let (node, address) = (session.node.as_bytes(), session.address.as_deref().map(str::as_bytes));
    let renewed = (node, address, weight, embedded, load, ttl, session.id.0);
    if held.execute(queries::sessions::RENEW, renewed).await? == 0 {
        let begun = (session.id.0, node, address, weight, embedded, load, ttl);
        held.execute(queries::sessions::BEGIN, begun).await?;
    }
    let (mut members, mut is_swept) = (Vec::new(), true);
    for row in held.rows(queries::sessions::ALL, ()).await? {
        let row: &dyn Row = &row;
        let left = row.int(7)?;
        if left > 0 {
            members.push(member(row)?);
        }
        is_swept &= left > -i64::try_from(SWEPT_AFTER.as_millis()).unwrap_or(i64::MAX);
    }
    if !is_swept {
        let over = i64::try_from(SWEPT_AFTER.as_millis()).unwrap_or(i64::MAX);
        held.execute(queries::sessions::SWEEP, (over,)).await?;
    }
    Ok(members)
}

fn member(row: &dyn Row) -> Result<Member, Failure> {
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
