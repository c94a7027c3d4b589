//! Fires by bucket: past ones from statistics, coming ones from the schedules of all jobs.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use punctual_core::Timestamp;
use punctual_core::forecast::{self, Buckets};
use punctual_core::job::Job;
use punctual_core::limits::{BUCKETS_MAX, BUCKETS_SPAN_MAX};
use punctual_core::name::Namespace;
use punctual_core::statistics::{Counts, Period};
use punctual_store::{StatisticsFilter, StatisticsOf};
use punctual_wire::Text;
use punctual_wire::rest::{FireBucket, Fires, JobFires, Problem};
use punctual_wire::text::Span;
use serde::Deserialize;

use super::overview::each_job;
use super::problem::{Failed, internal};
use super::request::{Asked, namespace};
use crate::Endpoints;

const HOUR: Duration = Duration::from_secs(3600);
const MINUTE: Duration = Duration::from_secs(60);
/// The span when the request names no `to`.
const SPAN_DEFAULT: Duration = Duration::from_secs(24 * 3600);
/// Up to this many jobs are counted exactly; of more, a sample.
const EXACT_MAX: usize = 5000;
const SAMPLE: usize = 1000;
/// Jobs that are read; the sample is taken from these.
const READ_MAX: usize = 50_000;
/// Fires that are counted in one request, and the fewest of one job: a few seconds.
const STEPS_MAX: usize = 4_000_000;
const STEPS_OF_JOB_MIN: usize = 1000;
/// Jobs named in a bucket.
const NAMED_MAX: usize = 10;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Query {
    from: Option<Text<Timestamp>>,
    to: Option<Text<Timestamp>>,
    bucket: Option<Span>,
    namespace: Option<String>,
}

pub(crate) async fn list(
    State(endpoints): State<Endpoints>,
    Asked(query): Asked<Query>,
) -> Result<Json<Fires>, Failed> {
    let namespace = query.namespace.as_deref().map(namespace).transpose()?;
    let now = endpoints.clock.now();
    let buckets = buckets(&query, now)?;
    let mut answer = Answer { buckets, by_bucket: BTreeMap::new() };
    if buckets.from < now {
        answer.add_past(past(&endpoints, namespace.clone(), buckets, now).await?);
    }
    let (mut jobs, mut sampled, mut exact) = (0, None, true);
    if buckets.to() > now {
        let sample = Sample::of(scheduled(&endpoints, namespace.as_ref()).await?);
        (jobs, sampled) = (sample.all, sample.size());
        // One at a time: it keeps a core busy for seconds.
        let _turn = endpoints.forecasting.lock().await;
        let count = move || answer.with_coming(&sample, now);
        let done = tokio::task::spawn_blocking(count).await.map_err(|_| Failed(internal()))?;
        (answer, exact) = (done.0, done.1 && sampled.is_none());
    }
    Ok(Json(Fires {
        from: Text(buckets.from),
        to: Text(buckets.to()),
        bucket_ms: u64::try_from(buckets.length.as_millis()).unwrap_or(u64::MAX),
        exact,
        jobs,
        sampled,
        buckets: answer.by_bucket.into_values().map(Filling::finish).collect(),
    }))
}

fn buckets(query: &Query, now: Timestamp) -> Result<Buckets, Problem> {
    let length = query.bucket.as_ref().map_or(HOUR, |bucket| bucket.0);
    if length.is_zero() || !length.as_millis().is_multiple_of(MINUTE.as_millis()) {
        return Err(Problem::parameter("bucket", "must be whole minutes, such as 5m, 1h or 1d"));
    }
    let from = query.from.map_or(now, |from| from.0);
    let to = query.to.map_or(from + SPAN_DEFAULT, |to| to.0);
    if from >= to {
        return Err(Problem::parameter("to", "must be after `from`, which is now by default"));
    }
    if to.since(from) > BUCKETS_SPAN_MAX {
        let days = BUCKETS_SPAN_MAX.as_secs() / (24 * 3600);
        return Err(Problem::parameter("to", format!("must be at most {days} days after `from`")));
    }
    let millis = i64::try_from(length.as_millis()).unwrap_or(i64::MAX);
    let from = Timestamp::from_millis(from.as_millis() - from.as_millis().rem_euclid(millis));
    let count = to.since(from).as_millis().div_ceil(length.as_millis());
    match usize::try_from(count) {
        Ok(count) if count <= BUCKETS_MAX => Ok(Buckets { from, length, count }),
        _ => {
            let message = format!("gives {count} buckets, at most {BUCKETS_MAX}; choose longer ones");
            Err(Problem::parameter("bucket", message))
        }
    }
}

