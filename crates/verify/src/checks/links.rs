//! P15, links between runs of different jobs: a `job` step starts one run, and the two runs name each other. A job that
//! follows another one (`schedule.after`) starts once for a run of it, after the end of that run.
//!
//! Retention deletes the runs of each job on their own, so the run at the other end of a link may be gone. It is missed
//! only if retention cannot have deleted it.

mod followers;

use std::collections::hash_map::Entry;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::ids::{self, JobId, RunId};
use punctual_core::job::State;
use punctual_core::name::{Name, Namespace};
use punctual_core::run::{Status, Trigger};
use rustc_hash::FxHashMap;

use super::{COMMIT_MAX, Sheet, runs_with_jobs};
use crate::history::{History, JobRecord, JobRef, RunRecord};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// A job, and the run that started a run of it.
type Start<'a> = (&'a Namespace, Option<&'a JobRef>, RunId);

pub(super) fn check(sheet: &mut Sheet<'_>) {
    let history = sheet.history;
    let kept = Kept::of(history);
    let mut starts: FxHashMap<Start<'_>, RunId> = FxHashMap::default();
    for run in history.runs.values() {
        if matches!(run.trigger, Trigger::Workflow | Trigger::After) {
            sheet.saw(1);
            check_started(sheet, &kept, &mut starts, run);
        }
        if let Some(job) = run.starts.as_ref().filter(|_| run.status == Status::Succeeded) {
            sheet.saw(1);
            check_starter(sheet, &kept, run, job);
        }
    }
    followers::check(sheet, &kept);
}

/// A run that another one has started.
fn check_started<'a>(
    sheet: &mut Sheet<'a>,
    kept: &Kept,
    starts: &mut FxHashMap<Start<'a>, RunId>,
    run: &'a RunRecord,
) {
    let Some(by) = run.started_by else {
        let trigger = run.trigger;
        let message = format!("its trigger is `{trigger}`, and it does not say which run started it");
        return sheet.broken_run(run, message);
    };
    match starts.entry((&run.namespace, run.job.as_ref(), by)) {
        Entry::Vacant(place) => _ = place.insert(run.id),
        Entry::Occupied(first) => {
            let first = *first.get();
            let message =
                format!("run {by} had started run {first} of the job already: the work was done twice");
            sheet.broken_run(run, message);
        }
    }
    let history = sheet.history;
    match (history.runs.get(&by), run.trigger) {
        (Some(by), Trigger::After) => check_upstream(sheet, run, by),
        (Some(step), _) if step.status == Status::Succeeded && step.started != Some(run.id) => {
            sheet
                .broken_run(run, format!("run {by} started it, and names another run as the one it started"));
        }
        (None, Trigger::After) => {
            let follows = history.rules_of(run).into_iter().flat_map(|rules| &rules.follows);
            let followed: Vec<Name> = follows.map(|follows| follows.job.clone()).collect();
            if kept.must_have(sheet, by, (&run.namespace, &followed)) {
                sheet.broken_run(run, format!("it follows run {by}, which does not exist"));
            }
        }
        // The job of the step is not known here, and so it is not known how long its runs are kept.
        _ => {}
    }
}

fn check_upstream(sheet: &mut Sheet<'_>, run: &RunRecord, upstream: &RunRecord) {
    let (id, status) = (upstream.id, upstream.status);
    if status == Status::Skipped {
        sheet.broken_run(run, format!("it follows run {id}, which was skipped: that starts nothing"));
    } else if !status.is_terminal() && was_read_after(sheet, upstream, run.created_at) {
        sheet.broken_run(run, format!("it follows the end of run {id}, which is {status}"));
    }
}

/// The run of a `job` step, which has succeeded.
fn check_starter(sheet: &mut Sheet<'_>, kept: &Kept, run: &RunRecord, job: &Name) {
    let Some(started) = run.started else {
        let message = format!("it has succeeded, and it names no run of job `{job}` that it started");
        return sheet.broken_run(run, message);
    };
    let Some(other) = sheet.history.runs.get(&started) else {
        if kept.must_have(sheet, started, (&run.namespace, std::slice::from_ref(job))) {
            let message = format!(
                "it has succeeded, and run {started} of job `{job}`, which it started, does not exist"
            );
            sheet.broken_run(run, message);
        }
        return;
    };
    if other.started_by != Some(run.id) {
        sheet.broken_run(run, format!("it started run {started}, which does not name it"));
    }
    let is_known = other.status.is_terminal()
        || run.finished_at.is_none_or(|finished| was_read_after(sheet, other, finished));
    if other.status != Status::Succeeded && is_known {
        let status = other.status;
        sheet.broken_run(
            run,
            format!("it has succeeded, and yet run {started}, which it started, is {status}"),
        );
    }
}

