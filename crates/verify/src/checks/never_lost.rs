//! P2, no silent loss: every due time of an active job has a run or a recorded skip.
//!
//! Each revision is checked by its own schedules, from its beginning to the next revision; the last one up to the job's
//! cursor, which promises that everything before it was handled. Pauses and calendar exclusions have skip records too.
//! Rows deleted by retention are not expected.

use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::change::SkipReason;
use punctual_core::ids::JobId;
use punctual_core::job::State;
use punctual_core::schedule::{self, Schedule};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Sheet, runs_with_jobs};
use crate::history::{JobRecord, Lane, RevisionRecord, RunRecord};

/// Maximum number of lost due times searched for per schedule and revision.
const LOST_MAX: usize = 1000;

const DAY: Duration = Duration::from_secs(24 * 3600);
const MILLISECOND: Duration = Duration::from_millis(1);

pub(super) fn check(sheet: &mut Sheet<'_>) {
    let history = sheet.history;
    let mut runs: FxHashMap<JobId, Vec<&RunRecord>> = FxHashMap::default();
    for (job, run) in runs_with_jobs(history) {
        runs.entry(job).or_default().push(run);
    }
    let newest = history.runs.values().map(|run| run.created_at).max().unwrap_or_default();
    for job in history.jobs.values() {
        Owed::of(sheet, job, runs.get(&job.id).map_or(&[], Vec::as_slice), newest).check(sheet);
        check_next(sheet, job);
    }
}

/// The due times of a job, revision by revision: each must have a run or a skip.
struct Owed<'a> {
    job: &'a JobRecord,
    revisions: Vec<&'a RevisionRecord>,
    /// Existing fires: revision and due time.
    made: FxHashSet<(u32, Timestamp)>,
    /// Due times before this are not expected. `None` means the beginning.
    from: Option<Timestamp>,
}

/// One revision, and the due times that it decides: those after `after`, up to `until`.
struct Reign<'a> {
    revision: &'a RevisionRecord,
    after: Timestamp,
    until: Timestamp,
    /// How often each schedule had fired before. `None` means unknown.
    fired: Option<Vec<u32>>,
}

