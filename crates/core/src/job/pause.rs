//! A paused job: who paused it, when and why, and when it is resumed by itself.

use serde::{Deserialize, Serialize};

use super::{Invalid, Job};
use crate::Timestamp;
use crate::limits::{COMMENT_BYTES_MAX, PAUSE_MAX};
use crate::run::{Run, Status};
use crate::workflow::told;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// Empty means that no reason was given.
    pub reason: Box<str>,
    /// The name of the caller's token. `None` means that the server asks for no token, or that the job was paused by its
    /// `pause_after`.
    pub by: Option<Box<str>>,
    pub since: Timestamp,
    /// When the job is resumed by itself. `None` means that it waits until someone resumes it.
    pub until: Option<Timestamp>,
}

impl Pause {
    pub fn check(&self) -> Result<(), Invalid> {
        check_reason(&self.reason)?;
        match self.until {
            Some(until) if until <= self.since => Err(Invalid::new("until", "is in the past")),
            Some(until) if until.since(self.since) > PAUSE_MAX => {
                Err(Invalid::new("until", "is more than a year from now; leave it out"))
            }
            _ => Ok(()),
        }
    }

    /// Whether the job is paused like this already. A pause without a reason and an end asks for nothing else.
    pub fn is_satisfied_by(&self, present: &Pause) -> bool {
        let is_bare = self.reason.is_empty() && self.until.is_none();
        is_bare || (&self.reason, self.until) == (&present.reason, present.until)
    }

    /// In words: `paused by ops: the bank is closed`.
    pub fn told(&self) -> String {
        told("paused", self.by.as_deref(), &self.reason)
    }
}

/// Checks the reason of a pause or a hold.
pub fn check_reason(reason: &str) -> Result<(), Invalid> {
    if reason.len() > COMMENT_BYTES_MAX {
        let message = format!("has {} bytes, at most {COMMENT_BYTES_MAX}", reason.len());
        return Err(Invalid::new("reason", message));
    }
    Ok(())
}

impl Job {
    pub fn is_paused(&self) -> bool {
        self.pause.is_some()
    }

    /// Removes the next due time. The job wakes up at the end of the pause.
    pub fn pause(&mut self, pause: Pause) {
        self.unplan();
        self.cursor.wake_at = pause.until;
        let since = pause.since;
        self.pause = Some(Box::new(pause));
        self.watch_from(since);
    }

    /// Plans the first due time after `now`. `has_fires` says whether a run that a schedule made is active.
    pub fn resume(&mut self, has_fires: bool, now: Timestamp) {
        (self.pause, self.failures) = (None, 0);
        self.watch_from(now);
        self.plan_from(has_fires, now);
    }

    /// How many runs have failed in a row, this one included, while they are counted. `None` means that the run
    /// does not change the number.
    pub fn failures_with(&self, ended: &Run) -> Option<u32> {
        if !self.definition.counts_failures() {
            return None;
        }
        let failures = match ended.status() {
            Status::Failed | Status::TimedOut => self.failures.saturating_add(1),
            Status::Succeeded => 0,
            _ => return None,
        };
        (failures != self.failures).then_some(failures)
    }

    /// The pause after too many failed runs in a row. `None` means that there are not too many, or that it is paused.
    pub fn pause_after(&self, last: &Run, now: Timestamp) -> Option<Pause> {
        let most = self.definition.pause_after.filter(|most| self.failures >= *most && !self.is_paused())?;
        let reason = match most {
            1 => format!("run {} failed", last.id),
            _ => format!("{} failed runs in a row, the last is run {}", self.failures, last.id),
        };
        Some(Pause { reason: reason.into(), by: None, since: now, until: None })
    }
}
