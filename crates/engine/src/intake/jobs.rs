//! Creates, edits, pauses and deletes jobs.

use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::change::{Revision, SkipReason};
use punctual_core::command::{Answer, Expect, Made, PutJob, Refusal};
use punctual_core::ids::{JobId, RunId};
use punctual_core::job::{Definition, Invalid, Job, Pause, State};
use punctual_core::name::{Name, Namespace};
use punctual_core::run::{Cause, Run};
use punctual_core::schedule::ScheduleCalendar;
use punctual_core::schedule::calendar::Calendar;

use super::Reply;
use crate::Shard;
use crate::event::Context;

impl Shard {
    pub(super) fn put_job(&mut self, put: PutJob, cx: &mut Context<'_>) -> Reply {
        put.definition.check()?;
        if put.definition.calendars().any(|keeping| keeping.calendar.is_none()) {
            // The caller must look calendars up first; a job without its days would never fire.
            return Err(Invalid::new("schedule.calendar", "the calendar was not looked up").into());
        }
        match self.find_job(&put.namespace, &put.name) {
            None => self.create_job(put, cx),
            Some(id) => self.change_job(id, put, cx),
        }
    }

    fn create_job(&mut self, put: PutJob, cx: &mut Context<'_>) -> Reply {
        if let Expect::Revision(_) = put.expect {
            return Err(Refusal::NoSuchJob { namespace: put.namespace, name: put.name });
        }
        let id = JobId(self.ids.next(cx.now));
        let job = Job::new(id, put.namespace, put.name, put.definition, cx.now);
        self.revise(&job, job.state());
        let job = Arc::new(job);
        self.remember_job(Arc::clone(&job), false);
        self.dirty.jobs.insert(id);
        self.listen_to_topics(&job, cx);
        Ok(Answer::Job { job, made: Made::Created })
    }

    fn change_job(&mut self, id: JobId, put: PutJob, cx: &mut Context<'_>) -> Reply {
        self.expect(id, &put.expect)?;
        if self.jobs.get(&id).is_some_and(|live| live.job.definition == put.definition) {
            return self.job_answer(id, Made::Unchanged);
        }
        self.revise_job(id, put.definition, cx)
    }

    /// Re-plans a job after its calendar has changed, like an edit: the old days decide the due times up to now, the
    /// new days all later ones. `None` means that the time zone data is newer, not a calendar.
    pub(super) fn replan_job(
        &mut self,
        namespace: &Namespace,
        name: &Name,
        calendar: Option<&Arc<Calendar>>,
        cx: &mut Context<'_>,
    ) -> Reply {
        let id = self.known_job(namespace, name)?;
        let Some(calendar) = calendar else { return self.follow_zone_data(id, cx) };
        let newer = |keeping: &ScheduleCalendar| {
            // A newer version may already have come with an edit of the job.
            let is_behind = keeping.version().is_none_or(|version| version < calendar.version);
            (keeping.name == calendar.name && is_behind).then(|| Arc::clone(calendar))
        };
        let definition = self.jobs.get(&id).and_then(|live| live.job.definition.with_calendars(newer));
        match definition {
            Some(definition) => self.revise_job(id, Arc::new(definition), cx),
            None => self.job_answer(id, Made::Unchanged),
        }
    }

    /// Fires the due times up to now as planned, and plans later ones with the newer zone data. The definition does not
    /// change, so this is no revision.
    fn follow_zone_data(&mut self, id: JobId, cx: &mut Context<'_>) -> Reply {
        self.fire_owed(id, cx);
        if !self.jobs.get(&id).is_some_and(|live| live.job.is_outdated()) {
            return self.job_answer(id, Made::Unchanged);
        }
        self.edit_job(id, |job| job.replan(job.hanging_due(), cx.now));
        self.job_answer(id, Made::Changed)
    }

