//! Moves runs between states, and takes and returns what each state holds.
//!
//! | state | holds |
//! |---|---|
//! | waiting for its due time | a timer of the plan |
//! | waiting for an earlier run, for the end of a hold or for a limit of the job | an entry among the job's held runs, and in the counters of its limits |
//! | waiting for a retry | a deadline |
//! | ready | a place under each limit of the job, an entry in the ready queue |
//! | running | a place under each limit of the job, a slot of a worker or a message in a queue, a deadline |
//! | split | the timeout of a workflow |
//!
//! Only `enter` takes these and only `leave` returns them, also for runs that come from the store or go back to it. The
//! exception is a deadline: it is not removed when its state is left, and has no effect when it passes later.

use std::sync::Arc;

use punctual_core::ids::RunId;
use punctual_core::run::{Event, State, Wait};

use crate::Shard;
use crate::deadline::Deadline;
use crate::event::Context;
use crate::limits::counters::has_place;
use crate::memory::LiveRun;
use crate::plan::TimerOwner;

/// How a run came into its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entered {
    ByEvent,
    /// It was read from the store in this state.
    ByLoad,
}

impl Shard {
    /// Applies an event to a run. Returns false if the run's state does not allow it; then nothing changed.
    pub(crate) fn transition(&mut self, run: RunId, event: Event, cx: &mut Context<'_>) -> bool {
        let Some(live) = self.runs.get_mut(&run) else { return false };
        let before = live.run.state.clone();
        let moved = Arc::make_mut(&mut live.run);
        if moved.apply(event, &live.definition, cx.now).is_err() {
            return false;
        }
        moved.sign(cx.pool.node());
        let (job, stays) = (moved.job(), holds_the_same(&before, &moved.state));
        let is_displaced = has_place(&before) && !has_place(&moved.state);
        self.dirty.runs.insert(run);
        if !stays {
            self.leave(run, &before, cx);
            self.enter(run, Entered::ByEvent, cx);
        }
        if let Some(job) = job.filter(|_| is_displaced) {
            self.release(job, cx);
        }
        true
    }

    /// Puts a run into memory. A new run whose due time has passed holds nothing yet: `overlap` decides what it does.
    pub(crate) fn remember_run(&mut self, live: LiveRun, cx: &mut Context<'_>) {
        let id = live.run.id;
        if !live.stored {
            self.dirty.runs.insert(id);
        }
        let is_undecided = !live.stored && live.run.wake_at().is_none();
        if self.runs.insert(id, live).is_none() {
            cx.pool.run_came();
        }
        if !is_undecided {
            self.set_limit_keys(id);
            self.enter(id, Entered::ByLoad, cx);
        }
    }

    /// Removes from memory a run that waits for its due time.
    pub(crate) fn forget_waiting(&mut self, id: RunId, cx: &mut Context<'_>) -> Option<LiveRun> {
        let state = self.runs.get(&id)?.run.state.clone();
        self.leave(id, &state, cx);
        cx.pool.run_left();
        self.runs.remove(&id)
    }

    /// Returns what `state` held. The run is in its next state already.
    fn leave(&mut self, run: RunId, state: &State, cx: &mut Context<'_>) {
        let Some(live) = self.runs.get(&run) else { return };
        if let Some(job) = live.run.job().and_then(|job| self.jobs.get_mut(&job)) {
            job.leave(live, state);
        }
        match state {
            State::Waiting { wait: Wait::Due(at) } => self.plan.disarm(Some(*at), TimerOwner::Run(run)),
            State::Ready { since } => {
                cx.pool.dequeue(live.ready_run(*since, None));
                self.absent.remove(&run);
                self.holds.unpark(run);
            }
            State::Running { assignee, .. } => cx.pool.give_back(assignee, run, live.run.split_parent()),
            _ => {}
        }
    }

    /// Takes what the run's state holds.
    fn enter(&mut self, run: RunId, how: Entered, cx: &mut Context<'_>) {
        let Some(live) = self.runs.get(&run) else { return };
        let mut has_alerts = false;
        if let Some(job) = live.run.job().and_then(|job| self.jobs.get_mut(&job)) {
            job.enter(live);
            has_alerts = !(job.job.definition.alerts.is_empty() && live.definition.alerts.is_empty());
        }
        match &live.run.state {
            State::Waiting { wait: Wait::Due(at) } => self.plan.arm(Some(*at), TimerOwner::Run(run)),
            State::Waiting { wait: Wait::Backoff(at) } => {
                self.deadlines.insert(cx.elapsed_at(*at), Deadline::Backoff(run));
            }
            State::Waiting { wait: Wait::Events(at) } => {
                self.deadlines.insert(cx.elapsed_at(*at), Deadline::Events(run));
            }
            State::Waiting { wait: Wait::Overlap | Wait::Hold | Wait::Limit(_) } => {}
            State::Split { since, .. } => {
                // The timeout of a job is about each child run of a backfill.
                let has_timeout = live.definition.workflow().is_some() && !live.run.is_backfill();
                let timeout = live.definition.timeout.filter(|_| has_timeout);
                if let Some(timeout) = timeout {
                    self.deadlines.insert(cx.elapsed_at(*since + timeout), Deadline::WorkflowTimeout(run));
                }
            }
            State::Ready { since } => self.enqueue(run, *since, cx),
            State::Running { assignee, token, since, cancelling } => {
                let overdue = assignee.worker().and(cancelling.map(|cause| (*token, cause)));
                match how {
                    Entered::ByEvent => cx.pool.take(assignee, (run, *token), live.run.split_parent()),
                    Entered::ByLoad => {
                        cx.pool.adopt(assignee, (run, *token), live.run.split_parent(), cx.elapsed);
                    }
                }
                if let Some(timeout) = live.definition.timeout {
                    self.deadlines.insert(cx.elapsed_at(*since + timeout), Deadline::Timeout(run, *token));
                }
                if let Some((token, cause)) = overdue {
                    self.expect_stop(run, token, cause, cx.elapsed);
                }
            }
            State::Succeeded | State::Failed | State::TimedOut | State::Cancelled | State::Skipped => {
                self.settle(run, cx);
            }
        }
        if has_alerts {
            self.watch_state(run, how == Entered::ByEvent, cx);
        }
    }
}

/// Whether a change within one state leaves what it holds as it is.
fn holds_the_same(before: &State, after: &State) -> bool {
    std::mem::discriminant(before) == std::mem::discriminant(after)
        && !matches!(before, State::Waiting { .. })
}
