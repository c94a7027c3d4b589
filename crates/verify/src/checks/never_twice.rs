//! P1, one run per fire: for a job and a due time at most one run is ever made, and none if a skip record covers the
//! due time.

use std::collections::hash_map::Entry;

use punctual_core::Timestamp;
use punctual_core::change::SkipReason;
use punctual_core::ids::{JobId, RunId};
use punctual_core::name::{Name, Namespace};
use rustc_hash::FxHashMap;

use super::Sheet;
use crate::history::{History, Lane, RunRecord};

pub(super) fn check(sheet: &mut Sheet<'_>) {
    let history = sheet.history;
    let mut made: FxHashMap<(Owner<'_>, Timestamp), RunId> = FxHashMap::default();
    for run in history.runs.values().filter(|run| run.lane == Lane::Schedule) {
        sheet.saw(1);
        let Some(owner) = owner(history, run) else {
            sheet.broken_run(run, "a schedule made it, but it names no job".to_owned());
            continue;
        };
        if let Owner::Job(job) = owner
            && let Some(skip) =
                history.skip_over((job, run.revision), run.due, |reason| reason != SkipReason::Calendar)
        {
            let (due, reason) = (run.due, skip.reason.as_str());
            let message =
                format!("the fire due {due} was recorded as skipped ({reason}), and yet it was made");
            sheet.broken_run(run, message);
        }
        match made.entry((owner, run.due)) {
            Entry::Vacant(place) => {
                place.insert(run.id);
            }
            Entry::Occupied(place) => {
                let (due, first) = (run.due, *place.get());
                let message =
                    format!("the fire due {due} had its run {first} already: the work was done twice");
                sheet.broken_run(run, message);
            }
        }
    }
}

/// The job of a fire. A job that is gone is known only by name, so two jobs of one name cannot be distinguished.
#[derive(PartialEq, Eq, Hash)]
enum Owner<'a> {
    Job(JobId),
    Gone(&'a Namespace, &'a Name),
}

fn owner<'a>(history: &'a History, run: &'a RunRecord) -> Option<Owner<'a>> {
    let named = run.job.as_ref()?;
    Some(match named.id.or_else(|| history.job_of(run).map(|job| job.id)) {
        Some(id) => Owner::Job(id),
        None => Owner::Gone(&run.namespace, &named.name),
    })
}

#[cfg(test)]
mod tests {
    use punctual_core::job::Overlap;
    use punctual_core::run::Trigger;

    use crate::checks::Check;
    use crate::fixture::{Story, at};

    #[test]
    fn two_runs_for_one_due_time_are_found() {
        let mut story = Story::every_ten_seconds();
        story.fire(10).fire(20).fire(20);
        story.breaks(Check::NeverTwice, "done twice");
    }

    #[test]
    fn a_misfire_is_on_the_same_lane_as_the_schedule() {
        let mut story = Story::every_ten_seconds();
        story.fire(10).run_of(Trigger::Misfire, 10);
        story.breaks(Check::NeverTwice, "done twice");
    }

    #[test]
    fn a_fire_that_was_recorded_as_skipped_may_not_happen_as_well() {
        let mut story = Story::every_ten_seconds();
        story.skip(10, 30).fire(20).fire(40);
        story.breaks(Check::NeverTwice, "recorded as skipped");
    }

    #[test]
    fn a_manual_run_at_the_due_time_of_a_fire_is_another_run() {
        let mut story = Story::every_ten_seconds();
        story.edit(|definition| definition.overlap = Overlap::Allow);
        story.fire(10).run_of(Trigger::Manual, 10);
        story.holds();
    }

    #[test]
    fn a_job_made_again_under_an_old_name_fires_on_its_own() {
        let mut story = Story::every_ten_seconds();
        story.fire(10);
        let old = story.job.clone();
        let mut anew = Story::every_ten_seconds();
        anew.job.id.0 += 1;
        anew.fire(10);
        let mut history = story.history();
        history.jobs.remove(&old.id);
        history.add_job(&anew.job);
        for mut run in anew.runs {
            run.id.0 += 1_000;
            run.created_at = at(11);
            history.add_run(&run);
        }
        assert!(history.check(&Story::options()).of(Check::NeverTwice).next().is_none());
    }
}
