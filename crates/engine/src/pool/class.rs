//! What a run requires of a worker, and what the nearest worker lacks.

use std::sync::Arc;

use punctual_core::ids::WorkerId;
use punctual_core::job::route::Labels;
use punctual_core::name::Name;
use punctual_core::run::Lack;
use punctual_core::task::Kind;
use punctual_core::worker::Announcement;

/// The requirements that a worker must meet to fit a run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Class {
    pub(crate) kind: Kind,
    /// The function that the run calls. `None` means that the kind is enough.
    pub(crate) function: Option<Name>,
    /// The labels required. `None` means no labels.
    pub(crate) selector: Option<Arc<Labels>>,
    /// The name of the only worker that may take the run. `None` means any worker.
    pub(crate) pin: Option<Arc<str>>,
}

/// A requirement that a worker does not meet; the closest to fitting comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Unmet {
    /// This many labels are missing.
    Labels(usize),
    Function,
    Kind,
    Pin,
}

impl Class {
    pub(super) fn fits(&self, worker: &WorkerId, announced: &Announcement) -> bool {
        self.unmet(worker, announced).is_none()
    }

    /// The first requirement that the worker does not meet. `None` means that it fits.
    pub(super) fn unmet(&self, worker: &WorkerId, announced: &Announcement) -> Option<Unmet> {
        if self.pin.as_ref().is_some_and(|pin| **pin != *worker.name()) {
            return Some(Unmet::Pin);
        }
        if !announced.kinds.contains(self.kind) {
            return Some(Unmet::Kind);
        }
        if self.function.as_ref().is_some_and(|function| !announced.functions.contains(function)) {
            return Some(Unmet::Function);
        }
        let missing = self.missing(announced).count();
        (missing > 0).then_some(Unmet::Labels(missing))
    }

    fn missing<'a>(&'a self, announced: &'a Announcement) -> impl Iterator<Item = (&'a String, &'a String)> {
        let labels = self.selector.iter().flat_map(|selector| selector.iter());
        labels.filter(|(name, value)| announced.labels.get(*name) != Some(value))
    }

    /// What the closest worker lacks, for users. `nearest` is `None` if no worker is present.
    pub(super) fn lack(&self, nearest: Option<(Unmet, &WorkerId, &Announcement)>) -> Lack {
        let words = |(name, value): (&String, &String)| format!("{name}={value}").into_boxed_str();
        match nearest {
            None => Lack::Workers,
            Some((Unmet::Labels(_), worker, announced)) => Lack::Labels {
                worker: worker.name().into(),
                labels: self.missing(announced).map(words).collect(),
            },
            Some((unmet, ..)) => match (unmet, &self.function, &self.pin) {
                (Unmet::Function, Some(function), _) => Lack::Function(function.clone()),
                (Unmet::Pin, _, Some(pin)) => Lack::Worker((**pin).into()),
                _ => Lack::Kind(self.kind.as_str().into()),
            },
        }
    }
}
