//! The monotonic clock of each machine, which runs at its own pace. The store's clock is a `ManualClock`.
//!
//! Each node computes store time from its readings with the real code.

use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::time::Moment;
use punctual_node::store_clock::Readings;
use punctual_store::Leases;

/// The monotonic clock of a machine, and the readings of the store's clock that its process has made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Machine {
    /// Its value when the world began.
    uptime: Duration,
    pub(super) drift_ppm: i64,
    readings: Readings,
}

impl Machine {
    pub(super) fn new(uptime: Duration, drift_ppm: i64) -> Self {
        Machine { uptime, drift_ppm, readings: Readings::default() }
    }

    /// Its value at a true time, given in milliseconds.
    pub(super) fn elapsed(&self, time: u64) -> Duration {
        let micros = i128::from(time) * 1000 * (1_000_000 + i128::from(self.drift_ppm)) / 1_000_000;
        self.uptime + Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }

    /// How many milliseconds of true time pass while it advances by `span`.
    pub(super) fn takes(&self, span: Duration) -> u64 {
        let micros = i128::try_from(span.as_micros()).unwrap_or(i128::MAX);
        let micros = micros.saturating_mul(1_000_000) / (1_000_000 + i128::from(self.drift_ppm));
        u64::try_from(micros.saturating_add(999) / 1000).unwrap_or(u64::MAX)
    }

    /// A new process starts without readings.
    pub(super) fn forget(&mut self) {
        self.readings = Readings::default();
    }

    pub(super) fn measured(&mut self, asked: Duration, time: u64, leases: &Leases) {
        self.readings.measured(asked, self.elapsed(time), leases.now);
    }

    pub(super) fn is_trusted(&self, time: u64) -> bool {
        self.readings.is_trusted(self.elapsed(time))
    }

    /// Store time and monotonic time, as the process knows them.
    pub(super) fn moment(&self, time: u64) -> Moment {
        let elapsed = self.elapsed(time);
        Moment { now: Timestamp::from_millis(self.readings.micros_at(elapsed).div_euclid(1000)), elapsed }
    }
}
