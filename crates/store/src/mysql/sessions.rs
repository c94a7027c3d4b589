//! Sessions: one row per node, renewed every second.
//!
//! An expired row stays for a while; it does not count, and a renewal restarts its age.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::ids::SessionId;
use punctual_failpoint::{Point, midway};

use super::failure::{Failure, Moment};
use super::link::Held;
use super::{Mysql, queries, rows};
use crate::{Member, Result, Session};

/// A row that expired this long ago is deleted.
const SWEPT_AFTER: Duration = Duration::from_secs(60);

impl Mysql {
    pub(super) async fn renew_session(&self, session: &Session, ttl: Duration) -> Result<Vec<Member>> {
        let mut held = self.sessions.take().await?;
        let members = midway(Point::MysqlRenewUnderWay, renew(&mut held, session, ttl)).await;
        held.finish(members, Moment::Reading).await
    }

    pub(super) async fn leave_session(&self, session: SessionId) -> Result<()> {
        let mut held = self.sessions.take().await?;
        let left = held.execute(queries::sessions::LEAVE, (session.0,)).await.map(|_| ());
        held.finish(left, Moment::Reading).await
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
        let left = rows::int(&row, 7)?;
        if left > 0 {
            members.push(member(&row)?);
        }
        is_swept &= left > -i64::try_from(SWEPT_AFTER.as_millis()).unwrap_or(i64::MAX);
    }
    if !is_swept {
        let over = i64::try_from(SWEPT_AFTER.as_millis()).unwrap_or(i64::MAX);
        held.execute(queries::sessions::SWEEP, (over,)).await?;
    }
    Ok(members)
}

fn member(row: &mysql_async::Row) -> Result<Member, Failure> {
    let session = Session {
        id: SessionId(rows::int(row, 0)?),
        node: Arc::from(rows::text(row, 1)?),
        address: rows::text_or_none(row, 2)?.map(Arc::from),
        weight: rows::number(row, 3)?,
        embedded: rows::int(row, 4)? != 0,
        load: rows::number(row, 5)?,
    };
    Ok(Member { session, age: Duration::from_millis(rows::int(row, 6)?.max(0).cast_unsigned()) })
}