impl<'a> Owed<'a> {
    fn of(sheet: &Sheet<'a>, job: &'a JobRecord, runs: &[&RunRecord], newest: Timestamp) -> Owed<'a> {
        let revisions = sheet.history.revisions_of(job);
        let kept_since = kept_since(job, &revisions, runs, (newest, sheet.options.ad_hoc_kept));
        let fires = runs.iter().filter(|run| run.lane == Lane::Schedule);
        Owed {
            job,
            made: fires.map(|run| (run.revision, run.due)).collect(),
            from: [sheet.options.from, kept_since].into_iter().flatten().max(),
            revisions,
        }
    }

    fn check(&self, sheet: &mut Sheet<'_>) {
        let (mut decided, mut fired) = (self.job.created_at, Some(Vec::new()));
        for (place, revision) in self.revisions.iter().enumerate() {
            let before = place.checked_sub(1).map(|before| self.revisions[before]);
            if before.is_none_or(|before| !before.rules.has_schedules_of(&revision.rules)) {
                // New schedules count from zero. The count of an unknown revision is unknown.
                fired = (before.is_some() || revision.revision == 1)
                    .then(|| vec![0; revision.rules.schedules.len()]);
            }
            let begins = revision.at.max(decided);
            let after = self.from.map_or(begins, |from| begins.max(from.before(MILLISECOND)));
            if after > begins {
                fired = None;
            }
            let until = match self.revisions.get(place + 1) {
                Some(next) => next.at,
                None => self.until(sheet),
            };
            let mut reign = Reign { revision, after, until, fired };
            if revision.state != State::Deleted {
                self.check_reign(sheet, &mut reign);
            }
            fired = reign.fired;
            decided = decided.max(self.decided_by(sheet, revision));
            if let Some(next) = self.revisions.get(place + 1) {
                self.check_dropped(sheet, revision, next, decided);
            }
        }
    }

    /// The time up to which the last revision must have decided.
    fn until(&self, sheet: &Sheet<'_>) -> Timestamp {
        let asked = sheet.options.fired_through.filter(|_| self.job.state == State::Active);
        asked.map_or(self.job.cursor.fired_through, |asked| asked.max(self.job.cursor.fired_through))
    }

    /// The last due time that a revision decided. It may be after the next revision if a clock was set back.
    fn decided_by(&self, sheet: &Sheet<'_>, revision: &RevisionRecord) -> Timestamp {
        let runs = self.made.iter().filter(|(number, _)| *number == revision.revision).map(|(_, due)| *due);
        let skips = sheet.history.skips.get(&(self.job.id, revision.revision));
        let skips = skips.into_iter().flatten().filter(|skip| skip.reason != SkipReason::Edited);
        runs.chain(skips.map(|skip| skip.to)).max().unwrap_or(Timestamp::MIN)
    }

    fn check_reign(&self, sheet: &mut Sheet<'_>, reign: &mut Reign<'_>) {
        let mut lost = Vec::new();
        for (index, schedule) in reign.revision.rules.schedules.iter().enumerate() {
            self.check_schedule(sheet, reign, (index, schedule), &mut lost);
        }
        if let Some(first) = lost.iter().min() {
            let count = lost.len();
            let message = format!(
                "{count} due times have neither a run nor a recorded skip, the first {first}: the work \
                 silently did not happen"
            );
            sheet.broken_job(self.job, message);
        }
        if reign.revision.state == State::Active {
            self.check_excluded(sheet, reign);
        }
    }

    fn check_schedule(
        &self,
        sheet: &mut Sheet<'_>,
        reign: &mut Reign<'_>,
        (index, schedule): (usize, &Schedule),
        lost: &mut Vec<Timestamp>,
    ) {
        let (number, is_paused) = (reign.revision.revision, reign.revision.state == State::Paused);
        let is_wanted = |reason| match reason {
            SkipReason::Paused => is_paused,
            SkipReason::Misfire | SkipReason::Held => !is_paused,
            SkipReason::Calendar | SkipReason::Edited => false,
        };
        let mut fired = reign.fired.as_ref().map(|fired| fired[index]);
        if schedule.max_runs.is_some_and(|max| fired.is_none() && self.may_be_used_up(number, index, max)) {
            return;
        }
        let (mut after, mut missing) = (reign.after, 0);
        while let Some(due) = schedule.next(after, self.job.created_at).filter(|due| *due <= reign.until) {
            let is_used_up = fired.is_some_and(|fired| schedule.max_runs.is_some_and(|max| fired >= max));
            if missing == LOST_MAX || is_used_up {
                break;
            }
            sheet.saw(1);
            after = due;
            if !is_paused && self.made.contains(&(number, due)) {
                fired = fired.map(|fired| fired + 1);
            } else if let Some(skip) = sheet.history.skip_over((self.job.id, number), due, is_wanted) {
                // A record is passed in one step, however many due times it covers.
                after = skip.to.max(due);
            } else {
                // Count a lost fire too; otherwise `max_runs` would expect one more.
                fired = fired.map(|fired| fired + 1);
                missing += 1;
                lost.push(due);
            }
        }
        if let (Some(all), Some(fired)) = (&mut reign.fired, fired) {
            all[index] = fired;
        }
    }

    /// Whether a schedule may have used up its `max_runs`, as far as known: then nothing is expected of it.
    fn may_be_used_up(&self, revision: u32, index: usize, max: u32) -> bool {
        let fires = self.job.cursor.fires.get(index).copied().unwrap_or(0);
        revision != self.job.revision || fires >= max
    }

    /// Calendar exclusions are recorded up to the last due time; the next fire or edit records the rest.
    fn check_excluded(&self, sheet: &mut Sheet<'_>, reign: &Reign<'_>) {
        let (number, schedules) = (reign.revision.revision, &reign.revision.rules.schedules);
        let is_last = number == self.job.revision;
        let until = if is_last { self.job.cursor.fired_through } else { reign.until };
        let mut after = reign.after;
        while let Some(due) = schedule::next_excluded(schedules, self.job.created_at, after, until) {
            sheet.saw(1);
            let Some(skip) =
                sheet.history.skip_over((self.job.id, number), due, |reason| reason == SkipReason::Calendar)
            else {
                let message = format!("its calendar excludes {due}, and no skip record says so");
                return sheet.broken_job(self.job, message);
            };
            after = skip.to.max(due);
        }
    }

    /// If an edit drops a planned due time, there must be a record of it.
    fn check_dropped(
        &self,
        sheet: &mut Sheet<'_>,
        old: &RevisionRecord,
        new: &RevisionRecord,
        decided: Timestamp,
    ) {
        let rules = &old.rules;
        let is_counted = rules.schedules.iter().any(|schedule| schedule.max_runs.is_some());
        let is_edit = (old.state, new.state) == (State::Active, State::Active);
        let is_kept = self.from.is_none_or(|from| new.at >= from);
        if !is_edit || !is_kept || is_counted || rules.follows_runs() || rules.has_schedules_of(&new.rules) {
            return;
        }
        let (created, number) = (self.job.created_at, old.revision);
        let after = new.at.max(decided);
        let planned = rules.schedules.iter().filter_map(|schedule| schedule.next(after, created)).min();
        let Some(planned) = planned.filter(|due| !schedule::any_names(&new.rules.schedules, created, *due))
        else {
            return;
        };
        sheet.saw(1);
        let is_on_record = sheet
            .history
            .skip_over((self.job.id, number), planned, |reason| reason == SkipReason::Edited)
            .is_some();
        if !is_on_record {
            let message = format!("an edit dropped the due time {planned}, and no skip record says so");
            sheet.broken_job(self.job, message);
        }
    }
}

