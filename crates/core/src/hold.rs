//! A hold: nothing in a namespace, or anywhere, starts until it is released.
//!
//! Each shard has a row of the hold, written by its leader, because each leader decides alone: the next leader of
//! the shard loads it. The row stays for a while after the hold has ended, until all due times of the hold are recorded,
//! and no order for it can be under way.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::job::Pause;
use crate::name::Namespace;
use crate::workflow::told;

/// What a user orders.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    pub scope: Scope,
    /// Who ordered it, when and why, and when it ends by itself. Of two orders for one scope, the later one wins.
    pub pause: Pause,
    pub fires: Fires,
}

/// What a hold covers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    Everything,
    /// A namespace and all namespaces inside it.
    Namespace(Namespace),
}

/// What happens to the due times during a hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fires {
    /// They are recorded as skipped.
    #[default]
    Skip,
    /// They are recorded as skipped, and a backfill makes up for them after the hold.
    Keep,
}

/// The row of a hold in one shard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldRecord {
    /// Made by the shard, and contains that shard. A row that changes gets a new number.
    pub number: i64,
    pub hold: Hold,
    /// When it ended. `None` means that it is in force.
    pub released_at: Option<Timestamp>,
}

impl Scope {
    pub fn covers(&self, namespace: &Namespace) -> bool {
        match self {
            Scope::Everything => true,
            Scope::Namespace(outer) => namespace.is_in(outer),
        }
    }

    /// Whether both cover some namespace.
    pub fn overlaps(&self, other: &Scope) -> bool {
        match (self.namespace(), other.namespace()) {
            (Some(one), Some(another)) => one.is_in(another) || another.is_in(one),
            _ => true,
        }
    }

    pub fn namespace(&self) -> Option<&Namespace> {
        match self {
            Scope::Everything => None,
            Scope::Namespace(namespace) => Some(namespace),
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scope::Everything => f.write_str("everything"),
            Scope::Namespace(namespace) => write!(f, "namespace `{namespace}`"),
        }
    }
}

impl Hold {
    /// In words: `namespace `payments` is on hold by ops: the bank is closed`.
    pub fn told(&self) -> String {
        let what = format!("{} is on hold", self.scope);
        told(&what, self.pause.by.as_deref(), &self.pause.reason)
    }

    /// Whether it asks for what is ordered already.
    pub fn is_satisfied_by(&self, present: &Hold) -> bool {
        let asks = |hold: &Hold| (hold.pause.reason.clone(), hold.pause.until, hold.fires);
        self.scope == present.scope && asks(self) == asks(present)
    }
}

impl HoldRecord {
    pub fn is_in_force(&self) -> bool {
        self.released_at.is_none()
    }
}

/// The hold that keeps a namespace from starting runs, of all that are in force: the widest. `None` means that there is
/// none.
pub fn holding<'a>(holds: &'a [Arc<HoldRecord>], namespace: &Namespace) -> Option<&'a Hold> {
    let covering = holds.iter().filter(|row| row.is_in_force() && row.hold.scope.covers(namespace));
    covering.map(|row| &row.hold).min_by_key(|hold| &hold.scope)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(namespace: &str) -> Scope {
        Scope::Namespace(namespace.parse().unwrap())
    }

    #[test]
    fn a_hold_covers_the_namespaces_inside_its_own() {
        let check = |scope: &Scope, namespace: &str| scope.covers(&namespace.parse().unwrap());
        let payments = of("payments");
        assert!(check(&payments, "payments") && check(&payments, "payments/clearing"));
        assert!(!check(&payments, "payments-eu") && !check(&of("payments/clearing"), "payments"));
        assert!(check(&Scope::Everything, "payments"));
    }

    #[test]
    fn the_widest_hold_in_force_is_named() {
        let at = Timestamp::from_millis;
        let row = |scope, released_at| {
            let pause = Pause { reason: "the bank is closed".into(), by: None, since: at(1), until: None };
            let hold = Hold { scope, pause, fires: Fires::Skip };
            Arc::new(HoldRecord { number: 1, hold, released_at })
        };
        let rows = [row(of("a/b"), None), row(Scope::Everything, Some(at(2))), row(of("a"), None)];
        let named = |namespace: &str| holding(&rows, &namespace.parse().unwrap()).map(Hold::told);
        assert_eq!(named("a/b").unwrap(), "namespace `a` is on hold: the bank is closed");
        assert_eq!(named("c"), None);
    }
}
