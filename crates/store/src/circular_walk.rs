//! A circular walk over all keys that may stop anywhere and later resumes from there.

/// Smaller than every key.
pub(crate) const START: i64 = -1;

#[derive(Debug)]
pub(crate) struct CircularWalk {
    from: i64,
    at: i64,
    /// The walk has passed the last key: only the keys up to `from` are left.
    passed_end: bool,
}

impl CircularWalk {
    pub(crate) fn from(at: i64) -> CircularWalk {
        CircularWalk { from: at, at, passed_end: false }
    }

    /// The key after which the walk continues.
    pub(crate) fn at(&self) -> i64 {
        self.at
    }

    /// Continues after `next`; `None` means there are no more keys. Returns false when every key has been visited.
    pub(crate) fn go_on(&mut self, next: Option<i64>) -> bool {
        self.at = next.unwrap_or(START);
        if next.is_none() {
            // A walk that began at the start has visited every key when it reaches the end.
            return !std::mem::replace(&mut self.passed_end, true) && self.from != START;
        }
        !self.passed_end || self.at < self.from
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Walks the keys two at a time.
    fn walked(keys: &[i64], from: i64) -> Vec<i64> {
        let (mut walk, mut seen) = (CircularWalk::from(from), Vec::new());
        loop {
            let next: Vec<i64> = keys.iter().copied().filter(|key| *key > walk.at()).take(2).collect();
            seen.extend(&next);
            if !walk.go_on((next.len() == 2).then(|| next[1])) {
                return seen;
            }
        }
    }

    #[test]
    fn a_walk_passes_every_key_wherever_it_begins() {
        let keys = [1, 3, 5, 7, 9];
        assert_eq!(walked(&keys, START), keys);
        for from in [1, 4, 5, 9, 100] {
            let mut seen = walked(&keys, from);
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen, keys, "from {from}");
        }
        assert!(walked(&[], 4).is_empty());
    }
}
