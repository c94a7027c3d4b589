//! Commands on an existing run: cancel or move it, discard its dead letter, note its progress.

use std::sync::Arc;

use punctual_core::change::RunRecord;
use punctual_core::command::{Answer, Refusal};
use punctual_core::ids::{RunId, Token};
use punctual_core::name::Namespace;
use punctual_core::progress::Progress;
use punctual_core::run::{Assignee, Cause, Run, State, Status};
use punctual_core::workflow::ByHand;

use super::Reply;
use crate::Shard;
use crate::event::Context;
use crate::memory::LiveRun;

impl Shard {
    /// The record of a run that is pinned or was read for this command.
    pub(crate) fn record(&self, namespace: &Namespace, run: RunId) -> Option<RunRecord> {
        let pinned = self.pins.runs.get(&run).map(|pin| &pin.row);
        let record = pinned.or_else(|| self.fetched.runs.get(&run))?;
        (record.run.namespace == *namespace).then(|| record.clone())
    }

    /// Cancels a run. Without `by_hand`, no person asked for it.
    pub(crate) fn cancel_run(
        &mut self,
        (namespace, run): (&Namespace, RunId),
        now: bool,
        by_hand: Option<ByHand>,
        cx: &mut Context<'_>,
    ) -> Reply {
        if !self.runs.contains_key(&run) {
            let record = self.record(namespace, run).ok_or(Refusal::NoSuchRun(run))?;
            if record.run.status().is_terminal() {
                return Err(ended_already(&record.run));
            }
            if record.run.wake_at().is_some() {
                self.take_waiting(record, cx);
            } else {
                // Running, but not in our memory: a later leader started it, and we have not noticed the takeover yet.
                // The commit of this batch will be refused, so its answer is never sent.
                self.take_up(record, cx);
            }
        }
        let live = self
            .runs
            .get_mut(&run)
            .filter(|live| live.run.namespace == *namespace)
            .ok_or(Refusal::NoSuchRun(run))?;
        let cause = if now { Cause::UserNow } else { Cause::User };
        if live.run.cancelling().is_none_or(|earlier| cause.replaces(earlier)) {
            if let Some(by_hand) = by_hand {
                // It belongs to the entry that `stop` appends.
                Arc::make_mut(&mut live.run).note_by_hand(by_hand);
            }
            self.stop(run, cause, cx);
            // A run whose child runs have all ended with it has ended too.
            self.advance_workflows(cx);
        }
        self.as_it_is(namespace, run)
    }

    pub(crate) fn as_it_is(&self, namespace: &Namespace, run: RunId) -> Reply {
        let live = self.runs.get(&run).map(|live| Arc::clone(&live.run));
        let run = live
            .or_else(|| self.record(namespace, run).map(|record| record.run))
            .ok_or(Refusal::NoSuchRun(run))?;
        Ok(Answer::Run(run))
    }

    /// Stops the running attempt, and gives the run to another worker, or to the named one.
    pub(super) fn move_run(
        &mut self,
        namespace: &Namespace,
        run: RunId,
        worker: Option<&str>,
        cx: &mut Context<'_>,
    ) -> Reply {
        let Some(live) = self.runs.get(&run).filter(|live| live.run.namespace == *namespace) else {
            let record = self.record(namespace, run).ok_or(Refusal::NoSuchRun(run))?;
            let ended = record.run.status().is_terminal();
            return Err(if ended { ended_already(&record.run) } else { refused(&record.run, ONLY_RUNNING) });
        };
        may_move(live)?;
        let to = worker.map(|name| cx.pool.target(name, &live.class())).transpose()?;
        self.move_away(run, to, cx);
        self.as_it_is(namespace, run)
    }

    pub(super) fn discard(&mut self, namespace: &Namespace, run: RunId, cx: &mut Context<'_>) -> Reply {
        let live = self.runs.get(&run).is_some_and(|live| live.run.namespace == *namespace);
        let record = self.record(namespace, run);
        match record {
            Some(record) if record.dead_letter => {
                self.decide(record, cx);
                Ok(Answer::Discarded)
            }
            Some(_) => Err(Refusal::NotADeadLetter(run)),
            None if live => Err(Refusal::NotADeadLetter(run)),
            None => Err(Refusal::NoSuchRun(run)),
        }
    }

    /// Refuses a report of progress if its attempt is not the running one, or if it asks for a move that is not possible.
    pub(super) fn may_report(
        &self,
        namespace: &Namespace,
        run: RunId,
        token: Token,
        progress: &Progress,
    ) -> Result<(), Refusal> {
        let Some(live) = self.runs.get(&run).filter(|live| live.run.namespace == *namespace) else {
            let record = self.record(namespace, run).ok_or(Refusal::NoSuchRun(run))?;
            return Err(refused(&record.run, "only a running attempt makes progress"));
        };
        match live.run.state {
            State::Running { token: newest, .. } if newest == token => {}
            State::Running { .. } => return Err(Refusal::OutdatedToken(run)),
            _ => return Err(refused(&live.run, "only a running attempt makes progress")),
        }
        // An attempt that is being stopped may ask for a move too: that is no mistake of its own.
        if progress.rebalance && live.run.cancelling().is_none() {
            may_move(live)?;
        }
        if let Some(patch) = &progress.params {
            self.params_of(live).merged(patch)?;
        }
        Ok(())
    }

    /// Clears the dead letter of a run that was replayed or discarded.
    pub(super) fn decide(&mut self, record: RunRecord, cx: &mut Context<'_>) {
        if !record.dead_letter {
            return;
        }
        self.letter_decided(&record.run, cx);
        let run = record.run.id;
        match self.dirty.settled.iter_mut().find(|settled| settled.run.id == run) {
            Some(settled) => settled.dead = false,
            None => self.dirty.decided.push(run),
        }
        self.pins.run(self.next_batch(), RunRecord { dead_letter: false, ..record });
    }
}

const ONLY_RUNNING: &str = "only a running attempt can be moved";

/// Refuses to move a run that cannot go on elsewhere.
fn may_move(live: &LiveRun) -> Result<(), Refusal> {
    let run = &live.run;
    let hint = match &run.state {
        State::Split { .. } => "move its child runs instead",
        State::Running { assignee: Assignee::Queue(_), .. } => "its message is in a queue, not with a worker",
        State::Running { assignee: Assignee::Job(_), .. } => {
            "it waits for the run of another job, not with a worker"
        }
        State::Running { assignee: Assignee::Ping(_), .. } => "its program runs outside Punctual",
        State::Running { cancelling: Some(_), .. } => "it is being stopped already",
        State::Running { .. } if live.definition.at_most_once => {
            "its job is executed at most once, so it cannot start again elsewhere"
        }
        State::Running { .. } if run.pinned_to().is_some() => "it is meant for its worker only",
        State::Running { .. } => return Ok(()),
        _ => ONLY_RUNNING,
    };
    Err(refused(run, hint))
}

pub(crate) fn refused(run: &Run, hint: &'static str) -> Refusal {
    Refusal::WrongState { run: run.id, status: run.status(), hint: hint.into() }
}

pub(crate) fn ended_already(run: &Run) -> Refusal {
    refused(
        run,
        match run.status() {
            Status::Cancelled => "it is cancelled already",
            _ => "it has ended already",
        },
    )
}
