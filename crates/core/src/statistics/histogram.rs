//! A histogram of spans on a logarithmic scale: at most 7 % off, and a few bytes for spans of similar length.

use std::time::Duration;

/// Each power of two has this many classes.
const PARTS: u64 = 8;
const PART_BITS: u32 = 3;

/// Spans in milliseconds, by class. Spans above 198 days are in the last class.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Histogram {
    /// The classes that have spans, in order, and how many.
    pub(super) classes: Vec<(u8, u64)>,
}

impl Histogram {
    pub fn add(&mut self, span: Duration) {
        self.add_to(class_of(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)), 1);
    }

    pub fn add_all(&mut self, other: &Histogram) {
        for (class, count) in &other.classes {
            self.add_to(*class, *count);
        }
    }

    fn add_to(&mut self, class: u8, count: u64) {
        match self.classes.binary_search_by_key(&class, |(class, _)| *class) {
            Ok(found) => self.classes[found].1 += count,
            Err(place) => self.classes.insert(place, (class, count)),
        }
    }

    /// How many spans it has.
    pub fn count(&self) -> u64 {
        self.classes.iter().map(|(_, count)| count).sum()
    }

    /// The span in milliseconds that this share of all spans does not exceed. `None` means that there are no spans.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let rank = ((self.count() as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        let class = self.classes.iter().find(|(_, count)| {
            seen += count;
            seen >= rank
        });
        class.map(|(class, _)| middle_of(*class))
    }
}

/// Spans below 16 ms have a class each; above, a power of two has eight classes.
fn class_of(millis: u64) -> u8 {
    if millis < PARTS {
        return u8::try_from(millis).unwrap_or(0);
    }
    let power = millis.ilog2() - PART_BITS;
    let part = (millis >> power) - PARTS;
    u8::try_from(u64::from(power + 1) * PARTS + part).unwrap_or(u8::MAX)
}

fn middle_of(class: u8) -> u64 {
    let class = u64::from(class);
    if class < PARTS {
        return class;
    }
    let (power, part) = (class / PARTS - 1, class % PARTS);
    let width = 1_u64 << power;
    (PARTS + part) * width + (width - 1) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(spans: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::default();
        spans.into_iter().for_each(|millis| histogram.add(Duration::from_millis(millis)));
        histogram
    }

    #[test]
    fn a_quantile_is_at_most_seven_percent_off() {
        for millis in (0..20_000).chain([59_999, 3_600_000, 86_400_000, 15_000_000_000]) {
            let found = of([millis]).quantile(0.5).unwrap();
            assert!(found.abs_diff(millis) * 100 <= millis * 7, "{millis} was taken for {found}");
        }
        assert!(of([u64::MAX]).quantile(1.0).is_some_and(|found| found > 15_000_000_000));
    }

    #[test]
    fn quantiles_follow_the_order_of_the_spans() {
        let histogram = of((1..=100).map(|n| n * 1000));
        for (share, expected) in [(0.5, 50_000), (0.95, 95_000), (0.99, 99_000)] {
            let found = histogram.quantile(share).unwrap();
            assert!(found.abs_diff(expected) * 100 <= expected * 7, "{share}: {found}");
        }
        assert_eq!(Histogram::default().quantile(0.5), None);
        assert_eq!(of([0, 0, 0, 9]).quantile(0.75), Some(0));
        assert_eq!(of([0, 0, 0, 9]).quantile(0.76), Some(9));
    }

    #[test]
    fn classes_are_in_the_order_of_their_spans() {
        let mut last = 0;
        for millis in 0..100_000 {
            let class = class_of(millis);
            assert!(class == last || class == last + 1, "{millis}");
            last = class;
        }
    }

    #[test]
    fn histograms_add_up() {
        let (mut left, right) = (of([1, 5, 5, 1000]), of([0, 5, 2000]));
        left.add_all(&right);
        assert_eq!(left, of([1, 5, 5, 1000, 0, 5, 2000]));
        assert_eq!(left.count(), 7);
    }
}
