//! Moves runs between states, keeps every count in step, and ends runs.
//!
//! Every change of state goes through `transition`. What a state holds (a place in the queue of waiting runs, a slot, a
//! place under a limit, a timer) is released where the state is left and taken where it is entered, only in this file.
//! The end of a run writes its history row, its dead letter and its job's next due time, and starts the runs that
//! waited for it, all in the same batch.

use std::sync::Arc;

use punctual_core::change::RunRecord;
use punctual_core::ids::{JobId, RunId};
use punctual_core::run::{Event, State, Status, Trigger, Wait};
use punctual_core::schedule::When;

use crate::Shard;
use crate::event::Context;
use crate::memory::LiveRun;
use crate::shard::{Deadline, Settled};

impl Shard {
    /// Applies an event to a run. Returns false if the run's state does not allow it; then nothing changed.
    pub(crate) fn transition(&mut self, run: RunId, event: Event, cx: &mut Context<'_>) -> bool {
        let Some(live) = self.runs.get_mut(&run) else { return false };
        let (before, priority) = (live.run.state.clone(), live.run.priority);
        let moved = Arc::make_mut(&mut live.run);
        if moved.apply(event, &live.definition, cx.now).is_err() {
            return false;
        }
        moved.sign(cx.pool.node.as_ref());
        let (after, job) = (live.run.state.clone(), live.run.job());
        self.dirty.runs.insert(run);
        self.leave_state(run, &before, &after, priority, cx);
        self.enter_state(run, &before, &after, cx);
        if let Some(job) = job
            && is_placed(&before)
            && !is_placed(&after)
        {
            self.release(job, cx);
        }
        true
    }

    fn leave_state(&mut self, run: RunId, before: &State, after: &State, priority: u8, cx: &mut Context<'_>) {
        let Some(moved) = self.runs.get(&run).map(|live| Arc::clone(&live.run)) else { return };
        let job = moved.job().and_then(|job| self.jobs.get_mut(&job));
        match before {
            State::Waiting { wait: Wait::Due(at) } => {
                self.plan.disarm(Some(*at), run.0);
                if let Some(job) = job {
                    job.waiting -= 1;
                }
            }
            State::Waiting { wait: Wait::Overlap | Wait::Limit } => {
                if let Some(job) = job {
                    job.held_beside(&moved).remove(&(moved.due, run));
                }
            }
            State::Ready { since } => {
                if let Some(job) = job {
                    job.displace(&moved);
                }
                self.leave_line(run, priority, *since, cx);
            }
            State::Running { worker, .. } if !matches!(after, State::Running { .. }) => {
                if worker.is_queue() {
                    cx.pool.came_back(run.shard());
                } else {
                    cx.pool.roster.give_back(worker, run);
                }
                if let Some(parent) = moved.parent() {
                    cx.pool.spread.left(parent, run);
                }
                if let Some(job) = job {
                    job.displace(&moved);
                }
            }
            State::Split { .. } if !matches!(after, State::Split { .. }) => {
                if let Some(job) = job {
                    job.displace(&moved);
                }
            }
            _ => {}
        }
    }

    fn enter_state(&mut self, run: RunId, before: &State, after: &State, cx: &mut Context<'_>) {
        let Some(moved) = self.runs.get(&run).map(|live| Arc::clone(&live.run)) else { return };
        let job = moved.job().and_then(|job| self.jobs.get_mut(&job));
        match after {
            State::Waiting { wait: Wait::Overlap | Wait::Limit } => {
                if let Some(job) = job {
                    job.held_beside(&moved).insert((moved.due, run));
                    job.active.remove(&run);
                }
            }
            State::Waiting { wait: Wait::Backoff(at) } => {
                self.deadlines.insert(cx.elapsed_at(*at), Deadline::Backoff(run));
            }
            State::Waiting { wait: Wait::Due(_) } => {}
            State::Ready { since } => {
                if let Some(job) = job {
                    job.place(&moved);
                }
                drop(moved);
                self.join_line(run, *since, cx);
            }
            State::Running { .. } if matches!(before, State::Running { .. }) => {}
            State::Split { .. } if matches!(before, State::Split { .. }) => {}
            State::Running { .. } | State::Split { .. } => {
                if let Some(job) = job {
                    job.place(&moved);
                }
            }
            State::Succeeded | State::Failed | State::TimedOut | State::Cancelled | State::Skipped => {
                drop(moved);
                self.settle(run, cx);
            }
        }
    }

