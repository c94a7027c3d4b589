//! Statistics of ended runs: small rows, written in the commit in which the runs end.
//!
//! A row counts the runs of one job in one hour, or the runs of one namespace in one minute or hour. Each shard writes
//! rows of its own, and a leader continues only rows that it began itself: so it never reads a row to count a run.
//!
//! What a commit counts goes to a page of recent counts first: one row for all jobs. About once a minute the recent
//! counts of a shard are moved to the rows of their buckets. A reader adds up all rows of a bucket and the recent counts.
//!
//! A split run counts once: its child runs are not counted. A recorded range of missed due times counts as one skip.

mod encoding;
mod histogram;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::Timestamp;
use crate::ids::ShardId;
use crate::name::{Name, Namespace};
use crate::run::{Run, Status, Trigger, What};
use crate::skip_reason::SkipReason;

pub use encoding::Malformed;
pub use histogram::Histogram;

/// The length of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Period {
    Minute,
    Hour,
}

impl Period {
    pub const fn length(self) -> Duration {
        match self {
            Period::Minute => Duration::from_secs(60),
            Period::Hour => Duration::from_secs(3600),
        }
    }

    /// The beginning of the bucket that an instant falls into.
    pub fn bucket_of(self, instant: Timestamp) -> Timestamp {
        let length = match self {
            Period::Minute => 60_000,
            Period::Hour => 3_600_000,
        };
        let millis = instant.as_millis();
        Timestamp::from_millis(millis - millis.rem_euclid(length))
    }
}

/// What a row counts: the runs of whom, and in which bucket.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bucket {
    pub namespace: Namespace,
    /// `None` means all runs of the namespace, those without a job included. A job has rows of hours only.
    pub job: Option<Name>,
    pub period: Period,
    /// The beginning of the bucket.
    pub at: Timestamp,
}

/// The primary key of a row.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StatisticsKey {
    pub bucket: Bucket,
    pub shard: ShardId,
    /// The commit of the shard that inserted the row. No two commits of a shard have the same number, so a leader never
    /// writes a row that another leader began.
    pub commit: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statistics {
    pub key: Arc<StatisticsKey>,
    pub counts: Counts,
}

/// How many runs there were, how they ended and how long they took.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counts {
    /// Runs that a schedule made in this bucket. Only rows of namespaces have it.
    pub fires: u64,
    pub succeeded: u64,
    pub failed: u64,
    pub timed_out: u64,
    pub cancelled: u64,
    pub skipped: u64,
    /// From the first start of a run to its end, in milliseconds.
    pub took: Histogram,
    /// From the moment a run could start until it first did: the wait for a free slot.
    pub waited: Histogram,
    /// From the due time of a run (for a manual run: from the request, if that came later) to its first start.
    pub late: Histogram,
}

impl Counts {
    /// The runs that ended, skipped ones included.
    pub fn runs(&self) -> u64 {
        self.succeeded + self.failed + self.timed_out + self.cancelled + self.skipped
    }

    /// Counts the end of a run.
    pub fn count_end(&mut self, run: &Run) {
        match run.status() {
            Status::Succeeded => self.succeeded += 1,
            Status::Failed => self.failed += 1,
            Status::TimedOut => self.timed_out += 1,
            Status::Cancelled => self.cancelled += 1,
            Status::Skipped => self.skipped += 1,
            Status::Waiting | Status::Ready | Status::Running => return,
        }
        let (Some(start), Some(end)) = (run.first_start(), run.finished_at) else { return };
        self.took.add(end.since(start));
        self.late.add(start.since(run.late_from()));
        let ready = run.entries.iter().find(|entry| entry.what == What::Due).map(|entry| entry.at);
        self.waited.add(start.since(ready.unwrap_or(start)));
    }

    /// Adds the counts of another row.
    pub fn add(&mut self, other: &Counts) {
        self.fires += other.fires;
        self.succeeded += other.succeeded;
        self.failed += other.failed;
        self.timed_out += other.timed_out;
        self.cancelled += other.cancelled;
        self.skipped += other.skipped;
        self.took.add_all(&other.took);
        self.waited.add_all(&other.waited);
        self.late.add_all(&other.late);
    }
}

/// What a batch counted: runs of a job, or without a job, that ended or fired in one minute.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Counted {
    pub namespace: Namespace,
    pub job: Option<Name>,
    /// The beginning of the minute.
    pub minute: Timestamp,
}

impl Counted {
    /// `None` for a part of a run or a step: the whole run is counted. Of a backfill, the child runs are counted.
    pub fn end(run: &Run) -> Option<Counted> {
        let job = run.job_name().cloned();
        let at = run.finished_at.unwrap_or(run.created_at);
        run.is_whole().then(|| Counted::at(run.namespace.clone(), job, at))
    }

    /// Fires are counted for the namespace only. `None` if no schedule made the run.
    pub fn fire(run: &Run) -> Option<Counted> {
        let is_fire = matches!(run.trigger, Trigger::Schedule | Trigger::Misfire);
        is_fire.then(|| Counted::at(run.namespace.clone(), None, run.created_at))
    }

    pub fn skip(namespace: Namespace, job: Name, at: Timestamp) -> Counted {
        Counted::at(namespace, Some(job), at)
    }

