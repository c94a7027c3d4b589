//! Rules one by one, then nodes that wait, use, give back and leave in any order.

use proptest::prelude::*;

use super::*;

fn at(millis: i64) -> Duration {
    Duration::from_millis(1_000 + u64::try_from(millis).unwrap())
}

fn lender(nodes: &[u8]) -> Lender<u8> {
    let mut lender = Lender::default();
    nodes.iter().for_each(|node| lender.joined(*node));
    lender
}

fn lent(node: u8, total: u64) -> (u8, Report) {
    (node, Report::Lent { total })
}

fn recall(node: u8, credits: u32) -> (u8, Report) {
    (node, Report::Recall { credits })
}

#[test]
fn a_single_node_gets_everything_and_gets_it_again() {
    let mut lender = lender(&[1]);
    assert_eq!(lender.lend(4, at(0)), [lent(1, 4)]);
    assert_eq!(lender.lend(4, at(100)), [], "nobody waits, so nothing is called back");
    lender.used(&1);
    assert_eq!(lender.lend(3, at(100)), [], "it runs");
    assert_eq!(lender.lend(4, at(100)), [lent(1, 5)], "it has ended");
    assert_eq!(lender.next_wake(), None);
}

#[test]
fn free_slots_are_spread_while_nobody_waits() {
    assert_eq!(lender(&[1, 2, 3]).lend(7, at(0)), [lent(1, 3), lent(2, 2), lent(3, 2)]);
}

#[test]
fn a_free_slot_goes_to_the_highest_priority_then_in_turn() {
    let mut lender = lender(&[1, 2, 3]);
    lender.waits(&1, Some(5), 100, at(0));
    lender.waits(&2, Some(9), 1, at(0));
    lender.waits(&3, Some(5), 100, at(0));
    assert_eq!(lender.lend(1, at(0)), [lent(2, 1)]);
    lender.used(&2);
    lender.waits(&2, None, 0, at(0));
    assert_eq!(lender.lend(4, at(0)), [lent(1, 2), lent(3, 2)]);
}

#[test]
fn an_unused_credit_is_called_back_for_a_waiting_node() {
    let mut lender = lender(&[1]);
    lender.lend(2, at(0));
    lender.joined(2);
    lender.waits(&2, Some(5), 1, at(10));
    assert_eq!(lender.lend(2, at(10)), [], "it is fresh");
    assert_eq!(lender.next_wake(), Some(at(50)));
    assert_eq!(lender.lend(2, at(50)), [recall(1, 1)]);
    assert_eq!(lender.lend(2, at(60)), [], "it was asked already");
    lender.gave_back(&1, 1);
    assert_eq!(lender.lend(2, at(61)), [lent(2, 1)]);
    assert_eq!(lender.next_wake(), None, "everybody has what it needs");
}

#[test]
fn a_node_that_uses_credits_slowly_gives_the_rest_back() {
    let mut lender = lender(&[1]);
    lender.lend(10, at(0));
    lender.joined(2);
    lender.used(&1);
    lender.waits(&2, Some(5), 100, at(40));
    assert_eq!(lender.lend(9, at(50)), [recall(1, 9)]);
}

#[test]
fn the_starved_go_before_those_of_higher_priority() {
    let mut lender = lender(&[1, 2]);
    lender.waits(&1, Some(9), 100, at(0));
    lender.waits(&2, Some(0), 100, at(0));
    assert_eq!(lender.lend(1, at(0)), [lent(1, 1)]);
    lender.used(&1);
    assert_eq!(lender.lend(1, at(499)), [lent(1, 2)]);
    lender.used(&1);
    assert_eq!(lender.lend(1, at(500)), [lent(2, 1)]);
    lender.used(&2);
    assert_eq!(lender.lend(1, at(501)), [lent(1, 3)]);
}

#[test]
fn what_a_node_that_left_had_is_lent_to_others() {
    let mut lender = lender(&[1, 2]);
    assert_eq!(lender.lend(2, at(0)), [lent(1, 1), lent(2, 1)]);
    lender.left(&1);
    assert_eq!(lender.lend(2, at(0)), [lent(2, 2)]);
    lender.joined(1);
    assert_eq!(lender.lend(3, at(0)), [lent(1, 1)], "from nothing");
}

#[test]
fn a_draining_worker_lends_nothing_and_calls_everything_back() {
    let mut lender = lender(&[1, 2]);
    lender.lend(4, at(0));
    lender.used(&1);
    lender.drain(true);
    assert_eq!(lender.lend(3, at(1)), [recall(1, 1), recall(2, 2)]);
    lender.gave_back(&1, 1);
    lender.gave_back(&2, 2);
    assert_eq!((lender.lend(4, at(2)), lender.unused()), (vec![], 0));
}

/// A node as the lender sees one: it holds credits, has runs in line, and tells what waits.
#[derive(Debug, Default)]
struct Peer {
    credits: Credits,
    line: Vec<u8>,
    /// When the first in its line began to wait without a slot.
    waiting_since: Option<i64>,
}

