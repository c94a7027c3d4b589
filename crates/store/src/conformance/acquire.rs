//! Acquiring a shard, and what its new leader starts from.

use punctual_core::change::Changes;
use punctual_core::ids::{Epoch, ShardId};

use super::given::*;
use crate::{Claim, Error, Result, Store};

pub async fn every_acquisition_makes_a_larger_epoch(store: &dyn Store) -> Result<()> {
    let mut last = Epoch(0);
    for _ in 0..5 {
        let acquired = store.acquire(None, &[Claim::any_epoch(SHARD)]).await?;
        assert_eq!(acquired[0].0, SHARD);
        assert!(acquired[0].1 > last);
        last = acquired[0].1;
    }
    Ok(())
}

/// A node acquires several shards at once, and each gets its own epoch.
pub async fn several_shards_are_acquired_at_once(store: &dyn Store) -> Result<()> {
    store.acquire(None, &[Claim::any_epoch(OTHER)]).await?;
    let all: Vec<ShardId> = (0..store.shards()).map(ShardId).collect();
    let claims: Vec<Claim> = all.iter().copied().map(Claim::any_epoch).collect();
    let acquired = store.acquire(None, &claims).await?;
    assert_eq!(acquired.iter().map(|(shard, _)| *shard).collect::<Vec<_>>(), all);
    for (shard, epoch) in acquired {
        assert_eq!(epoch, Epoch(if shard == OTHER { 2 } else { 1 }));
    }
    Ok(())
}

/// If one of the shards does not exist, none is changed.
pub async fn an_acquisition_that_fails_outdates_nobody(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    assert!(store.acquire(None, &[SHARD, ShardId(store.shards())].map(Claim::any_epoch)).await.is_err());
    leader.commit(store, Changes::default()).await
}

/// A load under an outdated epoch is refused, and so is one under an epoch that was never made.
pub async fn only_the_newest_epoch_loads(store: &dyn Store) -> Result<()> {
    let old = Leader::of(store, SHARD).await?;
    let new = Leader::of(store, SHARD).await?;
    assert!(
        matches!(old.load(store).await, Err(Error::Fenced { shard: SHARD, epoch }) if epoch == old.epoch)
    );
    assert!(matches!(store.load(SHARD, Epoch(new.epoch.0 + 1)).await, Err(Error::Fenced { .. })));
    assert_eq!(new.load(store).await?.epoch, new.epoch);
    Ok(())
}

/// The next leader continues the ids of the last one, so that no id is used twice.
pub async fn the_last_id_outlives_its_leader(store: &dyn Store) -> Result<()> {
    let mut old = Leader::of(store, SHARD).await?;
    let id = old.ids.next(NOW);
    old.commit(store, Changes::default()).await?;
    let mut new = Leader::of(store, SHARD).await?;
    assert_eq!(new.ids.last(), id);
    assert!(new.ids.next(at(-1_000_000)) > id, "an id was given twice after the clock went back");
    Ok(())
}

/// A new epoch does not reuse commit numbers.
pub async fn commit_numbers_go_on_through_epochs(store: &dyn Store) -> Result<()> {
    let mut old = Leader::of(store, SHARD).await?;
    for _ in 0..3 {
        old.commit(store, Changes::default()).await?;
    }
    let new = Leader::of(store, SHARD).await?;
    assert!(new.commit > old.commit);
    Ok(())
}