    fn at(namespace: Namespace, job: Option<Name>, at: Timestamp) -> Counted {
        Counted { namespace, job, minute: Period::Minute.bucket_of(at) }
    }

    /// The buckets it counts in: the minute and the hour of the namespace, and the hour of the job.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> {
        let bucket = |job: Option<&Name>, period: Period| Bucket {
            namespace: self.namespace.clone(),
            job: job.cloned(),
            period,
            at: period.bucket_of(self.minute),
        };
        let of_job = self.job.as_ref().map(|job| bucket(Some(job), Period::Hour));
        [bucket(None, Period::Minute), bucket(None, Period::Hour)].into_iter().chain(of_job)
    }
}

/// One page of the recent counts of a shard: what was counted and has not been moved to the rows of its buckets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecentCounts {
    pub page: u32,
    pub counts: BTreeMap<Counted, Counts>,
}

/// Whether a skip record counts as a skip. What a calendar excludes, or an edit drops, was not due.
pub fn is_counted(reason: SkipReason) -> bool {
    matches!(reason, SkipReason::Misfire | SkipReason::Paused | SkipReason::Held)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt::Outcome;
    use crate::ids::{Epoch, JobId, RunId, WorkerId};
    use crate::job::Definition;
    use crate::run::Origin;
    use crate::run::{Event, Part, PartOf};
    use crate::task::Task;

    const NOON: Timestamp = Timestamp::from_millis(1_800_014_400_000);

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(NOON.as_millis() + millis)
    }

    fn run(trigger: Trigger) -> Run {
        let origin = Origin::Job { id: JobId(1), name: "nightly".parse().unwrap(), revision: 1 };
        Run::new(RunId(7), Namespace::default(), origin, trigger, NOON, at(5))
    }

    /// Due at noon, ready after 10 ms, started after 30, ended after 530.
    fn ended(succeeds: bool) -> Run {
        let (mut run, definition) = (run(Trigger::Schedule), Definition::of(Task::Noop));
        let token = run.token.next(Epoch(1));
        let worker = WorkerId("w".into());
        let outcome = if succeeds { Outcome::succeeded(at(30)) } else { Outcome::failed(at(30), "no") };
        let events = [
            (Event::Due, at(10)),
            (Event::Assigned { worker, token }, at(20)),
            (Event::Reported { token, outcome }, at(530)),
        ];
        for (event, when) in events {
            run.apply(event, &definition, when).unwrap();
        }
        run
    }

    #[test]
    fn an_end_counts_its_status_and_its_times() {
        let mut counts = Counts::default();
        counts.count_end(&ended(true));
        counts.count_end(&ended(false));
        assert_eq!((counts.runs(), counts.succeeded, counts.failed), (2, 1, 1));
        let median = |histogram: &Histogram| histogram.quantile(0.5);
        assert_eq!(median(&counts.waited), Some(20));
        assert_eq!(median(&counts.late), Some(30));
        assert!(median(&counts.took).is_some_and(|took| took.abs_diff(500) < 35), "{:?}", counts.took);
    }

    #[test]
    fn a_run_that_never_started_has_no_times() {
        let (mut run, definition) = (run(Trigger::Manual), Definition::of(Task::Noop));
        run.apply(Event::Skipped(crate::run::Reason::Overlap), &definition, NOON).unwrap();
        let mut counts = Counts::default();
        counts.count_end(&run);
        assert_eq!((counts.runs(), counts.skipped), (1, 1));
        assert_eq!(counts.took, Histogram::default());
        counts.count_end(&self::run(Trigger::Manual));
        assert_eq!(counts.runs(), 1, "a run that has not ended is not counted");
    }

    #[test]
    fn an_end_is_counted_for_its_job_and_its_namespace() {
        let of = |run: &Run| {
            let buckets =
                Counted::end(run).into_iter().flat_map(|counted| counted.buckets().collect::<Vec<_>>());
            buckets.map(|bucket| (bucket.job.is_some(), bucket.period, bucket.at)).collect::<Vec<_>>()
        };
        let run = ended(true);
        let expected =
            [(false, Period::Minute, NOON), (false, Period::Hour, NOON), (true, Period::Hour, NOON)];
        assert_eq!(of(&run), expected);
        let part = Part { index: 0, total: 2 };
        let role = PartOf { parent: RunId(1), part, worker: None };
        assert_eq!(of(&Run { part_of: Some(Box::new(role)), ..run.clone() }), []);
    }

    #[test]
    fn only_schedules_fire() {
        for trigger in [Trigger::Schedule, Trigger::Misfire] {
            let fire = Counted::fire(&run(trigger)).expect("a schedule made the run");
            assert_eq!(fire.buckets().count(), 2, "of the namespace only");
        }
        for trigger in [Trigger::Manual, Trigger::Submit, Trigger::Retry, Trigger::Parent] {
            assert_eq!(Counted::fire(&run(trigger)), None);
        }
    }

    #[test]
    fn a_bucket_begins_at_its_minute_or_hour() {
        let instant = Timestamp::from_millis(NOON.as_millis() + 3_723_456);
        assert_eq!(Period::Minute.bucket_of(instant), at(3_720_000));
        assert_eq!(Period::Hour.bucket_of(instant), at(3_600_000));
        assert_eq!(Period::Hour.bucket_of(NOON), NOON);
    }
}
