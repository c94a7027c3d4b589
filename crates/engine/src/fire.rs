//! Fires due jobs.
//!
//! Takes the timers that the plan says are due, makes the run and moves the job's cursor in one change, and hands the
//! run to `overlap`, which decides whether it may start. Due times missed by more than the grace follow the misfire
//! policy: one look at the schedule, at most a hundred runs and one range record, however long the outage was.
//!
//! plan ──due──▶ fire ──run──▶ overlap ──ready──▶ assign

use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::change::{Skip, SkipReason};
use punctual_core::ids::{JobId, RunId};
use punctual_core::job::{Cursor, Job, MisfirePolicy};
use punctual_core::limits::MISFIRE_CATCH_UP_MAX;
use punctual_core::run::{Cause, Origin, Run, State, Trigger, Wait};

use crate::Shard;
use crate::deadline::{Deadline, LAZY_MAX};
use crate::event::Context;
use crate::memory::LiveRun;
use crate::plan::TimerOwner;

impl Shard {
    /// Handles at most `limit` timers that are due.
    pub(crate) fn tick(&mut self, limit: usize, cx: &mut Context<'_>) {
        self.end_due_holds(cx);
        let mut left = limit;
        while left > 0
            && let Some((_, deadline)) = self.deadlines.pop(cx.elapsed)
        {
            left -= 1;
            self.passed(deadline, cx);
        }
        while left > 0 && self.tick_locks(cx) {
            left -= 1;
        }
        while left > 0
            && let Some(owner) = self.plan.pop(cx.now)
        {
            left -= 1;
            match owner {
                TimerOwner::Job(job) => self.job_is_due(job, cx),
                TimerOwner::Run(run) => self.arrive(run, cx),
                TimerOwner::Message(number) => self.message_is_due(number, cx),
            }
        }
        while left > 0
            && let Some((at, step)) = self.step_timers.first().copied()
            && at <= cx.now
        {
            left -= 1;
            self.step_timers.pop_first();
            self.step_is_due(step, cx);
        }
        while left > 0 && self.incident_is_due(cx) {
            left -= 1;
        }
        self.plan.look(cx.now);
    }

    /// Checks the alerts of a job, or fires it. Either arms its timer again.
    fn job_is_due(&mut self, id: JobId, cx: &mut Context<'_>) {
        let watch = self.jobs.get(&id).and_then(|live| live.job.watch.as_ref());
        match watch.and_then(|watch| watch.check_at).is_some_and(|at| at <= cx.now) {
            true => self.check_alerts(id, cx),
            false => self.fire(id, cx),
        }
    }

    fn passed(&mut self, deadline: Deadline, cx: &mut Context<'_>) {
        match deadline {
            Deadline::Backoff(run) => {
                let waits = self.runs.get(&run).map(|live| &live.run.state);
                if matches!(waits, Some(State::Waiting { wait: Wait::Backoff(_) })) {
                    self.place(run, cx);
                }
            }
            Deadline::Events(run) => self.gathering_is_due(run, cx),
            Deadline::Timeout(run, token) => {
                // The token alone is not enough: a run in backoff still has the token of its last attempt.
                if self.runs_under(run, token) {
                    self.stop(run, Cause::Timeout, cx);
                }
            }
            Deadline::Lost(run, token) if self.forget_loss(run, token) => self.give_up(run, token, cx),
            Deadline::Lost(..) => {}
            // Reports that arrived while nothing could be applied are applied before the second deadline.
            Deadline::Overdue(run, token) if self.runs_under(run, token) => {
                self.deadlines.insert(cx.elapsed + LAZY_MAX, Deadline::NotStopped(run, token));
            }
            Deadline::Overdue(..) => {}
            Deadline::NotStopped(run, token) => self.give_up_overdue(run, token, cx),
            Deadline::Split(run) if self.flows.contains_key(&run) => self.continue_fan_out(run),
            Deadline::Split(run) => self.split(run, cx),
            Deadline::WorkflowTimeout(run) => {
                let is_running = |live: &LiveRun| live.run.cancelling().is_none();
                if self.flows.contains_key(&run) && self.runs.get(&run).is_some_and(is_running) {
                    self.stop(run, Cause::Timeout, cx);
                }
            }
            Deadline::Late(run, by) => self.late_is_due(run, by, cx),
            Deadline::Long(run, by) => self.long_is_due(run, by, cx),
            Deadline::Gone(run) => self.give_up_absent(run, cx),
            Deadline::Lazy => self.lazy_deadline(cx.elapsed),
            Deadline::Delivered => self.delivered_is_due(cx),
            Deadline::RateAllows(job, at) => self.rate_allows(job, at, cx),
            Deadline::RatesFree(at) => self.forget_free_rates(at, cx),
            Deadline::QueueOpens(queue) => self.queue_opens(queue, cx),
            Deadline::StillFirst(queue) => self.still_first(queue, cx),
            Deadline::Freed => self.start_is_due(cx),
            Deadline::HoldsEnded => self.forget_ended_holds(cx),
            Deadline::Unused => self.let_unused_go(cx),
        }
    }

