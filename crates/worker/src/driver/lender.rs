//! The lender: which scheduling node may fill the next free slot.
//!
//! A slot is lent as a credit, first to the node that waits with the highest priority, then in turn; while no node waits,
//! free slots are spread, so that a run that becomes due somewhere finds one there. A credit that is not used is called back
//! after a while, but only for a node that waits. It decides and sends nothing: time is an argument.
//!
//! **Invariant:** what is lent and not used, together with what runs, is never more than there are slots.
//!
//! ```text
//!  node ──Waiting──▶ lender ──Lent──▶ node ──Assign──▶ attempts
//!       ◀──Recall──         ◀─GaveBack─
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use punctual_core::attempt::Report;
use punctual_core::planted::{Fault, is_planted};

/// How long a credit may lie unused before it is called back for a node that waits.
pub const UNUSED_MAX: Duration = Duration::from_millis(50);
/// A node that has waited this long for a slot goes before those of higher priority.
pub const STARVED_AFTER: Duration = Duration::from_millis(500);

/// Lends the slots of one worker to the nodes that it is linked to.
#[derive(Debug)]
pub(super) struct Lender<N> {
    nodes: BTreeMap<N, Node>,
    /// Who got the last slot: the turn is the next one's.
    last: Option<N>,
    draining: bool,
}

#[derive(Debug, Default)]
struct Node {
    /// Totals since it joined.
    lent: u64,
    used: u64,
    gave_back: u64,
    /// Up to which total was lent when, for what is not used yet; the oldest is used first.
    lent_at: VecDeque<(u64, Duration)>,
    waits: Option<Waits>,
    /// When it was last asked to give back.
    recalled: Option<Duration>,
}

#[derive(Debug, Clone, Copy)]
struct Waits {
    priority: u8,
    runs: u32,
    /// Since when it has got nothing.
    since: Duration,
}

impl Node {
    fn unused(&self) -> u64 {
        self.lent - self.used - self.gave_back
    }

    fn lend(&mut self, credits: u64, now: Duration) {
        self.lent += credits;
        match self.lent_at.back_mut() {
            Some((total, at)) if *at == now => *total = self.lent,
            _ => self.lent_at.push_back((self.lent, now)),
        }
        if let Some(waits) = &mut self.waits {
            waits.since = now;
        }
    }

    fn forget_used(&mut self) {
        let gone = self.used + self.gave_back;
        while self.lent_at.front().is_some_and(|(total, _)| *total <= gone) {
            self.lent_at.pop_front();
        }
    }

    /// Credits that have lain unused since `before`.
    fn unused_since(&self, before: Duration) -> u64 {
        let old = self.lent_at.iter().take_while(|(_, at)| *at <= before).last();
        old.map_or(0, |(total, _)| total - (self.used + self.gave_back))
    }

    /// How many slots it could fill beyond those that it has.
    fn lacks(&self) -> u64 {
        self.waits.map_or(0, |waits| u64::from(waits.runs).saturating_sub(self.unused()))
    }
}

impl<N: Ord + Clone> Default for Lender<N> {
    fn default() -> Self {
        Lender { nodes: BTreeMap::new(), last: None, draining: false }
    }
}

impl<N: Ord + Clone> Lender<N> {
    /// A node is linked, or linked anew: it has nothing of ours.
    pub(super) fn joined(&mut self, node: N) {
        self.nodes.insert(node, Node::default());
    }

    /// The link to a node is gone, and what was lent to it is ours again.
    pub(super) fn left(&mut self, node: &N) {
        self.nodes.remove(node);
    }

    /// Nothing is lent any more, and all that is unused is called back; or slots are lent again.
    pub(super) fn drain(&mut self, on: bool) {
        self.draining = on && !is_planted(Fault::DrainLends);
    }

    /// A node has used a credit up.
    pub(super) fn used(&mut self, node: &N) {
        if let Some(known) = self.nodes.get_mut(node).filter(|known| known.unused() > 0) {
            known.used += 1;
            known.forget_used();
        }
    }

    /// All that a node has given back since it joined.
    pub(super) fn gave_back(&mut self, node: &N, total: u64) {
        if let Some(known) = self.nodes.get_mut(node) {
            known.gave_back = total.clamp(known.gave_back, known.lent - known.used);
            known.recalled = None;
            known.forget_used();
        }
    }

