//! The state changes of a run.
//!
//! `apply` changes only the run itself. Every change appends an entry; the number of an entry is its index in the list,
//! so the numbers have no gaps.

use std::sync::Arc;
use std::time::Duration;

use super::{Assignee, Cause, Earlier, Entry, Reason, Run, State, Status, StepsEnd, Wait, What};
use crate::Timestamp;
use crate::cut;
use crate::ids::{RunId, Token, WorkerId};
use crate::job::Definition;
use crate::limits::{EARLIER_ERROR_BYTES_MAX, LOSSES_MAX, MOVES_MAX};
use crate::outcome::{End, Outcome};
use crate::planted::{Fault, is_planted};
use crate::progress::{Progress, Reported};
use crate::queue::Whereabouts;
use crate::retry::Failed;
use crate::workflow::ByHand;

/// What can happen to a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// It may go to a worker now.
    Due,
    Held(Wait),
    Assigned {
        worker: WorkerId,
        token: Token,
    },
    /// It goes to a queue, a job or a program outside Punctual: it needs no worker.
    Sent {
        to: Assignee,
        token: Token,
    },
    CancelAsked(Cause),
    /// Its attempt is to be stopped, and the next one to go to another worker; to the named one, if there is a name.
    MoveAsked {
        to: Option<Arc<str>>,
    },
    /// Its worker has not stopped the attempt in time. Whether it still runs is not known, so no other may start.
    NotStopped {
        token: Token,
    },
    Reported {
        token: Token,
        outcome: Outcome,
    },
    /// The worker is gone, or its lease ended without a heartbeat.
    Lost {
        token: Token,
    },
    Skipped(Reason),
    /// The worker preferred by its route has no free slot.
    PassedOver,
    /// Its worker returns it without having started it.
    Declined {
        token: Token,
    },
    /// The only worker that it may go to is gone.
    WorkerGone,
    /// It is a workflow or a split run, and its first child runs start.
    StepsBegun,
    /// All its child runs have ended.
    StepsEnded {
        end: StepsEnd,
        output: Box<str>,
    },
    /// A person pauses the workflow.
    Paused(ByHand),
    Resumed(ByHand),
}

/// The run's state does not accept the event: the token is outdated, or the run has moved on.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("run {run} is {from}: it cannot take this event")]
pub struct Refused {
    pub run: RunId,
    pub from: Status,
}

impl Run {
    /// Applies an event to the run and appends an entry.
    pub fn apply(&mut self, event: Event, definition: &Definition, now: Timestamp) -> Result<(), Refused> {
        let is_unfit = |reason: &Option<Reason>| matches!(reason, Some(Reason::NoWorkerFits(_)));
        let was_unfit = is_unfit(&self.reason);
        let (next, what) = self.transition(event, definition, now)?;
        if was_unfit && is_unfit(&self.reason) {
            self.reason = None;
        }
        self.state = next;
        let to = self.status();
        if to.is_terminal() {
            self.finished_at = Some(now);
        }
        self.entries.push(Entry { at: now, to, what, token: self.token });
        Ok(())
    }

    /// The table of state changes: the state after the event, and the entry to append.
    fn transition(
        &mut self,
        event: Event,
        definition: &Definition,
        now: Timestamp,
    ) -> Result<(State, What), Refused> {
        let refused = Refused { run: self.id, from: self.state.status() };
        Ok(match (&self.state, event) {
            (State::Waiting { .. }, Event::Due) => (State::Ready { since: now }, What::Due),
            (State::Waiting { .. } | State::Ready { .. }, Event::Held(wait)) => {
                (State::Waiting { wait }, What::Held)
            }
            (State::Waiting { .. } | State::Ready { .. }, Event::Skipped(reason)) => {
                self.reason = Some(reason);
                (State::Skipped, What::Skipped)
            }
            (State::Waiting { .. } | State::Ready { .. }, Event::CancelAsked(cause))
                if self.cancel_next.is_none_or(|earlier| cause.replaces(earlier)) =>
            {
                (self.cancel_unassigned(cause, definition), What::CancelAsked)
            }
            (State::Ready { .. }, Event::Assigned { worker, token }) if token > self.token => {
                (self.begin_attempt(Assignee::Worker(worker), token, now), What::Assigned)
            }
            (State::Ready { .. }, Event::Sent { to, token }) if token > self.token => {
                (self.begin_attempt(to, token, now), What::Assigned)
            }
            (State::Ready { since }, Event::PassedOver) => (State::Ready { since: *since }, What::PassedOver),
            (State::Ready { .. }, Event::StepsBegun) if self.workflow(definition).is_some() => {
                self.begin_steps(now)
            }
            (State::Ready { .. }, Event::WorkerGone) if self.pinned_to().is_some() => {
                self.reason = Some(Reason::WorkerGone);
                (State::Failed, What::WorkerGone)
            }
            (State::Running { .. }, event) => self.while_running(event, definition, now).ok_or(refused)?,
            (State::Split { .. }, event) => self.while_split(event, definition).ok_or(refused)?,
            _ => return Err(refused),
        })
    }

