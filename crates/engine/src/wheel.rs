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

use punctual_core::time::Elapsed;

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
    pub fn new(now: Elapsed) -> Self {
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
    pub fn insert(&mut self, at: Elapsed, key: K) {
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
    pub fn pop(&mut self, now: Elapsed) -> Option<(Elapsed, K)> {
        let now = now.as_millis();
        let popped = if self.late.is_empty() { self.pop_slot(now) } else { self.pop_late(now) };
        if popped.is_some() {
            self.len -= 1;
            if self.len == 0 {
                self.release();
            }
        }
        popped.map(|(at, key)| (Elapsed::from_millis(at), key))
    }

    /// The time of the earliest timer, however far off. After `pop(now)` returned `None` it is later than that
    /// `now`, so a caller that sleeps until then never spins.
    pub fn next(&self) -> Option<Elapsed> {
        let late = self.late.peek().map(|Reverse(late)| late.at);
        late.or_else(|| self.earliest()).map(Elapsed::from_millis)
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
            .field("position", &Elapsed::from_millis(self.position))
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
