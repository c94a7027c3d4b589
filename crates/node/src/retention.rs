//! The pruner: lets go of finished things that nobody keeps, a little at a time.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::time::Clock;
use punctual_store::{PrunePolicy, Store};
use tokio::sync::watch;
use tracing::warn;

/// Rows removed in one transaction: small enough not to be felt by the commit behind it.
const STEP: usize = 500;

/// Pruning goes by a clock this much behind: nothing is taken from under a command that has just read it, nor freed by
/// a clock that was ahead for a moment.
const BEHIND: Duration = Duration::from_secs(3600);

/// Prunes every `every` until `stop` says so.
pub async fn run(
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    every: Duration,
    ad_hoc_kept: Duration,
    mut stop: watch::Receiver<bool>,
) {
    let mut interval = tokio::time::interval(every);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = interval.tick() => prune(&store, &clock, ad_hoc_kept).await,
            _ = stop.changed() => return,
        }
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
