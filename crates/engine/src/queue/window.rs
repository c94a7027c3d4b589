//! The front of a queue: the queued messages that are in memory.
//!
//! As with timers: all queued messages up to the horizon are in memory, those beyond it are rows. A page moves the
//! horizon; from the moment it is asked for until it arrives, every newly queued message stays in memory. Only messages
//! before the horizon may be taken, because only for these is it known that no other message comes first.
//!
//! A message that was put off has its place as if it had been created later.

use std::collections::BTreeMap;

use punctual_core::queue::MessagePosition;
use rustc_hash::FxHashMap;

/// Bytes of bodies of one queue in memory, so that large messages count more.
const WINDOW_BYTES_MAX: usize = 1024 * 1024;
/// Messages on one page at most, once their size is known.
const PAGE_MAX: usize = 512;
/// Messages on the first page of a queue, whose messages may have any size.
const PAGE_FIRST: usize = 16;

#[derive(Debug)]
pub(crate) struct Window {
    /// Queued messages up to the horizon, with the bytes of their bodies.
    near: BTreeMap<MessagePosition, usize>,
    /// Queued messages beyond the horizon that are in memory for another reason.
    far: BTreeMap<MessagePosition, usize>,
    /// Messages that were put off, by number, with the number by which they are ordered; and the other way round.
    put_off: FxHashMap<i64, i64>,
    order_of: FxHashMap<i64, i64>,
    /// The bytes of the near bodies.
    bytes: usize,
    horizon: Horizon,
    paging: bool,
    page: usize,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Horizon {
    Through(MessagePosition),
    Everything,
}

impl Window {
    /// The window of a queue with this many queued messages.
    pub(crate) fn before(queued: u64) -> Window {
        let horizon =
            if queued == 0 { Horizon::Everything } else { Horizon::Through(MessagePosition::START) };
        let (near, far) = (BTreeMap::new(), BTreeMap::new());
        let (put_off, order_of) = (FxHashMap::default(), FxHashMap::default());
        Window { near, far, put_off, order_of, bytes: 0, horizon, paging: false, page: PAGE_FIRST }
    }

    fn is_within(&self, place: MessagePosition) -> bool {
        match self.horizon {
            Horizon::Everything => true,
            Horizon::Through(end) => place <= end,
        }
    }

    /// Whether a queued message at this place must stay in memory.
    pub(crate) fn keeps(&self, place: MessagePosition) -> bool {
        self.paging || self.is_within(place)
    }

    /// Moves the message at this place behind all others of its rank: it gets the order of a message with this number.
    pub(crate) fn put_off(&mut self, place: MessagePosition, number: i64) {
        let Some(bytes) = self.near.get(&self.ordered(place)).copied() else { return };
        self.remove(place);
        self.put_off.insert(place.number, number);
        self.order_of.insert(number, place.number);
        self.put(MessagePosition { number, ..place }, bytes);
    }

    /// The place by which a message is ordered.
    fn ordered(&self, place: MessagePosition) -> MessagePosition {
        match self.put_off.get(&place.number) {
            Some(number) => MessagePosition { number: *number, ..place },
            None => place,
        }
    }

    /// The place of the message that is ordered by this one.
    fn own(&self, place: MessagePosition) -> MessagePosition {
        match self.order_of.get(&place.number) {
            Some(number) => MessagePosition { number: *number, ..place },
            None => place,
        }
    }

    pub(crate) fn put(&mut self, place: MessagePosition, bytes: usize) {
        if self.is_within(place) {
            self.bytes += bytes;
            self.near.insert(place, bytes);
        } else {
            self.far.insert(place, bytes);
        }
    }

    pub(crate) fn remove(&mut self, own: MessagePosition) {
        let place = self.ordered(own);
        if place != own {
            self.put_off.remove(&own.number);
            self.order_of.remove(&place.number);
        }
        match self.near.remove(&place) {
            Some(bytes) => self.bytes -= bytes,
            None => drop(self.far.remove(&place)),
        }
    }

    /// The first queued message. `None` means that there is none, or that a page must be read to know.
    pub(crate) fn first(&self) -> Option<MessagePosition> {
        self.near.first_key_value().map(|(place, _)| self.own(*place))
    }

    /// The number of the oldest message of those that are first of their rank.
    pub(crate) fn oldest(&self) -> Option<i64> {
        let (mut oldest, mut from) = (None, MessagePosition::START);
        while let Some((place, _)) = self.near.range(from..).next() {
            let number = self.own(*place).number;
            oldest = Some(oldest.map_or(number, |oldest: i64| oldest.min(number)));
            from = MessagePosition { rank: place.rank + 1, ..MessagePosition::START };
        }
        oldest
    }

    pub(crate) fn is_everything(&self) -> bool {
        self.horizon == Horizon::Everything
    }

    pub(crate) fn is_paging(&self) -> bool {
        self.paging
    }

    pub(crate) fn len(&self) -> usize {
        self.near.len()
    }

    /// Queued messages in memory, before the horizon or beyond it.
    pub(crate) fn in_memory(&self) -> u64 {
        (self.near.len() + self.far.len()) as u64
    }

    /// The places before the horizon, in order.
    pub(crate) fn places(&self) -> impl DoubleEndedIterator<Item = MessagePosition> {
        self.near.keys().map(|place| self.own(*place))
    }

    /// The place after which the next page starts, and its size, for a queue that keeps `reach` messages in memory.
    pub(crate) fn wants_page(&self, reach: usize) -> Option<(MessagePosition, usize)> {
        match self.horizon {
            Horizon::Through(end)
                if !self.paging && self.near.len() <= reach / 4 && self.bytes <= WINDOW_BYTES_MAX / 2 =>
            {
                Some((end, self.page.min(reach)))
            }
            _ => None,
        }
    }

