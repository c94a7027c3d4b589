//! The counters of this endpoint, for INFO (which may reset them) and for `/metrics`.
//!
//! Plain atomics, found by the command's row in the table: counting takes no lock, and a made-up command
//! never becomes a label.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use punctual_node::metrics::Histogram;
use tokio::time::Instant;

use super::clients::Clients;
use super::table;

/// The clients and counters of this endpoint, for other modules.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    pub(super) clients: Arc<Clients>,
    pub(crate) counts: Arc<Counts>,
}

impl Seen {
    pub(crate) fn connections(&self) -> usize {
        self.clients.len()
    }

    /// Clients that wait inside a command.
    pub(crate) fn blocked(&self) -> usize {
        self.clients.waiting()
    }
}

#[derive(Debug)]
pub(crate) struct Counts {
    pub(crate) connections: AtomicU64,
    pub(crate) rejected: AtomicU64,
    pub(crate) bytes_in: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
    /// Input that could not be parsed, by kind.
    malformed: [AtomicU64; Nonsense::ALL.len()],
    /// Commands that are not in the table.
    unknown: AtomicU64,
    all: AtomicU64,
    by_command: Vec<Command>,
    /// The time of the last rate reading, and the number of commands then.
    last_look: Mutex<Option<(Instant, u64)>>,
}

/// The counters of one command.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) name: &'static str,
    by_outcome: [AtomicU64; Outcome::ALL.len()],
    /// Processing time; commands that ran together count once.
    micros: AtomicU64,
    /// The time until each reply; commands that ran together took equally long.
    pub(crate) time: Histogram,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Ok,
    /// The reply was an error.
    Error,
    /// The client disconnected before the reply.
    Gone,
}

impl Outcome {
    const ALL: [Outcome; 3] = [Outcome::Ok, Outcome::Error, Outcome::Gone];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Outcome::Ok => "ok",
            Outcome::Error => "error",
            Outcome::Gone => "gone",
        }
    }
}

/// Why input was not a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nonsense {
    /// Not the Redis protocol.
    Malformed,
    /// Longer than allowed, and skipped.
    TooLong,
    /// HTTP.
    Http,
}

impl Nonsense {
    const ALL: [Nonsense; 3] = [Nonsense::Malformed, Nonsense::TooLong, Nonsense::Http];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Nonsense::Malformed => "malformed",
            Nonsense::TooLong => "too_long",
            Nonsense::Http => "http",
        }
    }
}

/// Commands that ran together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Done {
    pub(super) calls: usize,
    /// How many of them had an error as their reply.
    pub(super) errors: u64,
    pub(super) is_gone: bool,
}

impl Default for Counts {
    fn default() -> Counts {
        let command = |row: &table::Row| Command {
            name: row.name,
            by_outcome: Default::default(),
            micros: AtomicU64::new(0),
            time: Histogram::of_times(),
        };
        Counts {
            connections: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            malformed: Default::default(),
            unknown: AtomicU64::new(0),
            all: AtomicU64::new(0),
            by_command: table::commands().iter().map(command).collect(),
            last_look: Mutex::default(),
        }
    }
}

impl Command {
    pub(crate) fn outcomes(&self) -> impl Iterator<Item = (Outcome, u64)> {
        Outcome::ALL.into_iter().zip(&self.by_outcome).map(|(outcome, count)| (outcome, count.load(Relaxed)))
    }

    pub(super) fn calls(&self) -> u64 {
        self.outcomes().map(|(_, count)| count).sum()
    }

    pub(super) fn micros(&self) -> u64 {
        self.micros.load(Relaxed)
    }
}

impl Counts {
    pub(super) fn did(&self, row: usize, done: Done, took: Duration) {
        let calls = u64::try_from(done.calls).unwrap_or(0);
        self.all.fetch_add(calls, Relaxed);
        let Some(command) = self.by_command.get(row) else { return };
        let errors = done.errors.min(calls);
        let well = if done.is_gone { Outcome::Gone } else { Outcome::Ok };
        for (outcome, count) in [(well, calls - errors), (Outcome::Error, errors)] {
            if count > 0 {
                command.by_outcome[outcome as usize].fetch_add(count, Relaxed);
            }
        }
        command.micros.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Relaxed);
        command.time.observe_times(took, calls);
    }

    pub(super) fn is_unknown(&self) {
        self.unknown.fetch_add(1, Relaxed);
    }

    pub(super) fn is_nonsense(&self, why: Nonsense) {
        self.malformed[why as usize].fetch_add(1, Relaxed);
    }

    pub(super) fn moved(&self, (read, written): (u64, u64)) {
        self.bytes_in.fetch_add(read, Relaxed);
        self.bytes_out.fetch_add(written, Relaxed);
    }

    pub(crate) fn commands(&self) -> &[Command] {
        &self.by_command
    }

    pub(crate) fn unknown(&self) -> u64 {
        self.unknown.load(Relaxed)
    }

    pub(crate) fn nonsense(&self) -> impl Iterator<Item = (Nonsense, u64)> {
        Nonsense::ALL.into_iter().zip(&self.malformed).map(|(why, count)| (why, count.load(Relaxed)))
    }

    /// Known commands that have run.
    pub(super) fn all(&self) -> u64 {
        self.all.load(Relaxed)
    }

    /// Commands per second since the last reading.
    pub(super) fn per_second(&self, started: Instant) -> u64 {
        let (now, all) = (Instant::now(), self.all());
        let (since, before) = self.last_look.lock().replace((now, all)).unwrap_or((started, 0));
        let millis = u64::try_from(now.duration_since(since).as_millis()).unwrap_or(u64::MAX).max(1);
        all.saturating_sub(before).saturating_mul(1000) / millis
    }

    /// Sets all counters to zero, as after a restart.
    pub(super) fn reset(&self) {
        let own =
            [&self.connections, &self.rejected, &self.bytes_in, &self.bytes_out, &self.unknown, &self.all];
        let by_command = self.by_command.iter().flat_map(|command| {
            command.time.reset();
            command.by_outcome.iter().chain([&command.micros])
        });
        own.into_iter().chain(&self.malformed).chain(by_command).for_each(|count| count.store(0, Relaxed));
        *self.last_look.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_and_every_nonsense_has_its_place() {
        for (place, outcome) in Outcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome as usize, place);
        }
        for (place, why) in Nonsense::ALL.into_iter().enumerate() {
            assert_eq!(why as usize, place);
        }
    }

    #[test]
    fn those_that_were_done_together_are_told_apart_by_how_they_ended() {
        let counts = Counts::default();
        let took = Duration::from_micros(100);
        counts.did(0, Done { calls: 10, errors: 3, is_gone: false }, took);
        counts.did(0, Done { calls: 1, errors: 0, is_gone: true }, took);
        let command = &counts.commands()[0];
        let outcomes: Vec<u64> = command.outcomes().map(|(_, count)| count).collect();
        assert_eq!(outcomes, [7, 3, 1]);
        assert_eq!((command.calls(), command.micros(), counts.all()), (11, 200, 11));
        let seen = command.time.snapshot();
        assert_eq!((seen.count, seen.sum), (11, 1100));
        counts.reset();
        assert_eq!((command.calls(), command.micros(), command.time.snapshot().count), (0, 0, 0));
    }
}
