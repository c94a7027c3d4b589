//! What a leader of shards calls: leases, live rows, timers and commits.

use std::sync::Arc;

use async_trait::async_trait;
use punctual_core::change::{Batch, Loaded, TimerPage, TimerPosition};
use punctual_core::ids::{Epoch, SessionId, ShardId};
use punctual_core::job::Job;
use punctual_core::queue;
use punctual_core::queue::{Message, QueueNumber};

use super::Memory;
use crate::{Claim, Leases, Reads, Result, Shards, refusal};

#[async_trait]
impl Shards for Memory {
    fn is_local(&self) -> bool {
        true
    }

    async fn leases(&self) -> Result<Leases> {
        Ok(Leases { now: self.clock.now(), shards: self.tables.lock().leases() })
    }

    async fn acquire(&self, by: Option<SessionId>, claims: &[Claim]) -> Result<Vec<(ShardId, Epoch)>> {
        self.tables.lock().acquire(by, claims)
    }

    async fn release(&self, shards: &[(ShardId, Epoch)], heir: Option<SessionId>) -> Result<()> {
        self.tables.lock().release(shards, heir);
        Ok(())
    }

    async fn load(&self, shard: ShardId, epoch: Epoch) -> Result<Loaded> {
        self.tables.lock().load(shard, epoch)
    }

    async fn commit(&self, batches: Arc<Vec<Batch>>) -> Result<()> {
        refusal::check_shards(&batches, self.shards())?;
        self.tables.lock().commit(&batches)?;
        self.written.send_modify(|times| *times += 1);
        Ok(())
    }

    async fn due(&self, shard: ShardId, after: TimerPosition, limit: usize) -> Result<TimerPage> {
        self.tables.lock().due(shard, after, limit)
    }

    async fn backlog(
        &self,
        shard: ShardId,
        queue: QueueNumber,
        after: queue::MessagePosition,
        limit: usize,
    ) -> Result<Vec<Arc<Message>>> {
        Ok(self.tables.lock().backlog(shard, queue, after, limit))
    }

    async fn outdated_jobs(&self, zone_data: &str, limit: usize) -> Result<Vec<Arc<Job>>> {
        let tables = self.tables.lock();
        let is_older = |job: &Arc<Job>| job.cursor.zone_data.as_deref().is_some_and(|data| data < zone_data);
        let jobs = tables.names.values().filter_map(|id| tables.job(*id));
        Ok(jobs.filter(is_older).take(limit).collect())
    }
}
