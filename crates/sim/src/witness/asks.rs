//! Checks answers: an acknowledged command is durable, a refused one has no effect, one command has one effect, and a
//! cancel is final.

use std::collections::BTreeMap;
use std::sync::Arc;

use punctual_core::change::{Batch, Change, Revision, Row};
use punctual_core::command::{Answer, Command, PutJob, Refusal, RetryRun, RunJob, Submit};
use punctual_core::ids::{RunId, Token};
use punctual_core::run::{Origin, Run, Status};
use punctual_core::workflow::RetryFrom;
use punctual_engine::Ticket;
use rustc_hash::{FxHashMap, FxHashSet};

use super::dead_letters::DeadLetters;
use super::runs::Runs;
use super::{Seen, Verdict};
use crate::workload::tag;

#[derive(Debug, Default)]
pub(crate) struct Asks {
    waiting: FxHashMap<Ticket, Command>,
    /// The run that a command made, by the command's tag.
    made: FxHashMap<Arc<str>, RunId>,
    /// Tags of the definitions that were stored as a revision.
    revised: FxHashSet<Arc<str>>,
    refused: FxHashSet<Arc<str>>,
    /// Tags of commands that were sent again unmodified with another ticket.
    repeated: FxHashSet<Arc<str>>,
    /// Runs whose cancel was acknowledged, with their newest token at that time.
    cancelled: BTreeMap<RunId, Token>,
    /// Dead letters that a user has asked to discard or to retry.
    decided: FxHashSet<RunId>,
    /// Where retries of workflows begin, by the tag of the command.
    retries: FxHashMap<Arc<str>, RetryFrom>,
}

impl Asks {
    pub(super) fn asked(&mut self, ticket: Ticket, command: &Command) {
        if let Command::DiscardDeadLetter { run, .. } | Command::RetryRun(RetryRun { run, .. }) = command {
            self.decided.insert(*run);
        }
        if let (Command::RetryRun(RetryRun { from: Some(from), .. }), Some(tag)) =
            (command, tag_asked(command))
        {
            self.retries.insert(tag, from.clone());
        }
        if let Some(tag) = tag_asked(command).filter(|asked| **asked != *tag(ticket)) {
            self.repeated.insert(tag);
        }
        self.waiting.insert(ticket, command.clone());
    }

    /// Where a retry begins. `None` means that the run is no retry from steps.
    pub(super) fn retry_from(&self, run: &Run) -> Option<&RetryFrom> {
        run.retry_of.and(tag_of(run)).and_then(|tag| self.retries.get(&tag))
    }

    pub(super) fn may_be_decided(&self, run: RunId) -> bool {
        self.decided.contains(&run)
    }

