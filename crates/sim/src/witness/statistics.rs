//! Statistics: the rows add up to what the witness counted of the runs and skip records that landed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::change::{Batch, Change, Row};
use punctual_core::ids::JobId;
use punctual_core::name::{Name, Namespace};
use punctual_core::run::{Origin, Run, Trigger};
use punctual_core::statistics::{Bucket, Counts, Period, is_counted};
use punctual_store::{StatisticsFilter, StatisticsOf};

use super::{Seen, Verdict};

/// Statistics by minute are kept for this long: the clocks of some worlds step over days.
const MINUTES_KEPT: Duration = Duration::from_secs(2 * 24 * 3600);

#[derive(Debug, Default)]
pub(crate) struct Statistics {
    counted: BTreeMap<Bucket, Counts>,
    /// Every job that ever was: a skip record has only its id.
    jobs: BTreeMap<JobId, (Namespace, Name)>,
}

impl Statistics {
    pub(super) fn landed(&mut self, batch: &Batch, born: &[Arc<Run>], seen: &mut Seen) {
        for (_, change) in batch.changes.iter() {
            match change {
                Change::Insert(Row::Job(job)) => {
                    self.jobs.insert(job.id, (job.namespace.clone(), job.name.clone()));
                }
                Change::Insert(Row::DeletedJob(job)) => {
                    self.jobs.insert(job.id, (job.namespace.clone(), job.name.clone()));
                }
                Change::Insert(Row::History(run)) if run.is_whole() => {
                    seen.counted_ends += 1;
                    let job = if let Origin::Job { name, .. } = &run.origin { Some(name) } else { None };
                    let at = run.finished_at.unwrap_or(run.created_at);
                    self.count(&run.namespace, job, at, |counts| counts.count_end(run));
                }
                _ => {}
            }
        }
        for (_, change) in batch.changes.iter() {
            if let Change::Insert(Row::Skip(skip)) = change
                && is_counted(skip.reason)
                && let Some((namespace, name)) = self.jobs.get(&skip.job).cloned()
            {
                self.count(&namespace, Some(&name), skip.at, |counts| counts.skipped += 1);
            }
        }
        for run in born.iter().filter(|run| matches!(run.trigger, Trigger::Schedule | Trigger::Misfire)) {
            self.count(&run.namespace, None, run.created_at, |counts| counts.fires += 1);
        }
    }

    fn count(
        &mut self,
        namespace: &Namespace,
        job: Option<&Name>,
        at: Timestamp,
        count: impl Fn(&mut Counts),
    ) {
        let of_job = job.map(|job| (Some(job.clone()), Period::Hour));
        for (job, period) in [(None, Period::Minute), (None, Period::Hour)].into_iter().chain(of_job) {
            let bucket = Bucket { namespace: namespace.clone(), job, period, at: period.bucket_of(at) };
            count(self.counted.entry(bucket).or_default());
        }
    }

    /// What a read must show of every job and namespace, for each the filter that reads it. Minutes that may have been
    /// pruned are left out.
    pub(crate) fn expected(&self, reached: Timestamp) -> Vec<(StatisticsFilter, Vec<(Timestamp, Counts)>)> {
        let mut of: BTreeMap<(&Namespace, &Option<Name>, Period), Vec<_>> = BTreeMap::new();
        let minutes_since = reached.before(MINUTES_KEPT);
        let is_kept = |bucket: &Bucket| bucket.period == Period::Hour || bucket.at >= minutes_since;
        for (bucket, counts) in self.counted.iter().filter(|(bucket, _)| is_kept(bucket)) {
            let key = (&bucket.namespace, &bucket.job, bucket.period);
            of.entry(key).or_default().push((bucket.at, counts.clone()));
        }
        let read = of.into_iter().map(|((namespace, job, period), buckets)| {
            let of = match job {
                Some(job) => StatisticsOf::Job(namespace.clone(), job.clone()),
                None => StatisticsOf::Namespace(namespace.clone(), period),
            };
            let since = buckets.first().map_or(Timestamp::MIN, |(at, _)| *at);
            let until = buckets.last().map_or(Timestamp::MIN, |(at, _)| *at) + period.length();
            (StatisticsFilter { of, since, until }, buckets)
        });
        read.collect()
    }

    pub(crate) fn compare(
        filter: &StatisticsFilter,
        counted: &[(Timestamp, Counts)],
        stored: &[(Timestamp, Counts)],
    ) -> Verdict {
        if counted == stored {
            return Ok(());
        }
        let differing = counted.iter().zip(stored).find(|(counted, stored)| counted != stored);
        let what = match differing {
            Some(((at, counted), (stored_at, stored))) => {
                format!("at {at} the history has {counted:?}, the rows have at {stored_at} {stored:?}")
            }
            None => format!("the history has {} buckets, the rows have {}", counted.len(), stored.len()),
        };
        Err(format!("statistics of {:?}: {what}", filter.of))
    }
}
