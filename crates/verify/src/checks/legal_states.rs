//! P14, one state machine: every change of a run is an event, event numbers have no gaps, every event is a transition
//! of the diagram in `core::run`, and terminal states are final.

use punctual_core::run::Status;

use super::Sheet;
use crate::history::{EventRecord, RunRecord};

use Status::{Cancelled, Failed, Ready, Running, Skipped, Succeeded, TimedOut, Waiting};

/// The transitions of the diagram in `core::run`: from, event, to.
const ARROWS: [(Option<Status>, &str, Status); 29] = [
    (None, "created", Waiting),
    (Some(Waiting), "due", Ready),
    (Some(Waiting), "held", Waiting),
    (Some(Ready), "held", Waiting),
    (Some(Waiting), "skipped", Skipped),
    (Some(Ready), "skipped", Skipped),
    (Some(Waiting), "cancel_asked", Cancelled),
    (Some(Ready), "cancel_asked", Cancelled),
    (Some(Waiting), "cancel_asked", Waiting),
    (Some(Ready), "cancel_asked", Ready),
    (Some(Ready), "assigned", Running),
    (Some(Ready), "split", Running),
    (Some(Ready), "worker_gone", Failed),
    (Some(Running), "cancel_asked", Running),
    (Some(Running), "move_asked", Running),
    (Some(Running), "paused", Running),
    (Some(Running), "resumed", Running),
    (Some(Running), "delivered", Running),
    (Some(Running), "ended", Succeeded),
    (Some(Running), "ended", Failed),
    (Some(Running), "ended", TimedOut),
    (Some(Running), "ended", Cancelled),
    (Some(Running), "failed", Waiting),
    (Some(Ready), "passed_over", Ready),
    (Some(Running), "moved", Ready),
    (Some(Running), "lost", Waiting),
    (Some(Running), "lost", Failed),
    (Some(Running), "lost", TimedOut),
    (Some(Running), "lost", Cancelled),
];

pub(super) fn check(sheet: &mut Sheet<'_>) {
    let history = sheet.history;
    for run in history.runs.values() {
        let events = history.events_of(run.id);
        sheet.saw(events.len());
        check_numbers(sheet, run, events);
        check_arrows(sheet, run, events);
        if let Some(last) = events.last()
            && last.to != run.status
        {
            let (to, status) = (last.to, run.status);
            sheet.broken_run(run, format!("its last event made it {to}, but it is shown as {status}"));
        }
    }
}

fn check_numbers(sheet: &mut Sheet<'_>, run: &RunRecord, events: &[EventRecord]) {
    let first = events.first().map_or(0, |event| event.seq);
    if first > 1 {
        sheet.broken_run(run, format!("its events begin with number {first}: earlier ones are missing"));
    }
    for pair in events.windows(2) {
        let (seq, next) = (pair[0].seq, pair[1].seq);
        if next != seq + 1 {
            let what = if next == seq { "is there twice" } else { "has a gap after it" };
            sheet.broken_run(run, format!("event {seq} {what}: its story cannot be told"));
        }
    }
}

fn check_arrows(sheet: &mut Sheet<'_>, run: &RunRecord, events: &[EventRecord]) {
    let mut state = None;
    for event in events {
        let EventRecord { seq, from, to, .. } = event;
        if *from != state {
            let (said, was) = (name(*from), name(state));
            sheet.broken_run(run, format!("event {seq} says it was {said}, but it was {was}"));
        }
        if !is_arrow(state, event.what.as_deref(), *to) {
            let (was, what) = (name(state), event.what.as_deref().unwrap_or("an event"));
            let last = if state.is_some_and(Status::is_terminal) { ", after it had ended" } else { "" };
            let message =
                format!("event {seq}: {what} took it from {was} to {to}{last}; no arrow goes there");
            sheet.broken_run(run, message);
        }
        state = Some(*to);
    }
}

fn is_arrow(from: Option<Status>, what: Option<&str>, to: Status) -> bool {
    ARROWS.iter().any(|arrow| arrow.0 == from && arrow.2 == to && what.is_none_or(|what| what == arrow.1))
}

