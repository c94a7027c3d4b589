//! Acquires shards, and ends the connections of their former owners.

use punctual_core::ids::{Epoch, SessionId, ShardId};
use punctual_failpoint::{Point, hit, midway};

use super::Postgres;
use super::connection::{PgConnection, Request, request};
use super::failure::Moment;
use super::queries::shards;
use crate::sql::value::{Row, Value};
use crate::{Claim, Result};

/// How often an acquisition that waited too long ends the former owner's connections and tries again. Together with its
/// lock timeout, that is longer than the server keeps an idle transaction whose owner is lost.
const TRIES_MAX: usize = 10;

impl Postgres {
    pub(super) async fn take_shards(
        &self,
        by: Option<SessionId>,
        claims: &[Claim],
    ) -> Result<Vec<(ShardId, Epoch)>> {
        let mut tries = 0;
        loop {
            let mut connection = self.lease.take().await?;
            connection.end_former_owners(by, claims).await;
            let requests = claims.iter().map(|claim| acquire(by, claim)).collect();
            hit(Point::PostgresAcquireBegun);
            match midway(Point::PostgresAcquireUnderWay, connection.transact(requests)).await {
                Ok(answers) => {
                    let mut acquired = Vec::new();
                    for (claim, answer) in claims.iter().zip(&answers) {
                        if let Some(row) = answer.rows.first() {
                            acquired.push((claim.shard, Epoch((row as &dyn Row).number(0)?)));
                        }
                    }
                    return Ok(acquired);
                }
                Err((Moment::Writing, failure)) if failure.is_lock_timeout() && tries < TRIES_MAX => {
                    tries += 1;
                }
                Err((moment, failure)) => return Err(failure.judge(moment)),
            }
        }
    }
}

impl PgConnection {
    /// Ends open transactions of former owners, which would block this one, for example if their process is stopped.
    /// Without the right to do so, the server ends them after a while.
    async fn end_former_owners(&mut self, by: Option<SessionId>, claims: &[Claim]) {
        let of: Vec<Value<'_>> = claims.iter().map(|claim| claim.shard.0.into()).collect();
        let expected: Vec<Option<i64>> =
            claims.iter().map(|claim| claim.expected_epoch.map(|epoch| i64::from(epoch.0))).collect();
        let ended =
            self.ask(request!(shards::END_FORMER_OWNERS, of, expected, by.map(|session| session.0))).await;
        match ended {
            Ok(answer) if answer.rows.is_empty() => {}
            Ok(answer) => tracing::info!(sessions = answer.rows.len(), "ended sessions of former owners"),
            Err(failure) => tracing::warn!(%failure, "sessions of former owners could not be ended"),
        }
    }
}

fn acquire(by: Option<SessionId>, claim: &Claim) -> Request<'static> {
    let expected = claim.expected_epoch.map(|epoch| i64::from(epoch.0));
    request!(shards::ACQUIRE, Value::from(claim.shard.0), expected, by.map(|session| session.0))
}
