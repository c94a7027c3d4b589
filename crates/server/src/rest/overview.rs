//! The state of the whole cluster, or of one namespace, in one answer.
//!
//! Jobs are read page by page, so their part is kept for a few seconds: many open pages cost one read.

use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use parking_lot::Mutex;
use punctual_core::Timestamp;
use punctual_core::job::{Job, Pause};
use punctual_core::limits::PAGE_MAX;
use punctual_core::name::{Name, Namespace};
use punctual_core::run::Status;
use punctual_core::statistics::{Counts, Period};
use punctual_store::{Children, JobFilter, RunFilter, StatisticsFilter, StatisticsOf};
use punctual_wire::Text;
use punctual_wire::rest::{
    Attention, AttentionKind, HourCounts, JobCounts, JobState, LiveCounts, MinuteCounts, NextFire,
    NodeCounts, Overview, Percentiles, WorkerCounts,
};
use serde::Deserialize;
use tokio::time::Instant;

use super::attention;
use super::problem::Failed;
use super::request::{Asked, namespace};
use super::runs::COUNT_MAX;
use crate::Endpoints;

const MINUTE: Duration = Duration::from_secs(60);
const MINUTES: u32 = 60;
/// Jobs that are counted; the answer says if there are more.
const JOBS_MAX: usize = 20_000;
/// The next fires in the answer.
const NEXT_MAX: usize = 20;
/// How long the part about jobs is kept.
const FRESH: Duration = Duration::from_secs(5);
/// Namespaces whose part is kept.
const KEPT_MAX: usize = 64;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Query {
    namespace: Option<String>,
}

pub(crate) async fn show(
    State(endpoints): State<Endpoints>,
    Asked(query): Asked<Query>,
) -> Result<Json<Overview>, Failed> {
    let namespace = query.namespace.as_deref().map(namespace).transpose()?;
    let now = endpoints.clock.now();
    let jobs = endpoints.job_summary(namespace.as_ref()).await?;
    let counts = minute_counts(&endpoints, namespace.clone(), now).await?;
    let hour = counts.values().fold(Counts::default(), |mut hour, counts| {
        hour.add(counts);
        hour
    });
    let (nodes, workers) = endpoints.cluster().await;
    let alive = nodes.iter().filter(|node| node.lost_at.is_none()).count();
    let attention = attention::list(&endpoints, namespace.as_ref(), &jobs.paused, &nodes).await?;
    Ok(Json(Overview {
        at: Text(now),
        nodes: NodeCounts { alive, lost: nodes.len() - alive },
        workers: WorkerCounts {
            alive: workers.iter().filter(|worker| !worker.lost).count(),
            lost: workers.iter().filter(|worker| worker.lost).count(),
            slots: workers.iter().filter(|worker| !worker.lost).map(|worker| worker.slots).sum(),
            busy: workers.iter().map(|worker| worker.busy).sum(),
        },
        jobs: jobs.counts,
        runs: live_counts(&endpoints, namespace).await?,
        last_hour: HourCounts {
            fires: hour.fires,
            succeeded: hour.succeeded,
            failed: hour.failed + hour.timed_out,
            skipped: hour.skipped,
            late_ms: Percentiles::of(&hour.late),
        },
        minutes: minutes(&counts, now),
        attention,
        next: jobs.next.clone(),
    }))
}

/// The counts of the last hour by minute.
async fn minute_counts(
    endpoints: &Endpoints,
    namespace: Option<Namespace>,
    now: Timestamp,
) -> Result<BTreeMap<Timestamp, Counts>, Failed> {
    let of = match namespace {
        Some(namespace) => StatisticsOf::Namespace(namespace, Period::Minute),
        None => StatisticsOf::All(Period::Minute),
    };
    let filter = StatisticsFilter { of, since: first_minute(now), until: now + MINUTE };
    let mut by_minute: BTreeMap<Timestamp, Counts> = BTreeMap::new();
    for (at, counts) in endpoints.handle.reads().statistics(&filter).await? {
        by_minute.entry(at).or_default().add(&counts);
    }
    Ok(by_minute)
}

/// The current minute is the last of the hour.
fn first_minute(now: Timestamp) -> Timestamp {
    Period::Minute.bucket_of(now).before(MINUTE * (MINUTES - 1))
}

fn minutes(counts: &BTreeMap<Timestamp, Counts>, now: Timestamp) -> Vec<MinuteCounts> {
    let first = first_minute(now);
    let minute = |index: u32| {
        let at = first + MINUTE * index;
        let counts = counts.get(&at);
        MinuteCounts {
            at: Text(at),
            fires: counts.map_or(0, |counts| counts.fires),
            failed: counts.map_or(0, |counts| counts.failed + counts.timed_out),
        }
    };
    (0..MINUTES).map(minute).collect()
}

