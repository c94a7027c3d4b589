//! What a worker announces when it joins: its slots, labels and the tasks it executes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::name::Name;
use crate::task::Kind;

/// Sent by a worker when it joins a scheduling node. It does not tell how many slots are free: that is
/// [`crate::attempt::Report::Lent`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announcement {
    /// Attempts that run at the same time.
    pub slots: u32,
    /// Matched by a job's `route.selector`.
    pub labels: BTreeMap<String, String>,
    /// The kinds of tasks it executes; a run of another kind never goes there.
    pub kinds: Kinds,
    /// The functions registered with it; a run of another function never goes there.
    pub functions: BTreeSet<Name>,
    /// Its weight under `route.strategy: weighted`, relative to other workers.
    pub weight: u32,
    /// It runs in the process, or on the machine, of the node that it joins.
    pub node_local: bool,
}

impl Announcement {
    /// A plain worker: every kind of task, no functions, no labels, weight 1.
    pub fn of(slots: usize) -> Self {
        Announcement {
            slots: u32::try_from(slots).unwrap_or(u32::MAX),
            labels: BTreeMap::new(),
            kinds: Kinds::ALL,
            functions: BTreeSet::new(),
            weight: 1,
            node_local: false,
        }
    }
}

/// A set of task kinds.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Kinds(u16);

impl Kinds {
    pub const ALL: Kinds = Kinds(u16::MAX);
    pub const NONE: Kinds = Kinds(0);

    pub fn contains(self, kind: Kind) -> bool {
        self.0 & (1 << kind as u16) != 0
    }

    pub fn iter(self) -> impl Iterator<Item = Kind> {
        Kind::ALL.into_iter().filter(move |kind| self.contains(*kind))
    }
}

impl FromIterator<Kind> for Kinds {
    fn from_iter<I: IntoIterator<Item = Kind>>(kinds: I) -> Self {
        kinds.into_iter().fold(Kinds::NONE, |set, kind| Kinds(set.0 | 1 << kind as u16))
    }
}

impl fmt::Debug for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_kinds_holds_what_was_put_into_it_and_nothing_else() {
        let some: Kinds = [Kind::Http, Kind::Noop].into_iter().collect();
        for kind in Kind::ALL {
            assert_eq!(some.contains(kind), matches!(kind, Kind::Http | Kind::Noop), "{kind:?}");
            assert!(Kinds::ALL.contains(kind) && !Kinds::NONE.contains(kind));
        }
        assert_eq!(some.iter().collect::<Kinds>(), some);
    }
}
