//! Pruning beside other transactions.

use std::time::Duration;

use super::*;
use crate::conformance::given::{DAY, NOW, SHARD, history_row, succeeded};
use crate::{PrunePolicy, Upkeep};

/// A statement that waits for a lock takes longer: the pruner's lock timeout is 2 s.
const NOT_HELD_UP: Duration = Duration::from_millis(1900);

#[tokio::test]
async fn pruning_leaves_out_rows_that_another_transaction_has_locked() {
    let address = Server::shared().database();
    let store = open(&address).await;
    let mut leader = Leader::of(&store, SHARD).await.unwrap();
    let then = NOW.before(30 * DAY);
    let ended = [0, 1].map(|_| succeeded(&leader.ad_hoc(at(0)), then));
    leader.insert(&store, ended.iter().map(history_row)).await.unwrap();
    let holder = stranger(&address, "holder").await;
    let lock = format!("BEGIN; SELECT 1 FROM punctual.history WHERE place = {} FOR UPDATE", ended[0].id.0);
    holder.batch_execute(&lock).await.unwrap();
    let policy = PrunePolicy { now: NOW, ad_hoc_kept: DAY };
    let pruned = tokio::time::timeout(NOT_HELD_UP, store.prune(&policy, 100)).await;
    assert_eq!(pruned.expect("pruning waited for the lock").unwrap(), 1);
    holder.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(store.prune(&policy, 100).await.unwrap(), 1);
    assert_eq!(runs(&store).await, 0);
}