    pub(super) fn landed(&mut self, batch: &Batch, born: &[Arc<Run>]) -> Verdict {
        for run in born {
            let Some(tag) = tag_of(run) else { continue };
            if self.refused.contains(&tag) && !self.repeated.contains(&tag) {
                return Err(format!("command {tag} was refused, but made run {}", run.id));
            }
            if let Some(first) = self.made.insert(Arc::clone(&tag), run.id)
                && !self.repeated.contains(&tag)
            {
                // A repeated command has a key, and `keys` checks those.
                return Err(format!("command {tag} made run {first}, and then run {}", run.id));
            }
        }
        for (_, change) in batch.changes.iter() {
            match change {
                Change::Insert(Row::Revision(revision)) => self.revised(revision)?,
                Change::Update(Row::Run(run)) | Change::Insert(Row::History(run))
                    if self.cancelled.get(&run.id).is_some_and(|token| run.token > *token) =>
                {
                    let run = run.id;
                    return Err(format!("cancel is final: run {run} was cancelled, but got a new attempt"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn revised(&mut self, revision: &Revision) -> Verdict {
        let tag: Arc<str> = Arc::from(revision.definition.description.as_str());
        if self.refused.contains(&tag) && !self.repeated.contains(&tag) {
            return Err(format!("command {tag} was refused, but changed job {}", revision.job));
        }
        self.revised.insert(tag);
        Ok(())
    }

    pub(super) fn answered(
        &mut self,
        ticket: Ticket,
        answer: &Answer,
        runs: &Runs,
        dead_letters: &DeadLetters,
        seen: &mut Seen,
    ) -> Verdict {
        let Some(command) = self.waiting.remove(&ticket) else {
            return Err(format!("command {} was answered twice", ticket.0));
        };
        seen.existing += u64::from(matches!(answer, Answer::Existing(_)));
        let asked = tag_asked(&command);
        match (command, answer) {
            (Command::CancelRun { run, .. }, Answer::Run(answered)) if answered.id == run => {
                seen.cancels += 1;
                let token = runs.get(run).map(|stored| stored.token).unwrap_or_default();
                self.cancelled.entry(run).or_insert(token);
                Ok(())
            }
            (Command::DiscardDeadLetter { run, .. }, Answer::Discarded) if dead_letters.is_open(run) => {
                Err(format!("dead letter {run} was discarded, but still exists"))
            }
            // A retry that was skipped at once does not remove the dead letter.
            (Command::RetryRun(RetryRun { run, .. }), Answer::Run(retry))
                if retry.status() != Status::Skipped && dead_letters.is_open(run) =>
            {
                Err(format!("dead letter {run} was retried, but still exists"))
            }
            (Command::RetryRun(_) | Command::RunJob(_) | Command::Submit(_), Answer::Run(run))
                if asked.as_ref().is_some_and(|tag| self.made.get(tag) != Some(&run.id)) =>
            {
                Err(format!("command {} was answered with run {}, which it did not make", ticket.0, run.id))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn refused(&mut self, ticket: Ticket, refusal: &Refusal) -> Verdict {
        let Some(tag) = self.waiting.remove(&ticket).as_ref().and_then(tag_asked) else { return Ok(()) };
        if self.repeated.contains(&tag) {
            return Ok(());
        }
        if self.made.contains_key(&tag) || self.revised.contains(&tag) {
            return Err(format!("command {tag} was refused ({refusal}), but had an effect"));
        }
        self.refused.insert(tag);
        Ok(())
    }

    pub(super) fn unanswered(&mut self, ticket: Ticket) {
        self.waiting.remove(&ticket);
    }

    pub(super) fn cancels_held(&self, runs: &Runs) -> Verdict {
        let ends_well =
            |run: &RunId| matches!(runs.status(*run), Some(Status::Cancelled | Status::Succeeded));
        match self.cancelled.keys().find(|run| !ends_well(run)) {
            Some(run) => {
                Err(format!("cancel is final: run {run} was cancelled, but is {:?}", runs.status(*run)))
            }
            None => Ok(()),
        }
    }
}

/// The tag of a command's effect. `None` means the command makes neither a run nor a revision.
pub(super) fn tag_asked(command: &Command) -> Option<Arc<str>> {
    match command {
        Command::PutJob(PutJob { definition, .. }) | Command::Submit(Submit { definition, .. }) => {
            Some(Arc::from(definition.description.as_str()))
        }
        Command::RunJob(RunJob { params, caller: None, .. }) | Command::RetryRun(RetryRun { params, .. }) => {
            params.as_ref().map(|params| Arc::clone(&params.0))
        }
        _ => None,
    }
}

/// The tag of the command that made a run. `None` means a schedule or a parent run made it, or what `topics` checks.
pub(super) fn tag_of(run: &Run) -> Option<Arc<str>> {
    if run.parent().is_some() || run.link.is_some() {
        return None;
    }
    match (&run.params, &run.origin) {
        (Some(params), _) => Some(Arc::clone(&params.0)),
        (None, Origin::AdHoc(definition)) => Some(Arc::from(definition.description.as_str())),
        (None, Origin::Job { .. }) => None,
    }
}
