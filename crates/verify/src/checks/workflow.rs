//! P15, workflows: a step is decided after all that it needs has ended, and by its rule. Its run is that of its row. A
//! step with `map` has each of its items once, and so has a split run its parts. A workflow ends when all its steps have
//! ended, and succeeds only if none of them failed.
//!
//! The rows of a workflow that still runs are read one after the other, so only workflows that have ended are checked.
//! What a retry reuses was decided in an earlier run.

use punctual_core::Timestamp;
use punctual_core::name::{Name, Namespace};
use punctual_core::run::Status;
use punctual_core::workflow::{End, Progress, State};
use rustc_hash::FxHashMap;

use super::Sheet;
use crate::history::{JobRef, RunRecord, StepRow, WorkflowRecord};

pub(super) fn check(sheet: &mut Sheet<'_>) {
    let history = sheet.history;
    for (run, workflow) in &history.workflows {
        let Some(run) = history.runs.get(run).filter(|run| run.status.is_terminal()) else { continue };
        let rows: Vec<Option<&StepRow>> =
            workflow.names.iter().map(|name| history.steps.get(&(run.id, name.clone(), None))).collect();
        sheet.saw(rows.len());
        for step in 0..rows.len() {
            check_step(sheet, run, workflow, &rows, step);
        }
        check_end(sheet, run, workflow, &rows);
    }
    check_runs(sheet);
}

fn check_step(
    sheet: &mut Sheet<'_>,
    run: &RunRecord,
    workflow: &WorkflowRecord,
    rows: &[Option<&StepRow>],
    step: usize,
) {
    let (name, node) = (&workflow.names[step], &workflow.graph.nodes()[step]);
    let Some(row) = rows[step].filter(|row| row.state.has_ended()) else {
        let message = format!("it has ended, and its step `{name}` was never decided or has not ended");
        return sheet.broken_run(run, message);
    };
    let is_by_force = matches!(row.reason.as_deref(), Some("skipped: stopped" | "skipped: by hand"));
    if row.is_reused() || is_by_force {
        return;
    }
    check_items(sheet, run, name, row);
    let is_finally = workflow.graph.is_finally(step);
    let before = (0..workflow.graph.steps()).filter(|_| is_finally).chain(node.needs.iter().copied());
    let latest = row.decided_at + sheet.options.skew;
    let open = before
        .filter_map(|needed| Some((needed, rows[needed]?)))
        .find(|(_, needed)| needed.ended_at.is_none_or(|ended| ended > latest));
    if let Some((needed, _)) = open {
        let (needed, at) = (&workflow.names[needed], row.decided_at);
        let message = format!(
            "its step `{name}` was decided at {at}, before step `{needed}`, which it needs, had ended"
        );
        sheet.broken_run(run, message);
    }
    let ends: Vec<State> = node.needs.iter().filter_map(|needed| Some(rows[*needed]?.state)).collect();
    let is_against_rule = row.reason.as_deref() == Some("skipped: rule");
    if ends.len() == node.needs.len() && node.rule.holds(ends.iter().copied()) == is_against_rule {
        let (rule, state) = (node.rule.as_str(), row.state.as_str());
        let ends: Vec<&str> = ends.into_iter().map(State::as_str).collect();
        let ends = ends.join(", ");
        let message =
            format!("its step `{name}` has the rule {rule} and is {state} after steps that are {ends}");
        sheet.broken_run(run, message);
    }
}

/// A step with `map` that has ended has a row for each of its items. Only a step that failed may have started fewer of
/// them, because it was stopped meanwhile; these are the first ones.
fn check_items(sheet: &mut Sheet<'_>, run: &RunRecord, name: &Name, row: &StepRow) {
    let place = |item| (run.id, name.clone(), item);
    let rows = sheet.history.steps.range(place(Some(0))..=place(Some(u32::MAX)));
    let found: Vec<u32> = rows.filter_map(|((_, _, item), _)| *item).collect();
    let items = row.items.unwrap_or_default();
    let ended = items.succeeded.saturating_add(items.failed);
    if row.state == State::Succeeded && ended != items.total {
        let total = items.total;
        let message = format!("its step `{name}` has succeeded after {ended} of its {total} items");
        sheet.broken_run(run, message);
    }
    if let Some(missing) = (0..ended).find(|item| found.binary_search(item).is_err()) {
        sheet.broken_run(
            run,
            format!("its step `{name}` has no row of item {missing}, of {ended} that ended"),
        );
    }
    if let Some(last) = found.last().filter(|last| **last >= ended) {
        let message = format!("its step `{name}` has a row of item {last}, and only {ended} items ended");
        sheet.broken_run(run, message);
    }
}

