//! How many faults a world has, chosen by its seed: worlds that are all alike would meet the same faults again and again.

use crate::dice::Dice;

/// A gap is the maximum time between two faults, in milliseconds of true time. "One in" is a probability. 0 means never.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weather {
    /// The number of nodes in the cluster. `None` means a single node on one machine with its store, whose worker dies with
    /// it.
    pub(crate) nodes: Option<usize>,
    pub(crate) workers: usize,
    /// The number of job names. With few names commands collide; with many, most timers are not in memory.
    pub(crate) names: usize,
    /// Whether users edit, pause and delete jobs. If not, every job keeps its first revision.
    pub(crate) edits: bool,
    /// The shortest period of an ordinary schedule.
    pub(crate) period_min: u64,
    pub(crate) ask_gap: u64,
    pub(crate) crash_gap: u64,
    pub(crate) step_gap: u64,
    pub(crate) steal_gap: u64,
    pub(crate) prune_gap: u64,
    /// The link between a worker and a node is cut for a while.
    pub(crate) cut_gap: u64,
    /// A node is paused, for less than its lease or for longer.
    pub(crate) pause_gap: u64,
    /// A node stops properly, and starts again later.
    pub(crate) leave_gap: u64,
    /// A node is cut off from the store.
    pub(crate) store_cut_gap: u64,
    /// No node can reach the store for longer than a lease.
    pub(crate) outage_gap: u64,
    /// Two nodes cannot reach each other.
    pub(crate) peer_cut_gap: u64,
    /// A worker dies or is paused.
    pub(crate) worker_gap: u64,
    /// An operator deletes all sessions.
    pub(crate) delete_sessions_gap: u64,
    /// Maximum drift of a machine's monotonic clock in parts per million.
    pub(crate) drift_ppm: i64,
    /// One connection in so many is refused although its node is running.
    pub(crate) refusals: u64,
    /// One commit in so many fails.
    pub(crate) commit_trouble: u64,
    /// One store call in so many takes seconds.
    pub(crate) slow: u64,
    /// One message in so many is lost; as many arrive twice, late, or again after a while.
    pub(crate) message_trouble: u64,
    /// One attempt in so many fails.
    pub(crate) failures: u64,
}

impl Weather {
    pub(crate) fn of(dice: &mut Dice) -> Weather {
        let mut one_of = |choices: &[u64]| dice.pick(choices).copied().unwrap_or(0);
        let nodes = usize::try_from(one_of(&[0, 1, 2, 2, 3, 3, 3, 4])).unwrap_or(0);
        let names = one_of(&[6, 10, 24, 45]);
        let alone = Weather {
            names: usize::try_from(names).unwrap_or(6),
            edits: one_of(&[0, 1, 1]) == 1,
            period_min: if names > 20 { 2_500 } else { 600 },
            ask_gap: if names > 20 { 5_000 } else { one_of(&[1_500, 4_000, 8_000]) },
            crash_gap: one_of(&[6_000, 40_000, 40_000, 150_000]),
            step_gap: one_of(&[15_000, 120_000, 120_000, 0]),
            steal_gap: one_of(&[0, 0, 30_000]),
            prune_gap: one_of(&[0, 20_000]),
            cut_gap: one_of(&[0, 60_000]),
            commit_trouble: one_of(&[6, 12, 12, 60]),
            slow: one_of(&[15, 40, 200]),
            message_trouble: one_of(&[15, 40, 150]),
            failures: one_of(&[3, 4, 12]),
            ..Weather::fair()
        };
        if nodes == 0 {
            return alone;
        }
        Weather {
            nodes: Some(nodes),
            workers: usize::try_from(one_of(&[1, 2, 3])).unwrap_or(1),
            crash_gap: one_of(&[12_000, 40_000, 100_000]),
            // The clock of a database server is seldom set. A node's own clock may be set more often, but it decides nothing.
            step_gap: one_of(&[0, 0, 90_000]),
            cut_gap: one_of(&[10_000, 40_000]),
            pause_gap: one_of(&[9_000, 20_000, 45_000]),
            leave_gap: one_of(&[25_000, 70_000]),
            store_cut_gap: one_of(&[25_000, 70_000]),
            outage_gap: one_of(&[0, 30_000, 60_000]),
            peer_cut_gap: one_of(&[0, 40_000]),
            worker_gap: one_of(&[30_000, 90_000]),
            delete_sessions_gap: one_of(&[0, 60_000]),
            drift_ppm: i64::try_from(one_of(&[0, 200, 100_000])).unwrap_or(0),
            refusals: one_of(&[0, 0, 200]),
            commit_trouble: one_of(&[12, 30, 100]),
            ..alone
        }
    }

    /// A world without faults.
    pub(crate) fn fair() -> Weather {
        Weather {
            nodes: None,
            workers: 1,
            names: 0,
            edits: false,
            period_min: 1_000,
            ask_gap: 0,
            crash_gap: 0,
            step_gap: 0,
            steal_gap: 0,
            prune_gap: 0,
            cut_gap: 0,
            pause_gap: 0,
            leave_gap: 0,
            store_cut_gap: 0,
            outage_gap: 0,
            peer_cut_gap: 0,
            worker_gap: 0,
            delete_sessions_gap: 0,
            drift_ppm: 0,
            refusals: 0,
            commit_trouble: 0,
            slow: 0,
            message_trouble: 0,
            failures: 0,
        }
    }
}
