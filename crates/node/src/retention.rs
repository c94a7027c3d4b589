//! The pruner: lets go of finished things that nobody keeps, a little at a time.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::ids::ShardId;
use punctual_core::time::Clock;
use punctual_store::{PrunePolicy, Store};
use tokio::sync::watch;
use tracing::warn;

use crate::handle::Handle;

/// Rows removed in one transaction: small enough not to be felt by the commit behind it.
const STEP: usize = 500;

/// Pruning goes by a clock this much behind: nothing is taken from under a command that has just read it, nor freed by
/// a clock that was ahead for a moment.
const BEHIND: Duration = Duration::from_secs(3600);

/// While something happens, and while nothing does.
pub const PACE: Pace = Pace { busy: Duration::from_secs(60), idle: Duration::from_secs(3600) };
/// How long runs without a job are kept.
pub const AD_HOC_KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

/// How often to prune.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// While runs come and go.
    pub busy: Duration,
    /// While nothing is written: then only time makes things old enough.
    pub idle: Duration,
}

/// Prunes at this pace until `stop` says so.
pub async fn run(
    node: Handle,
    clock: Arc<dyn Clock>,
    pace: Pace,
    ad_hoc_kept: Duration,
    mut stop: watch::Receiver<bool>,
) {
    loop {
        let written = node.status().commits;
        // One node of a cluster is enough.
        if node.leads(ShardId(0)) {
            prune(node.store(), &clock, ad_hoc_kept).await;
        }
        tokio::select! {
            () = busy(&node, written, pace.busy) => {}
            () = tokio::time::sleep(pace.idle) => {}
            _ = stop.changed() => return,
        }
    }
}

/// Waits until something has been written, and then for so long.
async fn busy(node: &Handle, written: u64, span: Duration) {
    if node.wait_until(|status| status.commits != written).await {
        tokio::time::sleep(span).await;
    } else {
        // The node is gone: whoever waits for us says so.
        std::future::pending::<()>().await;
    }
}

async fn prune(store: &Arc<dyn Store>, clock: &Arc<dyn Clock>, ad_hoc_kept: Duration) {
    let policy = PrunePolicy { now: clock.now().before(BEHIND), ad_hoc_kept };
    loop {
        match store.prune(&policy, STEP).await {
            Ok(0) => return,
            Ok(_) => tokio::task::yield_now().await,
            Err(error) => {
                warn!(%error, "pruning failed; it is tried again later");
                return;
            }
        }
    }
}
