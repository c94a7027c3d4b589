//! Counts as bytes: numbers of seven bits a byte, so that an ordinary row has about thirty.

use std::collections::BTreeMap;

use super::{Counted, Counts, Histogram, RecentCounts};
use crate::Timestamp;
use crate::name::Name;

/// The first byte of every row.
const VERSION: u8 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a row of statistics cannot be read")]
pub struct Malformed;

impl Counts {
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(48);
        bytes.push(VERSION);
        self.put(&mut bytes);
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Result<Counts, Malformed> {
        let mut rest = bytes.strip_prefix(&[VERSION]).ok_or(Malformed)?;
        let counts = Counts::take(&mut rest)?;
        if rest.is_empty() { Ok(counts) } else { Err(Malformed) }
    }

    fn put(&self, bytes: &mut Vec<u8>) {
        for number in self.numbers() {
            put(bytes, number);
        }
        for histogram in [&self.took, &self.waited, &self.late] {
            put(bytes, histogram.classes.len() as u64);
            for (class, count) in &histogram.classes {
                bytes.push(*class);
                put(bytes, *count);
            }
        }
    }

    fn take(rest: &mut &[u8]) -> Result<Counts, Malformed> {
        let mut number = || take(rest);
        let (fires, succeeded, failed) = (number()?, number()?, number()?);
        let (timed_out, cancelled, skipped) = (number()?, number()?, number()?);
        let (took, waited, late) = (histogram(rest)?, histogram(rest)?, histogram(rest)?);
        Ok(Counts { fires, succeeded, failed, timed_out, cancelled, skipped, took, waited, late })
    }

    fn numbers(&self) -> [u64; 6] {
        [self.fires, self.succeeded, self.failed, self.timed_out, self.cancelled, self.skipped]
    }
}

impl RecentCounts {
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        for (Counted { namespace, job, minute }, counts) in &self.counts {
            put_text(&mut bytes, namespace.as_str());
            put_text(&mut bytes, job.as_ref().map_or("", Name::as_str));
            put(&mut bytes, minute.as_millis().cast_unsigned());
            counts.put(&mut bytes);
        }
        bytes
    }

    pub fn decode(page: u32, bytes: &[u8]) -> Result<RecentCounts, Malformed> {
        let mut rest = bytes.strip_prefix(&[VERSION]).ok_or(Malformed)?;
        let mut counts = BTreeMap::new();
        while !rest.is_empty() {
            let namespace = take_text(&mut rest)?.parse().map_err(|_| Malformed)?;
            let job = Some(take_text(&mut rest)?).filter(|job| !job.is_empty());
            let job = job.map(str::parse).transpose().map_err(|_| Malformed)?;
            let minute = Timestamp::from_millis(take(&mut rest)?.cast_signed());
            counts.insert(Counted { namespace, job, minute }, Counts::take(&mut rest)?);
        }
        Ok(RecentCounts { page, counts })
    }
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put(bytes, text.len() as u64);
    bytes.extend_from_slice(text.as_bytes());
}

fn take_text<'b>(rest: &mut &'b [u8]) -> Result<&'b str, Malformed> {
    let length = usize::try_from(take(rest)?).map_err(|_| Malformed)?;
    let (text, after) = rest.split_at_checked(length).ok_or(Malformed)?;
    *rest = after;
    std::str::from_utf8(text).map_err(|_| Malformed)
}

fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(u8::try_from(number & 0x7f).unwrap_or(0) | 0x80);
        number >>= 7;
    }
    bytes.push(u8::try_from(number).unwrap_or(0));
}

fn take(rest: &mut &[u8]) -> Result<u64, Malformed> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = take_byte(rest)?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(Malformed)
}

fn take_byte(rest: &mut &[u8]) -> Result<u8, Malformed> {
    let (byte, after) = rest.split_first().ok_or(Malformed)?;
    *rest = after;
    Ok(*byte)
}

fn histogram(rest: &mut &[u8]) -> Result<Histogram, Malformed> {
    let count = take(rest)?;
    let classes = (0..count).map(|_| Ok((take_byte(rest)?, take(rest)?)));
    let classes = classes.collect::<Result<Vec<(u8, u64)>, Malformed>>()?;
    if classes.is_sorted_by(|(left, _), (right, _)| left < right) {
        Ok(Histogram { classes })
    } else {
        Err(Malformed)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn counts(numbers: [u64; 6], spans: &[u64]) -> Counts {
        let mut counts = Counts::default();
        [counts.fires, counts.succeeded, counts.failed, counts.timed_out, counts.cancelled, counts.skipped] =
            numbers;
        for (index, millis) in spans.iter().enumerate() {
            let histogram = match index % 3 {
                0 => &mut counts.took,
                1 => &mut counts.waited,
                _ => &mut counts.late,
            };
            histogram.add(Duration::from_millis(*millis));
        }
        counts
    }

    proptest! {
        #[test]
        fn counts_read_back_as_they_were_written(
            numbers in any::<[u64; 6]>(),
            spans in prop::collection::vec(any::<u64>(), 0..40),
        ) {
            let counts = counts(numbers, &spans);
            prop_assert_eq!(Counts::decode(&counts.encode()), Ok(counts));
        }

        #[test]
        fn recent_counts_read_back_as_they_were_written(
            entries in prop::collection::vec((0_u8..3, 0_u8..4, any::<i64>(), any::<[u64; 6]>()), 0..20),
        ) {
            let counted = |(namespace, job, minute): (u8, u8, i64)| Counted {
                namespace: format!("namespace-{namespace}").parse().unwrap(),
                job: (job > 0).then(|| format!("job-{job}").parse().unwrap()),
                minute: Timestamp::from_millis(minute),
            };
            let counts = entries.into_iter().map(|(namespace, job, minute, numbers)| {
                (counted((namespace, job, minute)), counts(numbers, &[3, 50]))
            });
            let recent = RecentCounts { page: 7, counts: counts.collect() };
            prop_assert_eq!(RecentCounts::decode(7, &recent.encode()), Ok(recent));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = Counts::decode(&bytes);
            let _ = RecentCounts::decode(0, &bytes);
        }
    }

    #[test]
    fn a_row_that_is_cut_or_of_another_version_is_refused() {
        let bytes = counts([1, 2, 3, 4, 5, 300], &[1, 20, 300]).encode();
        for end in 0..bytes.len() {
            assert_eq!(Counts::decode(&bytes[..end]), Err(Malformed));
        }
        assert_eq!(Counts::decode(&[&bytes[..], &[0]].concat()), Err(Malformed));
        assert_eq!(Counts::decode(&[&[2], &bytes[1..]].concat()), Err(Malformed));
    }

    #[test]
    fn an_ordinary_row_is_small() {
        let spans: Vec<u64> =
            (0..300).map(|n| [500 + n, 3, 8][usize::try_from(n % 3).unwrap_or(0)]).collect();
        assert!(counts([100, 99, 1, 0, 0, 0], &spans).encode().len() < 40);
    }
}
