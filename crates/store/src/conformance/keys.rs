//! Rows by key: jobs, runs, and unique and idempotency keys.

use std::sync::Arc;

use punctual_core::change::{Found, Holder, Row, RowKey, UniqueKey, Want};
use punctual_core::ids::{RunId, ShardId};
use punctual_core::limits::UNIQUE_BYTES_MAX;
use punctual_core::run::Status;

use super::given::*;
use crate::{PrunePolicy, Result, Store};

async fn key(store: &dyn Store, shard: ShardId, text: &str) -> Result<Option<UniqueKey>> {
    let found = store.fetch(vec![(shard, Want::Unique(Arc::from(text)))]).await?;
    Ok(found.uniques.into_iter().next())
}

/// A batch of wants has one answer, which leaves out rows that do not exist.
pub async fn what_is_not_found_is_not_in_the_answer(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let (job, run) = (leader.job("there"), leader.ad_hoc(at(0)));
    leader.insert(store, [job_row(&job), run_row(&run)]).await?;
    let wants = vec![
        (SHARD, Want::Job(job.namespace.clone(), name("not-there"))),
        (SHARD, Want::Run(RunId(run.id.0 + 1))),
        (SHARD, Want::Unique(Arc::from("not-there"))),
        (SHARD, Want::Job(job.namespace.clone(), job.name.clone())),
        (SHARD, Want::Run(run.id)),
        (SHARD, Want::Job(namespace("elsewhere"), job.name.clone())),
    ];
    let found = store.fetch(wants).await?;
    assert_eq!(found.jobs, [Arc::new(job)]);
    assert_eq!(found.runs.iter().map(|record| record.run.as_ref()).collect::<Vec<_>>(), [&run]);
    assert!(found.uniques.is_empty());
    assert_eq!(store.fetch(Vec::new()).await?, Found::default());
    Ok(())
}

/// A run is found by its id, live or finished.
pub async fn a_run_is_found_wherever_it_is(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let run = leader.ad_hoc(at(0));
    leader.insert(store, [run_row(&running(&run))]).await?;
    let status = async || -> Result<Vec<Status>> {
        let found = store.fetch(vec![(SHARD, Want::Run(run.id))]).await?;
        Ok(found.runs.iter().map(|record| record.run.status()).collect())
    };
    assert_eq!(status().await?, [Status::Running]);
    leader.settle(store, &succeeded(&run, at(1))).await?;
    assert_eq!(status().await?, [Status::Succeeded]);
    leader.delete(store, [RowKey::History(run.id)]).await?;
    assert_eq!(status().await?, []);
    Ok(())
}

/// A run that is read says whether it is a dead letter.
pub async fn a_dead_letter_is_marked_until_it_is_discarded(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let run = failed(&leader.ad_hoc(at(0)), at(1));
    leader.insert(store, [history_row(&run), Row::DeadLetter(letter_of(&run))]).await?;
    let is_dead_letter = async || -> Result<(bool, bool)> {
        let found = store.fetch(vec![(SHARD, Want::Run(run.id))]).await?;
        let read = store.run(&run.namespace, run.id).await?;
        Ok((found.runs[0].dead_letter, read.is_some_and(|record| record.dead_letter)))
    };
    assert_eq!(is_dead_letter().await?, (true, true));
    leader.delete(store, [RowKey::DeadLetter(run.id)]).await?;
    assert_eq!(is_dead_letter().await?, (false, false));
    Ok(())
}

/// A key has its own expiry and does not go with its run.
pub async fn a_key_expires_by_itself_and_survives_the_pruning_of_its_run(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let run = succeeded(&leader.ad_hoc(at(0)), at(1));
    let unique = key_of(&run, "once", at(1) + 3 * DAY);
    leader.insert(store, [history_row(&run), Row::Unique(unique.clone())]).await?;

    let policy = PrunePolicy { now: at(1) + 2 * DAY, ad_hoc_kept: DAY };
    assert_eq!(store.prune(&policy, 100).await?, 1);
    assert_eq!(store.run(&run.namespace, run.id).await?, None);
    assert_eq!(key(store, SHARD, "once").await?, Some(unique));

    let policy = PrunePolicy { now: at(2) + 3 * DAY, ..policy };
    assert_eq!(store.prune(&policy, 100).await?, 1);
    assert_eq!(key(store, SHARD, "once").await?, None);
    Ok(())
}

