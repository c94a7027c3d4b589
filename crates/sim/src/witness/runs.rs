//! Checks runs: one run per fire, never early, one result, an event list that only grows, and no answer before its commit.

use std::collections::BTreeSet;
use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::attempt::{Assignment, Order};
use punctual_core::change::{Batch, Change, Row};
use punctual_core::command::Answer;
use punctual_core::ids::{JobId, RunId, ShardId, Token};
use punctual_core::run::{Entry, Run, State, Status, Trigger, What};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Seen, Verdict};
use crate::worker::step_of;

#[derive(Debug, Default)]
pub(crate) struct Runs {
    rows: FxHashMap<RunId, Arc<Run>>,
    live: BTreeSet<RunId>,
    fires: FxHashMap<(JobId, Timestamp), RunId>,
    started: FxHashSet<(RunId, Token)>,
    starts: FxHashMap<RunId, u32>,
    /// The newest step whose checkpoint a worker knows to be stored.
    saved: FxHashMap<RunId, u64>,
    /// Runs that were acknowledged to a client: they must exist, and end.
    acknowledged: BTreeSet<RunId>,
}

impl Runs {
    /// Checks the runs of a batch. Returns the new ones.
    pub(super) fn landed(&mut self, batch: &Batch, seen: &mut Seen) -> Result<Vec<Arc<Run>>, String> {
        let mut born = Vec::new();
        for (_, change) in batch.changes.iter() {
            let (run, ended) = match change {
                Change::Insert(Row::Run(run)) if self.rows.contains_key(&run.id) => {
                    return Err(format!("run {} was inserted twice", run.id));
                }
                Change::Insert(Row::Run(run)) | Change::Update(Row::Run(run)) => (run, false),
                Change::Insert(Row::History(run)) => (run, true),
                _ => continue,
            };
            let before = self.rows.get(&run.id).cloned();
            if let Change::Update(_) = change
                && before.is_none()
            {
                return Err(format!("run {} was updated before it was inserted", run.id));
            }
            if before.is_none() {
                self.fire(run, seen)?;
                born.push(Arc::clone(run));
            }
            if ended != run.status().is_terminal() {
                let place = if ended { "history" } else { "live rows" };
                return Err(format!("run {} is among the {place} as {}", run.id, run.status()));
            }
            self.moved(before.as_deref(), run, seen)?;
        }
        Ok(born)
    }

    fn fire(&mut self, run: &Run, seen: &mut Seen) -> Verdict {
        let (Some(job), Trigger::Schedule | Trigger::Misfire) = (run.job(), run.trigger) else {
            return Ok(());
        };
        seen.fires += 1;
        seen.misfires += u64::from(run.trigger == Trigger::Misfire);
        match self.fires.insert((job, run.due), run.id) {
            Some(first) => Err(format!("never twice: {job} at {} has runs {first} and {}", run.due, run.id)),
            None if run.created_at < run.due => {
                Err(format!("never early: {} was made before {}", run.id, run.due))
            }
            None => Ok(()),
        }
    }

    /// The events of a run only grow: its older row has the first events of its newer row.
    fn moved(&mut self, before: Option<&Run>, run: &Arc<Run>, seen: &mut Seen) -> Verdict {
        if before.is_some_and(|before| before.status().is_terminal()) {
            return Err(format!("one result: run {} had ended and ended again as {}", run.id, run.status()));
        }
        let old = before.map_or(&[][..], |before| &before.entries);
        if run.entries.len() < old.len() || run.entries[..old.len()] != *old {
            return Err(format!("run {}: its events were rewritten", run.id));
        }
        self.used_up(before, run)?;
        for entry in &run.entries[old.len()..] {
            seen.moves += u64::from(entry.what == What::Moved);
            if entry.to == Status::Running && entry.at < run.due {
                return Err(format!(
                    "never early: run {} due {} was running at {}",
                    run.id, run.due, entry.at
                ));
            }
            seen.held += u64::from(entry.what == What::Held);
            seen.lost_attempts += u64::from(entry.what == What::Lost);
            seen.retries += u64::from(entry.what == What::Failed);
        }
        // A parent has no attempt of its own: its result comes from its children. That of a step which starts another job comes
        // from there.
        let is_own = run.assignee.as_ref().is_some_and(|assignee| assignee.worker().is_some());
        if run.status() == Status::Succeeded && is_own && *run.output != *run.token.to_string() {
            let (newest, other) = (run.token, &run.output);
            return Err(format!(
                "one result: run {} has the result of attempt {other} instead of {newest}",
                run.id
            ));
        }
        if run.status().is_terminal() {
            seen.ended += 1;
            seen.timeouts += u64::from(run.status() == Status::TimedOut);
            self.live.remove(&run.id);
        } else {
            self.live.insert(run.id);
        }
        self.rows.insert(run.id, Arc::clone(run));
        Ok(())
    }