async fn live_counts(endpoints: &Endpoints, namespace: Option<Namespace>) -> Result<LiveCounts, Failed> {
    let statuses = vec![Status::Waiting, Status::Ready, Status::Running];
    let filter = RunFilter { namespace, statuses, children: Children::LeftOut, ..RunFilter::default() };
    let mut told = LiveCounts::default();
    for count in endpoints.handle.reads().count_runs(&filter, COUNT_MAX).await? {
        match count.status {
            Status::Waiting => told.waiting = count.runs,
            Status::Ready => told.ready = count.runs,
            _ => told.running = count.runs,
        }
        told.capped |= !count.complete;
    }
    Ok(told)
}

/// The part of the overview that is read from jobs.
#[derive(Debug, Default)]
pub(crate) struct JobSummary {
    counts: JobCounts,
    /// Paused jobs, as far as the answer has room for them.
    paused: Vec<(Namespace, Name, Pause)>,
    next: Vec<NextFire>,
}

/// The parts that were read last, by namespace.
#[derive(Debug, Default)]
pub(crate) struct Summaries(Mutex<HashMap<Option<Namespace>, Summarised>>);

/// When a summary was made, and the summary.
type Summarised = (Instant, Arc<JobSummary>);

impl Endpoints {
    async fn job_summary(&self, namespace: Option<&Namespace>) -> Result<Arc<JobSummary>, Failed> {
        let key = namespace.cloned();
        let kept = self.summaries.0.lock().get(&key).cloned();
        if let Some((at, summary)) = kept
            && at.elapsed() < FRESH
        {
            return Ok(summary);
        }
        let summary = Arc::new(summarised(self, namespace).await?);
        let mut kept = self.summaries.0.lock();
        if kept.len() >= KEPT_MAX {
            kept.retain(|_, (at, _)| at.elapsed() < FRESH);
        }
        if kept.len() < KEPT_MAX {
            kept.insert(key, (Instant::now(), Arc::clone(&summary)));
        }
        Ok(summary)
    }
}

async fn summarised(endpoints: &Endpoints, namespace: Option<&Namespace>) -> Result<JobSummary, Failed> {
    let mut summary = JobSummary::default();
    // The latest of the next fires is on top, so that it is replaced by an earlier one.
    let mut next: BinaryHeap<(Timestamp, Namespace, Name)> = BinaryHeap::new();
    summary.counts.capped = each_job(endpoints, namespace, JOBS_MAX, |job| {
        match JobState::of(job) {
            JobState::Active => summary.counts.active += 1,
            JobState::Finished => summary.counts.finished += 1,
            JobState::Paused => {
                summary.counts.paused += 1;
                if let Some(pause) = job.pause.as_deref().filter(|_| summary.paused.len() < attention::MAX) {
                    summary.paused.push((job.namespace.clone(), job.name.clone(), pause.clone()));
                }
            }
        }
        if let Some(due) = job.cursor.next_due {
            next.push((due, job.namespace.clone(), job.name.clone()));
            if next.len() > NEXT_MAX {
                next.pop();
            }
        }
    })
    .await?;
    let fire = |(due, namespace, job)| NextFire { namespace, job, due_at: Text(due) };
    summary.next = next.into_sorted_vec().into_iter().map(fire).collect();
    Ok(summary)
}

/// Reads jobs by name, at most `max`. True means that there are more.
pub(crate) async fn each_job(
    endpoints: &Endpoints,
    namespace: Option<&Namespace>,
    max: usize,
    mut seen: impl FnMut(&Arc<Job>),
) -> Result<bool, Failed> {
    let filter = JobFilter { namespace: namespace.cloned(), calendar: None };
    let (mut after, mut count) = (None, 0);
    loop {
        let jobs = endpoints.handle.reads().jobs(&filter, after, PAGE_MAX).await?;
        jobs.iter().take(max - count).for_each(&mut seen);
        count += jobs.len();
        match jobs.last() {
            Some(last) if jobs.len() == PAGE_MAX && count < max => {
                after = Some((last.namespace.clone(), last.name.clone()));
            }
            _ => return Ok(count > max || (count == max && jobs.len() == PAGE_MAX)),
        }
    }
}

/// An entry of the list of things that need a person.
pub(super) fn entry(kind: AttentionKind, subject: Option<String>, message: impl Into<String>) -> Attention {
    Attention { kind, namespace: None, subject, run: None, count: 1, since: None, message: message.into() }
}
