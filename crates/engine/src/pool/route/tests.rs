//! Every strategy, over workers that are given by hand.

use std::collections::BTreeMap;

use punctual_core::worker::Announcement;

use super::super::present::Load;
use super::*;

/// Workers a, b, c, … of four slots; each is what the change makes of it.
struct Floor(Vec<Standing>);

/// A worker with how many it has in hand, how many more it takes, and how busy its machine is.
type Standing = (WorkerId, Arc<Announcement>, usize, usize, Option<Load>);

impl Floor {
    fn of(count: u8) -> Floor {
        let name = |nth: u8| WorkerId::new(std::str::from_utf8(&[b'a' + nth]).unwrap(), 1);
        Floor((0..count).map(|nth| (name(nth), Arc::new(Announcement::of(4)), 0, 4, None)).collect())
    }

    fn busy(mut self, nth: usize, busy: usize) -> Floor {
        (self.0[nth].2, self.0[nth].3) = (busy, 4 - busy);
        self
    }

    fn loaded(mut self, nth: usize, cpu_percent: u8, memory_percent: u8) -> Floor {
        self.0[nth].4 = Some(Load { cpu_percent, memory_percent });
        self
    }

    fn announced(mut self, nth: usize, change: impl FnOnce(&mut Announcement)) -> Floor {
        change(Arc::make_mut(&mut self.0[nth].1));
        self
    }

    fn present(&self) -> Vec<Present<'_>> {
        self.0
            .iter()
            .map(|(id, announced, busy, free, load)| Present {
                id,
                announced,
                busy: *busy,
                free: *free,
                load: *load,
                is_draining: false,
                is_stuck: false,
                is_open: true,
            })
            .collect()
    }

    fn choose(&self, strategy: Strategy, run: i64, memory: &mut Memory) -> Option<Choice> {
        self.choose_for(&wish(strategy, 0), run, memory)
    }

    fn choose_for(&self, wish: &Wish, run: i64, memory: &mut Memory) -> Option<Choice> {
        super::choose(wish.strategy, RunId(run), wish, &self.present(), memory)
    }

    /// How often each worker is chosen for so many runs.
    fn spread(&self, strategy: Strategy, runs: i64) -> BTreeMap<String, u32> {
        let mut memory = Memory::default();
        let mut spread = BTreeMap::new();
        for run in 0..runs {
            let choice = self.choose(strategy, run, &mut memory).expect("there is room");
            *spread.entry(choice.worker.name().to_owned()).or_insert(0) += 1;
        }
        spread
    }

    fn names(&self, strategy: Strategy, runs: i64) -> String {
        let mut memory = Memory::default();
        let choices = (0..runs).map(|run| self.choose(strategy, run, &mut memory).expect("there is room"));
        choices.map(|choice| choice.worker.name().to_owned()).collect()
    }
}

fn wish(strategy: Strategy, key: u64) -> Wish {
    Wish::new(strategy, None, key, Vec::new())
}