    /// The part of the table for a run with an attempt. `None` means that the event is refused.
    fn while_running(
        &mut self,
        event: Event,
        definition: &Definition,
        now: Timestamp,
    ) -> Option<(State, What)> {
        let State::Running { assignee, token, cancelling, .. } = &self.state else { return None };
        let (token, cancelling) = (*token, *cancelling);
        Some(match event {
            Event::CancelAsked(cause) if cancelling.is_none_or(|earlier| cause.replaces(earlier)) => {
                (self.stopping(cause), What::CancelAsked)
            }
            Event::MoveAsked { to }
                if matches!(assignee, Assignee::Worker(_))
                    && cancelling.is_none()
                    && !definition.at_most_once =>
            {
                self.move_to = to;
                (self.stopping(Cause::Moved), What::MoveAsked)
            }
            Event::NotStopped { token: newest } if token == newest => {
                (self.not_stopped(cancelling?), What::Lost)
            }
            Event::Reported { token: reported, outcome } if token == reported => {
                self.after_report(cancelling, outcome, definition, now)
            }
            Event::Lost { token: lost } if token == lost => self.after_loss(cancelling, definition, now),
            Event::Declined { token: declined } if token == declined => {
                self.after_decline(cancelling, definition, now)
            }
            _ => return None,
        })
    }

    /// The part of the table for a run with child runs. `None` means that the event is refused.
    fn while_split(&mut self, event: Event, definition: &Definition) -> Option<(State, What)> {
        let State::Split { since, cancelling } = self.state else { return None };
        Some(match event {
            Event::CancelAsked(cause) if cancelling.is_none_or(|earlier| cause.replaces(earlier)) => {
                (State::Split { since, cancelling: Some(cause) }, What::CancelAsked)
            }
            Event::Paused(by_hand) if definition.workflow().is_some() || self.is_backfill() => {
                self.note_by_hand(by_hand);
                (self.state.clone(), What::Paused)
            }
            Event::Resumed(by_hand) if self.is_paused() => {
                self.note_by_hand(by_hand);
                (self.state.clone(), What::Resumed)
            }
            Event::StepsEnded { end, output } => self.end_steps(cancelling, end, output),
            _ => return None,
        })
    }

    /// Keeps a report of the running attempt. Returns false if it comes late and is ignored.
    pub fn report(&mut self, progress: Progress, now: Timestamp) -> bool {
        let is_checkpoint = progress.checkpoint.is_some();
        let reported = self.progress.get_or_insert_with(|| Box::new(Reported::new(now)));
        let is_taken = reported.take(progress, self.attempt, now);
        if is_taken && is_checkpoint {
            (self.losses, self.moves) = (0, 0);
            self.note_checkpoint();
        }
        is_taken
    }

    /// Notes that the message of the attempt is in its queue. Returns false if that was already noted.
    pub fn delivered(&mut self, queue: &Assignee, at: &Whereabouts, now: Timestamp) -> bool {
        let State::Running { since, token, .. } = self.state else { return false };
        let is_noted = |entry: &Entry| entry.what == What::Delivered && entry.token == token;
        if self.entries.iter().rev().any(is_noted) {
            return false;
        }
        self.started_at = Some(at.since.clamp(since.min(now), now));
        self.output = at.output(queue);
        let to = self.status();
        self.entries.push(Entry { at: now, to, what: What::Delivered, token });
        true
    }

