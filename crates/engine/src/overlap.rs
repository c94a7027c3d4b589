//! Whether a run whose time has come may start, by its job's overlap policy and its limit.
//!
//! Decided in memory, exactly, by the one owner of the job: no row is locked and nothing is polled.

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
    /// A run's time has come: it starts, waits its turn, takes another's place, or is recorded as skipped.
    pub(crate) fn arrive(&mut self, run: RunId, cx: &mut Context<'_>) {
        self.arrive_under(run, |policy| policy, cx);
    }

    /// Like `arrive`, but it waits where another would be skipped or would take a running one's place: someone asked
    /// for this very run.
    pub(crate) fn line_up(&mut self, run: RunId, cx: &mut Context<'_>) {
        let patient = |policy| if policy == Overlap::Allow { policy } else { Overlap::Queue };
        self.arrive_under(run, patient, cx);
    }

    fn arrive_under(&mut self, run: RunId, policy: impl Fn(Overlap) -> Overlap, cx: &mut Context<'_>) {
        let Some(job) = self.runs.get(&run).map(|live| live.run.job()) else { return };
        let Some(job) = job else { return self.place(run, cx) };
        // Its job is gone, and nothing says any more how it may overlap.
        let Some(live) = self.jobs.get_mut(&job) else { return self.stop(run, Cause::JobDeleted, cx) };
        match judge(policy(live.job.definition.overlap), live.active.len(), live.held.len()) {
            Verdict::Start => {
                live.active.insert(run);
                self.place(run, cx);
            }
            Verdict::Hold => {
                self.transition(run, Event::Held(Wait::Overlap), cx);
            }
            Verdict::Replace => self.replace(job, run, cx),
            Verdict::Skip(reason) => {
                self.transition(run, Event::Skipped(reason), cx);
            }
        }
    }

    /// The new run is held before the old ones are stopped: whoever ends last lets it in.
    fn replace(&mut self, job: JobId, run: RunId, cx: &mut Context<'_>) {
        let Some(live) = self.jobs.get(&job) else { return };
        let older: Vec<RunId> = live.held.iter().map(|(_, run)| run).chain(&live.active).copied().collect();
        self.transition(run, Event::Held(Wait::Overlap), cx);
        for old in older {
            self.stop(old, Cause::Replaced, cx);
        }
    }

    /// Puts a run into the line, or holds it when its job has as many placed as it may.
    pub(crate) fn place(&mut self, run: RunId, cx: &mut Context<'_>) {
        let Some(live) = self.runs.get(&run) else { return };
        let job = live.run.job().and_then(|job| self.jobs.get(&job));
        let full = job.is_some_and(|job| job.is_full_for(&live.run));
        self.transition(run, if full { Event::Held(Wait::Limit) } else { Event::Due }, cx);
        self.split(run, cx);
    }

    /// Lets in whoever is next, now that a run of the job has ended or stepped back.
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
        while let Some(live) = self.jobs.get_mut(&job)
            && let Some((_, next)) = live.held.first().copied()
        {
            // By the definition of now, whatever it was held for: an edit may have drawn the line elsewhere.
            let definition = &live.job.definition;
            let below = definition.at_once_max().is_none_or(|max| live.placed < max);
            if !(below && (live.active.is_empty() || definition.overlap == Overlap::Allow)) {
                return;
            }
            live.active.insert(next);
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
