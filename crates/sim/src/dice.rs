//! The random numbers of a simulation: one seed gives one sequence, so that a failure can be replayed.

use punctual_core::hash;

#[derive(Debug, Clone)]
pub(crate) struct Dice {
    state: u64,
}

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Dice { state: seed }
    }

    /// A second sequence from the same seed. Drawing from it does not change the first sequence, so old seeds keep their
    /// meaning when a feature is added.
    pub(crate) fn apart(&self) -> Dice {
        Dice { state: hash::mix(self.state ^ 0x7175_6575_6573) }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        hash::mix(self.state)
    }

    /// 0 to `below` - 1.
    pub(crate) fn below(&mut self, below: u64) -> u64 {
        if below == 0 { 0 } else { self.next() % below }
    }

    pub(crate) fn between(&mut self, low: i64, high: i64) -> i64 {
        low + i64::try_from(self.below(u64::try_from(high - low).unwrap_or(0) + 1)).unwrap_or(0)
    }

    /// True once in `times` calls on average; never if `times` is 0.
    pub(crate) fn one_in(&mut self, times: u64) -> bool {
        times > 0 && self.below(times) == 0
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        let index = usize::try_from(self.below(from.len() as u64)).unwrap_or(0);
        from.get(index)
    }
}
