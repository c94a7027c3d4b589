//! P4, never early: no attempt starts before its due time.
//!
//! If the clock was set back, a later attempt may show an earlier time. That is not early if an earlier event of the
//! run had reached the due time.

use punctual_core::Timestamp;

use super::Sheet;
use crate::history::{EventRecord, RunRecord};

pub(super) fn check(sheet: &mut Sheet<'_>) {
    let history = sheet.history;
    for run in history.runs.values() {
        let earliest = run.due.before(sheet.options.skew);
        let events = history.events_of(run.id);
        for (place, start) in events.iter().enumerate().filter(|(_, event)| event.starts()) {
            sheet.saw(1);
            if start.at < earliest && !reached(&events[..place], run) {
                complain(sheet, run, "was given to a worker", start.at);
            }
        }
        if let Some(started_at) = run.started_at
            && started_at < earliest
            && !reached(events, run)
        {
            complain(sheet, run, "started", started_at);
        }
    }
}

fn reached(events: &[EventRecord], run: &RunRecord) -> bool {
    events.iter().any(|event| event.at >= run.due)
}

fn complain(sheet: &mut Sheet<'_>, run: &RunRecord, what: &str, at: Timestamp) {
    let (due, early) = (run.due, run.due.since(at).as_millis());
    sheet.broken_run(run, format!("due {due}, it {what} at {at}, {early} ms too early"));
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::checks::Check;
    use crate::fixture::{Story, at};
    use crate::options::Options;

    fn started_at(millis: i64) -> Story {
        let mut story = Story::every_ten_seconds();
        story.fire(10);
        let run = &mut story.runs[0];
        run.started_at = Some(at(0) + Duration::from_millis(millis.unsigned_abs()));
        for entry in run.entries.iter_mut() {
            entry.at = at(0) + Duration::from_millis(millis.unsigned_abs());
        }
        run.finished_at = run.entries.last().map(|entry| entry.at);
        story
    }

    #[test]
    fn a_start_before_the_due_time_is_found() {
        started_at(9_999).breaks(Check::NeverEarly, "1 ms too early");
        started_at(10_000).holds();
    }

    #[test]
    fn a_start_within_the_skew_is_not_early() {
        let options = Options { skew: Duration::from_millis(500), ..Story::options() };
        let early = |millis| {
            let history = started_at(millis).history();
            history.check(&options).of(Check::NeverEarly).count()
        };
        assert_eq!(early(9_500), 0);
        assert_eq!(early(9_499), 2, "the event and the run both say so");
    }

    #[test]
    fn a_run_that_was_due_before_the_clock_was_set_back_is_not_early() {
        let mut story = Story::every_ten_seconds();
        story.fire(10);
        let run = &mut story.runs[0];
        run.started_at = Some(at(3));
        for entry in run.entries.iter_mut().skip(2) {
            entry.at = at(3);
        }
        run.finished_at = Some(at(3));
        story.holds();
    }
}