fn counts(list: &[(&str, u32)]) -> BTreeMap<String, u32> {
    list.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

fn went_to(name: &str, passed_over: bool) -> Option<Choice> {
    Some(Choice { worker: WorkerId::new(name, 1), passed_over })
}

#[test]
fn round_robin_gives_nine_runs_to_three_workers_three_each() {
    assert_eq!(Floor::of(3).spread(Strategy::RoundRobin, 9), counts(&[("a", 3), ("b", 3), ("c", 3)]));
    assert_eq!(Floor::of(3).names(Strategy::RoundRobin, 7), "abcabca");
}

#[test]
fn round_robin_passes_a_full_worker_over_and_says_so() {
    let mut memory = Memory::default();
    let floor = Floor::of(3).busy(1, 4);
    assert_eq!(floor.choose(Strategy::RoundRobin, 1, &mut memory), went_to("a", false));
    assert_eq!(floor.choose(Strategy::RoundRobin, 2, &mut memory), went_to("c", true));
    assert_eq!(Floor::of(3).choose(Strategy::RoundRobin, 3, &mut memory), went_to("a", false));
}

#[test]
fn random_is_roughly_even_and_the_same_for_the_same_run() {
    let spread = Floor::of(3).spread(Strategy::Random, 3000);
    assert!(spread.values().all(|count| (900..1100).contains(count)), "{spread:?}");
    assert_eq!(Floor::of(3).names(Strategy::Random, 50), Floor::of(3).names(Strategy::Random, 50));
}

#[test]
fn least_loaded_counts_slots_and_least_utilised_machine_load() {
    let mut memory = Memory::default();
    let floor = Floor::of(3).busy(0, 2).busy(1, 1).busy(2, 3);
    assert_eq!(floor.choose(Strategy::LeastLoaded, 1, &mut memory), went_to("b", false));
    let floor = floor.loaded(0, 10, 30).loaded(1, 20, 90).loaded(2, 40, 40);
    assert_eq!(floor.choose(Strategy::LeastUtilised, 1, &mut memory), went_to("a", false));
    let silent = Floor::of(2).busy(0, 3).loaded(1, 80, 80);
    assert_eq!(
        silent.choose(Strategy::LeastUtilised, 1, &mut memory),
        went_to("a", false),
        "three quarters in use"
    );
}

#[test]
fn weights_are_shares_and_their_turns_are_interleaved() {
    let floor = Floor::of(3).announced(0, |announced| announced.weight = 5);
    assert_eq!(floor.spread(Strategy::Weighted, 70), counts(&[("a", 50), ("b", 10), ("c", 10)]));
    assert_eq!(floor.names(Strategy::Weighted, 7), "aabacaa");
}

#[test]
fn a_key_belongs_to_one_worker_and_moves_only_when_that_one_goes() {
    let mut memory = Memory::default();
    let (three, two) = (Floor::of(3), Floor::of(2));
    let mut moved = 0;
    for key in 0..300 {
        let wish = wish(Strategy::ConsistentHash, key);
        let before = three.choose_for(&wish, 1, &mut memory).unwrap().worker;
        assert_eq!(three.choose_for(&wish, 2, &mut memory).unwrap().worker, before, "the same for every run");
        let after = two.choose_for(&wish, 1, &mut memory).unwrap().worker;
        assert!(before.name() == "c" || before == after, "only the keys of the one that went move");
        moved += u32::from(before != after);
    }
    assert!((60..140).contains(&moved), "about a third: {moved}");
}

#[test]
fn the_next_one_takes_a_key_whose_worker_is_full() {
    let mut memory = Memory::default();
    let wish = wish(Strategy::ConsistentHash, 7);
    let home = Floor::of(3).choose_for(&wish, 1, &mut memory).unwrap().worker;
    let nth = Floor::of(3).0.iter().position(|(id, ..)| *id == home).unwrap();
    let choice = Floor::of(3).busy(nth, 4).choose_for(&wish, 1, &mut memory).unwrap();
    assert!(choice.passed_over && choice.worker != home);
}

#[test]
fn first_last_and_local_are_what_they_say() {
    let mut memory = Memory::default();
    let floor = Floor::of(3).announced(1, |announced| announced.node_local = true).busy(1, 3);
    assert_eq!(floor.choose(Strategy::First, 1, &mut memory), went_to("a", false));
    assert_eq!(floor.choose(Strategy::Last, 1, &mut memory), went_to("c", false));
    assert_eq!(floor.choose(Strategy::Local, 1, &mut memory), went_to("b", false));
    let full = floor.busy(0, 4).busy(1, 4);
    assert_eq!(full.choose(Strategy::First, 1, &mut memory), went_to("c", true));
    assert_eq!(full.choose(Strategy::Local, 1, &mut memory), went_to("c", false));
    assert_eq!(full.busy(2, 4).choose(Strategy::First, 1, &mut memory), None);
}

#[test]
fn the_least_used_is_who_has_waited_longest_or_had_fewest() {
    let mut memory = Memory::default();
    for name in ["a", "b", "c", "a", "b", "a"] {
        memory.note(name);
    }
    let floor = Floor::of(3);
    assert_eq!(floor.choose(Strategy::LeastRecentlyUsed, 1, &mut memory), went_to("c", false));
    assert_eq!(floor.choose(Strategy::LeastRecentlyUsed, 2, &mut memory), went_to("b", false));
    // By now a has had three, b three and c two.
    assert_eq!(floor.choose(Strategy::LeastFrequentlyUsed, 3, &mut memory), went_to("c", false));
    assert_eq!(floor.choose(Strategy::LeastFrequentlyUsed, 4, &mut memory), went_to("a", false));
}

#[test]
fn failover_leaves_the_workers_on_which_the_run_has_failed() {
    let mut memory = Memory::default();
    let avoid = |names: &[&str]| {
        let names = names.iter().map(|name| Arc::from(*name)).collect();
        Wish::new(Strategy::Failover, None, 0, names)
    };
    let floor = Floor::of(3);
    assert_eq!(floor.choose_for(&avoid(&[]), 1, &mut memory), went_to("a", false));
    assert_eq!(floor.choose_for(&avoid(&["a"]), 1, &mut memory), went_to("b", false));
    assert_eq!(
        floor.choose_for(&avoid(&["a", "b", "c"]), 1, &mut memory),
        went_to("a", false),
        "better than nowhere"
    );
}
