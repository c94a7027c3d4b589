//! Dead letters: a run that failed for good is listed until someone decides about it.

use std::collections::BTreeSet;

use punctual_core::change::{Batch, Change, Row, RowKey};
use punctual_core::ids::RunId;
use punctual_core::run::Status;

use super::asks::Asks;
use super::jobs::Jobs;
use super::{Seen, Verdict};

#[derive(Debug, Default)]
pub(crate) struct DeadLetters {
    open: BTreeSet<RunId>,
}

impl DeadLetters {
    pub(super) fn landed(&mut self, batch: &Batch, jobs: &Jobs, asks: &Asks, seen: &mut Seen) -> Verdict {
        let mut dead = Vec::new();
        for (key, change) in batch.changes.iter() {
            match (key, change) {
                (_, Change::Insert(Row::History(run))) => {
                    let failed =
                        matches!(run.status(), Status::Failed | Status::TimedOut) && run.parent().is_none();
                    let wanted = jobs.definition_of(run).is_some_and(|definition| definition.dead_letter);
                    dead.extend(Some(run.id).filter(|_| failed && wanted));
                }
                (_, Change::Insert(Row::DeadLetter(letter))) => {
                    seen.dead_letters += 1;
                    self.open.insert(letter.run);
                }
                (RowKey::DeadLetter(run), Change::Delete) => {
                    self.open.remove(run);
                    if !asks.may_be_decided(*run) {
                        return Err(format!("dead letter {run} vanished, and nobody had decided about it"));
                    }
                }
                _ => {}
            }
        }
        match dead.into_iter().find(|run| !self.open.contains(run) && !asks.may_be_decided(*run)) {
            Some(run) => Err(format!("run {run} failed for good, and no dead letter tells of it")),
            None => Ok(()),
        }
    }

    pub(super) fn is_open(&self, run: RunId) -> bool {
        self.open.contains(&run)
    }

    /// What a listing must show.
    pub(crate) fn listed_as(&self, listed: impl Iterator<Item = RunId>) -> Verdict {
        let listed: BTreeSet<RunId> = listed.collect();
        match self.open.symmetric_difference(&listed).next() {
            Some(run) => Err(format!("dead letter {run} is listed and decided, or neither")),
            None => Ok(()),
        }
    }
}
