//! Readers: each answer comes from one snapshot, while the writer goes on.

use std::sync::Arc;

use punctual_core::change::RunRecord;
use punctual_core::ids::{JobId, RunId};
use punctual_core::job::{Definition, Job};
use punctual_core::run::{Origin, Run};
use rusqlite::{Connection, OptionalExtension, Params, Row};
use rustc_hash::FxHashMap;

use super::failure::{Failure, Health, Moment};
use super::transaction::step;
use super::young::{Guard, Shared};
use super::{queries, rows};
use crate::definitions::Definitions;
use crate::{Result, place, refusal};

pub(super) struct Reader {
    connection: Connection,
    health: Arc<Health>,
    definitions: Definitions,
}

impl Reader {
    pub(super) fn new(connection: Connection, health: Arc<Health>) -> Reader {
        Reader { connection, health, definitions: Definitions::default() }
    }

    pub(super) fn read<T>(
        &mut self,
        work: impl FnOnce(&mut Snapshot<'_>) -> Result<T, Failure>,
    ) -> Result<T> {
        let Reader { connection, health, definitions } = self;
        let result = step(connection, queries::BEGIN_READING).and_then(|()| {
            let mut snapshot = Snapshot {
                connection,
                definitions,
                jobs: FxHashMap::default(),
                revisions: FxHashMap::default(),
            };
            work(&mut snapshot)
        });
        if !connection.is_autocommit()
            && let Err(failure) = step(connection, queries::ROLLBACK)
        {
            tracing::warn!(?failure, "a snapshot could not be let go");
        }
        result.map_err(|failure| health.judge(failure, Moment::Reading))
    }

    /// Like `read`, with the young messages as of the same commit.
    pub(super) fn read_with<T>(
        &mut self,
        young: &Shared,
        work: impl FnOnce(&mut Snapshot<'_>, Guard<'_>) -> Result<T, Failure>,
    ) -> Result<T> {
        self.read(|snapshot| {
            let young = young.read();
            snapshot.exists(queries::PIN, [])?;
            work(snapshot, young)
        })
    }
}

/// The store as of one commit. Jobs and definitions that runs share are read once.
pub(super) struct Snapshot<'c> {
    pub(super) connection: &'c Connection,
    pub(super) definitions: &'c mut Definitions,
    jobs: FxHashMap<JobId, Option<Arc<Job>>>,
    revisions: FxHashMap<(JobId, u32), Arc<Definition>>,
}

impl Snapshot<'_> {
    pub(super) fn exists(&self, sql: &str, params: impl Params) -> Result<bool, Failure> {
        Ok(self.connection.prepare_cached(sql)?.exists(params)?)
    }

    /// The only row of a query. `None` means it has no row.
    pub(super) fn one<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T, Failure>,
    ) -> Result<Option<T>, Failure> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let found = statement.query_row(params, |row| Ok(read(row))).optional()?;
        found.transpose()
    }

    /// All rows of a query.
    pub(super) fn all<T>(
        &self,
        sql: &str,
        params: impl Params,
        mut read: impl FnMut(&Row<'_>) -> Result<T, Failure>,
    ) -> Result<Vec<T>, Failure> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query(params)?;
        let mut all = Vec::new();
        while let Some(row) = rows.next()? {
            all.push(read(row)?);
        }
        Ok(all)
    }

    pub(super) fn job(&mut self, id: JobId) -> Result<Option<Arc<Job>>, Failure> {
        if let Some(known) = self.jobs.get(&id) {
            return Ok(known.clone());
        }
        let mut statement = self.connection.prepare_cached(queries::jobs::GET)?;
        let found = statement.query_row([id.0], |row| Ok(rows::job(row, self.definitions))).optional()?;
        let job = found.transpose()?;
        self.jobs.insert(id, job.clone());
        Ok(job)
    }

    /// A live run or a finished one.
    pub(super) fn run(&mut self, id: RunId) -> Result<Option<RunRecord>, Failure> {
        if let Some(run) = self.one(queries::runs::GET, [place::of(id)], |row| rows::run(row, 0))? {
            return self.record(run, false).map(Some);
        }
        match self.one(queries::history::GET, [id.0], |row| rows::run(row, 0))? {
            Some(run) => {
                let dead_letter = self.exists(queries::dead_letters::EXISTS, [id.0])?;
                self.record(run, dead_letter).map(Some)
            }
            None => Ok(None),
        }
    }

    pub(super) fn record(&mut self, run: Arc<Run>, dead_letter: bool) -> Result<RunRecord, Failure> {
        let job = match run.job() {
            Some(id) => self.job(id)?,
            None => None,
        };
        let definition = self.definition(&run, job.as_deref())?;
        Ok(RunRecord { run, definition, job, dead_letter })
    }

    /// The definition of a run: its own if it is ad hoc, else its job's current one or an earlier revision.
    fn definition(&mut self, run: &Run, job: Option<&Job>) -> Result<Arc<Definition>, Failure> {
        let (id, revision) = match &run.origin {
            Origin::AdHoc(definition) => return Ok(Arc::clone(definition)),
            Origin::Job { id, revision, .. } => (*id, *revision),
        };
        if let Some(job) = job.filter(|job| job.revision == revision) {
            return Ok(Arc::clone(&job.definition));
        }
        if let Some(known) = self.revisions.get(&(id, revision)) {
            return Ok(Arc::clone(known));
        }
        let mut statement = self.connection.prepare_cached(queries::revisions::GET)?;
        let mut found = statement.query((id.0, revision))?;
        let row = found.next()?.ok_or_else(|| refusal::no_revision(run.id, id, revision))?;
        let definition = self.definitions.read(rows::text(row, 1)?)?;
        self.revisions.insert((id, revision), Arc::clone(&definition));
        Ok(definition)
    }
}
