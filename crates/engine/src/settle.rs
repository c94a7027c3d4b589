//! Ends runs.
//!
//! The end of a run writes its history row, its dead letter and its job's next due time, and starts the runs that
//! waited for it, all in the same batch.
//!
//! report ──outcome──▶ state ──ended──▶ settle ──next held run──▶ overlap

use std::sync::Arc;

use punctual_core::change::RunRecord;
use punctual_core::ids::{JobId, RunId};
use punctual_core::run::{Status, Trigger};
use punctual_core::schedule::When;

use crate::Shard;
use crate::event::Context;
use crate::memory::LiveRun;
use crate::shard::Settled;

impl Shard {
    /// Ends a run: it leaves memory, and everything that depends on its end happens in the same batch.
    pub(crate) fn settle(&mut self, run: RunId, cx: &mut Context<'_>) {
        let Some(live) = self.runs.remove(&run) else { return };
        cx.pool.run_left();
        self.dirty.runs.remove(&run);
        self.dirty.lazy.remove(&run);
        // For child runs, the parent is the dead letter: a replay of it makes all its children again. A backfill
        // becomes no dead letter: its child runs are tried again one by one. A ping cannot be replayed here.
        let dead = matches!(live.run.status(), Status::Failed | Status::TimedOut)
            && live.definition.dead_letter
            && live.definition.ping().is_none()
            && live.run.parent().is_none()
            && !live.run.is_backfill();
        let job = self.leave_job(&live, cx);
        let row = job.and_then(|job| self.jobs.get(&job)).map(|job| Arc::clone(&job.job));
        let (run, definition) = (Arc::clone(&live.run), Arc::clone(&live.definition));
        self.dirty.settled.push(Settled { run, definition, stored: live.stored, dead });
        let ended = Arc::clone(&live.run);
        // Reused rows of a workflow that never began.
        if !live.reused.is_empty() {
            self.pins.steps(self.next_batch(), ended.id, live.reused);
        }
        let own = Arc::clone(&live.definition);
        let record = RunRecord { run: live.run, definition: live.definition, job: row, dead_letter: dead };
        self.pins.run(self.next_batch(), record);
        if let Some(job) = job {
            self.release(job, cx);
        }
        self.tell_caller(&ended, cx);
        self.tell_followers(&ended, cx);
        self.step_run_ended(&ended, cx);
        self.count_failure(&ended, cx);
        self.alert_end(&ended, &own, dead, cx);
    }

    fn leave_job(&mut self, live: &LiveRun, cx: &mut Context<'_>) -> Option<JobId> {
        let id = live.run.job()?;
        self.jobs.get(&id)?;
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
        if live.job.is_paused() {
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
