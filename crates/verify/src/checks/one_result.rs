//! P8 and P9, one result: a run ends once, under its newest token, and no attempt starts after a success.

use punctual_core::run::Status;

use super::Sheet;
use crate::history::{EventRecord, RunRecord};

pub(super) fn check(sheet: &mut Sheet<'_>) {
    let history = sheet.history;
    for run in history.runs.values() {
        let events = history.events_of(run.id);
        check_ends(sheet, run, events);
        check_tokens(sheet, run, events);
    }
}

fn check_ends(sheet: &mut Sheet<'_>, run: &RunRecord, events: &[EventRecord]) {
    let mut ends = events.iter().enumerate().filter(|(_, event)| event.to.is_terminal());
    let Some((place, first)) = ends.next() else {
        return;
    };
    sheet.saw(1);
    if let Some((_, second)) = ends.next() {
        let (first, second) = (first.to, second.to);
        sheet.broken_run(
            run,
            format!("it ended twice, as {first} and as {second}: two results were accepted"),
        );
    }
    if first.to == Status::Succeeded && events[place..].iter().any(EventRecord::starts) {
        sheet.broken_run(run, "it was started again after it had succeeded".to_owned());
    }
}

/// Every start has a higher token than the attempts before it, and later events of the attempt have the same token.
fn check_tokens(sheet: &mut Sheet<'_>, run: &RunRecord, events: &[EventRecord]) {
    for pair in events.windows(2) {
        let (before, after, seq) = (pair[0].token, pair[1].token, pair[1].seq);
        if pair[1].starts() {
            if after <= before {
                let message = format!(
                    "event {seq}: the attempt got token {after} after {before}: an older one is not outdated"
                );
                sheet.broken_run(run, message);
            }
        } else if after != before {
            sheet.broken_run(
                run,
                format!("event {seq}: it came under token {after}, but the newest was {before}"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::ids::Token;
    use punctual_core::run::{Entry, What};

    use super::*;
    use crate::checks::Check;
    use crate::fixture::Story;

    fn told(change: impl FnOnce(&mut Vec<Entry>)) -> Story {
        let mut story = Story::every_ten_seconds();
        story.fire(10);
        change(&mut story.runs[0].entries);
        story
    }

    #[test]
    fn a_second_result_is_found() {
        told(|entries| {
            let last = entries[entries.len() - 1].clone();
            entries.push(Entry { to: Status::Failed, ..last });
        })
        .breaks(Check::OneResult, "two results were accepted");
    }

    #[test]
    fn a_start_after_success_is_found() {
        told(|entries| {
            let last = entries[entries.len() - 1].clone();
            entries.push(Entry { to: Status::Running, what: What::Assigned, token: Token(u64::MAX), ..last });
        })
        .breaks(Check::OneResult, "started again after it had succeeded");
    }

    #[test]
    fn a_token_that_does_not_grow_is_found() {
        told(|entries| entries[2].token = Token(0)).breaks(Check::OneResult, "is not outdated");
    }

    #[test]
    fn a_result_under_an_outdated_token_is_found() {
        told(|entries| entries[3].token = Token(1)).breaks(Check::OneResult, "but the newest was");
    }
}