    /// Replaces the definition: the old one decides every due time up to now, the new one every later one.
    fn revise_job(&mut self, id: JobId, definition: Arc<Definition>, cx: &mut Context<'_>) -> Reply {
        self.decide_due(id, cx);
        let before = self.jobs.get(&id).map(|live| Arc::clone(&live.job));
        let has_fires = self.has_fires(id);
        let mut forgotten = false;
        self.edit_job(id, |job| forgotten = job.revise(definition, has_fires, cx.now));
        if forgotten {
            // An earlier due time may have replaced that of `after_finish`, and may be excluded now.
            self.plan_after_finish(id, cx);
        }
        let after = self.jobs.get(&id).map(|live| Arc::clone(&live.job));
        if let (Some(before), Some(after)) = (before, after) {
            self.skip_dropped(&before, &after);
            self.revise(&after, after.state());
            self.listen_to_topics(&after, cx);
            self.end_removed(id, Some(&after.definition), cx);
            self.follow_edited(id, &after.definition);
            if after.definition.ping().is_none() {
                // Its key opens nothing any more, so no end can be reported.
                self.end_begun(id, Cause::User, cx);
            }
            if !(before.definition.limits.is_empty() && after.definition.limits.is_empty()) {
                self.recount(id, cx);
            }
        }
        self.release(id, cx);
        self.job_answer(id, Made::Changed)
    }

    /// Decides every due time up to now by the revision that is about to end: it is fired or recorded as skipped.
    fn decide_due(&mut self, id: JobId, cx: &mut Context<'_>) {
        self.end_pause(id, cx.now);
        self.fire_owed(id, cx);
        self.skip_paused(id, cx.now);
        if let Some(job) = self.jobs.get(&id).map(|live| Arc::clone(&live.job)) {
            self.skip_excluded(&job, cx.now, cx.now);
        }
    }

    /// Records the planned due time as skipped if the new schedule does not contain it, because it was already shown to
    /// users. Other days of the same schedule need no such record: an excluded due time is recorded when it passes.
    fn skip_dropped(&mut self, before: &Job, after: &Job) {
        if let Some(due) = before.cursor.next_due
            && after.cursor.next_due != Some(due)
            && !before.definition.has_schedules_of(&after.definition)
            && !after.is_due_at(due)
        {
            self.skip(before, due, due, SkipReason::Edited, after.updated_at);
        }
    }

    fn revise(&mut self, job: &Job, state: State) {
        self.dirty.revisions.push(Arc::new(Revision {
            job: job.id,
            revision: job.revision,
            definition: Arc::clone(&job.definition),
            at: job.updated_at,
            state,
        }));
    }

    fn expect(&self, id: JobId, expect: &Expect) -> Result<(), Refusal> {
        let Some(live) = self.jobs.get(&id) else { return Ok(()) };
        match expect {
            Expect::Anything => Ok(()),
            Expect::Absent => Err(Refusal::JobExists(live.job.name.clone())),
            Expect::Revision(expected) if *expected == live.job.revision => Ok(()),
            Expect::Revision(expected) => Err(Refusal::WrongRevision {
                name: live.job.name.clone(),
                expected: *expected,
                actual: live.job.revision,
            }),
        }
    }

    fn job_answer(&self, id: JobId, made: Made) -> Reply {
        let live = self.jobs.get(&id);
        let job = live.map(|live| Arc::clone(&live.job)).expect("the job at hand is in memory");
        Ok(Answer::Job { job, made })
    }

    pub(crate) fn known_job(&mut self, namespace: &Namespace, name: &Name) -> Result<JobId, Refusal> {
        self.find_job(namespace, name)
            .ok_or_else(|| Refusal::NoSuchJob { namespace: namespace.clone(), name: name.clone() })
    }

    /// Deletes a job. Its waiting runs end with it, except those that may have left work at a service: their next attempt
    /// cancels it. Running ones are told to stop and end by themselves.
    pub(super) fn delete_job(
        &mut self,
        namespace: &Namespace,
        name: &Name,
        expect: Expect,
        cx: &mut Context<'_>,
    ) -> Reply {
        let id = self.known_job(namespace, name)?;
        if expect != Expect::Anything {
            self.expect(id, &expect)?;
        }
        self.decide_due(id, cx);
        let mut theirs: Vec<RunId> =
            self.runs.values().filter(|live| live.run.job() == Some(id)).map(|live| live.run.id).collect();
        theirs.sort_unstable();
        // The job is removed first, so that a run which ends now does not release the next one.
        if let Some(gone) = self.forget_job(id) {
            let last = Job { revision: gone.job.revision + 1, updated_at: cx.now, ..(*gone.job).clone() };
            self.revise(&last, State::Deleted);
            self.dirty.jobs.remove(&id);
            self.dirty.deleted_jobs.push(gone);
            self.pins.job(self.next_batch(), (namespace.clone(), name.clone()), None);
        }
        self.end_removed(id, None, cx);
        for run in theirs {
            self.stop(run, Cause::JobDeleted, cx);
        }
        Ok(Answer::Deleted)
    }

