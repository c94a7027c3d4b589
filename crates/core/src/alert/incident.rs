//! Incidents: conditions that hold, and what people were told about them.
//!
//! A job has at most one open incident for each of its conditions, and so has each step of its workflow. Errors that differ only in their numbers have the same
//! fingerprint, so a job that fails four hundred times with one error is notified once.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Condition;
use crate::Timestamp;
use crate::hash;
use crate::ids::{IncidentId, JobId, RunId};
use crate::limits::FINGERPRINTS_MAX;
use crate::name::{Name, Namespace};
use crate::workflow::ByHand;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incident {
    pub id: IncidentId,
    pub namespace: Namespace,
    pub subject: Subject,
    pub opened_at: Timestamp,
    /// When the condition ended. `None` means that the incident is open.
    pub ended_at: Option<Timestamp>,
    /// When the condition was last met.
    pub last_at: Timestamp,
    /// How often the condition was met.
    pub count: u64,
    /// The run that met it last. `None` means that no run did.
    pub run: Option<RunId>,
    /// The error of that run, or of the channel, cut to its end. Empty means that the condition has no error.
    pub error: Box<str>,
    /// The fingerprints of the errors that were notified, the newest last.
    pub fingerprints: Vec<u64>,
    /// The channels to notify. Empty means the default channels.
    pub to: Vec<Name>,
    /// The time between two notifications while the incident is open.
    pub repeat: Duration,
    /// When people were last notified.
    pub notified_at: Timestamp,
    /// How many times people were notified. A notification through several channels counts once.
    pub notified: u32,
    /// Who has acknowledged it: it is not repeated any more. `None` means that no person has.
    pub acknowledged: Option<Box<ByHand>>,
    /// `None` means that notifications are sent.
    pub silence: Option<Box<Silence>>,
}

/// What an incident is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    Job {
        id: JobId,
        name: Name,
        /// The path of a step of its workflow. `None` means that it is about the job.
        step: Option<Arc<str>>,
        on: Condition,
    },
    /// Notifications of the namespace could not be sent to this channel.
    Channel(Name),
}

/// Nothing is sent about an incident until then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Silence {
    pub until: Timestamp,
    pub by: ByHand,
}

/// Why people are notified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Occasion {
    Opened,
    /// It has an error with a new fingerprint.
    Changed,
    Repeated,
    Ended,
}

impl Occasion {
    pub fn as_str(self) -> &'static str {
        match self {
            Occasion::Opened => "opened",
            Occasion::Changed => "changed",
            Occasion::Repeated => "repeated",
            Occasion::Ended => "ended",
        }
    }
}

/// What is sent to one channel. Its id is the number of its notice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notification {
    pub channel: Name,
    pub occasion: Occasion,
    pub at: Timestamp,
    /// As it was at that time.
    pub incident: Incident,
}

impl Incident {
    pub fn is_open(&self) -> bool {
        self.ended_at.is_none()
    }

    /// The job that it is about. `None` means that it is about a channel.
    pub fn job(&self) -> Option<JobId> {
        match &self.subject {
            Subject::Job { id, .. } => Some(*id),
            Subject::Channel(_) => None,
        }
    }

    /// The name of the job. `None` means that it is about a channel.
    pub fn job_name(&self) -> Option<&Name> {
        match &self.subject {
            Subject::Job { name, .. } => Some(name),
            Subject::Channel(_) => None,
        }
    }

    /// The path of the step that it is about. `None` means that it is about a job or a channel.
    pub fn step(&self) -> Option<&str> {
        match &self.subject {
            Subject::Job { step, .. } => step.as_deref(),
            Subject::Channel(_) => None,
        }
    }

    pub fn is_silent(&self, now: Timestamp) -> bool {
        self.silence.as_ref().is_some_and(|silence| silence.until > now)
    }

    /// Notes its error as notified. Returns whether the fingerprint of the error is new to this incident.
    pub fn note_error(&mut self) -> bool {
        let fingerprint = fingerprint(&self.error);
        if self.fingerprints.contains(&fingerprint) || self.fingerprints.len() >= FINGERPRINTS_MAX {
            return false;
        }
        self.fingerprints.push(fingerprint);
        true
    }

    /// When it must be looked at again: to notify people, or at the end of its silence. `None` means never.
    pub fn due_at(&self) -> Option<Timestamp> {
        if !self.is_open() {
            return None;
        }
        let silent_until = self.silence.as_ref().map(|silence| silence.until);
        let repeat = self.acknowledged.is_none().then(|| self.notified_at + self.repeat);
        match (silent_until, repeat) {
            // What was not sent meanwhile is sent when the silence ends.
            (Some(until), _) => Some(until),
            (None, repeat) => repeat,
        }
    }
}

/// The fingerprint of an error: equal for errors that differ only in numbers, ids and spaces.
pub fn fingerprint(error: &str) -> u64 {
    hash::stable(&[without_numbers(error).as_bytes()])
}

/// An error with `#` for each word that contains a digit, such as a number, an address or an id.
pub fn without_numbers(error: &str) -> String {
    let mut text = String::with_capacity(error.len());
    let mut word = String::new();
    for c in error.chars().chain([' ']) {
        if c.is_alphanumeric() || c == '_' {
            word.push(c);
            continue;
        }
        match word.contains(|c: char| c.is_ascii_digit()) {
            true => text.push('#'),
            false => text.push_str(&word),
        }
        word.clear();
        if !c.is_whitespace() {
            text.push(c);
        } else if !text.ends_with(' ') {
            text.push(' ');
        }
    }
    text.truncate(text.trim_end().len());
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_with_digits_are_replaced() {
        for (error, expected) in [
            ("exit code 137", "exit code #"),
            ("connect to 10.0.0.3:5432: refused", "connect to #.#.#.#:#: refused"),
            ("order 5f3a9c is\n  missing", "order # is missing"),
            ("no space left", "no space left"),
            ("", ""),
        ] {
            assert_eq!(without_numbers(error), expected);
        }
    }

    proptest! {
        #[test]
        fn a_fingerprint_ignores_numbers(words in "[a-z ,:]{0,40}", one: u64, other: u64) {
            let error = |number: u64| format!("{words} {number} of 7");
            prop_assert_eq!(fingerprint(&error(one)), fingerprint(&error(other)));
        }

        #[test]
        fn another_word_gives_another_fingerprint(before in "[a-z]{1,9}", after in "[a-z]{1,9}", n: u32) {
            prop_assume!(before != after);
            prop_assert_ne!(fingerprint(&format!("{before} {n}")), fingerprint(&format!("{after} {n}")));
        }
    }
}
