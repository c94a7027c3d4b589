//! Counts the runs of a job for its limits, by limit and key.
//!
//! A run is counted when it enters a state, and the count is reversed when it leaves that state. The counters also
//! remember which keys have room again, and when a rate allows the next run of a key; `limits` acts on that.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::ids::RunId;
use punctual_core::job::Definition;
use punctual_core::job::limit::{Beyond, Limit};
use punctual_core::planted::{Fault, is_planted};
use punctual_core::run::{Run, State, Wait};

/// The index of a limit, and one of its keys.
pub(super) type LimitKey = (u8, Arc<str>);

/// The runs of a job, by limit and key.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// A key without runs has no counter.
    keys: BTreeMap<LimitKey, Counter>,
    /// Keys from which a place was returned, and for which runs wait.
    freed: Vec<LimitKey>,
    /// When a rate allows the next run of a key that runs wait for.
    wakes: BTreeSet<(Timestamp, LimitKey)>,
    /// For which of these moments there is a deadline.
    expected: Option<Timestamp>,
}

#[derive(Debug, Default)]
struct Counter {
    /// Runs that are ready or running.
    placed: u32,
    /// Runs that wait for this limit, by due time.
    blocked: BTreeSet<(Timestamp, RunId)>,
    /// Runs that wait for any limit, for an earlier run or for the end of a hold, by due time.
    waiting: BTreeSet<(Timestamp, RunId)>,
    wakes_at: Option<Timestamp>,
}

impl Counter {
    fn is_unused(&self) -> bool {
        self.placed == 0 && self.blocked.is_empty() && self.waiting.is_empty()
    }
}

/// A run as the limits of its job see it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LimitedRun<'a> {
    /// That of the job as it is now.
    pub(crate) definition: &'a Definition,
    /// That of the run, which may be of an older revision.
    pub(crate) own: &'a Definition,
    pub(crate) run: &'a Run,
    /// Its key for each limit.
    pub(crate) keys: &'a [Arc<str>],
}

impl<'a> LimitedRun<'a> {
    /// The limits of the job, each with the run's key.
    fn limits(self) -> impl Iterator<Item = (LimitKey, &'a Limit)> {
        let keyed = self.definition.limits.iter().zip(self.keys);
        (0u8..).zip(keyed).map(|(index, (limit, key))| ((index, Arc::clone(key)), limit))
    }

    /// The limits that count the run when it is ready or running. A run with child runs has no place of its own: its
    /// child runs are counted. A child run of a backfill is counted like any other run of its job.
    pub(super) fn counting_limits(self) -> impl Iterator<Item = (LimitKey, &'a Limit)> {
        let is_child = self.run.parent().is_some() && !self.run.is_backfilled();
        let counts = is_child || !(self.run.is_backfill() || self.own.has_children());
        self.limits().filter(move |(_, limit)| counts && (limit.running.is_some() || limit.rate.is_some()))
    }

    /// Whether a limit counts the run while it waits. Child runs and runs that have started once are never skipped.
    fn counts_waiting(self, limit: &Limit) -> bool {
        limit.waiting.is_some() && self.run.parent().is_none() && self.run.attempt == 0
    }

    /// Its place among the runs that wait. A child run of a backfill takes its turn as if it were due when it was made:
    /// by its due time it would come before all others.
    fn place(self) -> (Timestamp, RunId) {
        let due = if self.run.is_backfilled() { self.run.created_at } else { self.run.due };
        (due, self.run.id)
    }
}

/// Whether a run in this state takes a place under the limits of its job. A run with child runs takes none: its child runs
/// could wait for that place, and the run waits for them.
pub(crate) fn has_place(state: &State) -> bool {
    matches!(state, State::Ready { .. } | State::Running { .. })
}

impl Counters {
    /// Counts a run that has entered its state.
    pub(crate) fn enter(&mut self, of: LimitedRun<'_>) {
        if has_place(&of.run.state) {
            self.change_placed(of, |counter| counter.placed += 1);
        } else if let State::Waiting { wait: wait @ (Wait::Overlap | Wait::Hold | Wait::Limit(_)) } =
            of.run.state
        {
            for (key, limit) in of.limits() {
                let blocks = wait == Wait::Limit(key.0);
                let counts = of.counts_waiting(limit);
                if blocks || counts {
                    let counter = self.keys.entry(key).or_default();
                    counter.blocked.extend(blocks.then_some(of.place()));
                    counter.waiting.extend(counts.then_some(of.place()));
                }
            }
        }
    }

