//! Fencing: only the newest leader writes, each commit once, all or nothing.

use std::sync::Arc;

use punctual_core::change::{Change, Changes, Row, RowKey};
use punctual_core::ids::{Epoch, ShardId};

use super::given::*;
use crate::{Claim, Error, Result, RunFilter, Store};

async fn runs(store: &dyn Store) -> Result<usize> {
    Ok(store.runs(&RunFilter::default(), None, 1000).await?.len())
}

fn one_run(leader: &mut Leader) -> Changes {
    inserts([run_row(&leader.ad_hoc(at(0)))])
}

/// Two leaders of one shard commit: only the newer epoch succeeds, and no row of the older is stored.
pub async fn an_outdated_epoch_cannot_commit(store: &dyn Store) -> Result<()> {
    let mut old = Leader::of(store, SHARD).await?;
    let mut new = Leader::of(store, SHARD).await?;
    let late = one_run(&mut old);
    assert!(matches!(old.commit(store, late).await, Err(Error::Fenced { shard: SHARD, .. })));
    let early = one_run(&mut new);
    new.commit(store, early).await?;
    assert_eq!(runs(store).await?, 1);
    Ok(())
}

/// A leader checks that it still leads, and another acquires the shard before it commits: the check does not help.
pub async fn an_epoch_taken_between_check_and_commit_wins(store: &dyn Store) -> Result<()> {
    let mut old = Leader::of(store, SHARD).await?;
    assert_eq!(old.load(store).await?.epoch, old.epoch);
    let new = store.acquire(None, &[Claim::any_epoch(SHARD)]).await?;
    let late = one_run(&mut old);
    assert!(matches!(old.commit(store, late).await, Err(Error::Fenced { epoch, .. }) if epoch == old.epoch));
    assert!(store.load(SHARD, new[0].1).await?.runs.is_empty());
    assert_eq!(runs(store).await?, 0);
    Ok(())
}

/// A commit is sent, and the shard is acquired again before its answer comes. Whichever the store executes first, the
/// load that follows agrees with the answer: the rows are stored, or the commit was fenced.
pub async fn a_lost_commit_that_lands_later_is_seen_after_acquire(store: &dyn Store) -> Result<()> {
    for _ in 0..20 {
        let before = runs(store).await?;
        let mut lost = Leader::of(store, SHARD).await?;
        let run = ready(&lost.ad_hoc(at(0)));
        let (sent, acquired) =
            tokio::join!(lost.insert(store, [run_row(&run)]), async { Leader::of(store, SHARD).await });
        let loaded = acquired?.load(store).await?;
        let is_there = loaded.runs.iter().any(|record| record.run.id == run.id);
        match sent {
            Ok(()) => assert!(is_there, "an acknowledged commit is missing after acquire"),
            Err(Error::Fenced { .. }) => assert!(!is_there, "a fenced commit left a row"),
            Err(error) => return Err(error),
        }
        assert_eq!(runs(store).await?, before + usize::from(is_there));
    }
    Ok(())
}

/// When a batch is sent a second time, its commit number is already used.
pub async fn a_commit_sent_twice_is_fenced_the_second_time(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let changes = one_run(&mut leader);
    let batch = Arc::new(vec![leader.batch(changes)]);
    store.commit(Arc::clone(&batch)).await?;
    assert!(matches!(store.commit(batch).await, Err(Error::Fenced { shard: SHARD, .. })));
    assert_eq!(runs(store).await?, 1);
    Ok(())
}

/// A commit number that is too high is refused like one that is too low.
pub async fn a_commit_out_of_turn_is_fenced(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let changes = one_run(&mut leader);
    let mut batch = leader.batch(changes);
    batch.commit += 1;
    assert!(matches!(store.commit(Arc::new(vec![batch])).await, Err(Error::Fenced { .. })));
    assert_eq!(runs(store).await?, 0);
    Ok(())
}

