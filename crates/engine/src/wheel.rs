//! Timers in the order of their time.
//!
//! A hierarchical timing wheel of 1 ms ticks: seven levels of 64 slots, each level 64 times coarser than the
//! one below (64 ms, 4 s, 4 min, 4.7 h, 12 days, 2.2 years, 139 years), and one list for timers beyond. A
//! timer goes to the level of the highest digit (base 64) in which its time differs from the wheel's
//! position, and moves down as the position comes nearer: at most once per level, so the cost of a timer is
//! constant however long it waits. The wheel reads no clock.
//!
//! The surprise: the position does not step tick by tick. It jumps to the earliest timer or to `now`; the slots in
//! between are known to be empty. A jump of years costs only the timers on the way, not the ticks.
//!
//! There is no `remove`. Cancellation is lazy: when a key is popped, its owner checks whether the timer still
//! applies. A moved timer leaves its old entry until the old time comes, and [`Wheel::next`] may return that
//! entry; the cost is one wake-up with nothing to do.
//!
//! shard ──insert──▶ wheel ──pop──▶ fire

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::fmt;

use punctual_core::Timestamp;

const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
const LEVELS: usize = 7;
/// The slot behind all levels, for timers more than 139 years from the position.
const FAR: usize = LEVELS * SLOTS;

/// Entries whose memory an empty wheel keeps: enough that a quiet shard never allocates, few enough that the memory of
/// a burst is freed afterwards.
const CAPACITY_KEPT: usize = 4096;

/// The end of a list.
const NONE: u32 = u32::MAX;

/// Timers by time; `K` identifies the owner. A timer takes 16 bytes with a key of 4, 24 with a key of 8.
pub struct Wheel<K> {
    /// Every timer in `slots` is at this instant or later. It never runs back.
    position: i64,
    /// `LEVELS` rows of `SLOTS`, then `FAR`.
    slots: Box<[Slot]>,
    /// One bit per slot, set while the slot is not empty.
    occupied: [u64; LEVELS],
    /// All entries of all slots; unused ones are chained from `free`.
    entries: Vec<Entry<K>>,
    free: u32,
    len: usize,
    /// Timers that were already in the past when inserted: usually few, and before the position, where no slot is.
    late: BinaryHeap<Reverse<Late<K>>>,
    /// Numbers the late timers, so that equal times keep their order.
    late_count: u64,
}

/// A list in order of insertion.
#[derive(Clone, Copy)]
struct Slot {
    head: u32,
    tail: u32,
    /// The earliest time in the list. Always exact, because a slot only grows until it is emptied as a whole.
    earliest: i64,
}

struct Entry<K> {
    at: i64,
    next: u32,
    key: K,
}

struct Late<K> {
    at: i64,
    number: u64,
    key: K,
}

impl<K: Copy> Wheel<K> {
    pub fn new(now: Timestamp) -> Self {
        Wheel {
            position: now.as_millis(),
            slots: vec![Slot::EMPTY; FAR + 1].into_boxed_slice(),
            occupied: [0; LEVELS],
            entries: Vec::new(),
            free: NONE,
            len: 0,
            late: BinaryHeap::new(),
            late_count: 0,
        }
    }

    /// Arms a timer. A timer in the past is due at once.
    pub fn insert(&mut self, at: Timestamp, key: K) {
        let at = at.as_millis();
        self.len += 1;
        if at < self.position {
            self.late.push(Reverse(Late { at, number: self.late_count, key }));
            self.late_count += 1;
        } else {
            let entry = self.allocate(Entry { at, next: NONE, key });
            self.append(entry, at);
        }
    }

    /// Takes the earliest timer that is due at `now`; equal times in order of insertion. `None` means that no timer
    /// up to `now` is left. A `now` that runs back makes nothing due.
    pub fn pop(&mut self, now: Timestamp) -> Option<(Timestamp, K)> {
        let now = now.as_millis();
        let popped = if self.late.is_empty() { self.pop_slot(now) } else { self.pop_late(now) };
        if popped.is_some() {
            self.len -= 1;
            if self.len == 0 {
                self.release();
            }
        }
        popped.map(|(at, key)| (Timestamp::from_millis(at), key))
    }

