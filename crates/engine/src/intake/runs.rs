//! Commands on an existing run: cancel it, discard its dead letter, note its progress.

use std::sync::Arc;

use punctual_core::change::RunRecord;
use punctual_core::command::{Answer, Refusal};
use punctual_core::ids::{RunId, Token};
use punctual_core::name::Namespace;
use punctual_core::run::{Cause, Run, State, Status};

use super::Reply;
use crate::Shard;
use crate::event::Context;

impl Shard {
    /// The record of a run that is pinned or was read for this command.
    pub(super) fn record(&self, namespace: &Namespace, run: RunId) -> Option<RunRecord> {
        let pinned = self.pins.runs.get(&run).map(|pin| &pin.row);
        let record = pinned.or_else(|| self.fetched.runs.get(&run))?;
        (record.run.namespace == *namespace).then(|| record.clone())
    }

    pub(super) fn cancel_run(&mut self, namespace: &Namespace, run: RunId, cx: &mut Context<'_>) -> Reply {
        if !self.runs.contains_key(&run) {
            let record = self.record(namespace, run).ok_or(Refusal::NoSuchRun(run))?;
            if record.run.status().is_terminal() {
                return Err(ended(&record.run));
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
            .get(&run)
            .filter(|live| live.run.namespace == *namespace)
            .ok_or(Refusal::NoSuchRun(run))?;
        let asked_before = live.run.cancelling().is_some_and(|cause| cause != Cause::Timeout);
        if !asked_before {
            self.stop(run, Cause::User, cx);
        }
        let live = self.runs.get(&run).map(|live| Arc::clone(&live.run));
        let run = live
            .or_else(|| self.record(namespace, run).map(|record| record.run))
            .ok_or(Refusal::NoSuchRun(run))?;
        Ok(Answer::Run(run))
    }

    pub(super) fn discard(&mut self, namespace: &Namespace, run: RunId) -> Reply {
        let live = self.runs.get(&run).is_some_and(|live| live.run.namespace == *namespace);
        let record = self.record(namespace, run);
        match record {
            Some(record) if record.dead_letter => {
                self.decide(record);
                Ok(Answer::Discarded)
            }
            Some(_) => Err(Refusal::NotADeadLetter(run)),
            None if live => Err(Refusal::NotADeadLetter(run)),
            None => Err(Refusal::NoSuchRun(run)),
        }
    }

    /// Refuses a report of progress if its attempt is not the running one.
    pub(super) fn may_report(&self, namespace: &Namespace, run: RunId, token: Token) -> Result<(), Refusal> {
        let Some(live) = self.runs.get(&run).filter(|live| live.run.namespace == *namespace) else {
            let record = self.record(namespace, run).ok_or(Refusal::NoSuchRun(run))?;
            return Err(not_running(&record.run));
        };
        match live.run.state {
            State::Running { token: newest, .. } if newest == token => Ok(()),
            State::Running { .. } => Err(Refusal::OutdatedToken(run)),
            _ => Err(not_running(&live.run)),
        }
    }

    /// Clears the dead letter of a run that was replayed or discarded.
    pub(super) fn decide(&mut self, record: RunRecord) {
        if !record.dead_letter {
            return;
        }
        let run = record.run.id;
        match self.dirty.settled.iter_mut().find(|settled| settled.run.id == run) {
            Some(settled) => settled.dead = false,
            None => self.dirty.decided.push(run),
        }
        self.pins.run(self.next_batch(), RunRecord { dead_letter: false, ..record });
    }
}

fn not_running(run: &Run) -> Refusal {
    let hint = "only a running attempt makes progress".into();
    Refusal::WrongState { run: run.id, status: run.status(), hint }
}

fn ended(run: &Run) -> Refusal {
    let hint = match run.status() {
        Status::Cancelled => "it is cancelled already",
        _ => "it has ended already",
    };
    Refusal::WrongState { run: run.id, status: run.status(), hint: hint.into() }
}
