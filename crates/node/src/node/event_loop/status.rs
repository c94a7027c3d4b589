//! Publishes the state of the node: its leaders, counts, workers and queues.

use std::cmp::Reverse;
use std::sync::Arc;

use punctual_core::ids::ShardId;
use punctual_core::queue::QueueKey;
use punctual_engine::Shard;

use super::EventLoop;
use crate::driver;
use crate::handle::{QUEUES_TOLD_MAX, QueueStatus, Status, WorkerStatus};
use crate::leaders::{Leader, Leaders};
use crate::peers;

impl EventLoop {
    pub(super) fn tell_leaders(&self) {
        let Some(leaders) = &self.channels.leaders else { return };
        let members = self.driver.members();
        let address = |session| members.iter().find(|member| member.id == session).map(peers::address_of);
        let shards = (0..self.store.shards()).map(|shard| match self.driver.leader(ShardId(shard)) {
            driver::Leader::Here => Leader::Here,
            driver::Leader::Session(session) => address(session).map_or(Leader::Nobody, Leader::At),
            driver::Leader::Nobody => Leader::Nobody,
        });
        let now = Leaders { shards: shards.collect() };
        leaders.send_if_modified(|said| {
            *said != now && {
                *said = now;
                true
            }
        });
    }

    pub(super) fn queues(&self) -> Vec<QueueStatus> {
        let shards = (0..self.store.shards()).filter_map(|shard| self.driver.shard(ShardId(shard)));
        let lengths =
            shards.flat_map(|shard| shard.queue_lengths().map(move |(key, queued)| (key, queued, shard)));
        let mut all: Vec<_> = lengths.collect();
        all.sort_unstable_by_key(|(key, queued, _)| (Reverse(*queued), *key));
        all.truncate(QUEUES_TOLD_MAX);
        let told = |(queue, _, shard): (&QueueKey, u64, &Shard)| {
            Some(QueueStatus { queue: queue.clone(), stat: shard.queue_stat(queue, self.driver.now())? })
        };
        all.into_iter().filter_map(told).collect()
    }

    pub(super) fn workers(&self) -> Vec<WorkerStatus> {
        let present = self.driver.pool().roster().present().into_iter();
        let lost = self.driver.pool().roster().lost(self.driver.elapsed()).into_iter();
        let lost = lost.map(|(id, announced)| WorkerStatus {
            id: id.to_string(),
            lost: true,
            slots: announced.slots as usize,
            busy: 0,
            announced: Arc::clone(announced),
            load: None,
            draining: false,
            stuck: false,
        });
        let told = present.map(|worker| WorkerStatus {
            id: worker.id.to_string(),
            lost: false,
            slots: worker.announced.slots as usize,
            busy: worker.busy,
            announced: Arc::clone(worker.announced),
            load: worker.load,
            draining: worker.is_draining,
            stuck: worker.is_stuck,
        });
        told.chain(lost).collect()
    }

    pub(super) fn tell_status(&mut self) {
        let pool = self.driver.pool();
        let counts = self.driver.counts();
        let status = Status {
            ready: self.driver.is_ready() && !self.stopping && self.failed.is_none(),
            shards_led: self.driver.shards_led(),
            live_runs: pool.live_runs(),
            messages: pool.counts().messages,
            ready_runs: pool.ready_runs(),
            running_runs: pool.running(),
            commits: counts.commits,
            changes: counts.changes,
            stale_reports: pool.counts().stale_reports,
            progress: pool.counts().progress,
            failed: self.failed.clone(),
            members: self.driver.nodes(),
            lost: self.driver.lost().to_vec(),
            workers: pool.roster().workers(),
        };
        // Counts change with every commit: watchers are woken for them only when no commit is in flight.
        let is_quiet = self.in_flight == 0;
        let has_unpublished = &mut self.has_unpublished;
        self.channels.status.send_if_modified(|old| {
            *has_unpublished |= old.counts() != status.counts();
            let is_news = old.is_news(&status) || (is_quiet && *has_unpublished);
            *old = status;
            *has_unpublished &= !is_news;
            is_news
        });
    }
}