/// The time since when retention has deleted no runs of a job. `None` means it deleted nothing. Retention deletes the
/// oldest runs first, by the `keep` rule of the revision at that time. A deleted job is checked from its oldest
/// remaining run.
fn kept_since(
    job: &JobRecord,
    revisions: &[&RevisionRecord],
    runs: &[&RunRecord],
    (newest, ad_hoc_kept): (Timestamp, Duration),
) -> Option<Timestamp> {
    // Child runs do not count, and go with their parent. Runs are ordered by id, oldest first.
    let runs: Vec<&RunRecord> = runs.iter().copied().filter(|run| run.parent.is_none()).collect();
    let oldest =
        |runs: &[&RunRecord]| runs.iter().filter(|run| run.lane == Lane::Schedule).map(|run| run.due).min();
    let by_age =
        |end: Timestamp, kept: Duration| Some(end.before(kept)).filter(|since| *since > job.created_at);
    let kept = revisions.iter().enumerate().flat_map(|(place, revision)| {
        let end = revisions.get(place + 1).map_or(newest, |next| next.at.min(newest));
        let keep = &revision.rules.keep;
        let then = &runs[..runs.partition_point(|run| run.created_at <= end)];
        let gone = then.len().checked_sub(usize::try_from(keep.runs).unwrap_or(usize::MAX));
        [by_age(end, DAY * keep.days), gone.and_then(|gone| oldest(&then[gone..]))]
    });
    let after_deletion = (job.state == State::Deleted)
        .then(|| [by_age(newest, ad_hoc_kept), Some(oldest(&runs).unwrap_or(Timestamp::MAX))]);
    kept.chain(after_deletion.into_iter().flatten()).flatten().max()
}

