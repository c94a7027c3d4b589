//! Medians and percentiles.

use serde::Serialize;

/// How late starts were, in milliseconds.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Late {
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) max_ms: f64,
    /// Starts before their due time: must be 0.
    pub(super) early: usize,
}

impl Late {
    pub(super) fn of(mut millis: Vec<i64>) -> Late {
        millis.sort_unstable();
        Late {
            p50_ms: percentile(&millis, 50),
            p99_ms: percentile(&millis, 99),
            max_ms: percentile(&millis, 100),
            early: millis.iter().take_while(|late| **late < 0).count(),
        }
    }

    pub(super) fn line(&self) -> String {
        let Late { p50_ms, p99_ms, max_ms, early } = self;
        format!("p50 {p50_ms:.0} ms, p99 {p99_ms:.0} ms, max {max_ms:.0} ms, {early} early")
    }
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds of a benchmark fit")]
pub(super) fn percentile(sorted: &[i64], percent: usize) -> f64 {
    if sorted.is_empty() {
        return 0.0;
    }
    let position = (sorted.len() * percent).div_ceil(100).clamp(1, sorted.len());
    sorted[position - 1] as f64
}

/// The median; of an even number, the lower middle.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_seen() {
        let late = Late::of((1..=200).collect());
        assert_eq!((late.p50_ms, late.p99_ms, late.max_ms, late.early), (100.0, 198.0, 200.0, 0));
        assert_eq!(Late::of(vec![-3, 5]).early, 1);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
    }
}
