//! Leases: acquires, releases and lists shards.

use std::collections::BTreeSet;

use punctual_core::Timestamp;
use punctual_core::hash;
use punctual_core::ids::{Epoch, SessionId, ShardId};
use punctual_failpoint::{Point, hit};

use super::failure::{Failure, Moment};
use super::link::{Held, end_holder};
use super::script::{int, list, put};
use super::{Mysql, queries, rows};
use crate::{Claim, Lease, Leases, Result, refusal};

/// The names of the connections that can lock a shard's row.
pub(super) const HOLDERS: [&str; 4] = ["lane-0", "lane-1", "changes", "prune"];

/// The named lock of a connection: its session and its purpose. Lock names are shared by the whole server, so the name
/// contains the database.
pub(super) fn hold_name(database: &str, session: SessionId, holder: &str) -> String {
    let database = hash::stable(&[database.as_bytes()]);
    format!("punctual:{database:016x}:{:016x}:{holder}", session.0)
}

impl Mysql {
    pub(super) async fn read_leases(&self) -> Result<Leases> {
        let mut held = self.sessions.take().await?;
        let leases = leases(&mut held).await;
        held.finish(leases, Moment::Reading).await
    }

    /// First ends the connections of former owners. If one cannot be ended, this waits for its transaction, which has
    /// locked the shard's row.
    pub(super) async fn acquire_claims(
        &self,
        by: Option<SessionId>,
        claims: &[Claim],
    ) -> Result<Vec<(ShardId, Epoch)>> {
        if let Some(claim) = claims.iter().find(|claim| claim.shard.0 >= self.shards) {
            return Err(refusal::no_such_shard(claim.shard));
        }
        if claims.is_empty() {
            return Ok(Vec::new());
        }
        let mut held = self.changes.take().await?;
        hit(Point::MysqlAcquireBegun);
        let acquired = self.take_shards(&mut held, by, claims).await;
        hit(Point::MysqlAcquireWritten);
        let acquired = held.commit(acquired).await;
        hit(Point::MysqlAcquireCommitted);
        acquired
    }

    async fn take_shards(
        &self,
        held: &mut Held<'_>,
        by: Option<SessionId>,
        claims: &[Claim],
    ) -> Result<Vec<(ShardId, Epoch)>, Failure> {
        let before = leases(held).await?.shards;
        let is_claimed = |lease: &&Lease| {
            claims
                .iter()
                .any(|claim| claim.shard == lease.shard && claim.than.is_none_or(|than| than == lease.epoch))
        };
        let owners = before.iter().filter(is_claimed).filter_map(|lease| lease.owner);
        for owner in owners.filter(|owner| Some(*owner) != by).collect::<BTreeSet<_>>() {
            self.end_connections(held, owner).await?;
        }

        held.step("START TRANSACTION").await?;
        // Every transaction locks shard rows in this order, so there is no deadlock.
        let mut in_order: Vec<&Claim> = claims.iter().collect();
        in_order.sort_by_key(|claim| claim.shard);
        let mut taken = BTreeSet::new();
        for Claim { shard, than } in in_order {
            let than = than.map(|epoch| i64::from(epoch.0));
            let params = (by.map(|session| session.0), shard.0, than);
            if held.execute(queries::shards::ACQUIRE, params).await? == 1 {
                taken.insert(*shard);
            }
        }
        if taken.is_empty() {
            return Ok(Vec::new());
        }
        let mut sql = Vec::new();
        put(&mut sql, "SELECT shard, epoch FROM shards WHERE shard IN (");
        list(&mut sql, &taken, |sql, shard| int(sql, shard.0));
        put(&mut sql, ")");
        let epochs = held.text(sql).await?;
        let epochs: std::collections::BTreeMap<ShardId, Epoch> = epochs
            .iter()
            .map(|row| Ok((ShardId(rows::number(row, 0)?), Epoch(rows::number(row, 1)?))))
            .collect::<Result<_, Failure>>()?;
        Ok(claims.iter().filter_map(|claim| Some((claim.shard, *epochs.get(&claim.shard)?))).collect())
    }

    /// The former owner may be dead or only stopped: either way it must not hold a lock.
    async fn end_connections(&self, held: &mut Held<'_>, owner: SessionId) -> Result<(), Failure> {
        for holder in HOLDERS {
            let name = hold_name(&self.database, owner, holder);
            match end_holder(held.conn(), &name).await {
                Ok(true) => {
                    tracing::info!(%owner, holder, "ended a connection of a former owner");
                }
                Ok(false) => {}
                Err(failure) if failure.ends_connection() => return Err(failure),
                Err(failure) => {
                    // Without the right to end it, the acquisition waits for its locks.
                    let error = failure.judge(Moment::Writing);
                    tracing::warn!(%owner, holder, %error, "could not end a connection of a former owner");
                }
            }
        }
        Ok(())
    }

    pub(super) async fn release_shards(
        &self,
        released: &[(ShardId, Epoch)],
        heir: Option<SessionId>,
    ) -> Result<()> {
        let mut held = self.changes.take().await?;
        let result = release(&mut held, released, heir).await;
        hit(Point::MysqlReleaseWritten);
        held.commit(result).await
    }
}

async fn leases(held: &mut Held<'_>) -> Result<Leases, Failure> {
    let found = held.rows(queries::shards::LEASES, ()).await?;
    let now = found.first().map_or(Ok(Timestamp::MIN), |row| rows::instant(row, 0))?;
    let lease = |row: &mysql_async::Row| {
        Ok(Lease {
            shard: ShardId(rows::number(row, 1)?),
            epoch: Epoch(rows::number(row, 2)?),
            owner: rows::int_or_none(row, 3)?.map(SessionId),
            heir: rows::int_or_none(row, 4)?.map(SessionId),
        })
    };
    Ok(Leases { now, shards: found.iter().map(lease).collect::<Result<_, Failure>>()? })
}

async fn release(
    held: &mut Held<'_>,
    released: &[(ShardId, Epoch)],
    heir: Option<SessionId>,
) -> Result<(), Failure> {
    held.step("START TRANSACTION").await?;
    let mut in_order = released.to_vec();
    in_order.sort_unstable();
    for (shard, epoch) in in_order {
        let params = (heir.map(|session| session.0), shard.0, epoch.0);
        held.execute(queries::shards::RELEASE, params).await?;
    }
    Ok(())
}
