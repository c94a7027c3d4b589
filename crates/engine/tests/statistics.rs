//! The rows of statistics: what is counted, and that the rows add up to the history.

use std::collections::BTreeMap;

use punctual_core::Timestamp;
use punctual_core::change::{Change, Row};
use punctual_core::ids::JobId;
use punctual_core::job::MisfirePolicy;
use punctual_core::name::{Name, Namespace};
use punctual_core::run::{Origin, Status, Trigger};
use punctual_core::statistics::{Bucket, Counts, Period};

use crate::support::{Rig, cancel, delete, every, manual, on, pause, put, resume};

/// The rows in the store, added up by bucket.
fn stored(rig: &Rig) -> BTreeMap<Bucket, Counts> {
    let mut stored: BTreeMap<Bucket, Counts> = BTreeMap::new();
    for row in rig.rows.all() {
        match row {
            Row::Statistics(row) => stored.entry(row.key.bucket.clone()).or_default().add(&row.counts),
            Row::RecentCounts(recent) => {
                for (counted, counts) in &recent.counts {
                    counted.buckets().for_each(|bucket| stored.entry(bucket).or_default().add(counts));
                }
            }
            _ => {}
        }
    }
    stored
}

/// The same, counted from the runs and the skip records.
fn recounted(rig: &Rig) -> BTreeMap<Bucket, Counts> {
    let mut counted: BTreeMap<Bucket, Counts> = BTreeMap::new();
    for run in rig.all_runs().iter().filter(|run| run.parent().is_none()) {
        if matches!(run.trigger, Trigger::Schedule | Trigger::Misfire) {
            for bucket in buckets(None, run.created_at) {
                counted.entry(bucket).or_default().fires += 1;
            }
        }
        let job = if let Origin::Job { name, .. } = &run.origin { Some(name) } else { None };
        let ended = run.finished_at.filter(|_| run.status().is_terminal());
        for bucket in ended.into_iter().flat_map(|at| buckets(job, at)) {
            counted.entry(bucket).or_default().count_end(run);
        }
    }
    let names = names(rig);
    for skip in rig.skips() {
        if punctual_core::statistics::is_counted(skip.reason) {
            for bucket in buckets(names.get(&skip.job), skip.at) {
                counted.entry(bucket).or_default().skipped += 1;
            }
        }
    }
    counted
}

fn buckets(job: Option<&Name>, at: Timestamp) -> Vec<Bucket> {
    let bucket = |job: Option<Name>, period: Period| Bucket {
        namespace: Namespace::default(),
        job,
        period,
        at: period.bucket_of(at),
    };
    let of_job = job.map(|job| bucket(Some(job.clone()), Period::Hour));
    [bucket(None, Period::Minute), bucket(None, Period::Hour)].into_iter().chain(of_job).collect()
}

/// The names of all jobs that ever were.
fn names(rig: &Rig) -> BTreeMap<JobId, Name> {
    let changes = rig.batches.iter().flat_map(|batch| batch.changes.iter());
    let jobs = changes.filter_map(|(_, change)| match change {
        Change::Insert(Row::Job(job)) => Some((job.id, job.name.clone())),
        Change::Insert(Row::DeletedJob(job)) => Some((job.id, job.name.clone())),
        _ => None,
    });
    jobs.collect()
}

#[track_caller]
pub(crate) fn check_add_up(rig: &Rig) {
    assert_eq!(stored(rig), recounted(rig), "the statistics add up to the history");
}

/// The counts of a job in all hours.
fn of_job(rig: &Rig, job: &str) -> Counts {
    let mut sum = Counts::default();
    for (bucket, counts) in stored(rig) {
        if bucket.job.is_some_and(|name| name.as_str() == job) {
            sum.add(&counts);
        }
    }
    sum
}

/// How many rows of statistics the last batch has.
fn rows_written(rig: &Rig) -> usize {
    let last = rig.batches.last().expect("there is a batch");
    let rows = last.changes.iter().filter(|(_, change)| {
        matches!(
            change,
            Change::Insert(Row::Statistics(_) | Row::RecentCounts(_))
                | Change::Update(Row::Statistics(_) | Row::RecentCounts(_))
        )
    });
    rows.count()
}

