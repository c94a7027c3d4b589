//! The witness: it sees every commit land, every answer and every order leave, and knows what may never be seen.
//!
//! It judges by the store alone. What memory believes is no evidence.

use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::attempt::{Assignment, Order};
use punctual_core::change::{Batch, Change, Row};
use punctual_core::command::Answer;
use punctual_core::ids::{JobId, RunId, Token};
use punctual_core::job::Overlap;
use punctual_core::run::{Run, State, Status, Trigger};
use rustc_hash::{FxHashMap, FxHashSet};

#[derive(Debug, Default)]
pub(crate) struct Witness {
    runs: FxHashMap<RunId, Arc<Run>>,
    fires: FxHashMap<(JobId, Timestamp), RunId>,
    started: FxHashSet<(RunId, Token)>,
    starts: FxHashMap<RunId, u32>,
    /// Runs whose submit was answered: they must exist, and in the end have ended.
    pub(crate) acknowledged: Vec<RunId>,
    pub(crate) seen: Seen,
}

/// What a simulation went through: a quiet one proves nothing.
#[derive(Debug, Default, Clone, Copy)]
pub struct Seen {
    pub commits: u64,
    pub fires: u64,
    pub starts: u64,
    pub answers: u64,
    pub crashes: u64,
    pub failed_commits: u64,
    pub unknown_commits: u64,
    pub lost_messages: u64,
    pub clock_steps: u64,
    pub reloads: u64,
    pub skips: u64,
    pub ended: u64,
}

type Verdict = Result<(), String>;

impl Witness {
    /// A batch has landed in the store.
    pub(crate) fn landed(&mut self, batch: &Batch) -> Verdict {
        self.seen.commits += 1;
        for (_, change) in batch.changes.iter() {
            match change {
                Change::Insert(Row::Run(run)) => self.born(run)?,
                Change::Update(Row::Run(run)) => self.moved(run)?,
                Change::Insert(Row::History(run)) => self.ended(run)?,
                Change::Insert(Row::Skip(_)) => self.seen.skips += 1,
                _ => {}
            }
        }
        Ok(())
    }

    fn born(&mut self, run: &Arc<Run>) -> Verdict {
        if self.runs.contains_key(&run.id) {
            return Err(format!("run {} was born twice", run.id));
        }
        self.fire(run)?;
        self.check_entries(None, run)?;
        self.runs.insert(run.id, Arc::clone(run));
        Ok(())
    }

    fn fire(&mut self, run: &Arc<Run>) -> Verdict {
        let (Some(job), Trigger::Schedule | Trigger::Misfire) = (run.job(), run.trigger) else { return Ok(()) };
        self.seen.fires += 1;
        match self.fires.insert((job, run.due), run.id) {
            Some(first) => Err(format!("never twice: {job} at {} has runs {first} and {}", run.due, run.id)),
            None if run.created_at < run.due => Err(format!("never early: {} was made before {}", run.id, run.due)),
            None => Ok(()),
        }
    }

    fn moved(&mut self, run: &Arc<Run>) -> Verdict {
        let before = self.runs.get(&run.id).cloned();
        let Some(before) = before else { return Err(format!("run {} moved before it was born", run.id)) };
        self.check_entries(Some(&before), run)?;
        self.runs.insert(run.id, Arc::clone(run));
        Ok(())
    }

    fn ended(&mut self, run: &Arc<Run>) -> Verdict {
        self.seen.ended += 1;
        let before = self.runs.get(&run.id).cloned();
        match &before {
            Some(before) if before.status().is_terminal() => return Err(format!("run {} ended twice", run.id)),
            Some(before) => self.check_entries(Some(before), run)?,
            None => {
                self.fire(run)?;
                self.check_entries(None, run)?;
            }
        }
        if !run.status().is_terminal() {
            return Err(format!("run {} is in the history as {}", run.id, run.status()));
        }
        self.runs.insert(run.id, Arc::clone(run));
        Ok(())
    }

    /// History only grows: what was committed of a run is the beginning of what is committed next.
    fn check_entries(&self, before: Option<&Arc<Run>>, run: &Run) -> Verdict {
        let old = before.map_or(&[][..], |before| &before.entries);
        if run.entries.len() < old.len() || run.entries[..old.len()] != *old {
            return Err(format!("run {}: its entries were rewritten", run.id));
        }
        let early = run.entries.iter().find(|entry| entry.to == Status::Running && entry.at < run.due);
        match early {
            Some(entry) => Err(format!("never early: run {} due {} was running at {}", run.id, run.due, entry.at)),
            None => Ok(()),
        }
    }

    /// An order leaves for a worker: it must be true in the store by now.
    pub(crate) fn ordered(&self, order: &Order) -> Verdict {
        match order {
            Order::Assign(Assignment { run, token, .. }) => match self.runs.get(run).map(|run| &run.state) {
                Some(State::Running { token: stored, .. }) if stored == token => Ok(()),
                other => Err(format!("run {run} was assigned under {token}, but the store says {other:?}")),
            },
            Order::Acknowledge { run, token } => match self.runs.get(run) {
                Some(stored) if matches!(stored.state, State::Running { token: held, .. } if held == *token) => {
                    Err(format!("the outcome of run {run} was acknowledged before it was committed"))
                }
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// A worker begins an attempt.
    pub(crate) fn started(&mut self, assignment: &Assignment, now: Timestamp) -> Verdict {
        self.seen.starts += 1;
        let run = assignment.run;
        if now < assignment.due {
            return Err(format!("never early: run {run} due {} started at {now}", assignment.due));
        }
        if !self.started.insert((run, assignment.token)) {
            return Err(format!("run {run} was started twice under token {}", assignment.token));
        }
        let starts = self.starts.entry(run).or_insert(0);
        *starts += 1;
        if assignment.definition.at_most_once && *starts > 1 {
            return Err(format!("at most once: run {run} started {starts} times"));
        }
        Ok(())
    }

    /// An answer leaves for a door.
    pub(crate) fn answered(&mut self, answer: &Answer) -> Verdict {
        self.seen.answers += 1;
        let run = match answer {
            Answer::Run(run) => run.id,
            Answer::Existing(run) => *run,
            _ => return Ok(()),
        };
        if !self.runs.contains_key(&run) {
            return Err(format!("run {run} was acknowledged before it was committed"));
        }
        self.acknowledged.push(run);
        Ok(())
    }

    /// At no moment does the store hold two running attempts of a job that forbids it.
    pub(crate) fn overlap(&self, policy: impl Fn(JobId) -> Option<Overlap>) -> Verdict {
        let mut running: FxHashMap<JobId, RunId> = FxHashMap::default();
        for run in self.runs.values().filter(|run| run.status() == Status::Running) {
            let Some(job) = run.job() else { continue };
            if policy(job).is_some_and(|policy| policy != Overlap::Allow)
                && let Some(other) = running.insert(job, run.id)
            {
                return Err(format!("overlap: runs {other} and {} of job {job} run at once", run.id));
            }
        }
        Ok(())
    }

    pub(crate) fn status(&self, run: RunId) -> Option<Status> {
        self.runs.get(&run).map(|run| run.status())
    }

    pub(crate) fn known_runs(&self) -> Vec<RunId> {
        let mut ids: Vec<RunId> = self.runs.keys().copied().collect();
        ids.sort_unstable();
        ids
    }
}
