//! Sessions and leases, by the clock of the server.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::ids::{Epoch, SessionId, ShardId};
use punctual_failpoint::{Point, hit, midway};
use tokio_postgres::Row;

use super::failure::Moment;
use super::link::{Ask, Link, ask};
use super::queries::{sessions, shards};
use super::writes::number;
use super::{Postgres, rows};
use crate::{Claim, Error, Lease, Leases, Member, Result, Session, refusal};

/// How often an acquisition that waited too long ends the former owner's connections and tries again. Together with its
/// lock timeout, that is longer than the server keeps an idle transaction whose owner is lost.
const TRIES_MAX: usize = 10;

impl Postgres {
    pub(super) async fn read_leases(&self) -> Result<Leases> {
        let found = self.session.take().await?.read(ask!(shards::LEASES)).await?;
        let now = found.first().map_or(Ok(Timestamp::MIN), |row| rows::instant(row, 0))?;
        let shards = found.iter().map(|row| {
            Ok(Lease {
                shard: ShardId(u16::try_from(rows::get::<i16>(row, 1)?).unwrap_or(0)),
                epoch: Epoch(rows::number(row, 2)?),
                owner: rows::get::<Option<i64>>(row, 3)?.map(SessionId),
                heir: rows::get::<Option<i64>>(row, 4)?.map(SessionId),
            })
        });
        Ok(Leases { now, shards: shards.collect::<Result<_>>()? })
    }

    pub(super) async fn take_shards(
        &self,
        by: Option<SessionId>,
        claims: &[Claim],
    ) -> Result<Vec<(ShardId, Epoch)>> {
        if let Some(claim) = claims.iter().find(|claim| claim.shard.0 >= self.shards) {
            return Err(refusal::no_such_shard(claim.shard));
        }
        // Every node takes locks in shard order, so there is no deadlock.
        let mut sorted: Vec<(usize, &Claim)> = claims.iter().enumerate().collect();
        sorted.sort_by_key(|(_, claim)| claim.shard);
        let mut tries = 0;
        loop {
            let mut link = self.lease.take().await?;
            link.end_former_owners(by, claims).await;
            let asks = sorted.iter().map(|(_, claim)| acquire(by, claim)).collect();
            hit(Point::PostgresAcquireBegun);
            match midway(Point::PostgresAcquireUnderWay, link.transact(asks)).await {
                Ok(answers) => {
                    let mut acquired = Vec::new();
                    for ((index, claim), answer) in sorted.iter().zip(&answers) {
                        if let Some(row) = answer.rows.first() {
                            acquired.push((*index, (claim.shard, Epoch(rows::number(row, 0)?))));
                        }
                    }
                    acquired.sort_by_key(|(index, _)| *index);
                    return Ok(acquired.into_iter().map(|(_, acquired)| acquired).collect());
                }
                Err((Moment::Writing, failure)) if failure.is_lock_timeout() && tries < TRIES_MAX => {
                    tries += 1;
                }
                Err((moment, failure)) => return Err(failure.judge(moment)),
            }
        }
    }

    pub(super) async fn give_up_shards(
        &self,
        released: &[(ShardId, Epoch)],
        heir: Option<SessionId>,
    ) -> Result<()> {
        let mut released = released.to_vec();
        released.sort_unstable();
        let asks = released.into_iter().map(|(shard, epoch)| {
            ask!(shards::RELEASE, number(shard), i64::from(epoch.0), heir.map(|session| session.0))
        });
        let asks: Vec<Ask> = asks.collect();
        let mut link = self.lease.take().await?;
        midway(Point::PostgresReleaseUnderWay, link.write(asks)).await?;
        Ok(())
    }

    pub(super) async fn renew_session(&self, session: &Session, ttl: Duration) -> Result<Vec<Member>> {
        let renew = ask!(
            sessions::RENEW,
            session.id.0,
            session.node.to_string(),
            session.address.as_ref().map(ToString::to_string),
            i64::from(session.weight),
            session.embedded,
            i16::from(session.load),
            i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX / 2),
        );
        let asks = vec![ask!(sessions::EXPIRE), renew, ask!(sessions::ALL)];
        let mut link = self.session.take().await?;
        let answers = midway(Point::PostgresRenewUnderWay, link.write(asks)).await?;
        let all = answers.last().ok_or_else(|| Error::Unreachable("no answer to a renewal".to_owned()))?;
        all.rows.iter().map(member).collect()
    }

    pub(super) async fn end_session(&self, session: SessionId) -> Result<()> {
        self.session.take().await?.write(vec![ask!(sessions::LEAVE, session.0)]).await?;
        Ok(())
    }
}

impl Link {
    /// Ends open transactions of former owners, which would block this one, for example if their process is stopped.
    /// Without the right to do so, the server ends them after a while.
    async fn end_former_owners(&mut self, by: Option<SessionId>, claims: &[Claim]) {
        let of: Vec<i16> = claims.iter().map(|claim| number(claim.shard)).collect();
        let than: Vec<Option<i64>> =
            claims.iter().map(|claim| claim.than.map(|epoch| i64::from(epoch.0))).collect();
        let ended = self.ask(ask!(shards::END_FORMER_OWNERS, of, than, by.map(|session| session.0))).await;
        match ended {
            Ok(answer) if answer.rows.is_empty() => {}
            Ok(answer) => tracing::info!(sessions = answer.rows.len(), "ended sessions of former owners"),
            Err(failure) => tracing::warn!(%failure, "sessions of former owners could not be ended"),
        }
    }
}

fn acquire(by: Option<SessionId>, claim: &Claim) -> Ask {
    let than = claim.than.map(|epoch| i64::from(epoch.0));
    ask!(shards::ACQUIRE, number(claim.shard), than, by.map(|session| session.0))
}

fn member(row: &Row) -> Result<Member> {
    let session = Session {
        id: SessionId(rows::get(row, 1)?),
        node: Arc::from(rows::get::<&str>(row, 2)?),
        address: rows::get::<Option<&str>>(row, 3)?.map(Arc::from),
        weight: rows::number(row, 4)?,
        embedded: rows::get(row, 5)?,
        load: u8::try_from(rows::get::<i16>(row, 6)?).unwrap_or(u8::MAX),
    };
    let now = rows::instant(row, 0)?;
    Ok(Member { session, age: now.since(rows::instant(row, 7)?) })
}