    /// Ends a run: it leaves memory, and everything that depends on its end happens in the same batch.
    fn settle(&mut self, run: RunId, cx: &mut Context<'_>) {
        let Some(live) = self.runs.remove(&run) else { return };
        cx.pool.live -= 1;
        self.dirty.runs.remove(&run);
        self.dirty.lazy.remove(&run);
        // For child runs, the parent is the dead letter: a replay of it makes all its children again.
        let dead = matches!(live.run.status(), Status::Failed | Status::TimedOut)
            && live.definition.dead_letter
            && live.run.parent().is_none();
        let job = self.leave_job(&live, cx);
        let row = job.and_then(|job| self.jobs.get(&job)).map(|job| Arc::clone(&job.job));
        self.dirty.settled.push(Settled { run: Arc::clone(&live.run), stored: live.stored, dead });
        let ended = Arc::clone(&live.run);
        let record = RunRecord { run: live.run, definition: live.definition, job: row, dead_letter: dead };
        self.pins.run(self.next_batch(), record);
        if let Some(job) = job {
            self.release(job, cx);
        }
        if let Some(parent) = ended.parent() {
            self.child_ended(parent, &ended, cx);
        }
    }

    fn leave_job(&mut self, live: &LiveRun, cx: &mut Context<'_>) -> Option<JobId> {
        let id = live.run.job()?;
        let job = self.jobs.get_mut(&id)?;
        job.active.remove(&live.run.id);
        self.dirty.quieter.insert(id);
        if is_fire(live.run.trigger) {
            self.plan_after_finish(id, cx);
        }
        Some(id)
    }

    /// Whether a run made by the schedule has not ended yet.
    pub(crate) fn has_fires(&self, id: JobId) -> bool {
        let Some(live) = self.jobs.get(&id) else { return false };
        let held = live.held.iter().map(|(_, run)| run);
        let mut runs = live.active.iter().chain(held).filter_map(|run| self.runs.get(run));
        runs.any(|live| is_fire(live.run.trigger))
    }

    /// Plans the next due time of an `after_finish` schedule, which counts from the end of the last run.
    pub(crate) fn plan_after_finish(&mut self, id: JobId, cx: &mut Context<'_>) {
        let Some(live) = self.jobs.get(&id) else { return };
        if live.job.paused {
            return;
        }
        let spans = live.job.open_schedules().filter_map(|(_, schedule)| match schedule.when {
            When::AfterFinish(span) => Some((span, schedule.end)),
            _ => None,
        });
        let due = spans
            .filter_map(|(span, end)| Some(cx.now + span).filter(|due| end.is_none_or(|end| *due <= end)))
            .min();
        let Some(due) = due else { return };
        if live.job.cursor.next_due.is_none_or(|next| due < next) {
            self.edit_job(id, |job| {
                job.cursor.next_due = Some(due);
                job.cursor.wake_at = Some(due);
            });
        }
    }
}

/// Whether the schedule made the run. `after_finish` counts only from the end of such runs.
fn is_fire(trigger: Trigger) -> bool {
    matches!(trigger, Trigger::Schedule | Trigger::Misfire)
}

/// Whether a state counts against `limits.running`.
fn is_placed(state: &State) -> bool {
    matches!(state, State::Ready { .. } | State::Running { .. } | State::Split { .. })
}
