//! Locks that are held.

use std::sync::Arc;

use punctual_core::change::{Changes, Row};
use punctual_core::lock::Lock;

use super::given::*;
use crate::{Result, Store};

pub async fn a_load_brings_the_locks_of_its_shard(store: &dyn Store) -> Result<()> {
    let (mut here, mut there) = (Leader::of(store, SHARD).await?, Leader::of(store, OTHER).await?);
    let locks: Vec<_> = ["b", "a"].map(|called| Arc::new(here.lock("default", called))).into();
    here.insert(store, locks.iter().cloned().map(Row::Lock)).await?;
    let other = Arc::new(there.lock("default", "c"));
    there.insert(store, [Row::Lock(other)]).await?;
    assert_eq!(store.load(SHARD, here.epoch).await?.locks, locks, "in the order of their fences");
    Ok(())
}

/// A lock that is passed on in one batch has one row, that of the new holder.
pub async fn a_lock_that_is_passed_on_has_one_row(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let before = Arc::new(leader.lock("default", "backup"));
    leader.insert(store, [Row::Lock(Arc::clone(&before))]).await?;
    let after = Arc::new(leader.lock("default", "backup"));
    let mut changes = Changes::default();
    changes.delete(Row::Lock(before).key());
    changes.insert(Row::Lock(Arc::clone(&after)));
    leader.commit(store, changes).await?;
    assert_eq!(store.locks(&namespace("default"), None, 10).await?, [after]);
    Ok(())
}

pub async fn locks_are_listed_by_name_and_by_pages(store: &dyn Store) -> Result<()> {
    let (mut here, mut there) = (Leader::of(store, SHARD).await?, Leader::of(store, OTHER).await?);
    let mut all: Vec<Arc<Lock>> = Vec::new();
    for called in ["m", "B", "a.1", "z", "a-1"] {
        for of in ["default", "payments"] {
            let leader = if called == "m" { &mut there } else { &mut here };
            let lock = Arc::new(leader.lock(of, called));
            leader.insert(store, [Row::Lock(Arc::clone(&lock))]).await?;
            all.push(lock);
        }
    }
    all.sort_by(|a, b| a.key.cmp(&b.key));
    for of in ["default", "payments", "none"].map(namespace) {
        for limit in [1, 2, 100] {
            let mut found: Vec<Arc<Lock>> = Vec::new();
            loop {
                let after = found.last().map(|last| last.key.name.clone());
                let page = store.locks(&of, after.as_ref(), limit).await?;
                if page.is_empty() {
                    break;
                }
                found.extend(page);
            }
            let expected: Vec<_> = all.iter().filter(|lock| lock.key.namespace == of).cloned().collect();
            assert_eq!(found, expected, "{of}, pages of {limit}");
        }
    }
    Ok(())
}