async fn past(
    endpoints: &Endpoints,
    namespace: Option<Namespace>,
    buckets: Buckets,
    now: Timestamp,
) -> Result<Vec<(Timestamp, Counts)>, Failed> {
    let in_hours = buckets.length.as_millis().is_multiple_of(HOUR.as_millis());
    let period = if in_hours { Period::Hour } else { Period::Minute };
    let of = match namespace {
        Some(namespace) => StatisticsOf::Namespace(namespace, period),
        None => StatisticsOf::All(period),
    };
    let until = buckets.to().min(now + period.length());
    let filter = StatisticsFilter { of, since: buckets.from, until };
    Ok(endpoints.handle.reads().statistics(&filter).await?)
}

/// The jobs with a coming fire.
async fn scheduled(endpoints: &Endpoints, namespace: Option<&Namespace>) -> Result<Vec<Arc<Job>>, Failed> {
    let mut jobs: Vec<Arc<Job>> = Vec::new();
    each_job(endpoints, namespace, READ_MAX, |job| {
        if job.cursor.next_due.is_some() {
            jobs.push(Arc::clone(job));
        }
    })
    .await?;
    Ok(jobs)
}

/// The jobs whose fires are counted.
#[derive(Debug)]
struct Sample {
    jobs: Vec<Arc<Job>>,
    /// How many jobs they stand for.
    all: usize,
}

impl Sample {
    fn of(mut jobs: Vec<Arc<Job>>) -> Sample {
        let all = jobs.len();
        if all > EXACT_MAX {
            // Evenly over all names, because names of a kind are often alike.
            jobs = (0..SAMPLE).map(|index| Arc::clone(&jobs[index * all / SAMPLE])).collect();
        }
        Sample { jobs, all }
    }

    /// How many jobs are counted. `None` means all of them.
    fn size(&self) -> Option<usize> {
        (self.jobs.len() < self.all).then_some(self.jobs.len())
    }

    /// The fires of all jobs, where those of the sample are so many.
    fn scaled(&self, fires: u64) -> u64 {
        fires * self.all as u64 / self.jobs.len().max(1) as u64
    }
}

/// The answer while it is filled.
#[derive(Debug)]
struct Answer {
    buckets: Buckets,
    by_bucket: BTreeMap<usize, Filling>,
}

#[derive(Debug)]
struct Filling {
    at: Timestamp,
    /// Past fires and coming ones, scaled to all jobs.
    fires: u64,
    ended: Option<Counts>,
    /// The jobs with the most coming fires, the most first. `None` means that the bucket is in the past.
    jobs: Option<Vec<(u64, Arc<Job>)>>,
}

impl Answer {
    fn bucket(&mut self, index: usize) -> &mut Filling {
        let at = self.buckets.at(index);
        self.by_bucket.entry(index).or_insert(Filling { at, fires: 0, ended: None, jobs: None })
    }

    fn add_past(&mut self, rows: Vec<(Timestamp, Counts)>) {
        for (at, counts) in rows {
            let Some(index) = self.buckets.index(at) else { continue };
            let bucket = self.bucket(index);
            bucket.fires += counts.fires;
            bucket.ended.get_or_insert_default().add(&counts);
        }
    }

