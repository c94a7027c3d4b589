//! The steps that each step needs, directly or not. Only these can be named in its templates, because only these
//! have certainly ended before it starts.

use std::collections::HashMap;
use std::fmt;

use super::{Graph, Step, Workflow};
use crate::template::Steps;

/// One bit for each pair of steps.
pub(super) struct Upstream {
    /// Words of one row.
    width: usize,
    bits: Vec<u64>,
}

impl Upstream {
    pub(super) fn of(graph: &Graph) -> Upstream {
        let count = graph.nodes().len();
        let width = count.div_ceil(64);
        let mut upstream = Upstream { width, bits: vec![0; width * count] };
        for step in graph.order() {
            for needed in &graph.nodes()[*step].needs {
                upstream.add(*step, *needed);
            }
            if graph.is_finally(*step) {
                (0..graph.steps()).for_each(|before| upstream.set(*step, before));
            }
        }
        upstream
    }

    fn has(&self, step: usize, other: usize) -> bool {
        self.bits[step * self.width + other / 64] & (1 << (other % 64)) != 0
    }

    fn set(&mut self, step: usize, other: usize) {
        self.bits[step * self.width + other / 64] |= 1 << (other % 64);
    }

    /// Adds a step that is needed, and all that it needs.
    fn add(&mut self, step: usize, needed: usize) {
        for word in 0..self.width {
            self.bits[step * self.width + word] |= self.bits[needed * self.width + word];
        }
        self.set(step, needed);
    }
}

/// The steps that the expressions of one step can name.
#[derive(Clone, Copy)]
pub(super) struct Nameable<'a> {
    pub(super) workflow: &'a Workflow,
    /// The index of each step.
    pub(super) names: &'a HashMap<&'a str, usize>,
    pub(super) upstream: &'a Upstream,
    /// The step of the expression. `None` means the workflow itself, which can name every step.
    pub(super) step: Option<usize>,
    /// Whether the step itself can be named too.
    pub(super) with_itself: bool,
}

impl fmt::Debug for Nameable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nameable").field("step", &self.step).finish_non_exhaustive()
    }
}

impl Steps for Nameable<'_> {
    fn check(&self, name: &str) -> Result<(), String> {
        let Some(named) = self.names.get(name).copied() else {
            // `steps.load-all` is a subtraction.
            let is_cut = |step: &&Step| {
                step.name.as_str().strip_prefix(name).is_some_and(|rest| rest.starts_with('-'))
            };
            let hint = self.workflow.all().find(is_cut);
            let hint = hint.map(|step| format!("; a name with a dash is written `steps[\"{}\"]`", step.name));
            return Err(format!("no step is named `{name}`{}", hint.unwrap_or_default()));
        };
        match self.step {
            None => Ok(()),
            Some(step) if named == step && self.with_itself => Ok(()),
            Some(step) if named == step => Err("a step cannot name itself: it has not run yet".to_owned()),
            Some(step) if self.upstream.has(step, named) => Ok(()),
            Some(_) => Err(format!(
                "`{name}` may end later than this step starts; add it to `needs`, or to those of a step that this one needs"
            )),
        }
    }
}