#[derive(Debug, Default)]
struct Credits {
    lent: u64,
    used: u64,
    gave_back: u64,
}

struct World {
    lender: Lender<usize>,
    slots: usize,
    running: usize,
    nodes: Vec<Peer>,
    now: i64,
}

#[derive(Debug, Clone)]
enum Step {
    Submit(usize, u8, usize),
    End(usize),
    Pass(i64),
    Rejoin(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0usize..3, 0u8..=9, 1usize..8).prop_map(|(node, priority, runs)| Step::Submit(node, priority, runs)),
        6 => (1usize..4).prop_map(Step::End),
        4 => (1i64..80).prop_map(Step::Pass),
        1 => (0usize..3).prop_map(Step::Rejoin),
    ]
}

impl World {
    fn new(slots: usize) -> World {
        let mut world = World { lender: Lender::default(), slots, running: 0, nodes: Vec::new(), now: 0 };
        for node in 0..3 {
            world.lender.joined(node);
            world.nodes.push(Peer::default());
        }
        world.settle();
        world
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Submit(node, priority, runs) => {
                self.nodes[node].line.extend(std::iter::repeat_n(priority, runs));
                self.nodes[node].line.sort_unstable();
            }
            Step::End(attempts) => self.running = self.running.saturating_sub(attempts),
            Step::Pass(millis) => self.now += millis,
            Step::Rejoin(node) => {
                self.lender.left(&node);
                self.lender.joined(node);
                self.nodes[node].credits = Credits::default();
            }
        }
        self.settle();
    }

    /// Messages go to and fro until nobody has anything to say.
    fn settle(&mut self) {
        loop {
            for (id, node) in self.nodes.iter_mut().enumerate() {
                let free = node.credits.lent - node.credits.used - node.credits.gave_back;
                for _ in 0..free.min(node.line.len() as u64) {
                    node.line.pop();
                    node.credits.used += 1;
                    node.waiting_since = None;
                    self.running += 1;
                    self.lender.used(&id);
                }
                let first = node.line.last().copied();
                if first.is_some() {
                    node.waiting_since.get_or_insert(self.now);
                }
                self.lender.waits(&id, first, node.line.len() as u32, at(self.now));
            }
            let words = self.lender.lend(self.slots - self.running, at(self.now));
            let unused = self.lender.unused() as usize;
            assert!(
                self.running + unused <= self.slots,
                "{} run, {unused} lent, {} slots",
                self.running,
                self.slots
            );
            if words.is_empty() {
                return;
            }
            for (node, word) in words {
                let credits = &mut self.nodes[node].credits;
                match word {
                    Report::Lent { total } => credits.lent = total,
                    Report::Recall { credits: asked } => {
                        let free = credits.lent - credits.used - credits.gave_back;
                        credits.gave_back += u64::from(asked).min(free);
                        self.lender.gave_back(&node, credits.gave_back);
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_more_is_lent_than_is_free_and_nobody_who_waits_is_starved(
        slots in 1usize..6,
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut world = World::new(slots);
        for step in &steps {
            world.take(step);
            let waits = world.nodes.iter().any(|node| !node.line.is_empty());
            prop_assert!(!waits || world.lender.unused() == 0 || world.lender.next_wake().is_some(),
                "a slot is idle while a node waits, and no wake is set");
        }
        // From here every slot is given back within 100 ms, and higher priorities keep coming elsewhere.
        let waiting: Vec<usize> = (0..3).filter(|node| !world.nodes[*node].line.is_empty()).collect();
        for node in &mut world.nodes {
            node.waiting_since = None;
        }
        for _ in 0..40 {
            world.take(&Step::End(slots));
            for node in 0..3 {
                let longest = world.nodes[node].waiting_since.map_or(0, |since| world.now - since);
                prop_assert!(!waiting.contains(&node) || longest <= 1_000, "node {node} has waited for {longest} ms");
            }
            world.take(&Step::Submit(0, 9, slots));
            world.take(&Step::Pass(100));
        }
    }

    #[test]
    fn of_two_that_wait_the_higher_priority_is_served_first(
        priorities in prop::collection::vec((0usize..3, 0u8..=9), 2..20),
    ) {
        let mut world = World::new(1);
        world.take(&Step::Submit(0, 5, 1));
        prop_assert_eq!(world.running, 1);
        for (node, priority) in &priorities {
            world.take(&Step::Submit(*node, *priority, 1));
        }
        while world.nodes.iter().any(|node| !node.line.is_empty()) {
            let highest = world.nodes.iter().filter_map(|node| node.line.last()).max().copied().unwrap();
            let count = |world: &World| world.nodes.iter().flat_map(|node| &node.line).filter(|p| **p == highest).count();
            let before = count(&world);
            world.take(&Step::End(1));
            prop_assert_eq!(count(&world), before - 1, "the highest goes first");
        }
    }
}