    /// Fires every due time whose wake-up time has passed. Nothing fires under a hold.
    pub(crate) fn fire_due(&mut self, id: JobId, cx: &mut Context<'_>) {
        self.fire_while(id, |cursor| cursor.wake_at, cx);
    }

    /// Fires every due time up to now, also those delayed by jitter, before an edit replaces the schedule: after the
    /// edit they could not be computed any more.
    pub(crate) fn fire_owed(&mut self, id: JobId, cx: &mut Context<'_>) {
        while let Some(job) = self.jobs.get(&id).map(|live| &live.job)
            && let (Some(due), Some(wake)) = (job.cursor.next_due, job.cursor.wake_at)
            && due <= cx.now
            && let Some((over, end)) = self.holds.over_until(&job.namespace, wake, cx.now)
        {
            self.record_held(id, &over.hold, end, cx);
        }
        self.fire_while(id, |cursor| cursor.next_due, cx);
    }

    fn fire_while(&mut self, id: JobId, next: impl Fn(&Cursor) -> Option<Timestamp>, cx: &mut Context<'_>) {
        while let Some(job) = self.jobs.get(&id).map(|live| &live.job)
            && next(&job.cursor).is_some_and(|at| at <= cx.now)
            && (job.is_paused() || !self.holds.covers(&job.namespace))
        {
            self.plan.disarm(job.timer_at(), TimerOwner::Job(id));
            self.fire(id, cx);
        }
    }

    /// Fires the due time at a job's cursor. The timer has already been removed from the plan.
    fn fire(&mut self, id: JobId, cx: &mut Context<'_>) {
        let Some(live) = self.jobs.get(&id) else { return };
        if live.job.is_paused() {
            return self.end_pause(id, cx.now);
        }
        let mut job = (*live.job).clone();
        let (Some(due), Some(wake)) = (job.cursor.next_due, job.cursor.wake_at) else { return };
        if let Some(over) = self.holds.over(&job.namespace, wake) {
            return match over.released_at {
                Some(end) => self.record_held(id, &over.hold, end, cx),
                None => self.leave_due(id),
            };
        }
        // The cursor moves past all missed due times; those without a run are recorded as skipped.
        let (made, through) = if cx.now.since(wake) <= job.definition.misfire.grace {
            (vec![(due, Trigger::Schedule)], due)
        } else {
            let last = last_missed(&job, due, cx.now);
            (self.catch_up(&job, due, last, cx.now), last)
        };
        self.skip_excluded(&job, through, cx.now);
        job.cursor.fired_through = through;
        let mut runs = Vec::with_capacity(made.len());
        for (due, trigger) in made {
            // The fires before this one may have used up the `max_runs` of the schedule.
            if !job.is_used_up(due) {
                job.count_fire(due);
                runs.push((due, trigger));
            }
        }
        job.plan_after(through);
        // Keep the order of due times: a later due time with a shorter jitter must not overtake this one.
        job.cursor.wake_at = job.cursor.wake_at.map(|next| next.max(wake));
        // The old timer was already popped; `edit_job` arms the new one.
        self.edit_job(id, |stored| *stored = job);
        if runs.is_empty() && !self.has_fires(id) {
            // No run will end, so the next due time of `after_finish` counts from here.
            self.plan_after_finish(id, cx);
        }
        for (due, trigger) in runs {
            if let Some(run) = self.make_run(id, due, trigger, cx) {
                self.arrive(run, cx);
            }
        }
    }

