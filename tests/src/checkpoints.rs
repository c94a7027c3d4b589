//! The witness of checkpoints: those that a client knows to be stored, and those that attempts started at.

use std::collections::BTreeMap;

/// A run and the number of an attempt.
type Attempt = (String, u64);

/// Checkpoints are numbers here, and a newer one is greater.
#[derive(Debug, Default)]
pub struct Witness {
    /// The newest that an attempt was told to be stored.
    stored: BTreeMap<Attempt, u64>,
    /// The checkpoint that an attempt started at. 0 means none.
    starts: BTreeMap<Attempt, u64>,
}

impl Witness {
    pub fn stored(&mut self, run: &str, attempt: u64, checkpoint: u64) {
        let newest = self.stored.entry((run.to_owned(), attempt)).or_insert(checkpoint);
        *newest = checkpoint.max(*newest);
    }

    pub fn started(&mut self, run: &str, attempt: u64, checkpoint: u64) {
        self.starts.insert((run.to_owned(), attempt), checkpoint);
    }

    /// Takes what a worker in `examples/rows.rs` has printed.
    pub fn read(&mut self, printed: &str) {
        for line in printed.lines() {
            match line.split_whitespace().collect::<Vec<_>>()[..] {
                ["run", run, "attempt", attempt, "starts", "at", row] => {
                    self.started(run, number(attempt), number(row));
                }
                ["run", run, "attempt", attempt, "stored", row] => {
                    self.stored(run, number(attempt), number(row));
                }
                _ => {}
            }
        }
    }

    /// The newest checkpoint of a run that is known to be stored. 0 means none.
    pub fn newest(&self, run: &str) -> u64 {
        self.stored.iter().filter(|((of, _), _)| of == run).map(|(_, stored)| *stored).max().unwrap_or(0)
    }

    /// Asserts that every attempt started at the newest checkpoint that was stored in an earlier attempt of its run, or at
    /// a newer one. Returns how many attempts followed a stored checkpoint.
    #[track_caller]
    pub fn check(&self) -> usize {
        let mut followed = 0;
        for ((run, attempt), given) in &self.starts {
            let earlier = self.stored.range((run.clone(), 0)..(run.clone(), *attempt));
            let Some(stored) = earlier.map(|(_, stored)| *stored).max() else { continue };
            assert!(
                *given >= stored,
                "run {run}: attempt {attempt} started at {given}, and {stored} was stored"
            );
            followed += 1;
        }
        followed
    }
}

/// A number in a line, which may end in a colon.
#[track_caller]
fn number(word: &str) -> u64 {
    word.trim_end_matches(':').parse().unwrap_or_else(|_| panic!("no number: {word}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str =
        "run 7 attempt 1: starts at 0\nrun 7 attempt 1: stored 10\nrun 7 attempt 1: stored 20\n";

    fn followed_by(line: &str) -> Witness {
        let mut witness = Witness::default();
        witness.read(&format!("{PRINTED}{line}"));
        witness
    }

    #[test]
    fn a_start_at_the_newest_stored_checkpoint_is_fine() {
        assert_eq!(followed_by("").check(), 0);
        assert_eq!(followed_by("run 7 attempt 2: starts at 20").check(), 1);
        assert_eq!(followed_by("run 8 attempt 2: starts at 0").check(), 0, "it is another run");
        assert_eq!((followed_by("").newest("7"), followed_by("").newest("8")), (20, 0));
    }

    #[test]
    #[should_panic(expected = "run 7: attempt 3 started at 10, and 20 was stored")]
    fn a_start_at_an_older_checkpoint_is_found() {
        followed_by("run 7 attempt 3: starts at 10").check();
    }
}