/// The planned next fire must not pass over a due time either: that would be a future silent loss.
fn check_next(sheet: &mut Sheet<'_>, job: &JobRecord) {
    if job.state != State::Active || job.rules.follows_runs() {
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
    use punctual_core::schedule::{Schedule, ScheduleCalendar, When};

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

    /// Fires at 10 and 20, every seven seconds from 25 on, paused from 40 to 60, then on to 70.
    fn edited_and_paused() -> Story {
        let mut story = Story::every_ten_seconds();
        story.fire(10).fire(20);
        story.reschedule(25, When::Every(Duration::from_secs(7)));
        story.fire(28).fire(35);
        story.pause(40).skip_for(SkipReason::Paused, 42, 56).resume(60);
        story.fire(63).fire(70);
        story
    }

    #[test]
    fn each_revision_is_asked_for_its_own_due_times() {
        edited_and_paused().holds();
        for (place, lost) in
            [(0, "00:00:10"), (1, "00:00:20"), (2, "00:00:28"), (3, "00:00:35"), (4, "00:01:03")]
        {
            let mut story = edited_and_paused();
            story.runs.remove(place);
            story.breaks(Check::NeverLost, lost);
        }
    }

    #[test]
    fn a_pause_stands_for_its_own_due_times_only() {
        let mut story = edited_and_paused();
        story.skips[1].to = at(49);
        story.breaks(Check::NeverLost, "00:00:56");
        let mut story = edited_and_paused();
        story.skips[1].from = at(35);
        story.runs.remove(3);
        story.breaks(Check::NeverLost, "00:00:35");
        let mut story = edited_and_paused();
        story.skips[1].reason = SkipReason::Misfire;
        story.breaks(Check::NeverLost, "00:00:42");
    }

    #[test]
    fn a_due_time_that_an_edit_dropped_is_on_record() {
        let mut story = edited_and_paused();
        assert_eq!((story.skips[0].from, story.skips[0].reason), (at(30), SkipReason::Edited));
        story.skips.remove(0);
        story.breaks(Check::NeverLost, "an edit dropped the due time 1970-01-01T00:00:30.000Z");
    }

    #[test]
    fn a_deleted_job_is_held_to_what_is_left_of_it() {
        let deleted = |story: &mut Story| {
            story.revise(75, punctual_core::job::Job::unplan);
            let mut history = story.history();
            history.add_deleted_job(&story.job);
            history.check(&Story::options()).of(Check::NeverLost).count()
        };
        assert_eq!(deleted(&mut edited_and_paused()), 0);
        let mut story = edited_and_paused();
        story.runs.remove(0);
        assert_eq!(deleted(&mut story), 0, "the oldest may have been pruned");
        let mut story = edited_and_paused();
        story.runs.remove(2);
        assert_eq!(deleted(&mut story), 1);
    }

    #[test]
    fn what_an_earlier_revision_did_not_keep_is_not_asked_for() {
        let mut story = Story::every_ten_seconds();
        story.edit(|definition| definition.keep = Keep { runs: 2, days: 30 });
        story.fire(10).fire(20).fire(30).fire(40);
        story.revise(45, |job| Arc::make_mut(&mut job.definition).keep = Keep { runs: 100, days: 30 });
        story.fire(50).fire(60);
        story.runs.drain(..2);
        story.holds();
        story.runs.remove(2);
        story.breaks(Check::NeverLost, "00:00:50");
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
        story.pause(15).holds();
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
            // 2 January 1970 is excluded.
            let days = Days::new(Weekly::EVERY_DAY, [], [Entry::Span { first: 1, last: 1 }]);
            let calendar = Calendar { name: "work".parse().unwrap(), version: 1, days };
            let every = Schedule::new(When::Every(Duration::from_secs(12 * 3600)));
            let keeping = ScheduleCalendar::of(Arc::new(calendar), "UTC").unwrap();
            definition.schedules = vec![Schedule { calendar: Some(keeping), ..every }];
        });
        story.fire(HALF).skip_for(SkipReason::Calendar, 2 * HALF, 3 * HALF).fire(4 * HALF).fire(5 * HALF);
        story.holds();
        let record = story.skips.pop();
        story.breaks(Check::NeverLost, "excludes 1970-01-02T00:00:00.000Z");
        story.skips.extend(record);
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
        // Two runs are left although three are kept: retention cannot be the cause.
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