fn check_end(sheet: &mut Sheet<'_>, run: &RunRecord, workflow: &WorkflowRecord, rows: &[Option<&StepRow>]) {
    let states = rows.iter().map(|row| row.map_or(State::Open, |row| row.state)).collect();
    let end = Progress::of(&workflow.graph, states, false).end();
    match (run.status, end) {
        (Status::Succeeded, Some(End::Failed(step))) => {
            let message = format!("it has succeeded, and yet its step `{}` failed", workflow.names[step]);
            sheet.broken_run(run, message);
        }
        (Status::Failed, Some(End::Succeeded)) if !workflow.has_output => {
            sheet.broken_run(run, "it has failed, and yet none of its steps failed".to_owned());
        }
        _ => {}
    }
}

/// The runs of steps and parts: each has a parent, and its row names it.
fn check_runs(sheet: &mut Sheet<'_>) {
    let history = sheet.history;
    let oldest = oldest_of_pages(sheet);
    for run in history.runs.values() {
        let (Some(parent), Some(path), Some((name, item))) = (run.parent, run.step.as_deref(), run.place())
        else {
            continue;
        };
        let what = run.part.map_or_else(|| format!("`{path}`"), |part| format!("part {part}"));
        let Some(whole) = history.runs.get(&parent) else {
            let first = oldest.get(&page_of(run));
            let is_kept =
                first.is_some_and(|first| first.id < parent && first.finished_at <= run.finished_at);
            if is_kept {
                sheet.broken_run(run, format!("it executes {what} of run {parent}, which does not exist"));
            }
            continue;
        };
        let (Some(_), Ok(name)) = (history.workflows.get(&parent), name.parse::<Name>()) else { continue };
        let row = history.steps.get(&(parent, name, item));
        if whole.status.is_terminal() && row.and_then(|row| row.child) != Some(run.id) {
            let message =
                format!("it executes {what} of run {parent}, whose row of that step names another run");
            sheet.broken_run(run, message);
        }
        if let Some(row) = row.filter(|row| run.created_at + sheet.options.skew < row.decided_at) {
            let at = row.decided_at;
            let message = format!("it was made before {what} of run {parent} was decided at {at}");
            sheet.broken_run(run, message);
        }
    }
}

/// The runs of one job that were read at the same time.
type Page<'a> = (&'a Namespace, Option<&'a JobRef>, Option<Timestamp>);

fn page_of(run: &RunRecord) -> Page<'_> {
    (&run.namespace, run.job.as_ref(), run.read_at)
}

/// The oldest run of each page. Retention takes older runs first, so a younger run that is missing was never there.
fn oldest_of_pages<'a>(sheet: &Sheet<'a>) -> FxHashMap<Page<'a>, &'a RunRecord> {
    let mut oldest = FxHashMap::default();
    // A run that did not succeed may be a dead letter, which is kept longer.
    for run in sheet.history.runs.values().filter(|run| run.status == Status::Succeeded) {
        oldest.entry(page_of(run)).or_insert(run);
    }
    oldest
}

#[cfg(test)]
mod tests {
    use punctual_core::run::{Entry, State as RunState, What};
    use punctual_core::workflow::{Items, StepKey, StepReason, StepRecord};

    use super::*;
    use crate::checks::Check;
    use crate::fixture::{Story, at};

    /// A workflow at 20: `a` from 20 to 21, then `b` to 22; `alarm` is skipped. A plain run came before it.
    fn workflow() -> Story {
        let mut story = Story::every_ten_seconds();
        story.fire(10).fire_workflow(20, false);
        story
    }

    #[test]
    fn a_workflow_in_order_holds() {
        workflow().holds();
    }

    #[test]
    fn a_step_that_is_decided_before_what_it_needs_is_found() {
        let mut story = workflow();
        story.steps[1].decided_at = at(20);
        story.breaks(Check::Workflow, "before step `a`, which it needs, had ended");
        let mut story = workflow();
        story.steps[3].decided_at = at(21);
        story.breaks(Check::Workflow, "its step `clean` was decided");
    }

    #[test]
    fn a_run_that_is_older_than_the_decision_is_found() {
        let mut story = workflow();
        story.run_of_step("b").created_at = at(20);
        story.breaks(Check::Workflow, "it was made before `b`");
    }

    #[test]
    fn a_step_that_is_decided_against_its_rule_is_found() {
        let mut story = workflow();
        (story.steps[2].state, story.steps[2].reason) = (State::Succeeded, None);
        story.breaks(
            Check::Workflow,
            "`alarm` has the rule any_failed and is succeeded after steps that are succeeded",
        );
    }

    #[test]
    fn a_step_with_two_runs_is_found() {
        let mut story = workflow();
        let mut second = story.run_of_step("b").clone();
        second.id.0 += 50;
        story.runs.push(second);
        story.breaks(Check::Family, "done twice");
        story.breaks(Check::Workflow, "names another run");
    }

    #[test]
    fn a_step_that_was_never_decided_is_found() {
        let mut story = workflow();
        story.steps.remove(2);
        story.breaks(Check::Workflow, "its step `alarm` was never decided");
        let mut story = workflow();
        (story.steps[1].state, story.steps[1].ended_at) = (State::Active, None);
        story.breaks(Check::Workflow, "its step `b` was never decided or has not ended");
    }

