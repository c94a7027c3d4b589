//! Sessions and leases.

use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::ids::{Epoch, SessionId, ShardId};

use super::tables::Tables;
use crate::{Claim, Lease, Member, Result, Session, refusal};

/// A session, with its beginning and its expiry.
#[derive(Debug)]
pub(super) struct Standing {
    session: Session,
    since: Timestamp,
    until: Timestamp,
}

impl Tables {
    pub(super) fn renew(&mut self, session: &Session, ttl: Duration, now: Timestamp) -> Vec<Member> {
        self.sessions.retain(|_, standing| standing.until > now);
        let since = self.sessions.get(&session.id).map_or(now, |standing| standing.since);
        let standing = Standing { session: session.clone(), since, until: now + ttl };
        self.sessions.insert(session.id, standing);
        let members = self.sessions.values();
        members
            .map(|standing| Member { session: standing.session.clone(), age: now.since(standing.since) })
            .collect()
    }

    pub(super) fn leases(&self) -> Vec<Lease> {
        let rows = (0..).map(ShardId).zip(&self.shards);
        rows.map(|(shard, row)| Lease { shard, epoch: row.epoch, owner: row.owner, heir: row.heir }).collect()
    }

    /// An acquisition counts as a commit, so that a commit number of a shard is never used twice.
    pub(super) fn acquire(
        &mut self,
        by: Option<SessionId>,
        claims: &[Claim],
    ) -> Result<Vec<(ShardId, Epoch)>> {
        if let Some(claim) = claims.iter().find(|claim| usize::from(claim.shard.0) >= self.shards.len()) {
            return Err(refusal::no_such_shard(claim.shard));
        }
        let mut acquired = Vec::new();
        for Claim { shard, expected_epoch } in claims {
            let row = &mut self.shards[usize::from(shard.0)];
            if expected_epoch.is_none_or(|expected_epoch| expected_epoch == row.epoch) {
                row.epoch.0 += 1;
                row.commit += 1;
                (row.owner, row.heir) = (by, None);
                acquired.push((*shard, row.epoch));
            }
        }
        Ok(acquired)
    }

    pub(super) fn release(&mut self, shards: &[(ShardId, Epoch)], heir: Option<SessionId>) {
        for (shard, epoch) in shards {
            if let Some(row) = self.shards.get_mut(usize::from(shard.0)).filter(|row| row.epoch == *epoch) {
                (row.owner, row.heir) = (None, heir);
            }
        }
    }
}