    /// Reverses the count of a state that a run has left.
    pub(crate) fn leave(&mut self, of: LimitedRun<'_>, state: &State) {
        if has_place(state) {
            let mut freed = Vec::new();
            self.change_placed(of, |counter| {
                counter.placed = counter.placed.saturating_sub(1);
                freed.push(!counter.blocked.is_empty());
            });
            if is_planted(Fault::PlaceIsNotReturned) {
                return;
            }
            let keys = of.counting_limits().map(|(key, _)| key);
            self.freed.extend(keys.zip(freed).filter(|(_, is_awaited)| *is_awaited).map(|(key, _)| key));
        } else if matches!(state, State::Waiting { wait: Wait::Overlap | Wait::Hold | Wait::Limit(_) }) {
            for (key, _) in of.limits() {
                self.change(key, |counter| {
                    counter.blocked.remove(&of.place());
                    counter.waiting.remove(&of.place());
                });
            }
        }
    }

    fn change_placed(&mut self, of: LimitedRun<'_>, mut change: impl FnMut(&mut Counter)) {
        for (key, _) in of.counting_limits() {
            self.change(key, &mut change);
        }
    }

    /// Changes a counter, and removes it if nothing is left to count.
    fn change(&mut self, key: LimitKey, change: impl FnOnce(&mut Counter)) {
        let counter = self.keys.entry(key.clone()).or_default();
        change(counter);
        if counter.is_unused()
            && let Some(at) = self.keys.remove(&key).and_then(|counter| counter.wakes_at)
        {
            self.wakes.remove(&(at, key));
        }
    }

    /// How many runs with a key are ready or running.
    pub(super) fn placed(&self, key: &LimitKey) -> u32 {
        self.keys.get(key).map_or(0, |counter| counter.placed)
    }

    /// Whether a run that was due before this one waits for a key.
    pub(super) fn is_behind(&self, of: LimitedRun<'_>, key: &LimitKey) -> bool {
        let first = self.keys.get(key).and_then(|counter| counter.blocked.first());
        first.is_some_and(|first| *first < of.place())
    }

    /// The first run that waits for a key.
    pub(super) fn first_blocked(&self, key: &LimitKey) -> Option<RunId> {
        self.keys.get(key)?.blocked.first().map(|(_, run)| *run)
    }

    /// The run to skip if more runs wait than a limit allows, now that this run waits too.
    pub(super) fn one_too_many(&self, of: LimitedRun<'_>) -> Option<RunId> {
        of.limits().filter(|(_, limit)| of.counts_waiting(limit)).find_map(|(key, limit)| {
            let (waiting, counter) = (limit.waiting?, self.keys.get(&key)?);
            let is_too_many = counter.waiting.len() > usize::try_from(waiting.max).unwrap_or(usize::MAX);
            let oldest = counter.waiting.first().map(|(_, run)| *run);
            is_too_many.then_some(match waiting.beyond {
                Beyond::Skip => of.run.id,
                Beyond::Oldest => oldest.unwrap_or(of.run.id),
            })
        })
    }

    /// Takes a key from which a place was returned, and for which runs wait.
    pub(super) fn pop_freed(&mut self) -> Option<LimitKey> {
        self.freed.pop()
    }

    /// A rate allows the next run of a key at this moment.
    pub(super) fn wake_at(&mut self, at: Timestamp, key: LimitKey) {
        let counter = self.keys.entry(key.clone()).or_default();
        if let Some(before) = counter.wakes_at.replace(at) {
            self.wakes.remove(&(before, key.clone()));
        }
        self.wakes.insert((at, key));
    }

    /// The moment for which a deadline is needed. `None` means that there is a deadline that is early enough.
    pub(super) fn expect_wake(&mut self) -> Option<Timestamp> {
        let (at, _) = self.wakes.first()?;
        if self.expected.is_some_and(|expected| *at >= expected) {
            return None;
        }
        self.expected = Some(*at);
        self.expected
    }

    /// Returns false if the deadline for this moment was replaced by an earlier one.
    pub(super) fn meet(&mut self, expected: Timestamp) -> bool {
        self.expected.take_if(|at| *at == expected).is_some()
    }

    /// Takes a key whose next run a rate allows now.
    pub(super) fn pop_wake(&mut self, now: Timestamp) -> Option<LimitKey> {
        let (_, key) = self.wakes.first().filter(|(at, _)| *at <= now)?.clone();
        self.wakes.pop_first();
        if let Some(counter) = self.keys.get_mut(&key) {
            counter.wakes_at = None;
        }
        Some(key)
    }
}
