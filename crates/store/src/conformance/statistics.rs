//! Statistics: what is written is read back, added up by bucket, and goes when it is old.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::change::{Row, RowKey};
use punctual_core::statistics::{Bucket, Counts, Period, Statistics, StatisticsKey};

use super::given::*;
use crate::{Error, PrunePolicy, Result, StatisticsFilter, StatisticsOf, Store};

const MINUTE: Duration = Period::Minute.length();
const HOUR: Duration = Period::Hour.length();

fn counts(succeeded: u64, failed: u64) -> Counts {
    let mut counts = Counts { fires: 3, succeeded, failed, ..Counts::default() };
    counts.took.add(Duration::from_millis(succeeded * 100));
    counts.late.add(Duration::from_millis(failed));
    counts
}

fn sum(all: &[&Counts]) -> Counts {
    let mut sum = Counts::default();
    all.iter().for_each(|counts| sum.add(counts));
    sum
}

/// A row that the leader's next commit begins.
fn row(leader: &Leader, of: (&str, Option<&str>), period: Period, at: Timestamp, counts: &Counts) -> Row {
    let (namespace, job) = (namespace(of.0), of.1.map(name));
    let bucket = Bucket { namespace, job, period, at: period.bucket_of(at) };
    let key = StatisticsKey { bucket, shard: leader.shard, commit: leader.commit };
    Row::Statistics(Arc::new(Statistics { key: Arc::new(key), counts: counts.clone() }))
}

/// Everything from a day before now to a day after it.
async fn read(store: &dyn Store, of: StatisticsOf) -> Result<Vec<(Timestamp, Counts)>> {
    let filter = StatisticsFilter { of, since: NOW.before(DAY), until: NOW + DAY };
    store.statistics(&filter).await
}

fn of_job(job: &str) -> StatisticsOf {
    StatisticsOf::Job(namespace("default"), name(job))
}

fn of_namespace(text: &str, period: Period) -> StatisticsOf {
    StatisticsOf::Namespace(namespace(text), period)
}

pub async fn statistics_read_back_as_they_were_written(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let (large, hour) = (counts(u64::MAX / 1000, 200), Period::Hour.bucket_of(NOW));
    leader.insert(store, [row(&leader.clone(), ("default", Some("a")), Period::Hour, NOW, &large)]).await?;
    assert_eq!(read(store, of_job("a")).await?, [(hour, large)]);
    assert_eq!(read(store, of_job("b")).await?, []);
    Ok(())
}

/// Each shard, and each leader of it, has rows of its own.
pub async fn rows_of_a_bucket_are_added_up(store: &dyn Store) -> Result<()> {
    let (one, two, three) = (counts(1, 0), counts(2, 2), counts(3, 0));
    let of = ("default", None);
    for (shard, counts) in [(SHARD, &one), (OTHER, &two), (SHARD, &three)] {
        let mut leader = Leader::of(store, shard).await?;
        let row = row(&leader, of, Period::Minute, NOW, counts);
        leader.insert(store, [row]).await?;
    }
    let found = read(store, of_namespace("default", Period::Minute)).await?;
    assert_eq!(found, [(Period::Minute.bucket_of(NOW), sum(&[&one, &two, &three]))]);
    Ok(())
}

pub async fn statistics_are_read_by_job_and_namespace(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let (of_a, of_b, all, other) = (counts(1, 0), counts(2, 1), counts(3, 1), counts(9, 9));
    let rows = [
        (("default", Some("a")), Period::Hour, &of_a),
        (("default", Some("b")), Period::Hour, &of_b),
        (("default", None), Period::Hour, &all),
        (("default", None), Period::Minute, &all),
        (("default/below", None), Period::Hour, &other),
        (("default/below", None), Period::Minute, &other),
        (("default/below", Some("a")), Period::Hour, &other),
    ];
    let rows: Vec<Row> = rows.map(|(of, period, counts)| row(&leader, of, period, NOW, counts)).into();
    leader.insert(store, rows).await?;
    let both = sum(&[&all, &other]);
    let expected = [
        (of_job("a"), of_a),
        (of_job("b"), of_b),
        (of_namespace("default", Period::Hour), all.clone()),
        (of_namespace("default", Period::Minute), all),
        (of_namespace("default/below", Period::Hour), other),
        (StatisticsOf::All(Period::Hour), both.clone()),
        (StatisticsOf::All(Period::Minute), both),
    ];
    for (of, counts) in expected {
        let found: Vec<Counts> =
            read(store, of.clone()).await?.into_iter().map(|(_, counts)| counts).collect();
        assert_eq!(found, [counts], "{of:?}");
    }
    assert_eq!(read(store, of_namespace("payments", Period::Hour)).await?, []);
    Ok(())
}

