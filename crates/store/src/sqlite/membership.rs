//! Sessions, and the acquisition of shards. Only one process uses the folder, so this only fulfils the store's contract.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::Timestamp;
use punctual_core::ids::{Epoch, SessionId, ShardId};
use punctual_failpoint::{Point, hit};
use rusqlite::{OptionalExtension, Row};

use super::Sqlite;
use super::failure::Failure;
use super::queries::{sessions, shards};
use super::writer::Writer;
use crate::sql::backend::Backend;
use crate::{Claim, Member, Result, Session, Sessions, refusal};

#[async_trait]
impl Sessions for Sqlite {
    async fn renew(&self, session: &Session, ttl: Duration) -> Result<Vec<Member>> {
        let session = session.clone();
        self.writer.ask(move |writer| writer.renew(&session, ttl)).await
    }

    async fn leave(&self, session: SessionId) -> Result<()> {
        self.end_session(session).await
    }
}

impl Writer {
    /// Makes new epochs. The writer runs it after every commit of the older ones, so the load that follows sees them.
    pub(super) fn acquire(
        &mut self,
        by: Option<SessionId>,
        claims: &[Claim],
    ) -> Result<Vec<(ShardId, Epoch)>> {
        let acquired = self.transact(|session| {
            session.own(|connection| {
                let mut exists = connection.prepare_cached(shards::EXISTS)?;
                let mut statement = connection.prepare_cached(shards::ACQUIRE)?;
                let mut acquired = Vec::with_capacity(claims.len());
                for Claim { shard, expected_epoch } in claims {
                    let params = (shard.0, expected_epoch.map(|epoch| epoch.0), by.map(|session| session.0));
                    match statement.query_row(params, |row| row.get(0)).optional()? {
                        Some(epoch) => acquired.push((*shard, Epoch(epoch))),
                        None if exists.exists([shard.0])? => {}
                        None => return Err(refusal::no_such_shard(*shard).into()),
                    }
                }
                hit(Point::SqliteAcquireWritten);
                Ok(acquired)
            })
        })?;
        hit(Point::SqliteAcquireCommitted);
        self.acknowledge(acquired.len());
        Ok(acquired)
    }

    fn renew(&mut self, session: &Session, ttl: Duration) -> Result<Vec<Member>> {
        self.transact(|s| {
            s.own(|connection| {
                let now = connection.prepare_cached(sessions::NOW)?.query_row([], |row| row.get(0))?;
                let now = Timestamp::from_millis(now);
                connection.prepare_cached(sessions::EXPIRE)?.execute([now.as_millis()])?;
                connection.prepare_cached(sessions::RENEW)?.execute((
                    session.id.0,
                    &*session.node,
                    session.address.as_deref(),
                    session.weight,
                    session.embedded,
                    session.load,
                    now.as_millis(),
                    (now + ttl).as_millis(),
                ))?;
                let mut all = connection.prepare_cached(sessions::ALL)?;
                let members = all.query_and_then([], |row| member(row, now))?;
                members.collect()
            })
        })
    }
}

fn member(row: &Row<'_>, now: Timestamp) -> Result<Member, Failure> {
    let session = Session {
        id: SessionId(row.get(0)?),
        node: Arc::from(row.get::<_, String>(1)?),
        address: row.get::<_, Option<String>>(2)?.map(Arc::from),
        weight: row.get(3)?,
        embedded: row.get(4)?,
        load: row.get(5)?,
    };
    Ok(Member { session, age: now.since(Timestamp::from_millis(row.get(6)?)) })
}
