//! Statistics of a job: how its runs ended and how long they took, by bucket of time.

use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::statistics::{Counts, Histogram};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Text;
use crate::text::Instant;

/// The runs of a job that ended, by bucket.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobStatistics {
    /// The length of a bucket.
    pub bucket_ms: u64,
    /// Every bucket of the span, oldest first, also those in which no run ended.
    pub buckets: Vec<StatisticsBucket>,
    /// All buckets together.
    pub total: RunCounts,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StatisticsBucket {
    /// The beginning of the bucket.
    pub at: Instant,
    #[serde(flatten)]
    pub counts: RunCounts,
}

/// How runs ended, and how long they took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunCounts {
    /// All runs that ended, skipped ones included. A split run counts once.
    pub runs: u64,
    pub succeeded: u64,
    pub failed: u64,
    pub timed_out: u64,
    pub cancelled: u64,
    /// Skipped runs, and recorded ranges of missed due times; a range counts once.
    pub skipped: u64,
    /// From the first start to the end. `null` means that no run started.
    pub took_ms: Option<Percentiles>,
    /// From the moment a run could start until it did. `null` means that no run started.
    pub wait_ms: Option<Percentiles>,
    /// From the due time to the first start. `null` means that no run started.
    pub late_ms: Option<Percentiles>,
}

/// Percentiles in milliseconds, at most 7 % off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Percentiles {
    pub p50: u64,
    pub p95: u64,
    pub p99: u64,
}

impl JobStatistics {
    /// From rows in any order, for `count` buckets from `since` on. Rows outside of them are left out.
    pub fn of(
        since: Timestamp,
        bucket: Duration,
        count: usize,
        rows: &[(Timestamp, Counts)],
    ) -> JobStatistics {
        let (mut counts, mut total) = (vec![Counts::default(); count], Counts::default());
        let millis = u64::try_from(bucket.as_millis()).unwrap_or(u64::MAX).max(1);
        for (at, row) in rows.iter().filter(|(at, _)| *at >= since) {
            let index = at.since(since).as_millis() / u128::from(millis);
            if let Some(bucket) = usize::try_from(index).ok().and_then(|index| counts.get_mut(index)) {
                bucket.add(row);
                total.add(row);
            }
        }
        let starts = std::iter::successors(Some(since), |at| Some(*at + bucket));
        let buckets = starts.zip(&counts);
        JobStatistics {
            bucket_ms: millis,
            buckets: buckets
                .map(|(at, counts)| StatisticsBucket { at: Text(at), counts: counts.into() })
                .collect(),
            total: (&total).into(),
        }
    }
}

impl From<&Counts> for RunCounts {
    fn from(counts: &Counts) -> Self {
        RunCounts {
            runs: counts.runs(),
            succeeded: counts.succeeded,
            failed: counts.failed,
            timed_out: counts.timed_out,
            cancelled: counts.cancelled,
            skipped: counts.skipped,
            took_ms: Percentiles::of(&counts.took),
            wait_ms: Percentiles::of(&counts.waited),
            late_ms: Percentiles::of(&counts.late),
        }
    }
}

impl Percentiles {
    /// `None` means that the histogram is empty.
    pub fn of(histogram: &Histogram) -> Option<Percentiles> {
        let at = |share: f64| histogram.quantile(share);
        Some(Percentiles { p50: at(0.5)?, p95: at(0.95)?, p99: at(0.99)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const NOON: Timestamp = Timestamp::from_millis(1_800_014_400_000);

    fn counts(succeeded: u64, failed: u64) -> Counts {
        let mut counts = Counts { succeeded, failed, ..Counts::default() };
        (0..succeeded).for_each(|n| counts.took.add(Duration::from_millis(n)));
        counts
    }

    #[test]
    fn rows_fall_into_their_buckets() {
        let rows = [
            (NOON, counts(1, 0)),
            (NOON + HOUR, counts(2, 1)),
            (NOON + HOUR * 3, counts(5, 0)),
            (NOON + HOUR * 4, counts(100, 0)),
            (NOON.before(HOUR), counts(100, 0)),
        ];
        let found = JobStatistics::of(NOON, HOUR * 2, 2, &rows);
        assert_eq!(found.bucket_ms, 7_200_000);
        let runs: Vec<_> = found.buckets.iter().map(|bucket| (bucket.at.0, bucket.counts.runs)).collect();
        assert_eq!(runs, [(NOON, 4), (NOON + HOUR * 2, 5)]);
        assert_eq!((found.total.runs, found.total.succeeded, found.total.failed), (9, 8, 1));
    }

    #[test]
    fn a_bucket_without_runs_has_no_percentiles() {
        let found = JobStatistics::of(NOON, HOUR, 1, &[]);
        assert_eq!((found.buckets.len(), found.total.took_ms), (1, None));
        let written = serde_json::to_value(&found).unwrap();
        assert_eq!(written["buckets"][0]["at"], "2027-01-15T12:00:00.000Z");
        assert_eq!(written["buckets"][0]["took_ms"], serde_json::Value::Null);
        assert_eq!(serde_json::from_value::<JobStatistics>(written).unwrap(), found);
    }

    #[test]
    fn percentiles_are_of_all_runs_of_the_bucket() {
        let found = JobStatistics::of(NOON, HOUR, 1, &[(NOON, counts(8, 0)), (NOON, counts(8, 0))]);
        assert_eq!(found.total.took_ms, Some(Percentiles { p50: 3, p95: 7, p99: 7 }));
    }
}