pub async fn statistics_are_read_by_time(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let first = Period::Hour.bucket_of(NOW);
    let hours: Vec<Timestamp> = (0..2000).map(|hour| first + HOUR * hour).collect();
    for hours in hours.chunks(500) {
        let rows =
            hours.iter().map(|at| row(&leader, ("default", Some("a")), Period::Hour, *at, &counts(1, 0)));
        let rows: Vec<Row> = rows.collect();
        leader.insert(store, rows).await?;
    }
    let read = async |since, until| {
        let found = store.statistics(&StatisticsFilter { of: of_job("a"), since, until }).await?;
        Ok::<_, Error>(found.into_iter().map(|(at, _)| at).collect::<Vec<_>>())
    };
    assert_eq!(read(first, first + HOUR * 2000).await?, hours);
    assert_eq!(read(hours[3], hours[5]).await?, hours[3..5], "without the end");
    assert_eq!(read(hours[3] + MINUTE, hours[5] + MINUTE).await?, hours[4..=5]);
    assert_eq!(read(hours[7], hours[7]).await?, []);
    assert_eq!(read(hours[7], hours[3]).await?, []);
    Ok(())
}

pub async fn an_update_replaces_the_counts(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let began = leader.clone();
    leader.insert(store, [row(&began, ("default", Some("a")), Period::Hour, NOW, &counts(1, 0))]).await?;
    leader.update(store, [row(&began, ("default", Some("a")), Period::Hour, NOW, &counts(5, 1))]).await?;
    assert_eq!(read(store, of_job("a")).await?, [(Period::Hour.bucket_of(NOW), counts(5, 1))]);
    Ok(())
}

pub async fn recent_counts_are_loaded_in_order_with_their_shard(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let mut other = Leader::of(store, OTHER).await?;
    leader.insert(store, [recent_counts(0, 1), recent_counts(1, 2), recent_counts(10, 3)]).await?;
    leader.update(store, [recent_counts(1, 7)]).await?;
    leader.delete(store, [RowKey::RecentCounts(10)]).await?;
    other.insert(store, [recent_counts(0, 100)]).await?;
    for (leader, pages) in
        [(&leader, vec![recent_counts(0, 1), recent_counts(1, 7)]), (&other, vec![recent_counts(0, 100)])]
    {
        let loaded = store.load(leader.shard, leader.epoch).await?.recent_counts;
        assert_eq!(loaded.into_iter().map(Row::RecentCounts).collect::<Vec<_>>(), pages);
    }
    Ok(())
}

pub async fn recent_counts_are_added_to_their_buckets(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let stored = row(&leader, ("default", Some("a")), Period::Hour, NOW, &counts(5, 0));
    leader.insert(store, [stored, recent_counts(0, 1), recent_counts(1, 2)]).await?;
    let mut other = Leader::of(store, OTHER).await?;
    other.insert(store, [recent_counts(0, 100)]).await?;
    let succeeded = async |of: StatisticsOf| {
        let found = read(store, of).await?.into_iter().map(|(at, counts)| (at, counts.succeeded));
        Ok::<_, Error>(found.collect::<Vec<_>>())
    };
    let (minute, hour) = (Period::Minute.bucket_of(NOW), Period::Hour.bucket_of(NOW));
    assert_eq!(succeeded(of_job("a")).await?, [(hour, 108)]);
    assert_eq!(succeeded(of_job("b")).await?, []);
    assert_eq!(succeeded(of_namespace("default", Period::Minute)).await?, [(minute, 103)]);
    assert_eq!(succeeded(of_namespace("default", Period::Hour)).await?, [(hour, 103)]);
    assert_eq!(succeeded(of_namespace("other", Period::Hour)).await?, []);
    assert_eq!(succeeded(StatisticsOf::All(Period::Hour)).await?, [(hour, 103)]);
    let before = StatisticsFilter { of: of_job("a"), since: hour.before(DAY), until: hour };
    assert_eq!(store.statistics(&before).await?, [], "the span ends before them");
    Ok(())
}

pub async fn statistics_of_another_shard_are_refused(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let stranger = Leader { shard: OTHER, ..leader.clone() };
    let row = row(&stranger, ("default", Some("a")), Period::Hour, NOW, &counts(1, 0));
    let refused = leader.insert(store, [row]).await;
    assert!(matches!(refused, Err(Error::Refused { shard: SHARD, .. })), "{refused:?}");
    assert_eq!(read(store, of_job("a")).await?, []);
    Ok(())
}

/// Minutes are kept for two days, hours for 400.
pub async fn old_statistics_go(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let rows = [(None, Period::Minute), (None, Period::Hour), (Some("a"), Period::Hour)];
    let rows = rows.map(|(job, period)| row(&leader, ("default", job), period, NOW, &counts(1, 0)));
    leader.insert(store, rows).await?;
    for (days, left) in [(1, [1, 1, 1]), (3, [0, 1, 1]), (399, [0, 1, 1]), (401, [0, 0, 0])] {
        let policy = PrunePolicy { now: NOW + DAY * days, ad_hoc_kept: 7 * DAY };
        while store.prune(&policy, 1000).await? > 0 {}
        let of =
            [of_namespace("default", Period::Minute), of_namespace("default", Period::Hour), of_job("a")];
        let mut found = Vec::new();
        for of in of {
            found.push(read(store, of).await?.len());
        }
        assert_eq!(found, left, "after {days} days");
    }
    Ok(())
}
