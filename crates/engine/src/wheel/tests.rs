use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const NOW: i64 = 1_900_000_000_123;
const DAY: i64 = 24 * 3600 * 1000;
const YEAR: i64 = 365 * DAY;

fn ts(millis: i64) -> Elapsed {
    Elapsed::from_millis(millis)
}

fn wheel() -> Wheel<u32> {
    Wheel::new(ts(NOW))
}

fn pop_all(wheel: &mut Wheel<u32>, now: i64) -> Vec<(i64, u32)> {
    std::iter::from_fn(|| wheel.pop(ts(now))).map(|(at, key)| (at.as_millis(), key)).collect()
}

#[test]
fn a_timer_is_due_at_its_millisecond_and_not_before() {
    for ahead in [1, 63, 64, 65, 4095, 4096, DAY, YEAR, 100 * YEAR, 1000 * YEAR] {
        let mut wheel = wheel();
        wheel.insert(ts(NOW + ahead), 7);
        assert_eq!(wheel.next(), Some(ts(NOW + ahead)));
        assert_eq!(wheel.pop(ts(NOW + ahead - 1)), None);
        assert_eq!(wheel.next(), Some(ts(NOW + ahead)));
        assert_eq!(wheel.pop(ts(NOW + ahead)), Some((ts(NOW + ahead), 7)));
        assert_eq!(wheel.pop(ts(NOW + ahead)), None);
        assert!(wheel.is_empty());
    }
}

#[test]
fn the_past_and_now_are_due_at_the_next_pop_in_order() {
    let mut wheel = wheel();
    wheel.insert(ts(NOW), 1);
    wheel.insert(ts(NOW - DAY), 2);
    wheel.insert(ts(NOW - 2 * DAY), 3);
    wheel.insert(ts(NOW - DAY), 4);
    wheel.insert(ts(NOW), 5);
    assert_eq!(wheel.next(), Some(ts(NOW - 2 * DAY)));
    assert_eq!(
        pop_all(&mut wheel, NOW),
        [(NOW - 2 * DAY, 3), (NOW - DAY, 2), (NOW - DAY, 4), (NOW, 1), (NOW, 5)]
    );
}

#[test]
fn timers_of_one_instant_fire_in_order_of_insertion() {
    let at = NOW + 3 * YEAR;
    let mut wheel = wheel();
    for (key, ahead) in [3 * YEAR, YEAR, DAY, 5000, 70, 1, 0].into_iter().enumerate() {
        assert_eq!(wheel.pop(ts(at - ahead - 1)), None);
        wheel.insert(ts(at), key as u32);
    }
    assert_eq!(pop_all(&mut wheel, at), (0..7).map(|key| (at, key)).collect::<Vec<_>>());
}

#[test]
fn what_is_armed_while_popping_takes_its_place() {
    let mut wheel = wheel();
    wheel.insert(ts(NOW + 10), 1);
    wheel.insert(ts(NOW + 10), 2);
    wheel.insert(ts(NOW + 30), 4);
    assert_eq!(wheel.pop(ts(NOW + 50)), Some((ts(NOW + 10), 1)));
    wheel.insert(ts(NOW + 20), 3); // between the two, and already due
    wheel.insert(ts(NOW + 10), 9); // after the timer of the same time that is still armed
    wheel.insert(ts(NOW + 5), 0); // before everything
    let order: Vec<u32> = pop_all(&mut wheel, NOW + 50).into_iter().map(|(_, key)| key).collect();
    assert_eq!(order, [0, 2, 9, 3, 4]);
}

#[test]
fn a_clock_that_runs_back_makes_nothing_due_early() {
    let mut wheel = wheel();
    assert_eq!(wheel.pop(ts(NOW + 1000)), None);
    wheel.insert(ts(NOW + 500), 1); // before the position, but not yet due at the next pop
    wheel.insert(ts(NOW + 2000), 2);
    assert_eq!(wheel.pop(ts(NOW + 400)), None);
    assert_eq!(wheel.next(), Some(ts(NOW + 500)));
    assert_eq!(pop_all(&mut wheel, NOW + 1999), [(NOW + 500, 1)]);
    assert_eq!(pop_all(&mut wheel, NOW + 2000), [(NOW + 2000, 2)]);
}

#[test]
fn eight_thousand_years_pass_timer_by_timer_not_tick_by_tick() {
    let mut wheel = wheel();
    let years: Vec<i64> = (1..=7900).map(|year| NOW + year * YEAR).collect();
    for (key, at) in years.iter().enumerate().rev() {
        wheel.insert(ts(*at), key as u32);
    }
    for at in &years {
        assert_eq!(wheel.next(), Some(ts(*at)));
        assert_eq!(wheel.pop(ts(*at)).map(|(at, _)| at.as_millis()), Some(*at));
        assert_eq!(wheel.pop(ts(*at)), None);
    }
    assert!(wheel.is_empty());
}

#[test]
fn a_herd_gives_its_memory_back() {
    let mut wheel = wheel();
    for key in 0..100_000 {
        wheel.insert(ts(NOW + 1000), key);
    }
    assert_eq!(pop_all(&mut wheel, NOW + 1000).len(), 100_000);
    assert!(wheel.entries.capacity() <= CAPACITY_KEPT);
}

