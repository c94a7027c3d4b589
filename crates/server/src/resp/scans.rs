//! The cursors of scans: a client gets a number and sends it back for the next page.
//!
//! Clients expect a cursor to be a number, but a scan continues after a name, so this module remembers the
//! name for each number. Because a scan continues after a name and not at an index, it sees everything that
//! existed throughout, whatever is added or deleted meanwhile.

use std::collections::VecDeque;

use parking_lot::Mutex;
use punctual_core::queue::{MessagePosition, QueueKey};

use super::settings::SCANS_MAX;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Spot {
    /// After this queue.
    Queue(QueueKey),
    /// In this queue, after this message.
    Message(QueueKey, Option<MessagePosition>),
}

#[derive(Debug)]
pub(super) struct Scans(Mutex<Known>);

#[derive(Debug)]
struct Known {
    last: u64,
    spots: VecDeque<(u64, Spot)>,
}

impl Scans {
    /// `first` must be larger than any cursor of an earlier process, so that old cursors are not found.
    pub(super) fn new(first: u64) -> Scans {
        Scans(Mutex::new(Known { last: first, spots: VecDeque::new() }))
    }

    pub(super) fn keep(&self, spot: Spot) -> u64 {
        let mut known = self.0.lock();
        known.last += 1;
        let cursor = known.last;
        if known.spots.len() >= SCANS_MAX {
            known.spots.pop_front();
        }
        known.spots.push_back((cursor, spot));
        cursor
    }

    /// The entry is kept, so that a client that lost the reply can ask again.
    pub(super) fn find(&self, cursor: u64) -> Option<Spot> {
        let known = self.0.lock();
        known.spots.iter().rev().find(|(number, _)| *number == cursor).map(|(_, spot)| spot.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scans_without_end_do_not_fill_the_memory() {
        let scans = Scans::new(1000);
        let spot = |number: usize| {
            Spot::Queue(QueueKey {
                namespace: Default::default(),
                name: format!("q{number}").parse().unwrap(),
            })
        };
        let cursors: Vec<u64> = (0..=SCANS_MAX).map(|number| scans.keep(spot(number))).collect();
        assert!(cursors[0] > 1000);
        assert_eq!(scans.find(cursors[0]), None, "the oldest is forgotten");
        assert_eq!(scans.find(cursors[1]), Some(spot(1)));
        assert_eq!(scans.find(cursors[SCANS_MAX]), Some(spot(SCANS_MAX)));
        assert_eq!(scans.0.lock().spots.len(), SCANS_MAX);
    }
}
