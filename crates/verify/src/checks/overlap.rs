//! P11, overlap: under `skip`, `queue`, `queue_one` and `replace` at most one attempt of a job is active at a time, and
//! never more than `limits.running`.
//!
//! An attempt is active from its start until the run leaves `running`, because a cancelled attempt keeps its place
//! until its worker has reported. Under these policies a run with children counts as one, until it ends.
//! `limits.running` counts its children instead. A child that has children itself does not count. A backfill runs beside all
//! others, and its children count as children.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use punctual_core::Timestamp;
use punctual_core::ids::{JobId, RunId};
use punctual_core::run::{Status, Trigger};

use super::{COMMIT_MAX, Sheet, runs_with_jobs};
use crate::history::{EventRecord, RunRecord};

pub(super) fn check(sheet: &mut Sheet<'_>) {
    let history = sheet.history;
    let mut attempts: BTreeMap<(JobId, bool), Vec<Attempt<'_>>> = BTreeMap::new();
    let is_backfill = |run: &RunRecord| run.trigger == Trigger::Backfill && run.parent.is_none();
    for (job, run) in runs_with_jobs(history).filter(|(_, run)| !is_backfill(run)) {
        attempts
            .entry((job, run.parent.is_some()))
            .or_default()
            .extend(attempts_of(run, history.events_of(run.id)));
    }
    for mut attempts in attempts.into_values() {
        // Many attempts may begin and end in one instant of engine time: sort those that ended in it first.
        attempts.sort_by_key(|attempt| (attempt.start, attempt.end, attempt.run.id));
        check_job(sheet, &attempts);
    }
}

struct Attempt<'a> {
    run: &'a RunRecord,
    start: Timestamp,
    /// Of an attempt that had not ended: [`COMMIT_MAX`] before its run was read, because an end after that may not have
    /// been stored yet. `Timestamp::MAX` if it is not known when the run was read.
    end: Timestamp,
    has_children: bool,
}

fn attempts_of<'a>(run: &'a RunRecord, events: &'a [EventRecord]) -> impl Iterator<Item = Attempt<'a>> {
    let counts = |event: &EventRecord| if run.parent.is_some() { event.starts() } else { event.begins() };
    events.iter().enumerate().filter(move |(_, event)| counts(event)).map(move |(place, event)| {
        let end = events[place..].iter().find(|later| later.to != Status::Running);
        let last_known = run.read_at.map_or(Timestamp::MAX, |read_at| read_at.before(COMMIT_MAX));
        let end = end.map_or(last_known, |end| end.at);
        Attempt { run, start: event.at, end, has_children: !event.starts() }
    })
}

