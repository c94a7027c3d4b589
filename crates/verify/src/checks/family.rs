//! Parent and child runs: one child per index. A parent ends after its last child, and succeeds only if all its
//! children have succeeded.
//!
//! Children may have been pruned: only existing ones are checked.

use std::collections::BTreeMap;

use punctual_core::ids::RunId;
use punctual_core::run::Status;

use super::Sheet;
use crate::history::RunRecord;

pub(super) fn check(sheet: &mut Sheet<'_>) {
    let history = sheet.history;
    let mut indices: BTreeMap<(RunId, &str), RunId> = BTreeMap::new();
    for child in history.runs.values() {
        let Some(parent) = child.parent else { continue };
        sheet.saw(1);
        let index = child.step.as_deref().unwrap_or("");
        if let Some(first) = indices.insert((parent, index), child.id) {
            let message =
                format!("child {index} of run {parent} was run {first} already: the work was done twice");
            sheet.broken_run(child, message);
        }
        if let Some(parent) = history.runs.get(&parent) {
            check_end(sheet, child, parent);
        }
    }
}

fn check_end(sheet: &mut Sheet<'_>, child: &RunRecord, parent: &RunRecord) {
    if !parent.status.is_terminal() {
        return;
    }
    let id = parent.id;
    // In a history that is not still, the child may have been read before its parent ended.
    if sheet.options.still && !child.status.is_terminal() {
        let status = child.status;
        sheet.broken_run(child, format!("it is {status}, but its parent {id} has ended"));
    }
    if child.status.is_terminal() && child.finished_at > parent.finished_at {
        sheet.broken_run(child, format!("it ended after its parent {id} had"));
    }
    let ended_badly = child.status.is_terminal() && child.status != Status::Succeeded;
    if parent.status == Status::Succeeded && ended_badly {
        let status = child.status;
        sheet.broken_run(child, format!("it is {status}, and yet its parent {id} has succeeded"));
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::run::State;

    use crate::checks::Check;
    use crate::fixture::{Story, at};

    /// A run split into two at 10, which both succeed at 11.
    fn split() -> Story {
        let mut story = Story::every_ten_seconds();
        story.edit(|definition| definition.route.shards = Some(2));
        story.fire_split(10, 2);
        story
    }

    #[test]
    fn a_family_that_ends_together_holds() {
        split().holds();
    }

    #[test]
    fn the_same_child_made_twice_is_found() {
        let mut story = split();
        story.runs[2].part_of = story.runs[1].part_of.clone();
        story.breaks(Check::Family, "done twice");
    }

    #[test]
    fn a_parent_that_ends_before_its_child_is_found() {
        let mut story = split();
        story.runs[2].finished_at = Some(at(12));
        story.breaks(Check::Family, "ended after its parent");
        let mut story = split();
        story.runs[2].state = State::Ready { since: at(10) };
        story.breaks(Check::Family, "but its parent");
    }

    #[test]
    fn a_parent_that_hides_the_failure_of_a_child_is_found() {
        let mut story = split();
        story.runs[1].state = State::Failed;
        story.breaks(Check::Family, "has succeeded");
    }
}