    /// Records the node that wrote the newest entry.
    pub fn sign(&mut self, node: Option<&Arc<str>>) {
        let last = self.signed.last().map(|(_, last)| last);
        if let Some(node) = node.filter(|node| last != Some(node)) {
            let newest = u32::try_from(self.entries.len()).unwrap_or(u32::MAX).saturating_sub(1);
            self.signed.push((newest, Arc::clone(node)));
        }
    }

    fn begin_attempt(&mut self, assignee: Assignee, token: Token, now: Timestamp) -> State {
        self.attempt += 1;
        self.token = token;
        let given = self.checkpoint_version();
        if let Some(resumes) = &mut self.resumes {
            resumes.start(token, given);
        }
        // The reason and the wish for a worker were about the attempt before.
        (self.reason, self.move_to) = (None, None);
        if let Some(before) = self.assignee.replace(assignee.clone()) {
            self.earlier.push(Earlier {
                assignee: before,
                started_at: self.started_at,
                exit_code: self.exit_code,
                error: cut::keep_end(&self.error, EARLIER_ERROR_BYTES_MAX).into(),
            });
        }
        State::Running { assignee, token, since: now, cancelling: self.cancel_next.take() }
    }

    /// The state after a cancel while no worker has the run.
    fn cancel_unassigned(&mut self, cause: Cause, definition: &Definition) -> State {
        if self.attempt > 0 && is_told_to_service(cause, definition) {
            self.cancel_next = Some(cause);
            return self.state.clone();
        }
        self.reason = Some(Reason::Cancelled(cause));
        State::Cancelled
    }

    /// The running state while its attempt is being stopped.
    fn stopping(&self, cause: Cause) -> State {
        match self.state.clone() {
            State::Running { assignee, token, since, .. } => {
                State::Running { assignee, token, since, cancelling: Some(cause) }
            }
            state => state,
        }
    }

    /// Keeps the outcome of an attempt. The worker's clock is not trusted: its start is clamped between the
    /// assignment and now.
    fn take(&mut self, outcome: Outcome, now: Timestamp) {
        let earliest = match &self.state {
            State::Running { since, .. } => *since,
            _ => self.created_at,
        };
        self.started_at = Some(outcome.started_at.clamp(earliest.min(now), now));
        self.exit_code = outcome.exit_code;
        self.output = outcome.output;
        self.error = outcome.error;
    }

    fn after_report(
        &mut self,
        cancelling: Option<Cause>,
        outcome: Outcome,
        definition: &Definition,
        now: Timestamp,
    ) -> (State, What) {
        let (end, failed) = (outcome.end, outcome.failed);
        self.take(outcome, now);
        match end {
            End::Succeeded => (State::Succeeded, What::Ended),
            End::Failed if cancelling == Some(Cause::Moved) => self.after_move(now),
            End::Yielded if matches!(cancelling, None | Some(Cause::Moved)) => {
                self.after_yield(definition, now)
            }
            End::Failed | End::Yielded => self.after_failure(cancelling, failed, definition, now),
            End::TimedOut => {
                let cancelling = cancelling.filter(|cause| *cause != Cause::Moved).or(Some(Cause::Timeout));
                self.after_failure(cancelling, Failed::Timeout, definition, now)
            }
        }
    }

    /// The worker has returned the run without having started it.
    fn after_decline(
        &mut self,
        cancelling: Option<Cause>,
        definition: &Definition,
        now: Timestamp,
    ) -> (State, What) {
        match cancelling {
            None | Some(Cause::Moved) => (State::Ready { since: now }, What::Moved),
            Some(cause) if self.attempt > 1 && is_told_to_service(cause, definition) => {
                self.cancel_next = Some(cause);
                (State::Ready { since: now }, What::Moved)
            }
            cancelling => self.after_failure(cancelling, Failed::Error, definition, now),
        }
    }

    fn after_yield(&mut self, definition: &Definition, now: Timestamp) -> (State, What) {
        if definition.at_most_once {
            self.reason = Some(Reason::LostAtMostOnce);
            return (State::Failed, What::Ended);
        }
        if is_planted(Fault::YieldIsALoss) {
            return self.after_loss(None, definition, now);
        }
        self.after_move(now)
    }

