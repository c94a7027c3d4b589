//! Whose ready run is next: start-time fair queuing over namespaces, and within a namespace over share keys.
//!
//! Each key has a virtual start time. The key with the smallest one is served, and its time then grows by the inverse of
//! its weight. A key that begins to wait starts at the present virtual time, so it is served soon and gets nothing for the
//! time in which it did not wait. A key that is alone gets everything. Keys without waiting runs are forgotten when the
//! virtual time has passed theirs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use punctual_core::limits::SHARE_WEIGHT_MAX;
use punctual_core::name::Namespace;

/// What a turn costs a key of weight 1. Every weight divides it without a large error.
const TURN: u64 = SHARE_WEIGHT_MAX as u64 * 1_000;

/// For whom a ready run takes its turn.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Share {
    pub(crate) namespace: Namespace,
    /// `None` means the runs of the namespace whose jobs have no share.
    pub(crate) key: Option<Arc<str>>,
}

/// The namespaces that have ready runs of one priority, and their keys.
#[derive(Debug, Default)]
pub(super) struct Turns {
    namespaces: Order<Namespace>,
    keys: BTreeMap<Namespace, Order<Option<Arc<str>>>>,
}

impl Turns {
    /// A run begins to wait.
    pub(super) fn join(&mut self, share: &Share, weight: u32) {
        self.namespaces.join(&share.namespace, 1);
        self.keys.entry(share.namespace.clone()).or_default().join(&share.key, weight);
    }

    /// A run waits no more, and was not served.
    pub(super) fn leave(&mut self, share: &Share) {
        self.namespaces.leave(&share.namespace);
        if let Some(keys) = self.keys.get_mut(&share.namespace) {
            keys.leave(&share.key);
            if keys.is_empty() {
                self.keys.remove(&share.namespace);
            }
        }
    }

    /// A waiting run is served.
    pub(super) fn serve(&mut self, share: &Share) {
        self.namespaces.serve(&share.namespace);
        if let Some(keys) = self.keys.get_mut(&share.namespace) {
            keys.serve(&share.key);
        }
        self.leave(share);
    }

    /// Who has ready runs, in the order of their turns.
    pub(super) fn in_order(&self) -> impl Iterator<Item = Share> {
        self.namespaces.in_order().flat_map(|namespace| {
            let keys = self.keys.get(namespace).into_iter().flat_map(Order::in_order);
            keys.map(|key| Share { namespace: namespace.clone(), key: key.clone() })
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.namespaces.is_empty()
    }
}

#[derive(Debug)]
struct Order<K> {
    entries: BTreeMap<K, Entry>,
    /// The keys that have waiting runs, by their virtual start times.
    waiting: BTreeSet<(u64, K)>,
    /// The other keys whose time has not passed.
    resting: BTreeSet<(u64, K)>,
    /// The virtual time: the start time of the last one that was served.
    now: u64,
}

#[derive(Debug)]
struct Entry {
    start: u64,
    weight: u32,
    runs: usize,
}

impl<K> Default for Order<K> {
    fn default() -> Self {
        Order { entries: BTreeMap::new(), waiting: BTreeSet::new(), resting: BTreeSet::new(), now: 0 }
    }
}

impl<K: Ord + Clone> Order<K> {
    fn join(&mut self, key: &K, weight: u32) {
        let Some(entry) = self.entries.get_mut(key) else {
            self.entries.insert(key.clone(), Entry { start: self.now, weight, runs: 1 });
            self.waiting.insert((self.now, key.clone()));
            return;
        };
        entry.runs += 1;
        entry.weight = weight;
        if entry.runs == 1 {
            self.resting.remove(&(entry.start, key.clone()));
            entry.start = entry.start.max(self.now);
            self.waiting.insert((entry.start, key.clone()));
        }
    }

    fn leave(&mut self, key: &K) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        entry.runs = entry.runs.saturating_sub(1);
        if entry.runs > 0 {
            return;
        }
        self.waiting.remove(&(entry.start, key.clone()));
        self.resting.insert((entry.start, key.clone()));
        if self.waiting.is_empty() {
            *self = Order::default();
        }
    }

    fn serve(&mut self, key: &K) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        self.waiting.remove(&(entry.start, key.clone()));
        self.now = self.now.max(entry.start);
        // A key whose workers were busy for long catches up by one turn only.
        let start = entry.start.max(self.now.saturating_sub(TURN));
        entry.start = start + TURN / u64::from(entry.weight.max(1));
        self.waiting.insert((entry.start, key.clone()));
        while let Some((start, _)) = self.resting.first()
            && *start <= self.now
        {
            if let Some((_, key)) = self.resting.pop_first() {
                self.entries.remove(&key);
            }
        }
    }

