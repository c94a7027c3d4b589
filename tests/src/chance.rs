//! What a test is told from outside, and throws that can be thrown again.

use std::time::Duration;

/// What the environment says, if it says so in a form that fits.
pub fn told<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

/// A row of numbers that looks thrown and is the same for the same seed.
#[derive(Debug)]
pub struct Throws(u64);

impl Throws {
    pub fn new(seed: u64) -> Throws {
        Throws(seed)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits fit") % bound
    }

    /// A span below this one, in whole milliseconds.
    pub fn span_below(&mut self, bound: Duration) -> Duration {
        let millis = usize::try_from(bound.as_millis()).expect("a span of a test is short");
        Duration::from_millis(self.below(millis.max(1)) as u64)
    }
}
