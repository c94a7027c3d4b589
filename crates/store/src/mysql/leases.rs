//! Acquires shards, and ends the connections of their former owners.

use std::collections::BTreeSet;

use punctual_core::hash;
use punctual_core::ids::{Epoch, SessionId, ShardId};
use punctual_failpoint::{Point, hit};

use super::connection::{MysqlConnection, end_holder};
use super::failure::{Failure, Moment};
use super::packets::{int, put, put_list};
use super::{Mysql, queries};
use crate::sql::value::Row;
use crate::{Claim, Result};

/// The names of the connections that can lock a shard's row.
pub(super) const LOCK_HOLDERS: [&str; 4] = ["commit-0", "commit-1", "changes", "prune"];

/// The named lock of a connection: its session and its purpose. Lock names are shared by the whole server, so the name
/// contains the database.
pub(super) fn lock_name(database: &str, session: SessionId, holder: &str) -> String {
    let database = hash::stable(&[database.as_bytes()]);
    format!("punctual:{database:016x}:{:016x}:{holder}", session.0)
}

impl Mysql {
    /// First ends the connections of former owners. If one cannot be ended, this waits for its transaction, which has
    /// locked the shard's row.
    pub(super) async fn acquire_claims(
        &self,
        by: Option<SessionId>,
        claims: &[Claim],
    ) -> Result<Vec<(ShardId, Epoch)>> {
        let mut connection = self.changes.take().await?;
        hit(Point::MysqlAcquireBegun);
        let acquired = self.take_shards(&mut connection, by, claims).await;
        hit(Point::MysqlAcquireWritten);
        let acquired = connection.commit(acquired).await;
        hit(Point::MysqlAcquireCommitted);
        acquired
    }

    async fn take_shards(
        &self,
        connection: &mut MysqlConnection,
        by: Option<SessionId>,
        claims: &[Claim],
    ) -> Result<Vec<(ShardId, Epoch)>, Failure> {
        let before = connection.rows(queries::shards::OWNERS, ()).await?;
        let mut owners = Vec::new();
        for row in before.iter().map(|row| row as &dyn Row) {
            let (shard, epoch) = (ShardId(row.number(0)?), Epoch(row.number(1)?));
            let is_claimed = |claim: &Claim| {
                claim.shard == shard && claim.expected_epoch.is_none_or(|expected| expected == epoch)
            };
            owners.extend(row.int_or_none(2)?.map(SessionId).filter(|_| claims.iter().any(is_claimed)));
        }
        for owner in owners.into_iter().filter(|owner| Some(*owner) != by).collect::<BTreeSet<_>>() {
            self.end_connections(connection, owner).await?;
        }

        connection.step("START TRANSACTION").await?;
        let mut taken = Vec::new();
        for Claim { shard, expected_epoch } in claims {
            let expected_epoch = expected_epoch.map(|epoch| i64::from(epoch.0));
            let params = (by.map(|session| session.0), shard.0, expected_epoch);
            if connection.execute(queries::shards::ACQUIRE, params).await? == 1 {
                taken.push(shard.0);
            }
        }
        if taken.is_empty() {
            return Ok(Vec::new());
        }
        let mut sql = b"SELECT shard, epoch FROM shards WHERE shard IN (".to_vec();
        put_list(&mut sql, taken, int);
        put(&mut sql, ") ORDER BY shard");
        let epochs = connection.text(sql).await?;
        let epochs = epochs.iter().map(|row| row as &dyn Row);
        epochs.map(|row| Ok((ShardId(row.number(0)?), Epoch(row.number(1)?)))).collect()
    }

    /// The former owner may be dead or only stopped: either way it must not hold a lock.
    async fn end_connections(
        &self,
        connection: &mut MysqlConnection,
        owner: SessionId,
    ) -> Result<(), Failure> {
        for holder in LOCK_HOLDERS {
            let name = lock_name(&self.database, owner, holder);
            match end_holder(&mut connection.conn, &name).await {
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
}