#[test]
fn a_timer_takes_as_little_as_the_doc_says() {
    assert_eq!(size_of::<Entry<u32>>(), 16);
    assert_eq!(size_of::<Entry<u64>>(), 24);
}

#[test]
fn a_million_timers_are_each_popped_on_their_tick() {
    const COUNT: u32 = 1_000_000;
    let mut wheel = wheel();
    let mut random = 42_u64;
    for key in 0..COUNT {
        // Xorshift: most within the hour, some within the year, many on each full second.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let ahead = match key % 4 {
            0 => random % 3_600_000,
            1 => random % 3_600 * 1_000,
            2 => random % 86_400_000,
            _ => random % 31_536_000_000,
        };
        wheel.insert(ts(NOW + ahead.cast_signed()), key);
    }
    assert_eq!(wheel.len(), COUNT as usize);
    let mut seen = vec![false; COUNT as usize];
    while let Some(at) = wheel.next() {
        assert_eq!(wheel.pop(ts(at.as_millis() - 1)), None);
        while let Some((popped, key)) = wheel.pop(at) {
            assert_eq!(popped, at);
            assert!(!std::mem::replace(&mut seen[key as usize], true), "{key} came twice");
        }
        assert!(wheel.next().is_none_or(|next| next > at));
    }
    assert!(seen.into_iter().all(|seen| seen) && wheel.is_empty());
}

/// The reference model: a map sorted by time and order of insertion.
#[derive(Default)]
struct Model {
    timers: BTreeMap<(i64, u32), u32>,
    inserted: u32,
}

#[derive(Debug, Clone)]
enum Step {
    Insert {
        ahead: i64,
    },
    /// Several timers of one instant, which an earlier insert may have used.
    InsertAtRound {
        ahead: i64,
        count: u32,
    },
    /// Moves the clock, also backwards, and pops a few timers.
    Pop {
        ahead: i64,
        count: usize,
    },
    /// Moves the clock and pops all due timers.
    Drain {
        ahead: i64,
    },
    /// Moves the clock to `next` and pops all due timers.
    Sleep,
    Clear,
}

fn distance() -> impl Strategy<Value = i64> {
    prop_oneof![
        4 => 0..130_i64,
        4 => 0..10_000_i64,
        2 => 0..DAY,
        2 => 0..3 * YEAR,
        1 => 0..500 * YEAR,
        1 => -10_000..0_i64,
        1 => (0..48_u32).prop_map(|bit| 1_i64 << bit),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => distance().prop_map(|ahead| Step::Insert { ahead }),
        3 => (distance(), 1..5_u32).prop_map(|(ahead, count)| Step::InsertAtRound { ahead, count }),
        3 => (distance(), 1..4_usize).prop_map(|(ahead, count)| Step::Pop { ahead, count }),
        3 => distance().prop_map(|ahead| Step::Drain { ahead }),
        4 => Just(Step::Sleep),
        1 => Just(Step::Clear),
    ]
}

impl Model {
    fn insert(&mut self, wheel: &mut Wheel<u32>, at: i64) {
        wheel.insert(ts(at), self.inserted);
        self.timers.insert((at, self.inserted), self.inserted);
        self.inserted += 1;
    }

    fn pop(&mut self, now: i64) -> Option<(Elapsed, u32)> {
        let first = self.timers.first_entry()?;
        let at = first.key().0;
        (at <= now).then(|| (ts(at), first.remove()))
    }

    fn next(&self) -> Option<Elapsed> {
        self.timers.keys().next().map(|(at, _)| ts(*at))
    }
}

fn check(start: i64, steps: Vec<Step>) {
    let mut wheel = Wheel::new(ts(start));
    let mut model = Model::default();
    let mut now = start;
    for step in steps {
        let mut pops = 0;
        match step {
            Step::Insert { ahead } => model.insert(&mut wheel, now + ahead),
            Step::InsertAtRound { ahead, count } => {
                let at = (now + ahead).div_euclid(1000) * 1000;
                (0..count).for_each(|_| model.insert(&mut wheel, at));
            }
            Step::Pop { ahead, count } => (now, pops) = (now + ahead, count),
            Step::Drain { ahead } => (now, pops) = (now + ahead, usize::MAX),
            Step::Sleep => {
                now = wheel.next().map_or(now, |at| now.max(at.as_millis()));
                pops = usize::MAX;
            }
            Step::Clear => {
                wheel.clear();
                model.timers.clear();
            }
        }
        for _ in 0..pops {
            let popped = wheel.pop(ts(now));
            assert_eq!(popped, model.pop(now));
            if popped.is_none() {
                assert!(wheel.next().is_none_or(|next| next.as_millis() > now), "the caller would spin");
                break;
            }
        }
        assert_eq!(wheel.next(), model.next());
        assert_eq!(wheel.len(), model.timers.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_wheel_is_a_sorted_map(
        start in prop_oneof![Just(NOW), Just(0), Just(-5000), 0..1_i64 << 47],
        steps in prop::collection::vec(step(), 1..80),
    ) {
        check(start, steps);
    }
}