    pub(super) fn pause_job(
        &mut self,
        namespace: &Namespace,
        name: &Name,
        pause: Pause,
        cx: &mut Context<'_>,
    ) -> Reply {
        pause.check()?;
        let id = self.known_job(namespace, name)?;
        self.end_pause(id, cx.now);
        let present = self.jobs.get(&id).and_then(|live| live.job.pause.as_deref());
        if present.is_some_and(|present| pause.is_satisfied_by(present)) {
            return self.job_answer(id, Made::Unchanged);
        }
        self.decide_due(id, cx);
        self.turn(id, cx.now, |job| job.pause(pause));
        self.job_answer(id, Made::Changed)
    }

    pub(super) fn resume_job(&mut self, namespace: &Namespace, name: &Name, cx: &mut Context<'_>) -> Reply {
        let id = self.known_job(namespace, name)?;
        self.end_pause(id, cx.now);
        if self.jobs.get(&id).is_some_and(|live| !live.job.is_paused()) {
            return self.job_answer(id, Made::Unchanged);
        }
        self.decide_due(id, cx);
        self.resume_at(id, cx.now);
        self.job_answer(id, Made::Changed)
    }

    /// Resumes a job if its pause has ended, as of that moment: later due times were not paused.
    pub(crate) fn end_pause(&mut self, id: JobId, now: Timestamp) {
        let until = self.jobs.get(&id).and_then(|live| live.job.pause.as_ref()?.until);
        if let Some(until) = until.filter(|until| *until <= now) {
            self.skip_paused(id, until);
            self.resume_at(id, until);
        }
    }

    fn resume_at(&mut self, id: JobId, at: Timestamp) {
        let has_fires = self.has_fires(id);
        self.turn(id, at, |job| job.resume(has_fires, at));
    }

    /// Counts the failed runs in a row, and pauses the job after too many of them.
    pub(crate) fn count_failure(&mut self, ended: &Run, cx: &mut Context<'_>) {
        let counts = ended.parent().is_none() && !ended.is_backfill();
        let Some(id) = ended.job().filter(|_| counts) else { return };
        let live = self.jobs.get(&id);
        let Some(failures) = live.and_then(|live| live.job.failures_with(ended)) else { return };
        self.edit_job(id, |job| job.failures = failures);
        let pause = self.jobs.get(&id).and_then(|live| live.job.pause_after(ended, cx.now));
        if let Some(pause) = pause {
            self.decide_due(id, cx);
            self.turn(id, cx.now, |job| job.pause(pause));
        }
    }

    /// Pauses or resumes a job: a revision with the same definition.
    fn turn(&mut self, id: JobId, at: Timestamp, turn: impl FnOnce(&mut Job)) {
        self.edit_job(id, |job| {
            job.revision += 1;
            job.updated_at = at;
            turn(job);
        });
        if let Some(job) = self.jobs.get(&id).map(|live| Arc::clone(&live.job)) {
            self.revise(&job, job.state());
        }
    }

    /// Records the due times that fell into a pause, under the revision of that time.
    fn skip_paused(&mut self, id: JobId, now: Timestamp) {
        let Some(live) = self.jobs.get(&id).filter(|live| live.job.is_paused()) else { return };
        let mut job = (*live.job).clone();
        job.plan_after(job.cursor.fired_through.max(job.updated_at));
        if let (Some(first), Some(last)) = (job.cursor.next_due, job.previous_due(now))
            && first <= last
        {
            self.skip(&job, first, last, SkipReason::Paused, now);
            self.edit_job(id, |job| job.cursor.fired_through = last);
        }
    }
}