/// Walks the starts in order and counts the earlier attempts that are still active.
fn check_job(sheet: &mut Sheet<'_>, attempts: &[Attempt<'_>]) {
    let mut in_hand: BinaryHeap<Reverse<(Timestamp, RunId, bool)>> = BinaryHeap::new();
    for attempt in attempts {
        while in_hand.peek().is_some_and(|Reverse((end, ..))| *end <= attempt.start) {
            in_hand.pop();
        }
        if let Some(max) = sheet.history.at_once_max(attempt.run) {
            sheet.saw(1);
            let counts_all = sheet.history.forbids_overlap(attempt.run);
            let counted = || in_hand.iter().filter(|Reverse((.., has_children))| counts_all || !has_children);
            let count = counted().count();
            if let Some(Reverse((_, other, _))) = counted().next()
                && count >= usize::try_from(max).unwrap_or(usize::MAX)
            {
                let start = attempt.start;
                let message = format!(
                    "it started at {start} while {count} of the job, run {other} among them, had not ended: \
                     {max} may run at once"
                );
                sheet.broken_run(attempt.run, message);
            }
        }
        // If the clock was set back, an attempt may end before it starts: it cannot be checked.
        if attempt.end > attempt.start {
            in_hand.push(Reverse((attempt.end, attempt.run.id, attempt.has_children)));
        }
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::job::{Limit, Overlap};
    use punctual_core::run::{Status, What};

    use super::RunRecord;
    use crate::checks::Check;
    use crate::fixture::{Story, at};

    /// Three runs: from 10 to 25, from 20 to 35, from 30 to 45.
    fn side_by_side(overlap: Overlap, running_max: Option<u32>) -> Story {
        let mut story = Story::every_ten_seconds();
        story.edit(|definition| {
            definition.overlap = overlap;
            definition.limits = running_max.map(Limit::of_running).into_iter().collect();
        });
        story.fire(10).fire(20).fire(30);
        for run in &mut story.runs {
            let end = at(run.due.as_millis() / 1000 + 15);
            run.finished_at = Some(end);
            if let Some(last) = run.entries.last_mut() {
                last.at = end;
            }
        }
        story
    }

    #[test]
    fn runs_side_by_side_are_found_where_the_policy_forbids_them() {
        for overlap in [Overlap::Skip, Overlap::Queue, Overlap::QueueOne, Overlap::Replace] {
            side_by_side(overlap, None).breaks(Check::Overlap, "1 may run at once");
        }
        side_by_side(Overlap::Allow, None).holds();
    }

    #[test]
    fn a_limit_counts_what_is_in_hand() {
        side_by_side(Overlap::Allow, Some(1)).breaks(Check::Overlap, "1 may run at once");
        side_by_side(Overlap::Allow, Some(2)).holds();
    }

    #[test]
    fn a_split_run_counts_as_one_and_its_children_by_the_limit() {
        let split = |running_max: Option<u32>, overlap| {
            let mut story = Story::every_ten_seconds();
            story.edit(|definition| {
                definition.route.shards = Some(3);
                definition.limits = running_max.map(Limit::of_running).into_iter().collect();
                definition.overlap = overlap;
            });
            story.fire_split(10, 3).fire_split(20, 3);
            story
        };
        split(None, Overlap::Skip).holds();
        split(Some(3), Overlap::Skip).holds();
        split(Some(2), Overlap::Allow).breaks(Check::Overlap, "2 may run at once");
        let mut story = split(None, Overlap::Skip);
        story.runs[0].finished_at = Some(at(25));
        story.runs[0].entries.last_mut().unwrap().at = at(25);
        story.breaks(Check::Overlap, "1 may run at once");
    }

    #[test]
    fn a_child_with_children_of_its_own_does_not_count() {
        let mut story = Story::every_ten_seconds();
        story.edit(|definition| {
            definition.route.shards = Some(3);
            definition.limits = vec![Limit::of_running(2)];
        });
        story.fire_split(10, 3);
        story.breaks(Check::Overlap, "2 may run at once");
        let start = story.runs[1].entries.iter_mut().find(|entry| entry.to == Status::Running);
        start.expect("a child has started").what = What::Split;
        assert_eq!(story.history().check(&Story::options()).of(Check::Overlap).count(), 0);
    }

    #[test]
    fn a_run_may_start_in_the_very_moment_in_which_the_other_ends() {
        let mut story = Story::every_ten_seconds();
        story.fire(10).fire(20);
        story.runs[0].finished_at = Some(at(20));
        if let Some(last) = story.runs[0].entries.last_mut() {
            last.at = at(20);
        }
        story.holds();
    }

    #[test]
    fn a_run_that_never_ended_is_still_in_hand() {
        let mut story = Story::every_ten_seconds();
        story.start(10);
        story.fire(20);
        story.breaks(Check::Overlap, "had not ended");
    }

    /// The pages of an export are read one after the other. Meanwhile a run may end, and an end that is decided already
    /// may be stored.
    #[test]
    fn a_run_may_have_ended_about_when_it_was_read() {
        let mut story = Story::every_ten_seconds();
        story.start(10);
        story.fire(20);
        let read = |seconds| {
            let mut history = story.history();
            history.add_run_record(RunRecord { read_at: Some(at(seconds)), ..(&story.runs[0]).into() });
            history.check(&Story::options())
        };
        assert_eq!(read(15).of(Check::Overlap).count(), 0);
        assert_eq!(read(25).of(Check::Overlap).count(), 0, "its end may not be stored yet");
        assert_eq!(read(55).of(Check::Overlap).count(), 1);
    }
}
