//! What a test of workflows sees of a rig, and does with it.

use super::*;

impl Rig {
    /// Puts a workflow and starts it.
    pub(super) fn start_workflow(&mut self, definition: Definition) -> RunId {
        self.ask(put("flow", definition)).expect("the workflow is valid");
        self.start("flow")
    }

    /// The runs of the steps of a workflow, by place.
    pub(super) fn steps(&self, parent: RunId) -> BTreeMap<String, Arc<Run>> {
        let runs = self.all_runs().into_iter().filter(|run| run.parent() == Some(parent));
        let mut steps = BTreeMap::new();
        for run in runs {
            let place = run.place_in_parent().expect("a step has a place");
            assert!(steps.insert(place.clone(), run).is_none(), "{place} started twice");
        }
        steps
    }

    /// The rows of a workflow's steps as text: the place, the state and the reason.
    pub(super) fn rows_of(&self, parent: RunId) -> Vec<String> {
        let told = self.step_rows(parent).into_iter().map(|row| {
            let item = row.key.item.map_or(String::new(), |item| format!("[{item}]"));
            let reason = row.reason.map_or(String::new(), |reason| format!(" ({reason})"));
            format!("{}{item} {}{reason}", row.key.step, row.state.as_str())
        });
        told.collect()
    }

    pub(super) fn step_rows(&self, parent: RunId) -> Vec<Arc<StepRecord>> {
        let rows = self.rows.all().filter_map(|row| match row {
            Row::Step(step) if step.key.run == parent => Some(Arc::clone(step)),
            _ => None,
        });
        rows.collect()
    }

    /// The steps that are running, in order of their names.
    pub(super) fn at_work(&self, parent: RunId) -> String {
        let steps = self.steps(parent);
        let running = steps.iter().filter(|(_, run)| run.status() == Status::Running);
        running.map(|(place, _)| place.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[track_caller]
    pub(super) fn end_step(&mut self, parent: RunId, place: &str, end: End) {
        let run = self.steps(parent).get(place).unwrap_or_else(|| panic!("{place} has not started")).id;
        self.report(run, end);
    }

    #[track_caller]
    pub(super) fn say(&mut self, parent: RunId, place: &str, output: &str) {
        let run = self.steps(parent).get(place).unwrap_or_else(|| panic!("{place} has not started")).clone();
        let outcome = Outcome { output: output.into(), ..Outcome::succeeded(self.now) };
        self.report_outcome(run.id, run.token, outcome);
    }

    /// Ends every step that runs, until none does.
    pub(super) fn finish(&mut self, parent: RunId) {
        while let Some(run) = self.steps(parent).into_values().find(|run| run.status() == Status::Running) {
            self.report(run.id, End::Succeeded);
        }
    }
}