fn name(state: Option<Status>) -> &'static str {
    state.map_or("nothing", Status::as_str)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use proptest::prelude::*;
    use punctual_core::attempt::{End, Outcome};
    use punctual_core::ids::{Epoch, RunId, WorkerId};
    use punctual_core::job::Definition;
    use punctual_core::queue::Whereabouts;
    use punctual_core::run::{
        Assignee, Cause, Entry, Event, Part, PartOf, Reason, Run, StepsEnd, Wait, What,
    };
    use punctual_core::task::{Accept, Http, Method, Task};
    use punctual_core::workflow::{ByHand, Step, Work, Workflow};

    use super::*;
    use crate::checks::Check;
    use crate::fixture::{Story, at};
    use crate::history::History;
    use crate::options::Options;

    fn told(change: impl FnOnce(&mut Vec<Entry>)) -> Story {
        let mut story = Story::every_ten_seconds();
        story.fire(10);
        change(&mut story.runs[0].entries);
        story
    }

    #[track_caller]
    fn check_says(history: &History, words: &str) {
        let report = history.check(&Story::options());
        assert!(report.of(Check::LegalStates).any(|finding| finding.message.contains(words)), "{report}");
    }

    #[test]
    fn an_event_that_is_missing_is_found() {
        told(|entries| {
            entries.remove(1);
        })
        .breaks(Check::LegalStates, "no arrow goes there");
        let mut history = told(|_| {}).history();
        for events in history.events.values_mut() {
            events.remove(1);
        }
        check_says(&history, "has a gap after it");
    }

    #[test]
    fn a_run_that_moves_after_its_end_is_found() {
        told(|entries| {
            let last = entries[entries.len() - 1].clone();
            entries.push(Entry { to: Running, what: What::Assigned, ..last });
        })
        .breaks(Check::LegalStates, "after it had ended");
    }

    #[test]
    fn a_run_shown_in_another_state_than_its_last_event_is_found() {
        told(|entries| {
            entries.pop();
        })
        .breaks(Check::LegalStates, "but it is shown as succeeded");
    }

    #[test]
    fn two_events_of_one_number_are_found() {
        let mut history = told(|_| {}).history();
        for events in history.events.values_mut() {
            let mut double = events[1].clone();
            double.at = at(99);
            events.insert(2, double);
        }
        check_says(&history, "is there twice");
    }

    /// Every possible event of a run, whether core accepts it or not.
    const KINDS: u8 = 19;

    fn event(kind: u8, run: &Run, now: i64) -> Event {
        let token = run.token;
        let outcome = |end| Outcome { end, ..Outcome::succeeded(at(now)) };
        match kind {
            0 => Event::Due,
            1 => Event::Held(Wait::Overlap),
            2 => Event::Assigned { worker: WorkerId(Arc::from("w")), token: token.next(Epoch(1)) },
            3 => Event::CancelAsked(Cause::User),
            4 => Event::CancelAsked(Cause::Timeout),
            5 => Event::Reported { token, outcome: outcome(End::Succeeded) },
            6 => Event::Reported { token, outcome: outcome(End::Failed) },
            7 => Event::Lost { token },
            8 => Event::PassedOver,
            9 => Event::Declined { token },
            11 => Event::StepsBegun,
            12 => Event::StepsEnded { end: StepsEnd::Stopped, output: Box::default() },
            13 => Event::WorkerGone,
            14 => Event::MoveAsked { to: None },
            15 => Event::Reported { token, outcome: outcome(End::Yielded) },
            16 => Event::NotStopped { token },
            17 => Event::Paused(ByHand { by: None, at: at(now), comment: Box::default() }),
            18 => Event::Resumed(ByHand { by: None, at: at(now), comment: Box::default() }),
            _ => Event::Skipped(Reason::Overlap),
        }
    }

    /// Its work goes on at a service when a worker is lost.
    fn story_of(attempts: u32, at_most_once: bool) -> Story {
        let accept = Some(Accept { poll: Duration::from_secs(5), all: None });
        let http = Http { method: Method::Post, accept, ..Http::get("http://example.com") };
        let mut story = Story::every_ten_seconds();
        story.edit(|definition| {
            definition.task = Task::Http(Box::new(http));
            definition.retry.attempts = attempts;
            definition.at_most_once = at_most_once && attempts == 1;
        });
        story
    }

    /// Takes every transition that core allows, up to `steps` deep.
    fn explore(run: &Run, definition: &Definition, steps: u8, taken: &mut Vec<EventRecord>) {
        taken.extend(EventRecord::all_of(run).last());
        // A `delivered` event does not change the state.
        let mut heard = run.clone();
        let whereabouts = Whereabouts { message: "D-1".into(), since: at(11) };
        heard.delivered(&Assignee::Queue("q".parse().expect("this is a name")), &whereabouts, at(11));
        taken.extend(EventRecord::all_of(&heard).last());
        for kind in (0..KINDS).filter(|_| steps > 0) {
            let mut next = run.clone();
            if next.apply(event(kind, run, 11), definition, at(11)).is_ok() {
                explore(&next, definition, steps - 1, taken);
            }
        }
    }

    #[test]
    fn the_arrows_are_those_of_core_and_no_others() {
        let mut taken = Vec::new();
        for (attempts, at_most_once) in [(1, false), (1, true), (2, false)] {
            let mut story = story_of(attempts, at_most_once);
            let definition = Arc::clone(&story.job.definition);
            explore(story.planned(10), &definition, 4, &mut taken);
            let worker = Some(Arc::from("w"));
            let role = PartOf { parent: RunId(1), part: Part::default(), worker };
            let child = Run { part_of: Some(Box::new(role)), ..story.planned(10).clone() };
            explore(&child, &definition, 2, &mut taken);
        }
        let mut story = Story::every_ten_seconds();
        let step = Step::of("a".parse().expect("this is a name"), Work::Task(Task::Noop));
        let workflow = Workflow { steps: vec![step], finally: Vec::new(), output: None };
        story.edit(|definition| definition.task = Task::Workflow(Box::new(workflow.clone())));
        let definition = Arc::clone(&story.job.definition);
        explore(story.planned(10), &definition, 5, &mut taken);
        for (from, what, to) in ARROWS {
            let is_it =
                |event: &EventRecord| (event.from, event.what.as_deref(), event.to) == (from, Some(what), to);
            assert!(taken.iter().any(is_it), "core has no arrow {from:?} {what} {to}");
        }
        for event in taken {
            assert!(is_arrow(event.from, event.what.as_deref(), event.to), "{event:?}");
        }
    }

    proptest! {
        #[test]
        fn whatever_core_lets_happen_holds(
            kinds in proptest::collection::vec(0..KINDS, 0..40),
            attempts in 1u32..4,
            at_most_once: bool,
        ) {
            let mut story = story_of(attempts, at_most_once);
            let definition = Arc::clone(&story.job.definition);
            let run = story.planned(10);
            for (kind, now) in kinds.into_iter().zip(11..) {
                let event = event(kind, run, now);
                let _ = run.apply(event, &definition, at(now));
            }
            let report = story.history().check(&Options { may_be_empty: true, ..Story::options() });
            prop_assert!(report.is_ok(), "{report}");
        }
    }
}