    /// The missed due times that get a run, oldest first; the others become one range record.
    fn catch_up(
        &mut self,
        job: &Job,
        first: Timestamp,
        last: Timestamp,
        now: Timestamp,
    ) -> Vec<(Timestamp, Trigger)> {
        let misfire = &job.definition.misfire;
        let mut made = Vec::new();
        let wanted = match misfire.policy {
            MisfirePolicy::Skip => 0,
            MisfirePolicy::Once => 1,
            MisfirePolicy::All => MISFIRE_CATCH_UP_MAX,
        };
        let mut candidate = Some(last);
        while let Some(due) = candidate
            && due >= first
            && made.len() < wanted
            && now.since(due) <= misfire.window
        {
            made.push((due, Trigger::Misfire));
            candidate = previous_before(job, due);
        }
        made.reverse();
        let skipped_to = match made.first() {
            Some((oldest, _)) => previous_before(job, *oldest).filter(|due| *due >= first),
            None => Some(last),
        };
        if let Some(to) = skipped_to {
            self.skip(job, first, to, SkipReason::Misfire, now);
        }
        made
    }

    /// Records the due times up to `through` excluded by a calendar since the last due time or revision, in one range.
    pub(crate) fn skip_excluded(&mut self, job: &Job, through: Timestamp, now: Timestamp) {
        let after = job.cursor.fired_through.max(job.updated_at);
        if !job.is_paused()
            && let Some((first, last)) = job.excluded(after, through)
        {
            self.skip(job, first, last, SkipReason::Calendar, now);
        }
    }

    /// Records a range of skipped due times.
    pub(crate) fn skip(
        &mut self,
        job: &Job,
        from: Timestamp,
        to: Timestamp,
        reason: SkipReason,
        now: Timestamp,
    ) {
        self.dirty.skips.push(Skip { job: job.id, revision: job.revision, from, to, reason, at: now });
    }

    /// Makes a new run of a job that is in memory.
    pub(crate) fn make_run(
        &mut self,
        id: JobId,
        due: Timestamp,
        trigger: Trigger,
        cx: &mut Context<'_>,
    ) -> Option<RunId> {
        let live = self.jobs.get(&id)?;
        let definition = Arc::clone(&live.job.definition);
        let origin = Origin::Job { id, name: live.job.name.clone(), revision: live.job.revision };
        let run = RunId(self.ids.next(cx.now));
        let mut made = Run::new(run, live.job.namespace.clone(), origin, trigger, due, cx.now);
        made.sign(cx.pool.node());
        made.priority = definition.priority;
        if due <= cx.now {
            // Its due time has passed, so it arms no timer.
            made.state = State::Waiting { wait: Wait::Overlap };
        }
        self.tallies.fired(&made);
        self.remember_run(LiveRun::new(Arc::new(made), definition, false), cx);
        Some(run)
    }
}

/// The newest due time that counts as missed. Jitter delays every fire, so it is added to the grace.
fn last_missed(job: &Job, first: Timestamp, now: Timestamp) -> Timestamp {
    let jitter = job.definition.schedules.iter().map(|schedule| schedule.jitter).max().unwrap_or_default();
    job.previous_due(now.before(job.definition.misfire.grace).before(jitter)).unwrap_or(first).max(first)
}

pub(crate) fn previous_before(job: &Job, due: Timestamp) -> Option<Timestamp> {
    job.previous_due(Timestamp::from_millis(due.as_millis() - 1))
}
