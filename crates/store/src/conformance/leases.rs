//! Leases, and the store's clock.

use punctual_core::change::Changes;
use punctual_core::ids::{SessionId, ShardId};

use super::given::*;
use crate::{Claim, Error, Lease, Result, Store};

async fn lease(store: &dyn Store, shard: ShardId) -> Result<Lease> {
    let lease = store.leases().await?.shards.into_iter().find(|lease| lease.shard == shard);
    lease.ok_or_else(|| Error::Unusable(format!("shard {shard} has no lease")))
}

pub async fn a_lease_names_its_owner(store: &dyn Store) -> Result<()> {
    let fresh = lease(store, SHARD).await?;
    assert_eq!((fresh.epoch.0, fresh.owner, fresh.heir), (0, None, None));
    for owner in [SessionId(7), SessionId(8)] {
        let acquired = store.acquire(Some(owner), &[Claim::any_epoch(SHARD)]).await?;
        let lease = lease(store, SHARD).await?;
        assert_eq!((lease.epoch, lease.owner), (acquired[0].1, Some(owner)));
    }
    let shards: Vec<ShardId> = store.leases().await?.shards.iter().map(|lease| lease.shard).collect();
    assert_eq!(shards, (0..store.shards()).map(ShardId).collect::<Vec<_>>());
    Ok(())
}

/// Two nodes see the same owner die; the second one must not outdate the first.
pub async fn of_two_who_claim_one_epoch_the_first_has_it(store: &dyn Store) -> Result<()> {
    let seen = lease(store, SHARD).await?.epoch;
    let claims = [
        Claim { shard: SHARD, expected_epoch: Some(seen) },
        Claim { shard: OTHER, expected_epoch: Some(seen) },
    ];
    assert_eq!(store.acquire(Some(SessionId(1)), &claims[..1]).await?.len(), 1);
    let second = store.acquire(Some(SessionId(2)), &claims).await?;
    assert_eq!(second.iter().map(|(shard, _)| *shard).collect::<Vec<_>>(), [OTHER]);
    assert_eq!(lease(store, SHARD).await?.owner, Some(SessionId(1)));
    Ok(())
}

/// A released shard has no owner, and names its heir until it is acquired.
pub async fn a_released_shard_names_its_heir(store: &dyn Store) -> Result<()> {
    let acquired = store.acquire(Some(SessionId(1)), &[Claim::any_epoch(SHARD)]).await?;
    store.release(&acquired, Some(SessionId(2))).await?;
    let left = lease(store, SHARD).await?;
    assert_eq!((left.owner, left.heir, left.epoch), (None, Some(SessionId(2)), acquired[0].1));
    store.acquire(Some(SessionId(3)), &[Claim { shard: SHARD, expected_epoch: Some(left.epoch) }]).await?;
    let taken = lease(store, SHARD).await?;
    assert_eq!((taken.owner, taken.heir), (Some(SessionId(3)), None));
    Ok(())
}

pub async fn an_outdated_release_changes_nothing(store: &dyn Store) -> Result<()> {
    let old = store.acquire(Some(SessionId(1)), &[Claim::any_epoch(SHARD)]).await?;
    store.acquire(Some(SessionId(2)), &[Claim::any_epoch(SHARD)]).await?;
    store.release(&old, None).await?;
    assert_eq!(lease(store, SHARD).await?.owner, Some(SessionId(2)));
    Ok(())
}

/// A lease is not a fence: a leader whose lease was released can commit until there is a newer epoch.
pub async fn the_epoch_fences_and_the_lease_does_not(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    store.release(&[(SHARD, leader.epoch)], None).await?;
    leader.commit(store, Changes::default()).await
}

pub async fn the_clock_of_the_store_goes_on(store: &dyn Store) -> Result<()> {
    let first = store.leases().await?.now;
    wait_until("the clock has moved", async || Ok(store.leases().await?.now > first)).await
}
