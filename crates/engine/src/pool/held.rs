//! The attempts a worker holds, with a count of those sent to it: the loop asks at every turn whether there are any,
//! and thousands may still wait for their commit.

use punctual_core::ids::{RunId, Token};
use punctual_core::time::Elapsed;
use rustc_hash::FxHashMap;

/// An attempt that a worker holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) token: Token,
    /// When its order was sent. `None` means that the order still waits for its commit, so the worker cannot know it.
    pub(super) given: Option<Elapsed>,
    /// Whether it used a credit.
    pub(super) credit: bool,
}

#[derive(Debug, Default)]
pub(super) struct HeldAttempts {
    held: FxHashMap<RunId, Held>,
    /// How many of them were sent.
    given: usize,
}

impl HeldAttempts {
    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    pub(super) fn token_of(&self, run: RunId) -> Option<Token> {
        self.held.get(&run).map(|held| held.token)
    }

    /// Whether the worker holds an attempt that was sent to it.
    pub(super) fn has_been_given(&self) -> bool {
        self.given > 0
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (RunId, Held)> {
        self.held.iter().map(|(run, held)| (*run, *held))
    }

    pub(super) fn put(&mut self, run: RunId, held: Held) {
        self.given += usize::from(held.given.is_some());
        if let Some(before) = self.held.insert(run, held) {
            self.given -= usize::from(before.given.is_some());
        }
    }

    /// The order of an attempt is sent, if its token is the one held. Returns whether it uses a credit.
    pub(super) fn sent(&mut self, run: RunId, token: Token, now: Elapsed) -> bool {
        let Some(held) = self.held.get_mut(&run).filter(|held| held.token == token) else { return false };
        self.given += usize::from(held.given.replace(now).is_none());
        held.credit
    }

    /// The worker's connection is new, and no credit of it has been used.
    pub(super) fn forget_credits(&mut self) {
        for held in self.held.values_mut() {
            held.credit = false;
        }
    }

    pub(super) fn remove(&mut self, run: RunId) -> Option<Held> {
        let held = self.held.remove(&run)?;
        self.given -= usize::from(held.given.is_some());
        Some(held)
    }

    pub(super) fn retain(&mut self, mut stays: impl FnMut(RunId, Held) -> bool) {
        let given = &mut self.given;
        self.held.retain(|run, held| {
            let stays = stays(*run, *held);
            *given -= usize::from(!stays && held.given.is_some());
            stays
        });
    }

    /// Takes all attempts out.
    pub(super) fn take(&mut self) -> impl Iterator<Item = (RunId, Held)> + use<> {
        self.given = 0;
        std::mem::take(&mut self.held).into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: Token = Token(1);

    fn waiting() -> Held {
        Held { token: TOKEN, given: None, credit: true }
    }

    #[test]
    fn every_way_to_remove_an_attempt_updates_the_count() {
        let now = Elapsed::from_millis(1);
        let mut held = HeldAttempts::default();
        for run in 1..=4 {
            held.put(RunId(run), waiting());
            assert!(!held.has_been_given(), "its order waits for its commit");
        }
        held.sent(RunId(1), Token(9), now);
        assert!(!held.has_been_given(), "another attempt was meant");
        for run in 1..=4 {
            assert!(held.sent(RunId(run), TOKEN, now));
        }
        held.sent(RunId(1), TOKEN, now);
        held.remove(RunId(1));
        held.remove(RunId(1));
        held.put(RunId(2), waiting());
        held.retain(|run, _| run != RunId(3));
        assert!(held.has_been_given() && held.len() == 2);
        held.remove(RunId(4));
        assert!(!held.has_been_given() && held.len() == 1, "it was offered again, and that waits too");
        held.sent(RunId(2), TOKEN, now);
        assert_eq!(held.take().count(), 1);
        assert!(!held.has_been_given() && held.is_empty());
    }
}
