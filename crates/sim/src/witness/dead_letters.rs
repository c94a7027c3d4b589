//! Dead letters: a run that failed finally is listed until a user discards or retries it.

use std::collections::BTreeSet;

use punctual_core::change::{Batch, Change, Row, RowKey};
use punctual_core::ids::RunId;
use punctual_core::run::Status;

use super::jobs::Jobs;
use super::{Seen, Verdict};

#[derive(Debug, Default)]
pub(crate) struct DeadLetters {
    open: BTreeSet<RunId>,
}

impl DeadLetters {
    /// Checks the dead letters of a batch. `may_be_decided` says whether a user has asked to discard or retry a run.
    pub(super) fn landed(
        &mut self,
        batch: &Batch,
        jobs: &Jobs,
        may_be_decided: impl Fn(RunId) -> bool,
        seen: &mut Seen,
    ) -> Verdict {
        let mut dead = Vec::new();
        for (key, change) in batch.changes.iter() {
            match (key, change) {
                (_, Change::Insert(Row::History(run))) => {
                    let failed = matches!(run.status(), Status::Failed | Status::TimedOut)
                        && run.parent().is_none()
                        && !run.is_backfill();
                    let wanted = jobs.definition_of(run).is_some_and(|definition| definition.dead_letter);
                    dead.extend(Some(run.id).filter(|_| failed && wanted));
                }
                (_, Change::Insert(Row::DeadLetter(letter))) => {
                    seen.dead_letters += 1;
                    self.open.insert(letter.run);
                }
                (RowKey::DeadLetter(run), Change::Delete) => {
                    self.open.remove(run);
                    if !may_be_decided(*run) {
                        return Err(format!(
                            "dead letter {run} disappeared, but no user had discarded or retried it"
                        ));
                    }
                }
                _ => {}
            }
        }
        match dead.into_iter().find(|run| !self.open.contains(run) && !may_be_decided(*run)) {
            Some(run) => Err(format!("run {run} failed finally, but has no dead letter")),
            None => Ok(()),
        }
    }

    pub(super) fn is_open(&self, run: RunId) -> bool {
        self.open.contains(&run)
    }

    /// Checks a listing of dead letters.
    pub(crate) fn listed_as(&self, listed: impl Iterator<Item = RunId>) -> Verdict {
        let listed: BTreeSet<RunId> = listed.collect();
        match self.open.symmetric_difference(&listed).next() {
            Some(run) => Err(format!(
                "dead letter {run} is listed although it was discarded or retried, or is missing in the listing"
            )),
            None => Ok(()),
        }
    }
}
