//! Load of the scheduling thread: the share of time in which it does not wait for input.

use std::time::Duration;

/// Measured in elapsed time; starts awake.
#[derive(Debug, Default)]
pub(crate) struct Busy {
    /// When it last woke up.
    awake_since: Duration,
    /// Time awake since `percent` was last called.
    spent: Duration,
    asked: Duration,
    percent: u32,
}

impl Busy {
    pub(crate) fn rests(&mut self, elapsed: Duration) {
        self.spent += elapsed.saturating_sub(self.awake_since);
    }

    pub(crate) fn wakes(&mut self, elapsed: Duration) {
        self.awake_since = elapsed;
    }

    /// A moving average in percent, so that a short burst does not count as busy. Call it while awake.
    pub(crate) fn percent(&mut self, elapsed: Duration) -> u8 {
        let awake = self.spent + elapsed.saturating_sub(self.awake_since);
        let whole = elapsed.saturating_sub(self.asked).as_micros();
        let share = (awake.as_micros() * 100).checked_div(whole).unwrap_or(0).min(100);
        (self.spent, self.asked, self.awake_since) = (Duration::ZERO, elapsed, elapsed);
        self.percent = (self.percent * 3 + u32::try_from(share).unwrap_or(100)).div_ceil(4);
        u8::try_from(self.percent).unwrap_or(100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passes one second, of which the given milliseconds are spent awake.
    fn a_second(busy: &mut Busy, second: u64, awake: u64) -> u8 {
        let at = |millis| Duration::from_millis(second * 1000 + millis);
        busy.wakes(at(0));
        busy.rests(at(awake));
        busy.wakes(at(1000));
        busy.percent(at(1000))
    }

    #[test]
    fn load_is_the_share_of_time_spent_awake() {
        let mut busy = Busy::default();
        let mut said = 0;
        for second in 0..30 {
            said = a_second(&mut busy, second, 850);
        }
        assert!((85..=88).contains(&said), "{said}");
        for second in 30..60 {
            said = a_second(&mut busy, second, 0);
        }
        assert!(said <= 3, "{said}");
    }

    #[test]
    fn one_burst_is_not_a_busy_thread() {
        let mut busy = Busy::default();
        assert!(a_second(&mut busy, 0, 1000) < 50);
    }
}
