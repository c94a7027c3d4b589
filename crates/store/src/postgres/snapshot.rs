//! Reads of several statements from one snapshot.

use std::sync::Arc;

use parking_lot::Mutex;
use punctual_core::change::RunRecord;
use punctual_core::ids::{JobId, RunId};
use punctual_core::job::{Definition, Job};
use punctual_core::run::{Origin, Run};
use rustc_hash::{FxHashMap, FxHashSet};
use tokio_postgres::Row;

use super::failure::Failure;
use super::link::{Ask, Link, ask};
use super::{queries, rows};
use crate::definitions::Definitions;
use crate::{Result, place, refusal};

/// The store as of one commit.
pub(super) struct Snapshot<'l> {
    link: &'l mut Link,
    definitions: &'l Mutex<Definitions>,
    has_begun: bool,
}

impl<'l> Snapshot<'l> {
    pub(super) fn new(link: &'l mut Link, definitions: &'l Mutex<Definitions>) -> Snapshot<'l> {
        Snapshot { link, definitions, has_begun: false }
    }

    /// Sends all asks at once and returns their answers in order.
    pub(super) async fn all(&mut self, mut asks: Vec<Ask>) -> Result<Vec<Vec<Row>>> {
        let begins = !std::mem::replace(&mut self.has_begun, true);
        if begins {
            asks.insert(0, ask!(queries::BEGIN_READING));
            self.link.prepare(asks.iter().map(|ask| ask.sql)).await.map_err(Failure::reading)?;
            self.link.is_busy = true;
        }
        let answers = self.link.ask_all(asks).await.map_err(Failure::reading)?;
        let mut all = Vec::with_capacity(answers.len());
        for answer in answers {
            all.push(answer.map_err(Failure::reading)?.rows);
        }
        Ok(all.into_iter().skip(usize::from(begins)).collect())
    }

    pub(super) async fn one(&mut self, ask: Ask) -> Result<Vec<Row>> {
        Ok(self.all(vec![ask]).await?.pop().unwrap_or_default())
    }

    /// Ends the snapshot and passes on its result. A snapshot that is dropped instead closes its connection.
    pub(super) async fn end<T>(self, result: Result<T>) -> Result<T> {
        if self.has_begun {
            let ended = self.link.ask(ask!(queries::COMMIT)).await;
            self.link.is_busy = ended.is_err();
        }
        result
    }

    pub(super) fn jobs(&self, found: &[Row]) -> Result<Vec<Arc<Job>>> {
        let mut definitions = self.definitions.lock();
        found.iter().map(|row| rows::job(row, &mut definitions)).collect()
    }

    /// Runs by id, live or finished; missing ones are left out. The flag says whether a run is a dead letter.
    pub(super) async fn runs(&mut self, ids: &[RunId]) -> Result<Vec<(Arc<Run>, bool)>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let places: Vec<i64> = ids.iter().map(|id| place::of(*id)).collect();
        let numbers: Vec<i64> = ids.iter().map(|id| id.0).collect();
        let asks = vec![ask!(queries::runs::GET, places), ask!(queries::history::GET, numbers)];
        let found = self.all(asks).await?;
        let mut runs = Vec::with_capacity(ids.len());
        for row in &found[0] {
            runs.push((rows::run(row, 0)?, false));
        }
        for row in &found[1] {
            runs.push((rows::run(row, 0)?, rows::get(row, 1)?));
        }
        Ok(runs)
    }

    /// A live run or a finished one.
    pub(super) async fn record(&mut self, run: RunId) -> Result<Option<RunRecord>> {
        let runs = self.runs(&[run]).await?;
        Ok(self.records(runs).await?.pop())
    }

    /// Adds the job and the definition to each run; those that several runs share are read once.
    pub(super) async fn records(&mut self, runs: Vec<(Arc<Run>, bool)>) -> Result<Vec<RunRecord>> {
        let jobs = self.jobs_of(&runs).await?;
        let definitions = self.earlier_definitions(&runs, &jobs).await?;
        let records = runs.into_iter().map(|(run, dead_letter)| {
            let job = run.job().and_then(|id| jobs.get(&id)).cloned();
            let definition = match &run.origin {
                Origin::AdHoc(definition) => Arc::clone(definition),
                Origin::Job { id, revision, .. } => match &job {
                    Some(job) if job.revision == *revision => Arc::clone(&job.definition),
                    _ => definitions
                        .get(&(*id, *revision))
                        .cloned()
                        .ok_or_else(|| refusal::no_revision(run.id, *id, *revision))?,
                },
            };
            Ok(RunRecord { run, definition, job, dead_letter })
        });
        records.collect()
    }

    async fn jobs_of(&mut self, runs: &[(Arc<Run>, bool)]) -> Result<FxHashMap<JobId, Arc<Job>>> {
        let ids: FxHashSet<JobId> = runs.iter().filter_map(|(run, _)| run.job()).collect();
        if ids.is_empty() {
            return Ok(FxHashMap::default());
        }
        let ids: Vec<i64> = ids.into_iter().map(|id| id.0).collect();
        let found = self.one(ask!(queries::jobs::BY_ID, ids)).await?;
        Ok(self.jobs(&found)?.into_iter().map(|job| (job.id, job)).collect())
    }

    /// The definitions of runs whose revision is not their job's current one.
    async fn earlier_definitions(
        &mut self,
        runs: &[(Arc<Run>, bool)],
        jobs: &FxHashMap<JobId, Arc<Job>>,
    ) -> Result<FxHashMap<(JobId, u32), Arc<Definition>>> {
        let wanted = runs.iter().filter_map(|(run, _)| match &run.origin {
            Origin::Job { id, revision, .. } => Some((*id, *revision)),
            Origin::AdHoc(_) => None,
        });
        let is_earlier =
            |(id, revision): &(JobId, u32)| jobs.get(id).is_none_or(|job| job.revision != *revision);
        let wanted: FxHashSet<(JobId, u32)> = wanted.filter(is_earlier).collect();
        if wanted.is_empty() {
            return Ok(FxHashMap::default());
        }
        let (ids, revisions): (Vec<i64>, Vec<i64>) =
            wanted.into_iter().map(|(id, revision)| (id.0, i64::from(revision))).unzip();
        let found = self.one(ask!(queries::revisions::GET, ids, revisions)).await?;
        let mut definitions = self.definitions.lock();
        let read = found.iter().map(|row| {
            let key = (JobId(rows::get(row, 0)?), rows::number(row, 1)?);
            Ok((key, definitions.read(rows::get(row, 3)?)?))
        });
        read.collect()
    }
}
