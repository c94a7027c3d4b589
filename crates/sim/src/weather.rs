//! How rough a world is, by its seed: worlds that are all alike would meet the same troubles over and over.

use crate::dice::Dice;

/// Gaps are in milliseconds of true time; "one in" counts throws, and 0 is never.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weather {
    /// Names that jobs can have: with few, commands collide; with many, most jobs are beyond the horizon.
    pub(crate) names: usize,
    /// People edit, pause and delete jobs; else every job keeps its first revision.
    pub(crate) edits: bool,
    /// The shortest period of an ordinary schedule.
    pub(crate) period_min: u64,
    pub(crate) ask_gap: u64,
    pub(crate) crash_gap: u64,
    pub(crate) step_gap: u64,
    pub(crate) usurp_gap: u64,
    pub(crate) prune_gap: u64,
    /// How often the link to the worker is cut for a while.
    pub(crate) cut_gap: u64,
    /// One commit in so many goes wrong.
    pub(crate) commit_trouble: u64,
    /// One store call in so many takes seconds.
    pub(crate) slow: u64,
    /// One message in so many is lost, and as many come twice.
    pub(crate) message_trouble: u64,
    /// One attempt in so many ends badly.
    pub(crate) failures: u64,
}

impl Weather {
    pub(crate) fn of(dice: &mut Dice) -> Weather {
        let mut one_of = |choices: &[u64]| dice.pick(choices).copied().unwrap_or(0);
        let names = one_of(&[6, 10, 24, 45]);
        Weather {
            names: usize::try_from(names).unwrap_or(6),
            edits: one_of(&[0, 1, 1]) == 1,
            period_min: if names > 20 { 2_500 } else { 600 },
            ask_gap: if names > 20 { 5_000 } else { one_of(&[1_500, 4_000, 8_000]) },
            crash_gap: one_of(&[6_000, 40_000, 40_000, 150_000]),
            step_gap: one_of(&[15_000, 120_000, 120_000, 0]),
            usurp_gap: one_of(&[0, 0, 30_000]),
            prune_gap: one_of(&[0, 20_000]),
            cut_gap: one_of(&[0, 60_000]),
            commit_trouble: one_of(&[6, 12, 12, 60]),
            slow: one_of(&[15, 40, 200]),
            message_trouble: one_of(&[15, 40, 150]),
            failures: one_of(&[3, 4, 12]),
        }
    }

    /// Nothing ever goes wrong.
    pub(crate) fn fair() -> Weather {
        Weather {
            names: 0,
            edits: false,
            period_min: 1_000,
            ask_gap: 0,
            crash_gap: 0,
            step_gap: 0,
            usurp_gap: 0,
            prune_gap: 0,
            cut_gap: 0,
            commit_trouble: 0,
            slow: 0,
            message_trouble: 0,
            failures: 0,
        }
    }
}
