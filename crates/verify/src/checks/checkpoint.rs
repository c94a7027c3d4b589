//! T-21, checkpoints: an attempt continues at the newest checkpoint that was stored before it, or at a newer one. Only after a
//! failure may it start over, if the job says so.

use punctual_core::progress::Version;
use punctual_core::run::Status;

use super::Sheet;
use crate::history::{EventRecord, RunRecord};

pub(super) fn check(sheet: &mut Sheet<'_>) {
    let history = sheet.history;
    // Most runs have no checkpoint.
    let mut last = None;
    for run in history.resumes.keys().map(|(run, _)| *run) {
        if last.replace(run) != Some(run)
            && let Some(run) = history.runs.get(&run)
        {
            check_starts(sheet, run, history.events_of(run.id));
        }
    }
}

/// Follows the newest checkpoint from attempt to attempt.
fn check_starts(sheet: &mut Sheet<'_>, run: &RunRecord, events: &[EventRecord]) {
    let mut newest: Option<Version> = None;
    let starts = events.iter().enumerate().filter(|(_, event)| event.starts());
    for ((place, start), attempt) in starts.zip(1..) {
        let resume = sheet.history.resumes.get(&(run.id, start.token));
        let kept = newest.max(resume.map(|resume| resume.kept));
        let given = resume.and_then(|resume| resume.given);
        newest = given;
        let Some(kept) = kept else { continue };
        sheet.saw(1);
        let may_start_over = given.is_none() && may_start_over(sheet, run, &events[..place]);
        if given >= Some(kept) || may_start_over {
            continue;
        }
        let given = given.map_or_else(|| "no checkpoint".to_owned(), told);
        let kept = told(kept);
        sheet.broken_run(
            run,
            format!(
                "attempt {attempt} was given {given}, but {kept} was stored before: work that was done is \
                 done again"
            ),
        );
    }
}

/// Whether the attempt before failed, under rules that start over then. The rules of a run without a job are not known.
fn may_start_over(sheet: &Sheet<'_>, run: &RunRecord, before: &[EventRecord]) -> bool {
    let resumes = sheet.history.rules_of(run).is_some_and(|rules| rules.resume);
    let ended =
        before.iter().rev().find(|event| event.from == Some(Status::Running) && event.to != Status::Running);
    !resumes && ended.is_some_and(|event| event.what.as_deref() == Some("failed"))
}

fn told(version: Version) -> String {
    let Version { attempt, seq, count } = version;
    let report = seq.map(|seq| format!(", report {seq}")).unwrap_or_default();
    format!("checkpoint {count} (attempt {attempt}{report})")
}

#[cfg(test)]
mod tests {
    use punctual_core::progress::{Resume, Version};

    use crate::checks::Check;
    use crate::fixture::Story;

    /// A run whose worker is lost after its second checkpoint; `change` is made to what the next attempt was given.
    fn told(change: impl FnOnce(&mut Resume)) -> Story {
        let mut story = Story::every_ten_seconds();
        story.fire_and_lose(10);
        let resumes = story.runs[0].resumes.as_mut().unwrap();
        change(&mut resumes.starts[0]);
        story
    }

    #[test]
    fn an_attempt_that_continues_at_the_newest_checkpoint_is_fine() {
        told(|_| {}).holds();
        told(|resume| resume.given = resume.given.map(|given| Version { seq: Some(3), count: 3, ..given }))
            .holds();
    }

    #[test]
    fn an_attempt_without_the_checkpoint_is_found() {
        told(|resume| resume.given = None).breaks(
            Check::Checkpoint,
            "attempt 2 was given no checkpoint, but checkpoint 2 (attempt 1, report 2) was stored before",
        );
    }

    #[test]
    fn an_attempt_with_an_older_checkpoint_is_found() {
        told(|resume| resume.given = resume.given.map(|given| Version { seq: Some(1), ..given }))
            .breaks(Check::Checkpoint, "attempt 2 was given checkpoint 2 (attempt 1, report 1), but");
    }

    #[test]
    fn a_checkpoint_that_is_forgotten_between_attempts_is_found() {
        let mut story = Story::every_ten_seconds();
        story.fire_and_lose_times(10, 2);
        story.holds();
        story.runs[0].resumes.as_mut().unwrap().starts.pop();
        story.breaks(Check::Checkpoint, "attempt 3 was given no checkpoint");
    }

    #[test]
    fn an_attempt_after_a_failure_starts_over_only_if_the_job_says_so() {
        let mut story = Story::every_ten_seconds();
        story.edit(|definition| definition.retry.attempts = 2);
        story.fire_and_fail(10);
        story.holds();
        story.runs[0].resumes.as_mut().unwrap().starts[0].given = None;
        story.breaks(Check::Checkpoint, "attempt 2 was given no checkpoint");
        story.edit(|definition| definition.retry.resume = false);
        story.holds();
        let mut story = told(|resume| resume.given = None);
        story.edit(|definition| definition.retry.resume = false);
        story.breaks(Check::Checkpoint, "attempt 2 was given no checkpoint");
    }
}