/// Whether all that had happened up to an instant was stored when a run was read.
fn was_read_after(sheet: &Sheet<'_>, run: &RunRecord, at: Timestamp) -> bool {
    sheet.options.still || run.read_at.is_none_or(|read_at| read_at.before(COMMIT_MAX) > at)
}

/// What retention has kept.
struct Kept {
    /// The runs of each job without child runs, which retention does not count, oldest first.
    runs: FxHashMap<JobId, Vec<RunId>>,
    newest: Timestamp,
}

impl Kept {
    fn of(history: &History) -> Kept {
        let mut runs: FxHashMap<JobId, Vec<RunId>> = FxHashMap::default();
        for (job, run) in runs_with_jobs(history).filter(|(_, run)| run.parent.is_none()) {
            runs.entry(job).or_default().push(run.id);
        }
        let last = |run: &RunRecord| run.read_at.max(run.finished_at).unwrap_or(run.created_at);
        Kept { runs, newest: history.runs.values().map(last).max().unwrap_or_default() }
    }

    /// Whether a run of one of these jobs would be in the history if it existed.
    fn must_have(&self, sheet: &Sheet<'_>, run: RunId, (namespace, jobs): (&Namespace, &[Name])) -> bool {
        let history = sheet.history;
        let keeps =
            |job: &Name| history.job_named(namespace, job).is_some_and(|job| self.keeps(history, job, run));
        !jobs.is_empty() && was_read(sheet, run) && jobs.iter().all(keeps)
    }

    /// Whether retention would have kept a run of this job under every revision of it.
    fn keeps(&self, history: &History, job: &JobRecord, run: RunId) -> bool {
        let revisions = history.revisions_of(job);
        let keeps = || revisions.iter().map(|revision| &revision.rules.keep);
        let (Some(count), Some(days)) =
            (keeps().map(|keep| keep.runs).min(), keeps().map(|keep| keep.days).min())
        else {
            return false;
        };
        let runs = self.runs.get(&job.id).map_or(&[][..], Vec::as_slice);
        let gone = runs.len().checked_sub(usize::try_from(count).unwrap_or(usize::MAX));
        let is_counted_in = gone.is_none_or(|gone| runs.get(gone).is_some_and(|oldest| *oldest < run));
        let since = self.newest.before(DAY * days);
        // The id says when the run was made; its end, which retention goes by, came later.
        let is_recent = since <= job.created_at || ids::made_at(run.0) >= since + DAY;
        // An older run belongs to an earlier job of this name.
        job.state != State::Deleted && job.id.0 < run.0 && is_counted_in && is_recent
    }
}

/// Whether the history begins before a run, and its place in the history was read after the run was made. An export is
/// read in the order of ids, and may be of a part of the time.
fn was_read(sheet: &Sheet<'_>, run: RunId) -> bool {
    let (runs, made_at) = (&sheet.history.runs, ids::made_at(run.0));
    let Some((_, before)) = runs.range(..run).next_back() else { return false };
    if sheet.options.from.is_some_and(|from| made_at < from) {
        return false;
    }
    if sheet.options.still || before.read_at.is_none() {
        return true;
    }
    let after = runs.range(run..).next();
    after.is_some_and(|(_, after)| {
        [before, after].into_iter().all(|read| was_read_after(sheet, read, made_at))
    })
}

#[cfg(test)]
mod tests {
    use punctual_core::job::Overlap;
    use punctual_core::queue::Sender;
    use punctual_core::run::{Assignee, Link, State as RunState};
    use punctual_core::schedule::{After, Ends, Schedule, When};

    use super::*;
    use crate::checks::Check;
    use crate::fixture::{Story, at};
    use crate::options::Options;

    /// Runs at 10, 20 and 30, and one at 22 that follows the end of the second.
    fn following() -> Story {
        let mut story = Story::every_ten_seconds();
        let after = After { job: story.job.name.clone(), on: Ends::Ended };
        story.edit(|definition| definition.schedules.push(Schedule::new(When::After(after))));
        story.fire(10).fire(20).run_of(Trigger::After, 22).fire(30);
        let upstream = Some(story.runs[1].id);
        story.runs[2].link = Some(Box::new(Link { upstream, depth: 1, ..Link::default() }));
        story
    }