    /// The time of the earliest timer, however far off. After `pop(now)` returned `None` it is later than that
    /// `now`, so a caller that sleeps until then never spins.
    pub fn next(&self) -> Option<Timestamp> {
        let late = self.late.peek().map(|Reverse(late)| late.at);
        late.or_else(|| self.earliest()).map(Timestamp::from_millis)
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Removes every timer; the position stays.
    pub fn clear(&mut self) {
        self.slots.fill(Slot::EMPTY);
        self.occupied = [0; LEVELS];
        self.len = 0;
        self.release();
    }

    fn pop_late(&mut self, now: i64) -> Option<(i64, K)> {
        // Late timers are before the position, and so before every timer in a slot.
        if self.late.peek().is_some_and(|Reverse(late)| late.at > now) {
            return None;
        }
        self.late.pop().map(|Reverse(late)| (late.at, late.key))
    }

    fn pop_slot(&mut self, now: i64) -> Option<(i64, K)> {
        match self.earliest() {
            Some(at) if at <= now => {
                self.advance(at);
                Some((at, self.take_first(at)))
            }
            _ => {
                // A position near `now` lets later inserts land on a low level.
                self.advance(now.max(self.position));
                None
            }
        }
    }

    /// The earliest time in a slot: all of a lower level is before a higher level, a lower slot before the next one.
    fn earliest(&self) -> Option<i64> {
        for (level, bits) in self.occupied.iter().enumerate() {
            if *bits != 0 {
                return Some(self.slots[level * SLOTS + bits.trailing_zeros() as usize].earliest);
            }
        }
        let far = &self.slots[FAR];
        (far.head != NONE).then_some(far.earliest)
    }

    /// Moves the position to `to`, at or before the earliest timer. All slots before it are empty; of the others, only
    /// the slot that the position enters may hold timers that now belong on a lower level.
    fn advance(&mut self, to: i64) {
        let entered = slot_of(self.position, to);
        self.position = to;
        if entered < SLOTS {
            return; // On the lowest level a slot is one tick, so nothing moves down.
        }
        let mut entry = self.take(entered).head;
        while entry != NONE {
            let Entry { at, next, .. } = self.entries[entry as usize];
            self.append(entry, at);
            entry = next;
        }
    }

    /// Timers of the same time are always in the same slot, and lists keep their order when they move down, so equal
    /// times are popped in order of insertion.
    fn append(&mut self, entry: u32, at: i64) {
        let index = slot_of(self.position, at);
        let slot = &mut self.slots[index];
        self.entries[entry as usize].next = NONE;
        if slot.head == NONE {
            *slot = Slot { head: entry, tail: entry, earliest: at };
            if index != FAR {
                self.occupied[index / SLOTS] |= 1 << (index % SLOTS);
            }
        } else {
            self.entries[slot.tail as usize].next = entry;
            slot.tail = entry;
            slot.earliest = slot.earliest.min(at);
        }
    }

    fn take(&mut self, index: usize) -> Slot {
        if index != FAR {
            self.occupied[index / SLOTS] &= !(1 << (index % SLOTS));
        }
        std::mem::replace(&mut self.slots[index], Slot::EMPTY)
    }

    /// Takes the first timer of the tick `at`, which must be the position and hold one.
    fn take_first(&mut self, at: i64) -> K {
        let index = slot_of(self.position, at);
        let first = self.slots[index].head;
        let Entry { next, key, .. } = self.entries[first as usize];
        if next == NONE {
            self.take(index);
        } else {
            self.slots[index].head = next;
        }
        self.entries[first as usize].next = self.free;
        self.free = first;
        key
    }

    fn allocate(&mut self, entry: Entry<K>) -> u32 {
        if self.free == NONE {
            let index = u32::try_from(self.entries.len()).unwrap_or(NONE);
            assert!(index != NONE, "a wheel holds fewer than 2^32 - 1 timers");
            self.entries.push(entry);
            return index;
        }
        let index = self.free;
        self.free = self.entries[index as usize].next;
        self.entries[index as usize] = entry;
        index
    }

    /// Resets the storage of an empty wheel and frees most of its memory.
    fn release(&mut self) {
        self.free = NONE;
        self.entries.clear();
        self.entries.shrink_to(CAPACITY_KEPT);
        self.late.clear();
        self.late.shrink_to(CAPACITY_KEPT);
    }
}

/// The slot of a timer: by the highest digit in which its time differs from the position.
fn slot_of(position: i64, at: i64) -> usize {
    let differing = (position ^ at).cast_unsigned();
    let level = ((differing | 1).ilog2() / SLOT_BITS) as usize;
    if level >= LEVELS {
        return FAR;
    }
    let digit = (at >> (level as u32 * SLOT_BITS)).cast_unsigned() as usize % SLOTS;
    level * SLOTS + digit
}

impl Slot {
    const EMPTY: Slot = Slot { head: NONE, tail: NONE, earliest: i64::MAX };
}

impl<K: Copy> Copy for Entry<K> {}

impl<K: Copy> Clone for Entry<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> PartialEq for Late<K> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<K> Eq for Late<K> {}

impl<K> PartialOrd for Late<K> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<K> Ord for Late<K> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl<K> fmt::Debug for Wheel<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wheel")
            .field("position", &Timestamp::from_millis(self.position))
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const NOW: i64 = 1_900_000_000_123;
    const DAY: i64 = 24 * 3600 * 1000;
    const YEAR: i64 = 365 * DAY;

    fn ts(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
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
    fn one_instant_leaves_in_order_of_insertion_from_whatever_distance_it_was_armed() {
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

        fn pop(&mut self, now: i64) -> Option<(Timestamp, u32)> {
            let first = self.timers.first_entry()?;
            let at = first.key().0;
            (at <= now).then(|| (ts(at), first.remove()))
        }

        fn next(&self) -> Option<Timestamp> {
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
}