#[test]
fn ends_are_counted_by_their_status() {
    let mut rig = Rig::new(1);
    rig.put("job", manual());
    let first = rig.start("job");
    rig.succeed(first);
    let second = rig.start("job");
    rig.fail(second);
    let counts = of_job(&rig, "job");
    assert_eq!((counts.runs(), counts.succeeded, counts.failed, counts.fires), (2, 1, 1, 0));
    assert_eq!(counts.took.count(), 2);
    check_add_up(&rig);
}

#[test]
fn a_batch_writes_one_row_until_counts_are_moved_to_their_buckets() {
    let mut rig = Rig::new(2);
    rig.put("job", manual());
    for (wait, rows) in [("1s", 1), ("1s", 1), ("3m", 4), ("1s", 1)] {
        rig.advance(wait);
        let run = rig.start("job");
        rig.succeed(run);
        assert_eq!(rows_written(&rig), rows, "after {wait}");
        check_add_up(&rig);
    }
    let run = rig.submit(manual());
    rig.succeed(run);
    assert_eq!(rows_written(&rig), 1);
    check_add_up(&rig);
}

#[test]
fn a_fire_is_counted_in_its_minute() {
    let mut rig = Rig::new(1);
    rig.put("job", on([every("10s")]));
    rig.advance("30s");
    let minutes = stored(&rig).into_iter().filter(|(bucket, _)| bucket.period == Period::Minute);
    let fires: u64 = minutes.map(|(_, counts)| counts.fires).sum();
    assert_eq!(fires, 3);
    assert_eq!(of_job(&rig, "job").skipped, 2, "the first run is still active");
    check_add_up(&rig);
}

#[test]
fn a_range_of_missed_fires_counts_as_one_skip() {
    let mut rig = Rig::new(1);
    let mut definition = on([every("10s")]);
    definition.misfire.policy = MisfirePolicy::Skip;
    rig.put("job", definition);
    rig.outage("10m");
    assert_eq!(of_job(&rig, "job").skipped, 1);
    check_add_up(&rig);
}

#[test]
fn a_pause_that_passes_over_fires_counts_as_one_skip() {
    let mut rig = Rig::new(1);
    rig.put("job", on([every("10s")]));
    rig.ask(pause("job")).unwrap();
    rig.advance("1m");
    rig.ask(resume("job")).unwrap();
    assert_eq!(of_job(&rig, "job").skipped, 1);
    check_add_up(&rig);
}

#[test]
fn a_reload_continues_the_recent_counts_and_begins_new_rows() {
    let mut rig = Rig::new(1);
    rig.put("job", manual());
    for _ in 0..3 {
        for _ in 0..2 {
            let run = rig.start("job");
            rig.succeed(run);
            rig.reload();
            check_add_up(&rig);
        }
        let run = rig.start("job");
        rig.advance("3m");
        rig.succeed(run);
        rig.reload();
        check_add_up(&rig);
    }
    assert_eq!(of_job(&rig, "job").succeeded, 9);
}

#[test]
fn a_cancelled_run_has_no_duration() {
    let mut rig = Rig::new(0);
    rig.put("job", manual());
    let run = rig.start("job");
    rig.ask(cancel(run)).unwrap();
    assert_eq!(rig.status(run), Status::Cancelled);
    let counts = of_job(&rig, "job");
    assert_eq!((counts.cancelled, counts.took.count()), (1, 0));
}

#[test]
fn the_skips_of_a_job_created_and_deleted_within_one_batch_are_counted() {
    let mut rig = Rig::new(1);
    let mut definition = on([every("1m")]);
    definition.misfire.policy = MisfirePolicy::Skip;
    rig.begin(put("job", definition));
    rig.pass("1h");
    rig.begin(delete("job"));
    rig.settle();
    assert_eq!(of_job(&rig, "job").skipped, 1);
    check_add_up(&rig);
}