    /// Adds the coming fires of the sample, scaled to all jobs. False means that some jobs were estimated.
    fn with_coming(mut self, sample: &Sample, now: Timestamp) -> (Answer, bool) {
        let steps = (STEPS_MAX / sample.jobs.len().max(1)).max(STEPS_OF_JOB_MIN);
        let mut exact = true;
        let mut coming: BTreeMap<usize, u64> = BTreeMap::new();
        for job in &sample.jobs {
            let forecast = forecast::of(job, self.buckets, now, steps);
            exact &= forecast.exact;
            for (index, fires) in forecast.fires {
                self.bucket(index).name(job, fires);
                *coming.entry(index).or_default() += fires;
            }
        }
        // The sum is scaled, not the fires of each job: a division for each would lose a part of each.
        for (index, fires) in coming {
            self.bucket(index).fires += sample.scaled(fires);
        }
        (self, exact)
    }
}

impl Filling {
    /// Names a job with coming fires, if it is among those with the most.
    fn name(&mut self, job: &Arc<Job>, fires: u64) {
        let jobs = self.jobs.get_or_insert_default();
        let position = jobs.partition_point(|(most, _)| Reverse(*most) <= Reverse(fires));
        if position < NAMED_MAX {
            jobs.insert(position, (fires, Arc::clone(job)));
            jobs.truncate(NAMED_MAX);
        }
    }

    fn finish(self) -> FireBucket {
        let named = |(fires, job): (u64, Arc<Job>)| JobFires {
            namespace: job.namespace.clone(),
            job: job.name.clone(),
            fires,
        };
        let ended = self.ended.as_ref();
        FireBucket {
            at: Text(self.at),
            fires: self.fires,
            jobs: self.jobs.map(|jobs| jobs.into_iter().map(named).collect()),
            succeeded: ended.map(|counts| counts.succeeded),
            failed: ended.map(|counts| counts.failed + counts.timed_out),
            skipped: ended.map(|counts| counts.skipped),
        }
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::ids::JobId;
    use punctual_core::job::Definition;
    use punctual_core::schedule::{Schedule, When};
    use punctual_core::task::Task;

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn hourly(count: usize) -> Vec<Arc<Job>> {
        let schedules = vec![Schedule::new(When::Every(HOUR))];
        let definition = Arc::new(Definition { schedules, ..Definition::of(Task::Noop) });
        let job = |number: usize| {
            let name = format!("job-{number:05}").parse().unwrap();
            let id = JobId(i64::try_from(number).unwrap());
            Arc::new(Job::new(id, Namespace::default(), name, Arc::clone(&definition), NOW))
        };
        (0..count).map(job).collect()
    }

    /// The size of the sample, and the fires of the first two hours.
    fn count(jobs: usize) -> (Option<usize>, Vec<u64>) {
        let sample = Sample::of(hourly(jobs));
        let buckets = Buckets { from: NOW, length: HOUR, count: 2 };
        let (answer, exact) = Answer { buckets, by_bucket: BTreeMap::new() }.with_coming(&sample, NOW);
        assert!(exact, "each job of the sample is counted");
        (sample.size(), answer.by_bucket.into_values().map(|bucket| bucket.finish().fires).collect())
    }

    #[test]
    fn up_to_five_thousand_jobs_are_counted_exactly() {
        let (size, fires) = count(EXACT_MAX);
        assert_eq!((size, fires.last()), (None, Some(&5000)));
    }

    #[test]
    fn more_jobs_are_estimated_from_a_sample() {
        let (size, fires) = count(5999);
        assert_eq!((size, fires.last()), (Some(SAMPLE), Some(&5999)));
    }

    #[test]
    fn a_sample_is_taken_evenly_over_all_names() {
        let sample = Sample::of(hourly(7000));
        let numbers: Vec<i64> = sample.jobs.iter().map(|job| job.id.0).collect();
        assert_eq!((numbers[0], numbers[1], numbers[SAMPLE - 1]), (0, 7, 6993));
    }
}