/// An expired key that is not pruned yet can be taken by another run.
pub async fn an_expired_key_can_be_taken_over(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let (first, second) = (leader.ad_hoc(at(0)), leader.ad_hoc(at(0)));
    leader.insert(store, [Row::Unique(key_of(&first, "again", at(5)))]).await?;
    let newer = key_of(&second, "again", at(5000));
    leader.update(store, [Row::Unique(newer.clone())]).await?;
    assert_eq!(key(store, SHARD, "again").await?, Some(newer));
    Ok(())
}

/// A key of the maximum length is stored whole: two keys that differ in their last byte are different.
pub async fn the_longest_key_is_kept_whole(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    // Characters of two bytes, to catch a store that counts characters instead of bytes.
    let long = "é".repeat(UNIQUE_BYTES_MAX / 2 - 1);
    for end in ["ab", "ac"] {
        let run = leader.ad_hoc(at(0));
        let unique = key_of(&run, &format!("{long}{end}"), at(5));
        assert_eq!(unique.key.len(), UNIQUE_BYTES_MAX);
        leader.insert(store, [Row::Unique(unique.clone())]).await?;
        assert_eq!(key(store, SHARD, &unique.key).await?, Some(unique));
    }
    leader.delete(store, [RowKey::Unique(Arc::from(format!("{long}ab")))]).await?;
    assert_eq!(key(store, SHARD, &format!("{long}ab")).await?, None);
    assert!(key(store, SHARD, &format!("{long}ac")).await?.is_some());
    Ok(())
}

/// A key belongs to one shard.
pub async fn the_same_key_in_two_shards_is_two_keys(store: &dyn Store) -> Result<()> {
    let mut bearers = Vec::new();
    for shard in [SHARD, OTHER] {
        let mut leader = Leader::of(store, shard).await?;
        let run = leader.ad_hoc(at(0));
        leader.insert(store, [Row::Unique(key_of(&run, "same", at(5)))]).await?;
        bearers.push((leader, run.id));
    }
    for (leader, run) in &mut bearers {
        assert_eq!(key(store, leader.shard, "same").await?.map(|key| key.holder), Some(Holder::Run(*run)));
    }
    bearers[0].0.delete(store, [RowKey::Unique(Arc::from("same"))]).await?;
    assert_eq!(key(store, SHARD, "same").await?, None);
    assert!(key(store, OTHER, "same").await?.is_some());
    Ok(())
}

/// A load brings the keys of rates, and no other keys.
pub async fn the_keys_of_rates_are_loaded_with_their_shard(store: &dyn Store) -> Result<()> {
    let (mut leader, mut other) = (Leader::of(store, SHARD).await?, Leader::of(store, OTHER).await?);
    let rate = |shard, text: &str| UniqueKey {
        key: Arc::from(text),
        holder: Holder::Nobody(shard),
        expires_at: at(60),
    };
    let rates = ["rate/7:0:", "rate/7:0:a/b", "rate/8:1:\u{10ffff}"].map(|text| rate(SHARD, text));
    let around = ["job/default:a:rate/", "rate", "rate0", "retry/default:1:a"].map(|text| rate(SHARD, text));
    leader.insert(store, rates.iter().chain(&around).cloned().map(Row::Unique)).await?;
    other.insert(store, [Row::Unique(rate(OTHER, "rate/9:0:"))]).await?;
    assert_eq!(store.load(SHARD, leader.epoch).await?.rates, rates);
    assert_eq!(store.load(OTHER, other.epoch).await?.rates, [rate(OTHER, "rate/9:0:")]);
    Ok(())
}
