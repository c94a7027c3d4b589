//! Checks after the storm: first that every job has caught up, then that every run has ended.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use punctual_core::command::{ActOnSteps, Command, StepsAct};
use punctual_core::hash;
use punctual_core::ids::{JobId, RunId};
use punctual_core::name::Namespace;
use punctual_core::run::Run;
use punctual_core::search::Search;
use punctual_node::Driver;
use punctual_store::{JobFilter, LetterFilter, Reads, RunFilter};
use punctual_verify::{History, Options};

use super::faults::AD_HOC_KEPT;
use super::{World, at_once};
use crate::witness::{Statistics, Verdict};
use crate::workload;

/// Rows on one page of a listing.
const PAGE: usize = 500;
/// A fire happens at most this long after its due time, including jitter.
const FIRED_WITHIN: Duration = Duration::from_secs(8);

impl World {
    /// After the calm, no job has a missed fire: the next due time of every job is in the future.
    pub(crate) fn check_caught_up(&mut self) {
        if self.broken.is_none() {
            let verdict = self.caught_up();
            self.witnessed(verdict);
        }
    }

    fn caught_up(&self) -> Verdict {
        if !self.is_ready() {
            return Err(self.unready());
        }
        let now = self.engine_time();
        let jobs = at_once(self.store.jobs(&JobFilter::default(), None, 1000)).unwrap_or_default();
        let late = jobs.iter().find(|job| job.cursor.wake_at.is_some_and(|at| at + FIRED_WITHIN < now));
        if let Some(job) = late {
            let wake = job.cursor.wake_at.unwrap_or_default();
            return Err(format!(
                "never lost: job {} was due at {wake}, it is {now} and nothing fired",
                job.name
            ));
        }
        let fired_through = Some(now.before(FIRED_WITHIN));
        self.verify(&Options {
            fired_through,
            still: true,
            may_be_empty: true,
            ad_hoc_kept: AD_HOC_KEPT,
            ..Options::default()
        })
    }

    /// Pauses all jobs and resumes all workflows, so that every run can end.
    pub(crate) fn pause_all(&mut self) {
        for run in self.witness.paused_workflows() {
            let (namespace, act) = (Namespace::default(), StepsAct::Resume);
            let resume = ActOnSteps { namespace, run, act, by: None, comment: Box::default() };
            self.ask(Command::ActOnSteps(resume));
        }
        for index in 0..self.weather.names {
            let name = workload::name(index);
            let (namespace, reason) = (Namespace::default(), Box::default());
            self.ask(Command::PauseJob { namespace, name, reason, by: None, until: None });
        }
    }

    /// Cancels backfills. If a clock was set forward during a hold, the backfill that makes up for its fires has thousands of
    /// child runs.
    pub(crate) fn cancel_backfills(&mut self) {
        for run in self.runs_of_store() {
            if run.is_backfill() && !run.status().is_terminal() {
                let (namespace, run, comment) = (Namespace::default(), run.id, "the test ends".into());
                self.ask(Command::CancelRun { namespace, run, now: false, by: None, comment });
            }
        }
    }

    pub(crate) fn check_at_rest(&mut self) {
        if self.broken.is_none() {
            let verdict = self.at_rest();
            self.witnessed(verdict);
        }
        let reloads: u64 = self.drivers().map(|driver| driver.counts().reloads).sum();
        self.witness.seen.reloads += reloads;
    }

    fn at_rest(&self) -> Verdict {
        self.witness.at_rest(self.reached)?;
        let letters =
            at_once(self.store.dead_letters(&LetterFilter::default(), None, usize::MAX)).unwrap_or_default();
        self.witness.dead_letters.listed_as(letters.iter().map(|letter| letter.run))?;
        let options = Options {
            ended_through: Some(self.engine_time()),
            still: true,
            may_be_empty: true,
            ad_hoc_kept: AD_HOC_KEPT,
            ..Options::default()
        };
        self.verify(&options)?;
        self.statistics_add_up()?;
        self.index_is_whole()?;
        self.no_approval_waits()?;
        self.nothing_left_in_memory()
    }

    /// Every workflow has ended, so none of its steps is listed as waiting.
    fn no_approval_waits(&self) -> Verdict {
        let waiting = at_once(self.store.approvals(None, None, usize::MAX)).unwrap_or_default();
        match waiting.first() {
            Some(approval) => Err(format!("run {} has ended, and an approval of it waits", approval.key.run)),
            None => Ok(()),
        }
    }

    fn statistics_add_up(&self) -> Verdict {
        for (filter, counted) in self.witness.statistics.expected(self.reached) {
            let stored = at_once(self.store.statistics(&filter)).unwrap_or_default();
            Statistics::compare(&filter, &counted, &stored)?;
        }
        Ok(())
    }

