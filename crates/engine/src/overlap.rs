//! Decides whether a due run may start, by its job's overlap policy; `limits` decides next.
//!
//! Exact and in memory, because one shard owns the job: no row lock and no polling.

use punctual_core::ids::{JobId, RunId};
use punctual_core::job::Overlap;
use punctual_core::limits::HELD_PER_JOB_MAX;
use punctual_core::run::{Cause, Event, Reason, State, Status, Wait};

use crate::Shard;
use crate::event::Context;

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Start,
    Hold,
    Replace,
    Skip(Reason),
}

fn judge(policy: Overlap, active: usize, held: usize) -> Verdict {
    match policy {
        Overlap::Allow => Verdict::Start,
        _ if active == 0 && held == 0 => Verdict::Start,
        Overlap::Skip => Verdict::Skip(Reason::Overlap),
        Overlap::Replace => Verdict::Replace,
        Overlap::QueueOne if held > 0 => Verdict::Skip(Reason::Overlap),
        Overlap::Queue if held >= HELD_PER_JOB_MAX => Verdict::Skip(Reason::HeldTooMany),
        Overlap::Queue | Overlap::QueueOne => Verdict::Hold,
    }
}

impl Shard {
    /// A run is due: it starts, is held, replaces the running one, or is recorded as skipped.
    pub(crate) fn arrive(&mut self, run: RunId, cx: &mut Context<'_>) {
        self.arrive_under(run, |policy| policy, cx);
    }

    /// Like `arrive`, but the run is held where the policy would skip it or replace a running one, because a client
    /// asked for this run.
    pub(crate) fn arrive_patiently(&mut self, run: RunId, cx: &mut Context<'_>) {
        let patient = |policy| if policy == Overlap::Allow { policy } else { Overlap::Queue };
        self.arrive_under(run, patient, cx);
    }

    fn arrive_under(&mut self, run: RunId, policy: impl Fn(Overlap) -> Overlap, cx: &mut Context<'_>) {
        let Some(job) = self.runs.get(&run).map(|live| live.run.job()) else { return };
        let Some(job) = job else { return self.place(run, cx) };
        self.set_limit_keys(run);
        // Its job was deleted, so no overlap policy applies any more.
        let Some(live) = self.jobs.get(&job) else { return self.stop(run, Cause::JobDeleted, cx) };
        match judge(policy(live.job.definition.overlap), live.active.len(), live.held.len()) {
            Verdict::Start => self.place(run, cx),
            Verdict::Hold => {
                self.transition(run, Event::Held(Wait::Overlap), cx);
            }
            Verdict::Replace => self.replace(job, run, cx),
            Verdict::Skip(reason) => {
                self.transition(run, Event::Skipped(reason), cx);
            }
        }
        self.shed(run, cx);
    }

    /// Holds the new run before it stops the older ones: when the last of them ends, the new one is released.
    fn replace(&mut self, job: JobId, run: RunId, cx: &mut Context<'_>) {
        let Some(live) = self.jobs.get(&job) else { return };
        let older: Vec<RunId> = live.held.iter().map(|(_, run)| run).chain(&live.active).copied().collect();
        self.transition(run, Event::Held(Wait::Overlap), cx);
        for old in older {
            self.stop(old, Cause::Replaced, cx);
        }
    }

    /// Makes a run ready, or holds it if a hold, another run of its job or a limit does not allow it.
    pub(crate) fn place(&mut self, run: RunId, cx: &mut Context<'_>) {
        if self.is_on_hold(run) {
            self.wait_for_hold(run, cx);
        } else if self.is_beside_another(run) {
            self.transition(run, Event::Held(Wait::Overlap), cx);
        } else if self.pass_limits(run, cx) {
            self.transition(run, Event::Due, cx);
            self.split(run, cx);
        }
    }

    /// Whether another run of the job is ready or running, and the policy forbids two. A retry may come back to such a job
    /// after an edit of the policy.
    fn is_beside_another(&self, run: RunId) -> bool {
        let Some(live) = self.runs.get(&run).filter(|live| live.run.parent().is_none()) else { return false };
        let Some(job) = live.run.job().and_then(|job| self.jobs.get(&job)) else { return false };
        let has_begun = |other: &RunId| {
            let other = self.runs.get(other).filter(|other| other.run.id != run);
            other.is_some_and(|other| matches!(other.run.status(), Status::Ready | Status::Running))
        };
        job.job.definition.overlap != Overlap::Allow && job.active.iter().any(has_begun)
    }

    /// Releases the next held runs, after a run of the job has ended or is no longer placed.
    pub(crate) fn release(&mut self, job: JobId, cx: &mut Context<'_>) {
        self.release_overlapping(job, cx);
        self.release_limited(job, cx);
    }

    fn release_overlapping(&mut self, job: JobId, cx: &mut Context<'_>) {
        while let Some(live) = self.jobs.get(&job)
            && let Some((_, next)) = live.held.first().copied()
            && let Some(run) = self.runs.get(&next)
            // A run that waits for a limit is released by that limit.
            && run.run.state == (State::Waiting { wait: Wait::Overlap })
            // By the current definition: an edit may have changed the policy since the run was held.
            && (live.active.is_empty() || live.job.definition.overlap == Overlap::Allow)
        {
            self.place(next, cx);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policies_do_what_their_names_say() {
        assert_eq!(judge(Overlap::Skip, 0, 0), Verdict::Start);
        assert_eq!(judge(Overlap::Skip, 1, 0), Verdict::Skip(Reason::Overlap));
        assert_eq!(judge(Overlap::Queue, 1, 7), Verdict::Hold);
        assert_eq!(judge(Overlap::Queue, 1, HELD_PER_JOB_MAX), Verdict::Skip(Reason::HeldTooMany));
        assert_eq!(judge(Overlap::QueueOne, 1, 0), Verdict::Hold);
        assert_eq!(judge(Overlap::QueueOne, 1, 1), Verdict::Skip(Reason::Overlap));
        assert_eq!(judge(Overlap::Replace, 1, 0), Verdict::Replace);
        assert_eq!(judge(Overlap::Allow, 9, 9), Verdict::Start);
    }
}
