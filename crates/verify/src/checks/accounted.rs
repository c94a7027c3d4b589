//! P21, everything is accounted: every event belongs to a run, every run has events, every job has its revisions, and
//! the node's counts match the history.

use std::collections::BTreeSet;

use punctual_core::Timestamp;
use punctual_core::job::State;

use super::{Sheet, runs_with_jobs};
use crate::history::{EventRecord, Lane, RunRecord};
use crate::report::About;

pub(super) fn check(sheet: &mut Sheet<'_>) {
    let history = sheet.history;
    let known = |run| history.runs.contains_key(run);
    let orphans: BTreeSet<_> = history.events.keys().filter(|run| !known(run)).copied().collect();
    for run in orphans {
        sheet.broken(About::Run(run), "it has events, but the run itself is not there".to_owned());
    }
    for run in history.runs.values() {
        sheet.saw(1);
        check_run(sheet, run);
    }
    for job in history.jobs.values() {
        let first = history.revisions_of(job).first().map_or(job.revision, |first| first.revision);
        // Retention deletes the revisions of a deleted job last, some at a time.
        let is_pruned = job.state == State::Deleted && !history.has_records_of(job.id);
        if first > 1 && !is_pruned {
            let missing = first - 1;
            sheet.broken_job(
                job,
                format!("revision {missing} is missing: nobody can say what was due under it"),
            );
        }
    }
    if sheet.options.still {
        check_cursors(sheet);
        check_stats(sheet);
    }
}

fn check_run(sheet: &mut Sheet<'_>, run: &RunRecord) {
    let events = sheet.history.events_of(run.id);
    let Some(last) = events.last() else {
        sheet.broken_run(run, "it has no events: nobody can say what became of it".to_owned());
        return;
    };
    let starts = events.iter().filter(|event| EventRecord::starts(event)).count();
    if usize::try_from(run.attempt) != Ok(starts) {
        let attempt = run.attempt;
        sheet.broken_run(run, format!("it counts {attempt} attempts, its events tell of {starts}"));
    }
    let finished_at = Some(last.at).filter(|_| run.status.is_terminal());
    if run.finished_at != finished_at {
        let told = |at: Option<Timestamp>| at.map_or("never".to_owned(), |at| at.to_string());
        let (shown, is) = (told(run.finished_at), told(finished_at));
        sheet.broken_run(run, format!("it is shown as finished at {shown}, by its events it is {is}"));
    }
}

/// A fire and the job's cursor change in one commit. If the cursor lagged, the fire would happen again.
fn check_cursors(sheet: &mut Sheet<'_>) {
    let history = sheet.history;
    for (job, run) in runs_with_jobs(history).filter(|(_, run)| run.lane == Lane::Schedule) {
        let fired_through = history.jobs[&job].cursor.fired_through;
        if run.due > fired_through {
            let due = run.due;
            let message = format!(
                "due {due}, but its job remembers fires up to {fired_through} only: it would be fired again"
            );
            sheet.broken_run(run, message);
        }
    }
}

fn check_stats(sheet: &mut Sheet<'_>) {
    let Some(stats) = sheet.history.stats else {
        return;
    };
    let counted = sheet.history.counted();
    let pairs = [
        ("jobs", stats.jobs, counted.jobs),
        ("runs", stats.live_runs.saturating_add(stats.history_runs), counted.runs),
    ];
    for (what, said, found) in pairs {
        if usize::try_from(said) != Ok(found) {
            sheet.broken(About::History, format!("the node counts {said} {what}, the history has {found}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::ids::RunId;

    use crate::checks::Check;
    use crate::fixture::{Story, at};
    use crate::history::StatsRecord;
    use crate::options::Options;

    fn one_fire() -> Story {
        let mut story = Story::every_ten_seconds();
        story.fire(10);
        story
    }

    #[test]
    fn an_event_without_its_run_is_found() {
        let mut history = one_fire().history();
        let mut lone = history.events.values().next().unwrap()[0].clone();
        lone.run = RunId(7);
        history.add_event(lone);
        let report = history.check(&Story::options());
        assert!(report.to_string().contains("run 7: it has events"), "{report}");
    }

    #[test]
    fn a_run_without_events_is_found() {
        let mut story = one_fire();
        story.runs[0].entries.clear();
        story.breaks(Check::Accounted, "it has no events");
    }

    #[test]
    fn attempts_and_ends_are_those_that_the_events_tell_of() {
        let mut story = one_fire();
        story.runs[0].attempt = 2;
        story.breaks(Check::Accounted, "2 attempts, its events tell of 1");
        let mut story = one_fire();
        story.runs[0].finished_at = None;
        story.breaks(Check::Accounted, "finished at never");
    }

    #[test]
    fn a_missing_revision_is_found() {
        let mut story = one_fire();
        story.pause(12).resume(15);
        story.holds();
        story.revisions.remove(1);
        story.breaks(Check::Accounted, "revision 2 is missing");
    }

    #[test]
    fn a_fire_that_its_cursor_forgot_is_found() {
        let mut story = one_fire();
        story.job.cursor.fired_through = at(9);
        story.breaks(Check::Accounted, "would be fired again");
    }

    #[test]
    fn counters_equal_records_when_nothing_moves() {
        let mut history = one_fire().history();
        let mut findings = |history_runs, still| {
            history.stats = Some(StatsRecord { jobs: 1, live_runs: 0, history_runs });
            history.check(&Options { still, ..Options::default() }).of(Check::Accounted).count()
        };
        assert_eq!((findings(1, true), findings(2, true), findings(2, false)), (0, 1, 0));
    }
}