    /// A search for any term finds the runs that have a term with this beginning, and no others.
    fn index_is_whole(&self) -> Verdict {
        let mut runs_of: BTreeMap<Arc<str>, BTreeSet<RunId>> = BTreeMap::new();
        for run in self.runs_of_store() {
            let terms =
                self.witness.terms_of(&run).ok_or_else(|| format!("run {} has no definition", run.id))?;
            for term in terms {
                runs_of.entry(term).or_default().insert(run.id);
            }
        }
        for term in runs_of.keys() {
            let Ok(search) = Search::parse(term) else { continue };
            let with_beginning =
                runs_of.range(Arc::clone(term)..).take_while(|(other, _)| other.starts_with(&**term));
            let expected: BTreeSet<RunId> =
                with_beginning.flat_map(|(_, runs)| runs.iter().copied()).collect();
            let filter = RunFilter {
                namespace: Some(Namespace::default()),
                search: Some(search),
                ..RunFilter::default()
            };
            let found = at_once(self.store.runs(&filter, None, usize::MAX)).unwrap_or_default();
            let found: BTreeSet<RunId> = found.iter().map(|run| run.id).collect();
            if let Some(run) = expected.symmetric_difference(&found).next() {
                return Err(format!(
                    "search for `{term}`: run {run} is found and has no such term, or the reverse"
                ));
            }
        }
        Ok(())
    }

    /// Every run has ended, so none has a slot, an entry in the ready queue or an entry in memory.
    fn nothing_left_in_memory(&self) -> Verdict {
        for pool in self.drivers().map(Driver::pool) {
            let (live, ready, held) = (pool.live_runs(), pool.ready_runs(), pool.roster().attempts_held());
            if (live, ready, held) != (0, 0, 0) {
                return Err(format!(
                    "all runs have ended, and memory holds {live} of them, {ready} in the ready queue and {held} with workers"
                ));
            }
        }
        Ok(())
    }

    fn unready(&self) -> String {
        let led: Vec<String> = self
            .nodes
            .iter()
            .map(|node| match &node.driver {
                Some(driver) if driver.is_ready() => format!("{} leads {}", node.index, driver.shards_led()),
                Some(driver) => {
                    format!("node {} leads {} shards and is not ready", node.index, driver.shards_led())
                }
                None => format!("node {} is not running", node.index),
            })
            .collect();
        format!("the cluster did not recover by itself: {}", led.join(", "))
    }

    fn verify(&self, options: &Options) -> Verdict {
        let report = self.history().check(options);
        if report.is_ok() { Ok(()) } else { Err(report.to_string()) }
    }

    fn history(&self) -> History {
        let mut history = History::new();
        for run in self.runs_of_store() {
            history.add_run(&run);
            if run.has_begun_steps()
                && let Ok(Some(record)) = at_once(self.store.run(&run.namespace, run.id))
                && let Some(workflow) = run.workflow(&record.definition)
            {
                let rows = at_once(self.store.steps(run.id, None, usize::MAX)).unwrap_or_default();
                history.add_workflow(run.id, workflow, rows.iter().map(|row| &**row));
            }
        }
        for job in at_once(self.store.jobs(&JobFilter::default(), None, 1000)).unwrap_or_default() {
            for revision in 1..=job.revision {
                if let Ok(Some(revision)) = at_once(self.store.revision(job.id, revision)) {
                    history.add_revision(&revision);
                }
            }
            history.add_job(&job);
            self.add_skips(&mut history, job.id);
        }
        for gone in at_once(self.store.deleted_jobs(None, None, 10_000)).unwrap_or_default() {
            let revisions = at_once(self.store.revisions(gone.id, None, 10_000)).unwrap_or_default();
            if let (Some(last), Some(first)) = (revisions.first(), revisions.last()) {
                history.add_deleted_job(&gone.as_job(first, last));
            }
            revisions.iter().for_each(|revision| history.add_revision(revision));
            self.add_skips(&mut history, gone.id);
        }
        history
    }

    fn add_skips(&self, history: &mut History, job: JobId) {
        let mut before = None;
        loop {
            let skips = at_once(self.store.skips(job, before, PAGE)).unwrap_or_default();
            let Some(last) = skips.last() else { return };
            before = Some((last.revision, last.from));
            skips.iter().for_each(|skip| history.add_skip(skip));
        }
    }

    fn runs_of_store(&self) -> Vec<Arc<Run>> {
        let filter = RunFilter { oldest_first: true, ..RunFilter::default() };
        let mut all = Vec::new();
        loop {
            let after = all.last().map(|run: &Arc<Run>| run.id);
            let runs = at_once(self.store.runs(&filter, after, PAGE)).unwrap_or_default();
            if runs.is_empty() {
                return all;
            }
            all.extend(runs);
        }
    }

    /// A hash of the store and of all counts.
    pub(crate) fn digest(&self) -> u64 {
        let text = format!("{:?} {:?}", self.witness.seen, self.runs_of_store());
        hash::stable(&[text.as_bytes()])
    }
}