    /// From now on every newly queued message stays in memory until the page arrives.
    pub(crate) fn page_is_asked(&mut self) {
        self.paging = true;
    }

    pub(crate) fn page_failed(&mut self) {
        self.paging = false;
    }

    /// Moves the horizon to the end of a page whose messages have been put; `None` means that no row is beyond it.
    /// Returns the places in memory beyond the new horizon.
    pub(crate) fn page_came(
        &mut self,
        end: Option<MessagePosition>,
        count: usize,
        bytes: usize,
    ) -> Vec<MessagePosition> {
        self.paging = false;
        self.horizon = end.map_or(Horizon::Everything, Horizon::Through);
        if count > 0 {
            self.page = (WINDOW_BYTES_MAX * count / bytes.max(1)).clamp(1, PAGE_MAX);
        }
        let beyond = match end {
            Some(end) => self.far.split_off(&MessagePosition { rank: end.rank, number: end.number + 1 }),
            None => BTreeMap::new(),
        };
        let nearer = std::mem::replace(&mut self.far, beyond);
        self.bytes += nearer.values().sum::<usize>();
        self.near.extend(nearer);
        self.far.keys().map(|place| self.own(*place)).collect()
    }

    /// Moves the horizon nearer when more than twice `reach` is in memory; returns the places that are now beyond it.
    pub(crate) fn shrink(&mut self, reach: usize) -> Vec<MessagePosition> {
        if self.paging || (self.near.len() <= 2 * reach && self.bytes <= 2 * WINDOW_BYTES_MAX) {
            return Vec::new();
        }
        let mut bytes = 0;
        let kept = self.near.values().take(reach).take_while(|body| {
            bytes += **body;
            bytes <= WINDOW_BYTES_MAX
        });
        let Some((end, _)) = self.near.iter().nth(kept.count().max(1) - 1) else { return Vec::new() };
        let end = *end;
        let beyond = self.near.split_off(&MessagePosition { rank: end.rank, number: end.number + 1 });
        self.horizon = Horizon::Through(end);
        self.bytes -= beyond.values().sum::<usize>();
        let places = beyond.keys().map(|place| self.own(*place)).collect();
        self.far.extend(beyond);
        places
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const REACH: usize = 4;

    fn place(rank: u8, number: i64) -> MessagePosition {
        MessagePosition { rank, number }
    }

    #[derive(Debug, Clone)]
    enum Step {
        Join(u8),
        Take,
        Page,
        Shrink,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..3u8).prop_map(Step::Join),
            3 => Just(Step::Take),
            2 => Just(Step::Page),
            1 => Just(Step::Shrink),
        ]
    }

    proptest! {
        /// With rows for the messages that left memory, the queue gives all messages in order.
        #[test]
        fn the_first_message_of_a_queue_is_taken_first_however_it_is_paged(
            steps in proptest::collection::vec(step(), 1..300),
        ) {
            let mut window = Window::before(0);
            let (mut line, mut memory) = (BTreeSet::new(), BTreeSet::new());
            let mut number = 0;
            for step in steps {
                match step {
                    Step::Join(rank) => {
                        number += 1;
                        let new = place(rank, number);
                        line.insert(new);
                        if window.keeps(new) {
                            window.put(new, 10);
                            memory.insert(new);
                        }
                    }
                    Step::Take => {
                        if let Some(first) = window.first() {
                            prop_assert_eq!(Some(&first), line.first());
                            window.remove(first);
                            line.remove(&first);
                            memory.remove(&first);
                        } else if window.is_everything() {
                            prop_assert!(line.is_empty());
                        }
                    }
                    Step::Page => {
                        let Some((after, limit)) = window.wants_page(REACH) else { continue };
                        window.page_is_asked();
                        let rows = line.iter().copied().filter(|place| *place > after).take(limit);
                        let rows: Vec<_> = rows.collect();
                        for row in &rows {
                            if memory.insert(*row) {
                                window.put(*row, 10);
                            }
                        }
                        let end = rows.last().copied().filter(|_| rows.len() == limit);
                        for gone in window.page_came(end, rows.len(), 10 * rows.len()) {
                            window.remove(gone);
                            memory.remove(&gone);
                        }
                    }
                    Step::Shrink => {
                        for gone in window.shrink(REACH) {
                            window.remove(gone);
                            memory.remove(&gone);
                        }
                        prop_assert!(window.len() <= 2 * REACH);
                    }
                }
            }
        }
    }

    #[test]
    fn a_message_that_is_put_off_comes_after_all_that_are_there() {
        let mut window = Window::before(0);
        for number in 1..=3 {
            window.put(place(0, number), 10);
        }
        window.put(place(1, 4), 10);
        window.put_off(place(0, 1), 5);
        window.put(place(0, 6), 10);
        assert_eq!(window.places().map(|place| place.number).collect::<Vec<_>>(), [2, 3, 1, 6, 4]);
        assert_eq!(window.oldest(), Some(2));
        window.remove(place(0, 1));
        window.put(place(0, 1), 10);
        assert_eq!(window.first(), Some(place(0, 1)), "it has its own place again");
    }

    #[test]
    fn a_few_large_messages_are_as_much_as_many_small_ones() {
        let mut window = Window::before(0);
        for number in 1..=10 {
            window.put(place(0, number), WINDOW_BYTES_MAX / 3);
        }
        assert_eq!(window.shrink(1000).len(), 7, "three are as much as it may hold");
        assert_eq!(window.len(), 3);
        let mut window = Window::before(0);
        for number in 1..=3 {
            window.put(place(0, number), 2 * WINDOW_BYTES_MAX);
        }
        assert_eq!((window.shrink(1000).len(), window.len()), (2, 1), "one there is always room for");
    }
}
