//! What a leader calls, for every store in a database.

use std::sync::Arc;

use async_trait::async_trait;
use punctual_core::change::{Batch, Loaded, TimerPage, TimerPosition};
use punctual_core::ids::{Epoch, SessionId, ShardId};
use punctual_core::job::Job;
use punctual_core::queue::{Message, MessagePosition, QueueNumber};

use super::backend::{Backend, Purpose, Scope, work};
use super::connection::ask;
use super::queries::jobs;
use super::{decode, shard};
use crate::{Claim, Leases, Result, Shards, refusal};

#[async_trait]
impl<B: Backend> Shards for B {
    fn is_local(&self) -> bool {
        self.is_in_process()
    }

    async fn leases(&self) -> Result<Leases> {
        self.run(Purpose::Leases, Scope::Statement, work!(|c| shard::leases(c).await)).await
    }

    async fn acquire(&self, by: Option<SessionId>, claims: &[Claim]) -> Result<Vec<(ShardId, Epoch)>> {
        if let Some(claim) = claims.iter().find(|claim| claim.shard.0 >= self.facts().shards) {
            return Err(refusal::no_such_shard(claim.shard));
        }
        if claims.is_empty() {
            return Ok(Vec::new());
        }
        // Every transaction locks the rows of shards in their order, so there is no deadlock.
        let mut claims = claims.to_vec();
        claims.sort_unstable_by_key(|claim| claim.shard);
        self.acquire_shards(by, claims).await
    }

    async fn release(&self, shards: &[(ShardId, Epoch)], heir: Option<SessionId>) -> Result<()> {
        self.release_shards(shards.to_vec(), heir).await
    }

    async fn load(&self, shard: ShardId, epoch: Epoch) -> Result<Loaded> {
        self.run(Purpose::Lead, Scope::Snapshot, work!(|c| shard::load(c, shard, epoch).await)).await
    }

    async fn commit(&self, batches: Arc<Vec<Batch>>) -> Result<()> {
        refusal::check_shards(&batches, self.facts().shards)?;
        self.commit_batches(batches).await
    }

    async fn due(&self, shard: ShardId, after: TimerPosition, limit: usize) -> Result<TimerPage> {
        self.timers(shard, after, limit).await
    }

    async fn backlog(
        &self,
        shard: ShardId,
        queue: QueueNumber,
        after: MessagePosition,
        limit: usize,
    ) -> Result<Vec<Arc<Message>>> {
        self.queued((shard, queue), after, limit).await
    }

    async fn outdated_jobs(&self, zone_data: &str, limit: usize) -> Result<Vec<Arc<Job>>> {
        let list = ask!(jobs::OUTDATED, zone_data.to_owned(), limit);
        self.list(work!(|c| {
            let definitions = c.definitions();
            c.all(list, |row| decode::job(row, &definitions)).await
        }))
        .await
    }
}
