//! The newest slow commands.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use punctual_core::Timestamp;

/// Arguments kept of a command, and bytes kept of an argument.
const WORDS_MAX: usize = 32;
const WORD_BYTES_MAX: usize = 128;
/// The maximum that a client may set for the length of the log.
const ENTRIES_MAX: usize = 10_000;

#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) number: u64,
    pub(super) at: Timestamp,
    pub(super) took: Duration,
    pub(super) words: Vec<Vec<u8>>,
    pub(super) address: String,
    pub(super) name: String,
}

#[derive(Debug)]
pub(super) struct Slowlog {
    /// Microseconds. Negative means that nothing is logged.
    threshold: AtomicI64,
    most: AtomicUsize,
    kept: Mutex<(u64, VecDeque<Entry>)>,
}

impl Default for Slowlog {
    fn default() -> Slowlog {
        Slowlog { threshold: AtomicI64::new(10_000), most: AtomicUsize::new(128), kept: Mutex::default() }
    }
}

impl Slowlog {
    pub(super) fn is_slow(&self, took: Duration) -> bool {
        let threshold = self.threshold.load(Relaxed);
        u64::try_from(threshold).is_ok_and(|threshold| took >= Duration::from_micros(threshold))
    }

    pub(super) fn keep<'a>(
        &self,
        at: Timestamp,
        took: Duration,
        words: impl Iterator<Item = &'a [u8]>,
        from: (String, String),
    ) {
        let word = |word: &[u8]| word.get(..WORD_BYTES_MAX).unwrap_or(word).to_vec();
        let words = words.take(WORDS_MAX).map(word).collect();
        let (address, name) = from;
        let mut kept = self.kept.lock();
        let number = kept.0;
        kept.0 += 1;
        kept.1.push_front(Entry { number, at, took, words, address, name });
        kept.1.truncate(self.most.load(Relaxed));
    }

    /// The newest first.
    pub(super) fn newest(&self, count: usize) -> Vec<Entry> {
        self.kept.lock().1.iter().take(count).cloned().collect()
    }

    pub(super) fn len(&self) -> usize {
        self.kept.lock().1.len()
    }

    pub(super) fn reset(&self) {
        self.kept.lock().1.clear();
    }

    pub(super) fn threshold(&self) -> i64 {
        self.threshold.load(Relaxed)
    }

    pub(super) fn set_threshold(&self, micros: i64) {
        self.threshold.store(micros, Relaxed);
    }

    pub(super) fn most(&self) -> usize {
        self.most.load(Relaxed)
    }

    pub(super) fn set_most(&self, most: usize) {
        self.most.store(most.min(ENTRIES_MAX), Relaxed);
        self.kept.lock().1.truncate(most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_slow_commands_are_kept_cut_to_size() {
        let log = Slowlog::default();
        assert!(log.is_slow(Duration::from_millis(10)) && !log.is_slow(Duration::from_millis(9)));
        log.set_most(2);
        for number in 0..3 {
            let long = [b'x'; 500];
            let words = [&b"QLEN"[..], &long].into_iter();
            log.keep(Timestamp::from_millis(number), Duration::from_secs(1), words, Default::default());
        }
        let newest = log.newest(10);
        assert_eq!(newest.iter().map(|entry| entry.number).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(newest[0].words[1].len(), WORD_BYTES_MAX);
        log.set_threshold(-1);
        assert!(!log.is_slow(Duration::from_secs(9)));
    }
}
