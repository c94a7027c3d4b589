//! P2, no silent loss: every due time while a job is active has a run or is in a recorded skip.
//!
//! Asked of each job from its last edit on, because an edit, a pause or a resume may rightly pass over due
//! times of the older schedule; up to its cursor, which says of itself that everything before it was carried
//! out. What retention took away cannot be asked for either.

use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::ids::JobId;
use punctual_core::schedule::Schedule;
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Sheet, runs_with_jobs};
use crate::history::{JobRecord, Lane, RunRecord};

/// Lost due times of one schedule that are looked for; a schedule that loses so many loses them all.
const LOST_MAX: usize = 1000;

const MILLISECOND: Duration = Duration::from_millis(1);

pub(super) fn check(sheet: &mut Sheet<'_>) {
    let history = sheet.history;
    let mut runs: FxHashMap<JobId, Vec<&RunRecord>> = FxHashMap::default();
    for (job, run) in runs_with_jobs(history) {
        runs.entry(job).or_default().push(run);
    }
    let newest = history.runs.values().map(|run| run.created_at).max().unwrap_or_default();
    for job in history.jobs.values() {
        let Some(owed) = Owed::of(sheet, job, runs.get(&job.id).map_or(&[], Vec::as_slice), newest) else {
            continue;
        };
        for (index, schedule) in job.rules.schedules.iter().enumerate() {
            owed.check_schedule(sheet, index, schedule);
        }
        check_next(sheet, job);
    }
}

/// What a job owes: a run or a skip for each due time after `after`, up to `until`.
struct Owed<'a> {
    job: &'a JobRecord,
    after: Timestamp,
    until: Timestamp,
    made: FxHashSet<Timestamp>,
    /// From here on nothing is missing by right: neither an edit nor retention shortens the story.
    whole: bool,
}

impl<'a> Owed<'a> {
    /// None: nothing can be asked of this job.
    fn of(sheet: &Sheet<'a>, job: &'a JobRecord, runs: &[&RunRecord], newest: Timestamp) -> Option<Owed<'a>> {
        let edited = job.updated_at.max(job.created_at);
        let kept_since = kept_since(job, runs, newest);
        let from = [sheet.options.from, kept_since].into_iter().flatten().max();
        let after = from.map_or(edited, |from| from.before(MILLISECOND).max(edited));
        let asked = sheet.options.fired_through.filter(|_| !job.paused);
        let until = asked.map_or(job.cursor.fired_through, |asked| asked.max(job.cursor.fired_through));
        let fires = runs.iter().filter(|run| run.lane == Lane::Schedule);
        (after < until).then(|| Owed {
            job,
            after,
            until,
            made: fires.map(|run| run.due).collect(),
            whole: after == job.created_at,
        })
    }

    fn check_schedule(&self, sheet: &mut Sheet<'_>, index: usize, schedule: &Schedule) {
        let mut after = self.after;
        let (mut made, mut lost) = (0, Vec::new());
        let until = self.until_of(index, schedule);
        while let Some(due) = schedule.next(after, self.job.created_at).filter(|due| *due <= until) {
            let spent = u32::try_from(made + lost.len()).unwrap_or(u32::MAX);
            if lost.len() == LOST_MAX || (self.whole && schedule.max_runs.is_some_and(|max| spent >= max)) {
                break;
            }
            sheet.saw(1);
            after = due;
            if self.made.contains(&due) {
                made += 1;
            } else if let Some(skip) = sheet.history.skip_over(self.job.id, due) {
                // However many due times a record covers, it is passed in one step.
                after = skip.to.max(due);
            } else {
                lost.push(due);
            }
        }
        if let [first, ..] = lost[..] {
            let count = lost.len();
            let message = format!(
                "{count} due times have neither a run nor a recorded skip, the first {first}: the work \
                 silently did not happen"
            );
            sheet.broken_job(self.job, message);
        }
    }

    /// A schedule that has used up its `max_runs` owes nothing more.
    fn until_of(&self, index: usize, schedule: &Schedule) -> Timestamp {
        let fires = self.job.cursor.fires.get(index).copied().unwrap_or(0);
        let used_up = schedule.max_runs.is_some_and(|max| fires >= max);
        if !used_up || self.whole {
            return self.until;
        }
        // Which fires used it up, an edit in between no longer tells: nothing is asked of it.
        self.after
    }
}

/// Since when retention leaves a job's runs alone; none: it took nothing. It takes the oldest first.
fn kept_since(job: &JobRecord, runs: &[&RunRecord], newest: Timestamp) -> Option<Timestamp> {
    let keep = &job.rules.keep;
    let by_age = newest.before(Duration::from_secs(u64::from(keep.days) * 24 * 3600));
    let by_count = runs
        .len()
        .checked_sub(usize::try_from(keep.runs).unwrap_or(usize::MAX))
        // Runs come in order of their ids, the oldest first.
        .and_then(|gone| {
            runs[gone..].iter().filter(|run| run.lane == Lane::Schedule).map(|run| run.due).min()
        });
    [Some(by_age).filter(|since| *since > job.created_at), by_count].into_iter().flatten().max()
}

