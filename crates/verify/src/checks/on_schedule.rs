//! A fire happens only at a due time that the job's schedule names. A due time that is the moment of firing
//! instead would slip past "one run per fire", because no two moments are alike.

use punctual_core::Timestamp;
use punctual_core::schedule::Schedule;

use super::Sheet;
use crate::history::{JobRecord, Lane, Rules};

pub(super) fn check(sheet: &mut Sheet<'_>) {
    let history = sheet.history;
    for run in history.runs.values().filter(|run| run.lane == Lane::Schedule) {
        let (Some(job), Some(rules)) = (history.job_of(run), history.rules_of(run)) else {
            continue;
        };
        sheet.saw(1);
        if !names(rules, job, run.due) {
            let due = run.due;
            sheet.broken_run(run, format!("a schedule made it for {due}, which the schedule does not name"));
        }
    }
}

fn names(rules: &Rules, job: &JobRecord, due: Timestamp) -> bool {
    let named = |schedule: &Schedule| schedule.previous(due, job.created_at) == Some(due);
    rules.follows_runs() || rules.schedules.iter().any(named)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use punctual_core::change::Revision;
    use punctual_core::schedule::{Schedule, When};

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
        let definition = story.job.definition.clone();
        let old = Revision { job: story.job.id, revision: 1, definition, at: at(0) };
        let every_seven = Schedule::new(When::Every(Duration::from_secs(7)));
        story.edit(|definition| definition.schedules = vec![every_seven]);
        story.job.revision = 2;
        story.job.updated_at = at(12);
        story.fire(14);
        story.holds();
        story.runs[0].due = at(9);
        story.holds();
        let mut history = story.history();
        history.add_revision(&old);
        assert_eq!(history.check(&Story::options()).of(Check::OnSchedule).count(), 1);
    }
}