    /// A step with `map` of two items, at 20.
    fn mapped() -> Story {
        let mut story = workflow();
        let whole = story.steps[0].clone();
        story.run_of_step("a").step.as_mut().unwrap().item = Some(0);
        let mut second = story.run_of_step("a").clone();
        second.id.0 += 50;
        second.step.as_mut().unwrap().item = Some(1);
        for (item, child) in [(0, whole.child), (1, Some(second.id))] {
            let key = StepKey { item: Some(item), ..whole.key };
            story.steps.push(StepRecord { key, child, ..whole.clone() });
        }
        let items = Some(Items { total: 2, succeeded: 2, failed: 0 });
        story.steps[0] = StepRecord { child: None, items, ..whole };
        story.runs.push(second);
        story
    }

    #[test]
    fn a_map_with_all_its_items_holds() {
        mapped().holds();
    }

    #[test]
    fn a_missing_item_of_a_map_is_found() {
        let mut story = mapped();
        story.steps.remove(4);
        story.breaks(Check::Workflow, "its step `a` has no row of item 0, of 2 that ended");
        let mut story = mapped();
        story.steps[0].items = Some(Items { total: 3, succeeded: 2, failed: 0 });
        story.breaks(Check::Workflow, "its step `a` has succeeded after 2 of its 3 items");
    }

    #[test]
    fn an_item_beyond_the_end_of_a_map_is_found() {
        let mut story = mapped();
        story.steps[5].key.item = Some(7);
        story.breaks(Check::Workflow, "has no row of item 1");
        story.breaks(Check::Workflow, "has a row of item 7, and only 2 items ended");
    }

    /// A run split into two at 10.
    fn split() -> Story {
        let mut story = Story::every_ten_seconds();
        story.edit(|definition| definition.route.shards = Some(2));
        story.fire_split(10, 2);
        story
    }

    #[test]
    fn a_missing_part_of_a_split_run_is_found() {
        split().holds();
        let mut story = split();
        story.steps.pop();
        story.breaks(Check::Workflow, "its step `parts` has no row of item 1, of 2 that ended");
        story.breaks(
            Check::Workflow,
            "it executes part 1 of run 100, whose row of that step names another run",
        );
        let mut story = split();
        story.steps[0].items = Some(Items { total: 3, succeeded: 2, failed: 0 });
        story.breaks(Check::Workflow, "its step `parts` has succeeded after 2 of its 3 items");
    }

    #[test]
    fn a_part_of_a_split_run_may_start_at_most_once_if_its_job_says_so() {
        let mut story = split();
        story.edit(|definition| definition.at_most_once = true);
        story.holds();
        let run = &mut story.runs[1];
        let [due, assigned] = [1, 2].map(|index: usize| run.entries[index].clone());
        let lost = Entry { what: What::Lost, to: Status::Waiting, ..assigned.clone() };
        run.entries.splice(3..3, [lost, due, assigned]);
        story.breaks(Check::AtMostOnce, "started 2 times");
    }

    #[test]
    fn a_map_that_was_stopped_has_its_first_items() {
        let mut story = mapped();
        story.steps[0].state = State::Failed;
        story.steps[0].items = Some(Items { total: 9, succeeded: 2, failed: 0 });
        let report = story.history().check(&Story::options());
        assert!(report.of(Check::Workflow).all(|finding| !finding.message.contains("item")), "{report}");
    }

    #[test]
    fn an_end_that_does_not_follow_from_the_steps_is_found() {
        let mut story = workflow();
        story.steps[1].state = State::Failed;
        story.breaks(Check::Workflow, "it has succeeded, and yet its step `b` failed");
        let mut story = workflow();
        story.runs[1].state = RunState::Failed;
        story.breaks(Check::Workflow, "none of its steps failed");
    }

    #[test]
    fn a_step_without_its_workflow_is_found() {
        let mut story = workflow();
        story.runs.remove(1);
        story.breaks(Check::Workflow, "which does not exist");
        // Retention takes the oldest runs first.
        story.runs.remove(0);
        let report = story.history().check(&Story::options());
        assert!(report.of(Check::Workflow).next().is_none(), "{report}");
    }

    #[test]
    fn a_reused_step_was_decided_in_another_run() {
        let mut story = workflow();
        story.steps[1].reason = Some(StepReason::Reused { output_too_long: false });
        story.steps[1].decided_at = at(20);
        story.run_of_step("b").step = None;
        let report = story.history().check(&Story::options());
        assert!(report.of(Check::Workflow).next().is_none(), "{report}");
    }

    #[test]
    fn a_step_may_start_at_most_once_if_it_says_so() {
        let mut story = Story::every_ten_seconds();
        story.fire_workflow(10, true);
        story.holds();
        story.workflow.steps[0].policies.at_most_once = true;
        story.breaks(Check::AtMostOnce, "started 2 times");
    }
}