    /// A move and a yield use up neither an attempt nor a loss, and no event is recorded under an outdated token.
    fn used_up(&self, before: Option<&Run>, run: &Run) -> Verdict {
        let (entries, failures, losses) =
            before.map_or((0, 0, 0), |before| (before.entries.len(), before.failures, before.losses));
        let new = &run.entries[entries..];
        // The last loss of a run ends it, and a lost attempt that was timed out has failed.
        let is_use = |entry: &&Entry| matches!(entry.what, What::Failed | What::Ended | What::Lost);
        let used = new.iter().filter(is_use).count();
        if run.failures as usize > failures as usize + used || run.losses as usize > losses as usize + used {
            return Err(format!("move: run {} was moved, and that used up an attempt or a loss", run.id));
        }
        // The output of an attempt is its token, so here its worker has reported its end.
        let is_told = |token: Token| *run.output == *token.to_string();
        if let Some(entry) = new.iter().find(|entry| entry.what == What::Lost && is_told(entry.token)) {
            return Err(format!("yield: run {} counts attempt {} as lost", run.id, entry.token));
        }
        if !run.entries.is_sorted_by_key(|entry| entry.token) {
            return Err(format!("outdated token: run {} has an event of an earlier attempt", run.id));
        }
        Ok(())
    }

    pub(super) fn ordered(&self, order: &Order) -> Verdict {
        match order {
            Order::Assign(Assignment { run, token, .. }) => match self.rows.get(run).map(|run| &run.state) {
                Some(State::Running { token: stored, .. }) if stored == token => Ok(()),
                other => Err(format!("run {run} was assigned under {token}, but the store says {other:?}")),
            },
            Order::Acknowledge { run, token } => match self.rows.get(run) {
                Some(stored) if matches!(stored.state, State::Running { token: held, .. } if held == *token) => {
                    Err(format!("the outcome of run {run} was acknowledged before it was committed"))
                }
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    pub(super) fn started(&mut self, assignment: &Assignment, now: Timestamp) -> Verdict {
        let run = assignment.run;
        if now < assignment.due {
            return Err(format!("never early: run {run} due {} started at {now}", assignment.due));
        }
        if self.status(run) == Some(Status::Succeeded) {
            return Err(format!("no rerun after success: run {run} has succeeded but starts again"));
        }
        if !self.started.insert((run, assignment.token)) {
            return Err(format!("run {run} was started twice under token {}", assignment.token));
        }
        let starts = self.starts.entry(run).or_insert(0);
        *starts += 1;
        let (given, saved) = (step_of(assignment.checkpoint.as_deref()), self.saved.get(&run).copied());
        if saved.is_some_and(|saved| given < saved) {
            return Err(format!("checkpoint: run {run} starts after step {given}, and {saved:?} was stored"));
        }
        if assignment.definition.at_most_once && *starts > 1 {
            return Err(format!("at most once: run {run} started {starts} times"));
        }
        Ok(())
    }

    pub(super) fn saved(&mut self, run: RunId, step: u64) {
        let newest = self.saved.entry(run).or_insert(step);
        *newest = step.max(*newest);
    }

    pub(super) fn answered(&mut self, answer: &Answer) -> Verdict {
        let run = match answer {
            Answer::Run(run) => run.id,
            Answer::Existing(run) => *run,
            _ => return Ok(()),
        };
        if !self.rows.contains_key(&run) {
            return Err(format!("run {run} was acknowledged before it was committed"));
        }
        self.acknowledged.insert(run);
        Ok(())
    }

    pub(super) fn all_ended(&self) -> Verdict {
        match self.acknowledged.iter().find(|run| self.live.contains(run)) {
            Some(run) => {
                let status = self.status(*run);
                Err(format!("never lost: run {run} was acknowledged and is still {status:?}"))
            }
            None => Ok(()),
        }
    }

    pub(super) fn get(&self, run: RunId) -> Option<&Arc<Run>> {
        self.rows.get(&run)
    }

    pub(super) fn live(&self) -> impl Iterator<Item = &Arc<Run>> {
        self.live.iter().filter_map(|run| self.rows.get(run))
    }

    pub(super) fn live_of(&self, shard: ShardId) -> impl Iterator<Item = &Arc<Run>> {
        self.live().filter(move |run| run.shard() == shard)
    }

    pub(super) fn has_fired(&self, job: JobId, due: Timestamp) -> bool {
        self.fires.contains_key(&(job, due))
    }

    pub(crate) fn status(&self, run: RunId) -> Option<Status> {
        self.rows.get(&run).map(|run| run.status())
    }

    /// The newest runs, oldest first: the runs that users ask about.
    pub(crate) fn newest(&self, count: usize) -> Vec<RunId> {
        let mut ids: Vec<RunId> = self.rows.keys().copied().collect();
        ids.sort_unstable();
        ids.split_off(ids.len().saturating_sub(count))
    }
}

/// Whether a move of this attempt was asked for less than a second before its end was recorded, by the same node. Another
/// node may have lost the worker before it became the leader.
pub(super) fn was_just_moved(run: &Run, token: Token) -> bool {
    let at = |what| run.entries.iter().position(|entry| entry.token == token && entry.what == what);
    let Some((asked, ended)) = at(What::MoveAsked).zip(at(What::Moved)) else { return false };
    let writer = |place: usize| run.signed.iter().rfind(|(from, _)| *from as usize <= place);
    let entries = &run.entries;
    entries[ended].at.since(entries[asked].at).as_secs() == 0 && writer(asked) == writer(ended)
}