    fn in_order(&self) -> impl Iterator<Item = &K> {
        self.waiting.iter().map(|(_, key)| key)
    }

    fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn share(namespace: &str, key: &str) -> Share {
        let key = (!key.is_empty()).then(|| key.into());
        Share { namespace: namespace.parse().unwrap(), key }
    }

    /// Serves the first in order so many times, and counts the turns of each. Those that are served go on waiting.
    fn serve(turns: &mut Turns, weights: &[(Share, u32)], times: usize) -> Vec<usize> {
        let mut served = vec![0; weights.len()];
        for _ in 0..times {
            let next = turns.in_order().next().unwrap();
            let index = weights.iter().position(|(share, _)| *share == next).unwrap();
            turns.join(&next, weights[index].1);
            turns.serve(&next);
            served[index] += 1;
        }
        served
    }

    fn check(weights: &[(&str, &str, u32)], times: usize, expected: &[usize]) {
        let weights: Vec<(Share, u32)> =
            weights.iter().map(|(namespace, key, weight)| (share(namespace, key), *weight)).collect();
        let mut turns = Turns::default();
        weights.iter().for_each(|(share, weight)| turns.join(share, *weight));
        assert_eq!(serve(&mut turns, &weights, times), expected);
    }

    #[test]
    fn namespaces_take_turns_whatever_their_keys() {
        check(&[("a", "", 1), ("b", "", 1)], 10, &[5, 5]);
        check(&[("a", "x", 900), ("a", "y", 100), ("b", "", 1)], 20, &[9, 1, 10]);
    }

    #[test]
    fn keys_share_by_their_weights() {
        check(&[("a", "crawl", 70), ("a", "mail", 30)], 100, &[70, 30]);
        check(&[("a", "", 1), ("a", "mail", 3)], 8, &[2, 6]);
    }

    #[test]
    fn a_key_gets_nothing_for_the_time_in_which_it_did_not_wait() {
        let weights = [(share("a", "x"), 1), (share("a", "y"), 1)];
        let mut turns = Turns::default();
        turns.join(&weights[0].0, 1);
        assert_eq!(serve(&mut turns, &weights, 1000), [1000, 0]);
        turns.join(&weights[1].0, 1);
        assert_eq!(serve(&mut turns, &weights, 10), [5, 5]);
    }

    #[test]
    fn a_key_that_leaves_and_returns_gains_no_turns() {
        let (flood, one) = (share("a", "flood"), share("a", "one"));
        let mut turns = Turns::default();
        (0..1000).for_each(|_| turns.join(&flood, 1));
        let mut served = 0;
        for _ in 0..100 {
            if !turns.in_order().any(|share| share == one) {
                turns.join(&one, 1);
            }
            let next = turns.in_order().next().unwrap();
            served += usize::from(next == one);
            turns.serve(&next);
        }
        assert!((49..=51).contains(&served), "{served} of 100");
    }

    #[test]
    fn nothing_is_kept_of_keys_that_do_not_wait() {
        let mut turns = Turns::default();
        let flood = share("a", "flood");
        (0..200).for_each(|_| turns.join(&flood, 1));
        for key in 0..50 {
            let once = share("a", &format!("key-{key}"));
            turns.join(&once, 1);
            turns.serve(&once);
            turns.serve(&flood);
            turns.serve(&flood);
        }
        let keys = &turns.keys[&flood.namespace];
        assert!(keys.entries.len() <= 3, "{} entries", keys.entries.len());
        turns.leave(&flood);
        while !turns.is_empty() {
            turns.serve(&flood);
        }
        assert!(turns.keys.is_empty() && turns.namespaces.entries.is_empty());
    }

    proptest! {
        #[test]
        fn turns_follow_the_weights(weights in proptest::collection::vec(1u32..100, 1..8)) {
            let weights: Vec<(Share, u32)> = (0..)
                .zip(&weights)
                .map(|(index, weight): (u32, &u32)| (share("a", &format!("k{index}")), *weight))
                .collect();
            let mut turns = Turns::default();
            weights.iter().for_each(|(share, weight)| turns.join(share, *weight));
            let total: u32 = weights.iter().map(|(_, weight)| weight).sum();
            let served = serve(&mut turns, &weights, total as usize * 3);
            for ((_, weight), served) in weights.iter().zip(served) {
                let fair = *weight as usize * 3;
                prop_assert!(served.abs_diff(fair) <= weights.len() + 1, "{served} of {fair}");
            }
        }
    }
}
