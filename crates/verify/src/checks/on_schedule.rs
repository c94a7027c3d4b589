//! A fire happens only at a due time of the job's schedule, and never while the job is paused. If the due time were the
//! moment of firing instead, "one run per fire" could not detect duplicates, because every moment differs.

use punctual_core::Timestamp;
use punctual_core::job::State;
use punctual_core::schedule;

use super::Sheet;
use crate::history::{JobRecord, Lane, Rules};

pub(super) fn check(sheet: &mut Sheet<'_>) {
    let history = sheet.history;
    for run in history.runs.values().filter(|run| run.lane == Lane::Schedule) {
        let (Some(job), Some(revision)) = (history.job_of(run), history.revision_of(run)) else {
            continue;
        };
        sheet.saw(1);
        let due = run.due;
        if !names(&revision.rules, job, due) {
            sheet.broken_run(run, format!("a schedule made it for {due}, which the schedule does not name"));
        }
        if revision.state != State::Active {
            let (number, state) = (revision.revision, revision.state.as_str());
            let message = format!("a schedule made it for {due} under revision {number}, which was {state}");
            sheet.broken_run(run, message);
        }
    }
}

fn names(rules: &Rules, job: &JobRecord, due: Timestamp) -> bool {
    rules.follows_runs() || schedule::any_names(&rules.schedules, job.created_at, due)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use punctual_core::schedule::When;

    use crate::checks::Check;
    use crate::fixture::{Story, at};

    #[test]
    fn a_fire_that_no_schedule_names_is_found() {
        let mut story = Story::every_ten_seconds();
        story.fire(10).fire(20);
        story.runs[1].due = at(20) + Duration::from_millis(3);
        story.breaks(Check::OnSchedule, "does not name");
    }

    #[test]
    fn a_fire_is_held_to_the_revision_it_was_made_under() {
        let mut story = Story::every_ten_seconds();
        story.fire(10);
        story.reschedule(12, When::Every(Duration::from_secs(7))).fire(14);
        story.holds();
        story.runs[0].due = at(7);
        story.breaks(Check::OnSchedule, "does not name");
    }

    #[test]
    fn a_fire_of_a_paused_job_is_found() {
        let mut story = Story::every_ten_seconds();
        story.fire(10).pause(15).fire(20).resume(25).fire(30);
        story.breaks(Check::OnSchedule, "under revision 2, which was paused");
    }
}
