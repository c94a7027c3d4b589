//! P10, at most once on request: a run that asks for it starts at most one attempt, possibly none.

use super::Sheet;
use crate::history::EventRecord;

pub(super) fn check(sheet: &mut Sheet<'_>) {
    let history = sheet.history;
    for run in history.runs.values() {
        if history.is_at_most_once(run) != Some(true) {
            continue;
        }
        sheet.saw(1);
        let events = history.events_of(run.id);
        let starts = events.iter().filter(|event| EventRecord::starts(event)).count();
        // A `moved` attempt was declined by its worker before it began.
        let starts =
            starts - events.iter().filter(|event| event.what.as_deref() == Some("moved")).count().min(starts);
        if starts > 1 {
            sheet.broken_run(run, format!("it may start at most once, and it was started {starts} times"));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::checks::Check;
    use crate::fixture::Story;

    #[test]
    fn a_second_start_is_found_where_only_one_is_allowed() {
        let mut story = Story::every_ten_seconds();
        story.fire_and_lose(10);
        story.holds();
        story.edit(|definition| definition.at_most_once = true);
        story.breaks(Check::AtMostOnce, "started 2 times");
    }
}
