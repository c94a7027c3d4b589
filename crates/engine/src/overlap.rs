//! Decides whether a due run may start, by its job's overlap policy and its limit.
//!
//! Exact and in memory, because one shard owns the job: no row lock and no polling.

use punctual_core::ids::{JobId, RunId};
use punctual_core::job::Overlap;
use punctual_core::limits::HELD_PER_JOB_MAX;
use punctual_core::run::{Cause, Event, Reason, Wait};

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

    /// Makes a run ready, or holds it when its job has reached its limit.
    pub(crate) fn place(&mut self, run: RunId, cx: &mut Context<'_>) {
        let Some(live) = self.runs.get(&run) else { return };
        let job = live.run.job().and_then(|job| self.jobs.get(&job));
        let full = job.is_some_and(|job| job.is_full_for(&live.run));
        self.transition(run, if full { Event::Held(Wait::Limit) } else { Event::Due }, cx);
        self.split(run, cx);
    }

    /// Releases the next held runs, after a run of the job has ended or is no longer placed.
    pub(crate) fn release(&mut self, job: JobId, cx: &mut Context<'_>) {
        self.release_runs(job, cx);
        self.release_children(job, cx);
    }

    fn release_children(&mut self, job: JobId, cx: &mut Context<'_>) {
        while let Some(live) = self.jobs.get(&job)
            && let Some((_, next)) = live.children.held.first().copied()
            && let Some(child) = self.runs.get(&next)
            && !live.is_full_for(&child.run)
        {
            self.place(next, cx);
        }
    }

    fn release_runs(&mut self, job: JobId, cx: &mut Context<'_>) {
        while let Some(live) = self.jobs.get(&job)
            && let Some((_, next)) = live.held.first().copied()
        {
            // By the current definition: an edit may have changed the policy or the limit since the run was held.
            let definition = &live.job.definition;
            let below = definition.at_once_max().is_none_or(|max| live.placed < max);
            if !(below && (live.active.is_empty() || definition.overlap == Overlap::Allow)) {
                return;
            }
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