    /// What waits at a node for a slot of ours.
    pub(super) fn waits(&mut self, node: &N, priority: Option<u8>, runs: u32, now: Duration) {
        if let Some(known) = self.nodes.get_mut(node) {
            let since = known.waits.map_or(now, |waits| waits.since);
            known.waits = priority.map(|priority| Waits { priority, runs, since });
        }
    }

    /// Lends the free slots (`room` slots have no attempt), and recalls unused credits that other nodes wait for.
    pub(super) fn lend(&mut self, room: usize, now: Duration) -> Vec<(N, Report)> {
        let before: Vec<u64> = self.nodes.values().map(|node| node.lent).collect();
        if !self.draining {
            let unused: u64 = self.nodes.values().map(Node::unused).sum();
            self.share_out((room as u64).saturating_sub(unused), now);
        }
        let lent = self.nodes.iter().zip(before).filter(|((_, node), before)| node.lent > *before);
        let mut words: Vec<(N, Report)> =
            lent.map(|((id, node), _)| (id.clone(), Report::Lent { total: node.lent })).collect();
        self.recall(now, &mut words);
        words
    }

    fn share_out(&mut self, mut free: u64, now: Duration) {
        // The usual case on one machine, in one step.
        if self.nodes.len() == 1
            && free > 0
            && let Some(only) = self.nodes.values_mut().next()
        {
            return only.lend(free, now);
        }
        while free > 0
            && let Some(next) = self.next(now)
            && let Some(node) = self.nodes.get_mut(&next)
        {
            node.lend(1, now);
            self.last = Some(next);
            free -= 1;
        }
    }

    /// The node that gets the next credit: first nodes that have waited too long, then waiting nodes by priority, then the
    /// node with the fewest unused credits.
    fn next(&self, now: Duration) -> Option<N> {
        let rank = |node: &Node| match node.waits.filter(|_| node.lacks() > 0) {
            Some(waits) if now.saturating_sub(waits.since) >= STARVED_AFTER => (3, 0, 0),
            Some(waits) => (2, u64::from(waits.priority), 0),
            None => (1, 0, u64::MAX - node.unused()),
        };
        let best = self.nodes.values().map(rank).max()?;
        let mut equals = self.nodes.iter().filter(|(_, node)| rank(node) == best).map(|(id, _)| id);
        let after = equals.clone().find(|id| self.last.as_ref().is_none_or(|last| *id > last));
        after.or_else(|| equals.next()).cloned()
    }

    /// Calls unused credits back. A node that did not answer within `UNUSED_MAX` is asked again.
    fn recall(&mut self, now: Duration, words: &mut Vec<(N, Report)>) {
        let mut wanted = if self.draining { u64::MAX } else { self.lacking() };
        let (old, draining) = (now.saturating_sub(UNUSED_MAX), self.draining);
        for (id, node) in &mut self.nodes {
            let unused = if draining { node.unused() } else { node.unused_since(old) };
            let credits = unused.min(wanted);
            if credits > 0 && node.recalled.is_none_or(|at| at <= old) {
                node.recalled = Some(now);
                wanted -= credits;
                words.push((
                    id.clone(),
                    Report::Recall { credits: u32::try_from(credits).unwrap_or(u32::MAX) },
                ));
            }
        }
    }

    /// Slots that are waited for.
    fn lacking(&self) -> u64 {
        self.nodes.values().map(Node::lacks).sum()
    }

    /// When to look again if nothing happens before: when a credit that another node waits for has been unused for `UNUSED_MAX`.
    pub(super) fn next_wake(&self) -> Option<Duration> {
        if self.lacking() == 0 && !self.draining {
            return None;
        }
        let ripe = self.nodes.values().filter_map(|node| {
            let (_, oldest) = node.lent_at.front()?;
            Some(node.recalled.map_or(*oldest, |at| at.max(*oldest)) + UNUSED_MAX)
        });
        ripe.min()
    }

    /// Credits that the node has not used yet.
    pub(super) fn unused(&self) -> u64 {
        self.nodes.values().map(Node::unused).sum()
    }
}

#[cfg(test)]
mod tests;