    /// A workflow at 20 whose step `b` starts another run of the job.
    fn calling() -> Story {
        let mut story = Story::every_ten_seconds();
        story.edit(|definition| definition.overlap = Overlap::Allow);
        story.fire(10).fire_workflow(20, false).run_of(Trigger::Workflow, 21);
        let (job, called) = (story.job.name.clone(), story.runs.last().map(|run| run.id));
        let step = story.run_of_step("b");
        let caller = Some(Sender { run: step.id, token: step.token });
        step.assignee = Some(Assignee::Job(job));
        step.link = Some(Box::new(Link { called, ..Link::default() }));
        started(&mut story).link = Some(Box::new(Link { caller, depth: 1, ..Link::default() }));
        story
    }

    fn started(story: &mut Story) -> &mut punctual_core::run::Run {
        story.runs.last_mut().unwrap()
    }

    #[track_caller]
    fn finds_nothing(history: &History, options: &Options) {
        let report = history.check(options);
        assert_eq!(report.of(Check::Links).count(), 0, "{report}");
    }

    #[test]
    fn runs_that_name_each_other_hold() {
        following().holds();
        calling().holds();
    }

    #[test]
    fn two_runs_that_follow_the_same_run_are_found() {
        let mut story = following();
        let mut second = story.runs[2].clone();
        second.id.0 += 50;
        story.runs.push(second);
        story.breaks(Check::Links, "run 101 had started run 102 of the job already: the work was done twice");
    }

    #[test]
    fn two_runs_that_a_step_has_started_are_found() {
        let mut story = calling();
        let mut second = started(&mut story).clone();
        second.id.0 += 50;
        story.runs.push(second);
        story.breaks(Check::Links, "the work was done twice");
        story.breaks(Check::Links, "names another run as the one it started");
    }

    #[test]
    fn a_run_that_follows_nothing_is_found() {
        let mut story = following();
        story.runs[2].link = None;
        story.breaks(Check::Links, "its trigger is `after`, and it does not say which run started it");
    }

    #[test]
    fn a_run_that_follows_a_run_without_an_end_is_found() {
        let mut story = following();
        story.runs[1].state = RunState::Ready { since: at(20) };
        story.breaks(Check::Links, "it follows the end of run 101, which is ready");
        story.runs[1].state = RunState::Skipped;
        story.breaks(Check::Links, "it follows run 101, which was skipped");
    }

    #[test]
    fn a_missing_upstream_run_is_found_if_it_was_kept() {
        let mut story = following();
        story.runs.remove(1);
        story.breaks(Check::Links, "it follows run 101, which does not exist");
        let mut pruned = story.clone();
        pruned.edit(|definition| definition.keep.runs = 2);
        finds_nothing(&pruned.history(), &Story::options());
        // The history begins after it.
        story.runs.remove(0);
        finds_nothing(&story.history(), &Story::options());
    }

    #[test]
    fn a_missing_run_may_be_newer_than_the_page() {
        let check = |seconds: u64| {
            let mut story = following();
            let missing = story.runs.remove(1).id;
            let mut history = story.history();
            for run in &story.runs {
                let read_at = ids::made_at(missing.0) + Duration::from_secs(seconds);
                history.runs.get_mut(&run.id).unwrap().read_at = Some(read_at);
            }
            history.check(&Options::default()).of(Check::Links).count()
        };
        assert_eq!((check(29), check(31)), (0, 1));
    }

    #[test]
    fn a_step_that_names_no_run_or_a_missing_one_is_found() {
        let mut story = calling();
        story.runs.pop();
        story.breaks(Check::Links, "run 105 of job `beat`, which it started, does not exist");
        story.run_of_step("b").link = None;
        story.breaks(Check::Links, "it names no run of job `beat` that it started");
    }

    #[test]
    fn a_run_that_does_not_name_its_step_is_found() {
        let mut story = calling();
        let caller = Some(Sender { run: RunId(100), token: started(&mut story).token });
        started(&mut story).link = Some(Box::new(Link { caller, ..Link::default() }));
        story.breaks(Check::Links, "it started run 105, which does not name it");
    }

    #[test]
    fn a_step_that_hides_the_failure_of_its_run_is_found() {
        let mut story = calling();
        started(&mut story).state = RunState::Failed;
        story.breaks(Check::Links, "it has succeeded, and yet run 105, which it started, is failed");
    }
}
