//! Store time: this machine's monotonic clock plus the measured offset of the store's clock.
//!
//! Every reading of the cluster includes the store's clock, read at some moment between request and answer. This
//! machine's wall clock is not used: if it is set or runs ahead, no fire moves.

use std::time::Duration;

use parking_lot::Mutex;
use punctual_core::Timestamp;
use punctual_core::time::Clock;
use tokio::time::Instant;

/// A node whose store time may be wrong by more than this does not lead.
const ERROR_MAX: Duration = Duration::from_millis(500);
/// Maximum drift between two clocks in parts per million; it makes an old reading less precise.
const DRIFT_PPM: u64 = 500;
/// Stores report milliseconds: the part that was cut off.
const GRAIN: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub struct StoreClock {
    /// The origin of the monotonic clock.
    base: Instant,
    readings: Mutex<Readings>,
}

/// Readings of the store's clock, related to a monotonic clock that the caller supplies.
#[derive(Debug, Clone, Copy, Default)]
pub struct Readings {
    best: Option<Reading>,
}

/// The store's time at the origin of the monotonic clock, in microseconds, and the maximum error.
#[derive(Debug, Clone, Copy)]
struct Reading {
    offset: i64,
    error: Duration,
    at: Duration,
}

impl Reading {
    fn error_at(&self, elapsed: Duration) -> Duration {
        let age = elapsed.saturating_sub(self.at);
        self.error + age / u32::try_from(1_000_000 / DRIFT_PPM).unwrap_or(u32::MAX)
    }

    fn is_trusted(&self, elapsed: Duration) -> bool {
        self.error_at(elapsed) <= ERROR_MAX
    }
}

impl Readings {
    /// Takes in a reading made between `asked` and `answered`. The more precise reading is kept, unless the two
    /// contradict each other: then the store's clock was set.
    pub fn measured(&mut self, asked: Duration, answered: Duration, store: Timestamp) {
        let spread = answered.saturating_sub(asked) / 2;
        let offset = store.as_millis() * 1000 + micros(GRAIN / 2) - micros(asked + spread);
        let fresh = Reading { offset, error: spread + GRAIN / 2, at: answered };
        let keep = self.best.is_some_and(|old| {
            let (apart, error) = (old.offset.abs_diff(fresh.offset), old.error_at(answered));
            error < fresh.error && u128::from(apart) <= (error + fresh.error).as_micros()
        });
        if !keep {
            self.best = Some(fresh);
        }
    }

    /// Whether the store's time is precise enough to lead.
    pub fn is_trusted(&self, elapsed: Duration) -> bool {
        self.best.is_some_and(|reading| reading.is_trusted(elapsed))
    }

    /// Store time in microseconds. If the reading is not trusted, this is the earliest possible time: a node that has
    /// seen a later time would not go back, and would lead with it once it has a good reading.
    pub fn micros_at(&self, elapsed: Duration) -> i64 {
        let Some(best) = &self.best else { return micros(elapsed) };
        let doubt = if best.is_trusted(elapsed) { Duration::ZERO } else { best.error_at(elapsed) };
        best.offset.saturating_add(micros(elapsed)).saturating_sub(micros(doubt))
    }
}

impl StoreClock {
    pub fn new() -> Self {
        StoreClock { base: Instant::now(), readings: Mutex::default() }
    }

    /// Takes in a reading made between `asked` and `answered`.
    pub fn measured(&self, asked: Instant, answered: Instant, store: Timestamp) {
        let since_base = |moment: Instant| moment.saturating_duration_since(self.base);
        self.readings.lock().measured(since_base(asked), since_base(answered), store);
    }

    /// Whether the store's time is precise enough to lead.
    pub fn is_trusted(&self) -> bool {
        let elapsed = self.base.elapsed();
        self.readings.lock().is_trusted(elapsed)
    }

    fn micros_now(&self) -> i64 {
        let elapsed = self.base.elapsed();
        self.readings.lock().micros_at(elapsed)
    }
}

impl Default for StoreClock {
    fn default() -> Self {
        StoreClock::new()
    }
}

impl Clock for StoreClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.micros_now().div_euclid(1000))
    }

    fn elapsed(&self) -> Duration {
        self.base.elapsed()
    }

    fn until(&self, instant: Timestamp) -> Duration {
        let left = instant.as_millis().saturating_mul(1000).saturating_sub(self.micros_now());
        Duration::from_micros(u64::try_from(left).unwrap_or(0))
    }
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    /// Asks at one moment and gets the answer some milliseconds later.
    async fn measure(clock: &StoreClock, store: i64, round_trip: u64) {
        let asked = Instant::now();
        tokio::time::advance(Duration::from_millis(round_trip)).await;
        clock.measured(asked, Instant::now(), at(store));
    }

    #[tokio::test(start_paused = true)]
    async fn time_is_the_stores_and_goes_on_between_readings() {
        let clock = StoreClock::new();
        assert!(!clock.is_trusted(), "nothing was measured yet");
        measure(&clock, 1_000_000, 2).await;
        assert_eq!(clock.now(), at(1_000_001), "half a round trip later");
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(clock.now(), at(1_010_001));
        assert!(clock.is_trusted());
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_answer_does_not_spoil_a_good_reading() {
        let clock = StoreClock::new();
        measure(&clock, 1_000_000, 2).await;
        measure(&clock, 1_000_402, 800).await;
        assert_eq!(clock.now(), at(1_000_801));
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_whose_clock_was_set_is_followed() {
        let clock = StoreClock::new();
        measure(&clock, 1_000_000, 2).await;
        measure(&clock, 2_000_000, 20).await;
        assert_eq!(clock.now(), at(2_000_010));
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_answers_too_slowly_is_not_trusted() {
        let clock = StoreClock::new();
        measure(&clock, 1_000_000, 1100).await;
        assert!(!clock.is_trusted());
    }

    #[tokio::test(start_paused = true)]
    async fn an_untrusted_time_is_never_ahead_of_the_stores() {
        for (sent, back) in [(0, 4_000), (1_000, 3_000), (2_000, 2_000), (4_000, 0)] {
            let clock = StoreClock::new();
            let began = Instant::now();
            measure(&clock, 1_000_000 + sent, sent.unsigned_abs() + back).await;
            for _ in 0..4 {
                let store = at(1_000_000 + i64::try_from(began.elapsed().as_millis()).unwrap());
                assert!(
                    clock.now() <= store,
                    "this node's time is {}, ahead of the store's time {store}",
                    clock.now()
                );
                tokio::time::advance(Duration::from_secs(900)).await;
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_old_reading_is_less_precise() {
        let clock = StoreClock::new();
        measure(&clock, 1_000_000, 2).await;
        tokio::time::advance(Duration::from_secs(900)).await;
        assert!(clock.is_trusted());
        tokio::time::advance(Duration::from_secs(200)).await;
        assert!(!clock.is_trusted());
        assert!(clock.now() <= at(2_100_001 - 500), "drift may have put this clock ahead of the store's");
    }
}