    /// The attempt ended because the run goes to another worker: it used up neither an attempt nor a loss.
    fn after_move(&mut self, now: Timestamp) -> (State, What) {
        self.moves += 1;
        self.failures += u32::from(is_planted(Fault::MoveUsesAttempt));
        if self.moves >= MOVES_MAX {
            self.reason = Some(Reason::MovedTooOften);
            return (State::Failed, What::Ended);
        }
        self.clear_for_next_attempt();
        (State::Ready { since: now }, What::Moved)
    }

    /// The end of a run whose attempt could not be stopped: no other attempt may start beside it.
    fn not_stopped(&mut self, cause: Cause) -> State {
        match cause {
            Cause::Moved => {
                self.reason = Some(Reason::NotStopped);
                State::Failed
            }
            Cause::Timeout => {
                self.failures += 1;
                self.reason = Some(Reason::Cancelled(cause));
                State::TimedOut
            }
            cause => {
                self.reason = Some(Reason::Cancelled(cause));
                State::Cancelled
            }
        }
    }

    fn after_failure(
        &mut self,
        cancelling: Option<Cause>,
        failed: Failed,
        definition: &Definition,
        now: Timestamp,
    ) -> (State, What) {
        match cancelling {
            Some(cause) if cause != Cause::Timeout => {
                self.reason = Some(Reason::Cancelled(cause));
                (State::Cancelled, What::Ended)
            }
            _ => {
                self.failures += 1;
                let timed_out = cancelling == Some(Cause::Timeout);
                if timed_out {
                    self.reason = Some(Reason::Cancelled(Cause::Timeout));
                }
                let failed = if timed_out { Failed::Timeout } else { failed };
                match definition.retry.delay_after(self.failures, self.id) {
                    Some(delay) if definition.retry.includes(failed) => {
                        if !definition.retry.resume {
                            self.progress = None;
                        }
                        return (self.back_off(delay, definition, now), What::Failed);
                    }
                    Some(_) => self.reason = Some(Reason::NotRetried(failed)),
                    None => {}
                }
                (if timed_out { State::TimedOut } else { State::Failed }, What::Ended)
            }
        }
    }

    fn after_loss(
        &mut self,
        cancelling: Option<Cause>,
        definition: &Definition,
        now: Timestamp,
    ) -> (State, What) {
        if cancelling == Some(Cause::Moved) {
            return self.after_move(now);
        }
        self.losses += 1;
        match cancelling {
            Some(Cause::Timeout) => self.after_failure(cancelling, Failed::Timeout, definition, now),
            Some(cause) => {
                self.reason = Some(Reason::Cancelled(cause));
                (State::Cancelled, What::Lost)
            }
            None if definition.at_most_once => {
                self.reason = Some(Reason::LostAtMostOnce);
                (State::Failed, What::Lost)
            }
            None if self.losses >= LOSSES_MAX => {
                self.reason = Some(Reason::LostTooOften);
                (State::Failed, What::Lost)
            }
            // The run itself did not fail: it retries at once, if possible on another worker.
            None => {
                if is_planted(Fault::LossForgetsCheckpoint) {
                    self.progress = None;
                }
                (self.back_off(Duration::ZERO, definition, now), What::Lost)
            }
        }
    }

    fn back_off(&mut self, delay: Duration, definition: &Definition, now: Timestamp) -> State {
        if let Some(priority) = definition.retry.priority {
            self.priority = priority;
        }
        self.clear_for_next_attempt();
        State::Waiting { wait: Wait::Backoff(now + delay) }
    }

    fn clear_for_next_attempt(&mut self) {
        self.progress = self.progress.take().and_then(|reported| reported.for_next_attempt()).map(Box::new);
        // Many runs may wait in memory, and the next attempt brings its own output.
        self.abridge();
    }
}

/// Whether a run that is cancelled between two attempts ends only after a worker has told the service. The service may still
/// execute the work of an earlier attempt, even if that attempt failed: its polls may have failed, not the work.
fn is_told_to_service(cause: Cause, definition: &Definition) -> bool {
    matches!(cause, Cause::User | Cause::Replaced | Cause::JobDeleted) && definition.is_accepted_elsewhere()
}