/// Three shards in one transaction: the second is refused, and nothing of the others is stored.
pub async fn one_refused_batch_leaves_nothing_of_the_others(store: &dyn Store) -> Result<()> {
    let mut leaders = vec![];
    for shard in [ShardId(1), SHARD, OTHER] {
        leaders.push(Leader::of(store, shard).await?);
    }
    let mut batches: Vec<_> = vec![];
    for leader in &mut leaders {
        let changes = one_run(leader);
        batches.push(leader.batch(changes));
    }
    let missing = leaders[1].ad_hoc(at(0));
    batches[1].changes.update(run_row(&missing));
    let error = store.commit(Arc::new(batches.clone())).await;
    assert!(matches!(error, Err(Error::Refused { shard: SHARD, .. })), "{error:?}");
    assert_eq!(runs(store).await?, 0);
    for leader in &leaders {
        assert_eq!(leader.load(store).await?.commit, leader.commit, "a refused commit was counted");
    }

    // Without the refused batch, the rest is committed unmodified.
    batches.remove(1);
    store.commit(Arc::new(batches)).await?;
    assert_eq!(runs(store).await?, 2);
    Ok(())
}

pub async fn one_fenced_batch_leaves_nothing_of_the_others(store: &dyn Store) -> Result<()> {
    let mut good = Leader::of(store, SHARD).await?;
    let mut outdated = Leader::of(store, OTHER).await?;
    Leader::of(store, OTHER).await?;
    let (first, second) = (one_run(&mut good), one_run(&mut outdated));
    let batches = vec![good.batch(first), outdated.batch(second)];
    let error = store.commit(Arc::new(batches)).await;
    assert!(matches!(error, Err(Error::Fenced { shard: OTHER, .. })), "{error:?}");
    assert_eq!(runs(store).await?, 0);
    Ok(())
}

pub async fn shards_do_not_fence_each_other(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    Leader::of(store, OTHER).await?;
    let changes = one_run(&mut leader);
    leader.commit(store, changes).await?;
    assert_eq!(runs(store).await?, 1);
    Ok(())
}

/// Two batches of one shard in one commit raise its commit number by two.
pub async fn two_batches_of_a_shard_follow_each_other(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let run = leader.ad_hoc(at(0));
    let first = leader.batch(inserts([run_row(&run)]));
    leader.commit += 1;
    let second = leader.batch(updates([run_row(&ready(&run))]));
    store.commit(Arc::new(vec![first, second])).await?;
    leader.commit += 1;
    let loaded = leader.load(store).await?;
    assert_eq!((loaded.commit, loaded.runs.len()), (leader.commit, 1));
    Ok(())
}

/// A commit without changes still updates the commit number and the last id.
pub async fn an_empty_batch_is_a_commit(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let id = leader.ids.next(NOW);
    leader.commit(store, Changes::default()).await?;
    let loaded = leader.load(store).await?;
    assert_eq!((loaded.commit, loaded.last_id), (leader.commit, id));
    Ok(())
}

/// A shard that the store does not have cannot be acquired.
pub async fn a_shard_beyond_the_last_cannot_be_led(store: &dyn Store) -> Result<()> {
    let beyond = ShardId(store.shards());
    assert!(matches!(store.acquire(None, &[Claim::any_epoch(beyond)]).await, Err(Error::Refused { .. })));
    assert!(matches!(store.load(beyond, Epoch(0)).await, Err(Error::Fenced { .. })));
    Ok(())
}

/// A shard writes only its own rows: otherwise two leaders could change a row at once.
pub async fn a_row_of_another_shard_is_refused(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let mut other = Leader::of(store, OTHER).await?;
    let (run, job) = (other.ad_hoc(at(0)), other.job("theirs"));
    other.insert(store, [run_row(&run), job_row(&job)]).await?;
    let trespasses = [
        inserts([run_row(&other.ad_hoc(at(0)))]),
        updates([job_row(&job)]),
        deletes([RowKey::Run(run.id)]),
        inserts([history_row(&run)]),
        inserts([Row::DeadLetter(letter_of(&run))]),
        inserts([Row::Skip(skip_of(&job, at(0)))]),
        inserts([message_row(&other.message(1, 5))]),
        deletes([message_row(&other.message(1, 5)).key()]),
        inserts([Row::Queue(other.queue(store, 1))]),
    ];
    for changes in trespasses {
        let change =
            changes.iter().next().map(|(key, change)| (key.clone(), matches!(change, Change::Delete)));
        let result = leader.commit(store, changes).await;
        assert!(matches!(result, Err(Error::Refused { shard: SHARD, .. })), "{change:?}: {result:?}");
    }
    Ok(())
}
