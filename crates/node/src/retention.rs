//! The pruner: deletes finished runs and other expired rows in small steps.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::ids::ShardId;
use punctual_core::time::Clock;
use punctual_store::{PrunePolicy, Upkeep};
use tokio::sync::watch;
use tracing::warn;

use crate::handle::Handle;

/// Maximum number of rows deleted in one transaction: small enough not to delay the next commit noticeably.
const STEP: usize = 500;

/// Pruning uses a time this far in the past, so that it deletes no row that a command has just read, and none because a
/// clock was ahead for a moment.
const BEHIND: Duration = Duration::from_secs(3600);

/// The default intervals.
pub const PACE: Pace = Pace { busy: Duration::from_secs(60), idle: Duration::from_secs(3600) };

#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// While runs are written.
    pub busy: Duration,
    /// While nothing is written: then rows only expire by age.
    pub idle: Duration,
}

/// Prunes at this pace until `stop` changes.
pub async fn run(
    node: Handle,
    clock: Arc<dyn Clock>,
    pace: Pace,
    ad_hoc_kept: Duration,
    mut stop: watch::Receiver<bool>,
) {
    loop {
        let written = node.status().commits;
        // One pruning node per cluster is enough.
        if node.leads(ShardId(0)) {
            prune(node.upkeep(), &*clock, ad_hoc_kept).await;
        }
        tokio::select! {
            () = busy(&node, written, pace.busy) => {}
            () = tokio::time::sleep(pace.idle) => {}
            _ = stop.changed() => return,
        }
    }
}

/// Waits for the next write, then for `span`.
async fn busy(node: &Handle, written: u64, span: Duration) {
    if node.wait_until(|status| status.commits != written).await {
        tokio::time::sleep(span).await;
    } else {
        // The node is gone; the caller's `stop` ends this task.
        std::future::pending::<()>().await;
    }
}

async fn prune(store: &dyn Upkeep, clock: &dyn Clock, ad_hoc_kept: Duration) {
    let policy = PrunePolicy { now: clock.now().before(BEHIND), ad_hoc_kept };
    loop {
        match store.prune(&policy, STEP).await {
            Ok(0) => return,
            Ok(_) => tokio::task::yield_now().await,
            Err(error) => {
                warn!(%error, "pruning failed; retrying later");
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::Timestamp;
    use punctual_core::command::{Answer, Command, Submit};
    use punctual_core::job::Definition;
    use punctual_core::name::Namespace;
    use punctual_core::task::Task;
    use punctual_core::time::ManualClock;
    use punctual_store::memory::Memory;

    use super::*;
    use crate::node::{Config, Node};

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);
    const DAY: Duration = Duration::from_secs(24 * 3600);
    const NEVER: Duration = Duration::from_secs(24 * 3600);
    const SOON: Duration = Duration::from_millis(1);

    struct Rig {
        node: Node,
        /// The pruner's own clock: the node's clock stands still, so every run ends at `NOW`.
        clock: ManualClock,
        stop: watch::Sender<bool>,
        pruner: tokio::task::JoinHandle<()>,
    }

    impl Rig {
        fn start(pace: Pace) -> Rig {
            let node = Node::start(Config {
                store: Arc::new(Memory::new(1)),
                clock: Arc::new(ManualClock::at(NOW)),
                lanes: 1,
                attempt_lease: Duration::from_secs(15),
                records: true,
                shard_lease: Duration::from_secs(3),
                cluster: None,
                attempt_keys: None,
                channels: None,
            });
            let (node, clock, (stop, stopped)) = (node.unwrap(), ManualClock::at(NOW), watch::channel(false));
            let pruned_by = Arc::new(clock.clone());
            let pruner = tokio::spawn(run(node.handle(), pruned_by, pace, DAY, stopped));
            Rig { node, clock, stop, pruner }
        }

        /// An ended run without a job.
        async fn end_a_run(&self) {
            let submit = Submit {
                namespace: Namespace::default(),
                definition: Arc::new(Definition::of(Task::Noop)),
                due: None,
                key: None,
                spread: 0,
            };
            let Ok(Answer::Run(run)) = self.node.handle().command(Command::Submit(submit)).await else {
                panic!("the run was not accepted")
            };
            let cancel = Command::CancelRun {
                namespace: Namespace::default(),
                run: run.id,
                now: false,
                by: None,
                comment: Box::default(),
            };
            self.node.handle().command(cancel).await.unwrap();
        }

        async fn history(&self) -> u64 {
            self.node.store().stats().await.unwrap().history_runs
        }

        async fn empties(&self) {
            let emptied = async {
                while self.history().await > 0 {
                    tokio::time::sleep(SOON).await;
                }
            };
            tokio::time::timeout(Duration::from_secs(60), emptied)
                .await
                .expect("the pruner deletes the runs");
        }

        async fn shut_down(self) {
            self.stop.send_replace(true);
            tokio::time::timeout(Duration::from_secs(60), self.pruner).await.expect("it stops").unwrap();
            self.node.shut_down().await;
        }
    }

    #[tokio::test]
    async fn old_runs_are_pruned_a_while_after_a_write() {
        let rig = Rig::start(Pace { busy: SOON, idle: NEVER });
        for _ in 0..3 {
            rig.end_a_run().await;
        }
        assert_eq!(rig.history().await, 3, "a day has not passed");
        rig.clock.advance(2 * DAY);
        rig.end_a_run().await;
        rig.empties().await;
        rig.shut_down().await;
    }

    #[tokio::test]
    async fn old_runs_are_pruned_while_nothing_is_written() {
        let rig = Rig::start(Pace { busy: NEVER, idle: SOON });
        rig.end_a_run().await;
        rig.clock.advance(2 * DAY);
        rig.empties().await;
        rig.shut_down().await;
    }

    #[tokio::test]
    async fn a_run_is_kept_an_hour_longer_than_it_has_to_be() {
        let rig = Rig::start(Pace { busy: NEVER, idle: SOON });
        rig.end_a_run().await;
        rig.clock.advance(DAY + BEHIND);
        prune(rig.node.handle().upkeep(), &rig.clock, DAY).await;
        assert_eq!(rig.history().await, 1);
        rig.clock.advance(SOON);
        rig.empties().await;
        rig.shut_down().await;
    }
}
