//! The attempts that were acknowledged last, so that an assignment that arrives again starts nothing.

use std::collections::VecDeque;

use punctual_core::ids::{RunId, Token};
use rustc_hash::FxHashMap;

/// Settled attempts that are remembered, so that an assignment that arrives twice starts nothing.
const SETTLED_MAX: usize = 65_536;

/// The last attempts that were acknowledged, oldest first.
#[derive(Debug, Default)]
pub(super) struct Settled {
    newest: FxHashMap<RunId, Token>,
    order: VecDeque<(RunId, Token)>,
}

impl Settled {
    /// Whether this attempt, or a newer one of its run, is settled.
    pub(super) fn covers(&self, run: RunId, token: Token) -> bool {
        self.newest.get(&run).is_some_and(|settled| *settled >= token)
    }

    pub(super) fn insert(&mut self, run: RunId, token: Token) {
        if self.order.len() >= SETTLED_MAX
            && let Some((run, token)) = self.order.pop_front()
            && self.newest.get(&run) == Some(&token)
        {
            self.newest.remove(&run);
        }
        self.newest.insert(run, token);
        self.order.push_back((run, token));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_so_many_settled_attempts_are_remembered() {
        let mut settled = Settled::default();
        for run in 0..=SETTLED_MAX as i64 {
            settled.insert(RunId(run), Token(1));
        }
        assert!(!settled.covers(RunId(0), Token(1)));
        assert!(settled.covers(RunId(1), Token(1)));
        assert_eq!(settled.newest.len(), SETTLED_MAX);
    }
}