/// What comes next must not pass over a due time either: that would be tomorrow's silent loss.
fn check_next(sheet: &mut Sheet<'_>, job: &JobRecord) {
    if job.paused || job.rules.follows_runs() {
        return;
    }
    let after = job.cursor.fired_through.max(job.updated_at).max(job.created_at);
    let fires = |index: usize| job.cursor.fires.get(index).copied().unwrap_or(0);
    let open = job.rules.schedules.iter().enumerate();
    let open = open.filter(|(index, schedule)| schedule.max_runs.is_none_or(|max| fires(*index) < max));
    let Some(expected) = open.filter_map(|(_, schedule)| schedule.next(after, job.created_at)).min() else {
        return;
    };
    match job.cursor.next_due {
        None => {
            let message = format!("due next at {expected}, but nothing is planned: it will not fire again");
            sheet.broken_job(job, message);
        }
        Some(planned) if planned > expected => {
            sheet
                .broken_job(job, format!("planned for {planned}, which passes over the due time {expected}"));
        }
        Some(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use punctual_core::job::Keep;
    use punctual_core::schedule::calendar::{Calendar, Days, Entry, Weekly};
    use punctual_core::schedule::{Keeping, Schedule, When};

    use super::*;
    use crate::checks::Check;
    use crate::fixture::{Story, at};
    use crate::options::Options;

    #[test]
    fn a_due_time_without_a_run_is_found() {
        let mut story = Story::every_ten_seconds();
        story.fire(10).fire(30);
        story.breaks(Check::NeverLost, "1 due times");
        story
            .breaks(Check::NeverLost, "the first 1970-01-01T00:00:20.000Z: the work silently did not happen");
    }

    #[test]
    fn a_recorded_skip_stands_for_all_due_times_it_covers() {
        let mut story = Story::every_ten_seconds();
        story.fire(10).skip(20, 990).fire(1000);
        story.holds();
        story.skips[0].to = at(980);
        story.breaks(Check::NeverLost, "the first 1970-01-01T00:16:30.000Z");
    }

    #[test]
    fn what_was_due_before_an_edit_is_not_asked_for() {
        let mut story = Story::every_ten_seconds();
        story.fire(10).fire(40);
        story.job.updated_at = at(35);
        story.holds();
        story.job.updated_at = at(25);
        story.breaks(Check::NeverLost, "00:00:30");
    }

    #[test]
    fn a_cursor_that_lags_behind_is_found_when_the_caller_knows_the_time() {
        let mut story = Story::every_ten_seconds();
        story.fire(10);
        story.holds();
        let options = Options { fired_through: Some(at(25)), ..Story::options() };
        assert_eq!(story.history().check(&options).of(Check::NeverLost).count(), 1);
    }

    #[test]
    fn a_plan_that_passes_over_a_due_time_is_found() {
        let mut story = Story::every_ten_seconds();
        story.fire(10);
        story.job.cursor.next_due = Some(at(30));
        story.breaks(Check::NeverLost, "passes over the due time");
        story.job.cursor.next_due = None;
        story.breaks(Check::NeverLost, "will not fire again");
        story.job.paused = true;
        story.holds();
    }

    #[test]
    fn a_schedule_that_used_up_its_runs_owes_no_more() {
        let mut story = Story::every_ten_seconds();
        story.edit(|definition| definition.schedules[0].max_runs = Some(2));
        story.fire(10).fire(20);
        story.job.cursor.fired_through = at(100);
        story.job.cursor.next_due = None;
        story.holds();
        story.runs.pop();
        story.breaks(Check::NeverLost, "00:00:20");
    }

    #[test]
    fn several_schedules_are_each_asked_for_their_own() {
        let mut story = Story::every_ten_seconds();
        story.edit(|definition| {
            definition.schedules.push(Schedule::new(When::Every(Duration::from_secs(15))));
        });
        story.fire(10).fire(20).fire(30);
        story.breaks(Check::NeverLost, "00:00:15");
        let mut story = Story { runs: Vec::new(), ..story };
        story.fire(10).fire(15).fire(20).fire(30);
        story.holds();
    }

    #[test]
    fn a_day_that_is_out_of_the_calendar_owes_nothing_and_one_that_is_in_does() {
        const HALF: i64 = 12 * 3600;
        let mut story = Story::every_ten_seconds();
        story.edit(|definition| {
            // The second of January 1970 is out.
            let days = Days::new(Weekly::EVERY_DAY, [], [Entry::Span { first: 1, last: 1 }]);
            let calendar = Calendar { name: "work".parse().unwrap(), version: 1, days };
            let every = Schedule::new(When::Every(Duration::from_secs(12 * 3600)));
            let keeping = Keeping::of(Arc::new(calendar), "UTC").unwrap();
            definition.schedules = vec![Schedule { calendar: Some(keeping), ..every }];
        });
        story.fire(HALF).fire(4 * HALF).fire(5 * HALF);
        story.holds();
        story.runs[1].due = at(2 * HALF);
        story.breaks(Check::NeverLost, "1970-01-03T00:00:00.000Z");
        story.breaks(Check::OnSchedule, "does not name");
    }

    #[test]
    fn runs_that_retention_took_are_not_lost() {
        let mut story = Story::every_ten_seconds();
        story.edit(|definition| definition.keep = Keep { runs: 3, days: 30 });
        for due in [10, 20, 30, 40, 50] {
            story.fire(due);
        }
        story.runs.drain(..2);
        story.holds();
        // Two are left where three are kept: no retention did that.
        story.runs.remove(0);
        story.breaks(Check::NeverLost, "3 due times");
    }

    #[test]
    fn an_old_cursor_over_a_short_period_is_checked_in_bounded_time() {
        let mut story = Story::every_ten_seconds();
        story.edit(|definition| {
            definition.schedules = vec![Schedule::new(When::Every(Duration::from_millis(1)))];
        });
        story.job.cursor.fired_through = at(1_000_000_000);
        story.job.cursor.next_due = Some(at(1_000_000_000) + MILLISECOND);
        let report = story.history().check(&Options { may_be_empty: true, ..Story::options() });
        assert_eq!(report.of(Check::NeverLost).count(), 1);
    }
}
