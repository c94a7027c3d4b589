//! What an attempt reports about its work, and what its run keeps of that.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::ids::Token;
use crate::invalid::Invalid;
use crate::limits::{CHECKPOINT_BYTES_MAX, PROGRESS_MESSAGE_BYTES_MAX};
use crate::params::Params;
use crate::planted::{Fault, is_planted};

/// A report of an attempt. At least one of percent, message, checkpoint and rebalance is given; what is absent stays as it
/// was.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// From 0 to 100.
    pub percent: Option<u8>,
    pub message: Option<Box<str>>,
    /// Where the next attempt continues: JSON, as text.
    pub checkpoint: Option<Arc<str>>,
    /// A report whose number is not greater than that of an earlier one comes late, and is ignored; a checkpoint only if a
    /// newer one is kept.
    pub seq: Option<u64>,
    /// The attempt asks to be stopped, and the run to go on with another worker.
    pub rebalance: bool,
    /// A merge patch of the run's parameters, for its next attempts. Only together with `rebalance`.
    pub params: Option<Params>,
}

impl Progress {
    pub fn percent(percent: u8) -> Progress {
        Progress { percent: Some(percent), ..Progress::default() }
    }

    /// Whether it has only what people look at, so that a newer one replaces it.
    pub fn is_for_show(&self) -> bool {
        let Progress { percent: _, message: _, seq: _, checkpoint, rebalance, params } = self;
        checkpoint.is_none() && params.is_none() && !rebalance
    }

    /// Takes over what the next report for show gives, unless its number says that it comes late.
    pub fn follow(&mut self, newer: Progress) {
        if newer.seq.is_some() && newer.seq <= self.seq {
            return;
        }
        self.seq = newer.seq.or(self.seq);
        self.percent = newer.percent.or(self.percent);
        self.message = newer.message.or(self.message.take());
    }

    pub fn check(&self) -> Result<(), Invalid> {
        if self.percent.is_none()
            && self.message.is_none()
            && self.checkpoint.is_none()
            && self.params.is_none()
            && !self.rebalance
        {
            let least = "give at least one of percent, message, checkpoint and rebalance";
            return Err(Invalid::new("percent", least));
        }
        if self.params.is_some() && !self.rebalance {
            return Err(Invalid::new("params", "give them together with `rebalance: true`"));
        }
        if let Some(patch) = &self.params {
            Params::default().merged(patch)?;
        }
        if self.percent.is_some_and(|percent| percent > 100) {
            return Err(Invalid::new("percent", "must be 0 to 100"));
        }
        if self.message.as_ref().is_some_and(|message| message.len() > PROGRESS_MESSAGE_BYTES_MAX) {
            let most = format!("must have at most {PROGRESS_MESSAGE_BYTES_MAX} bytes");
            return Err(Invalid::new("message", most));
        }
        let Some(checkpoint) = &self.checkpoint else { return Ok(()) };
        if checkpoint.len() > CHECKPOINT_BYTES_MAX {
            let most = format!(
                "must have at most {CHECKPOINT_BYTES_MAX} bytes of JSON; store large data elsewhere, and \
                 its location here"
            );
            return Err(Invalid::new("checkpoint", most));
        }
        let parsed = serde_json::from_str::<serde::de::IgnoredAny>(checkpoint);
        parsed.map(drop).map_err(|error| Invalid::new("checkpoint", format!("must be JSON: {error}")))
    }
}

/// What a run keeps of the reports of its attempts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reported {
    pub percent: Option<u8>,
    pub message: Option<Box<str>>,
    /// When the newest report came.
    pub at: Timestamp,
    /// The number of the newest report that had one.
    pub seq: Option<u64>,
    pub checkpoint: Option<Checkpoint>,
}

/// Where the next attempt of a run continues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// JSON, as text.
    pub value: Arc<str>,
    pub at: Timestamp,
    pub version: Version,
}

/// The place of a checkpoint among all of its run: a newer one is greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Version {
    /// The number of the attempt that reported it. 0 means that it comes from the run that this one retries.
    pub attempt: u32,
    /// The number of the newest report of that attempt when it was kept. `None` means that none had a number.
    pub seq: Option<u64>,
    /// How many checkpoints the run had kept by then. It orders those without a number.
    pub count: u64,
}

/// What the attempts of a run were given to continue from. It is kept apart from the reports, so that a checkpoint that
/// is lost, or replaced by an older one, is on record.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resumes {
    /// The newest checkpoint that was kept, or that the newest attempt was given. `None` means that it started over.
    newest: Option<Version>,
    /// One for each attempt that followed a checkpoint, in order.
    pub starts: Vec<Resume>,
}

/// The start of an attempt whose run had a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume {
    pub token: Token,
    /// The newest checkpoint that was kept before.
    pub kept: Version,
    /// The checkpoint that the attempt was given. `None` means that it started over.
    pub given: Option<Version>,
}

impl Resumes {
    pub(crate) fn keep(&mut self, version: Version) {
        self.newest = self.newest.max(Some(version));
    }

    pub(crate) fn start(&mut self, token: Token, given: Option<Version>) {
        self.starts.extend(self.newest.map(|kept| Resume { token, kept, given }));
        self.newest = given;
    }
}

impl Reported {
    pub fn new(at: Timestamp) -> Reported {
        Reported { percent: None, message: None, at, seq: None, checkpoint: None }
    }

    /// Keeps a report. Returns false if the report came late and is ignored. A checkpoint is late only if a newer
    /// checkpoint is kept: its sender sends it again until it is stored, and may report other things meanwhile.
    pub fn take(&mut self, progress: Progress, attempt: u32, now: Timestamp) -> bool {
        let Progress { percent, message, checkpoint, seq, .. } = progress;
        let is_after =
            |newest: Option<u64>| seq.is_none() || seq > newest || is_planted(Fault::LateReportIsTaken);
        // Every attempt numbers its reports from the beginning.
        let is_newer = |kept: Version| kept.attempt != attempt || is_after(kept.seq);
        let is_in_time = is_after(self.seq);
        let kept = self.checkpoint.as_ref();
        let checkpoint = checkpoint.filter(|_| kept.is_none_or(|kept| is_newer(kept.version)));
        let is_taken = is_in_time || checkpoint.is_some();
        if is_in_time {
            self.at = now;
            self.seq = seq.or(self.seq);
            self.percent = percent.or(self.percent);
            self.message = message.or(self.message.take());
        }
        if let Some(value) = checkpoint {
            let count = self.checkpoint.as_ref().map_or(0, |kept| kept.version.count) + 1;
            let version = Version { attempt, seq: seq.or(self.seq), count };
            self.checkpoint = Some(Checkpoint { value, at: now, version });
        }
        is_taken
    }

    /// What the next attempt starts with: the checkpoint alone. `None` means that there is nothing to keep.
    pub fn for_next_attempt(self) -> Option<Reported> {
        let checkpoint = self.checkpoint?;
        Some(Reported {
            percent: None,
            message: None,
            at: checkpoint.at,
            seq: None,
            checkpoint: Some(checkpoint),
        })
    }

    /// What a new run starts with that continues at the checkpoint of this one.
    pub fn for_new_run(self) -> Option<Reported> {
        let checkpoint = self.checkpoint?;
        let version = Version { attempt: 0, seq: None, count: 1 };
        Reported { checkpoint: Some(Checkpoint { version, ..checkpoint }), ..self }.for_next_attempt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn numbered(seq: u64, percent: u8) -> Progress {
        Progress { seq: Some(seq), ..Progress::percent(percent) }
    }

    #[track_caller]
    fn check_refused(progress: &Progress, field: &str) {
        assert_eq!(progress.check().unwrap_err().field, field, "{progress:?}");
    }

    #[test]
    fn a_report_that_comes_late_is_ignored() {
        let mut kept = Reported::new(NOW);
        assert!(kept.take(numbered(2, 20), 1, NOW));
        assert!(!kept.take(numbered(1, 10), 1, NOW) && !kept.take(numbered(2, 10), 1, NOW));
        assert_eq!(kept.percent, Some(20));
        assert!(kept.take(Progress::percent(30), 1, NOW), "one without a number is never late");
        assert!(!kept.take(numbered(2, 10), 1, NOW));
        assert_eq!(kept.percent, Some(30));
    }

    #[test]
    fn a_checkpoint_that_is_sent_again_is_late_only_after_a_newer_one() {
        let at_row =
            |seq, row: &str| Progress { seq: Some(seq), checkpoint: Some(row.into()), ..Progress::default() };
        let mut kept = Reported::new(NOW);
        assert!(kept.take(at_row(1, "1"), 1, NOW) && kept.take(numbered(3, 30), 1, NOW));
        assert!(kept.take(at_row(2, "2"), 1, NOW), "it overtook a plain report, no checkpoint");
        assert_eq!((kept.seq, kept.percent), (Some(3), Some(30)), "the plain report is newer");
        assert!(!kept.take(at_row(2, "2"), 1, NOW) && !kept.take(at_row(1, "1"), 1, NOW));
        let unnumbered = Progress { checkpoint: Some("4".into()), ..Progress::default() };
        assert!(kept.take(unnumbered, 1, NOW) && !kept.take(at_row(3, "3"), 1, NOW));
        assert_eq!(kept.checkpoint.as_ref().map(|kept| &*kept.value), Some("4"));
        let mut next = kept.clone().for_next_attempt().unwrap();
        assert!(next.take(at_row(1, "5"), 2, NOW), "the next attempt counts from the beginning");
        let mut new_run = kept.for_new_run().unwrap();
        assert!(new_run.take(at_row(1, "5"), 1, NOW), "and so does a new run");
    }

    #[test]
    fn what_a_report_leaves_out_stays() {
        let mut kept = Reported::new(NOW);
        kept.take(Progress { message: Some("half".into()), ..Progress::percent(50) }, 1, NOW);
        kept.take(Progress { checkpoint: Some("7".into()), ..Progress::default() }, 1, NOW);
        assert_eq!((kept.percent, kept.message.as_deref()), (Some(50), Some("half")));
        let next = kept.for_next_attempt().unwrap();
        assert_eq!((next.percent, next.message.as_deref(), next.seq), (None, None, None));
        assert_eq!(next.checkpoint.map(|checkpoint| checkpoint.value), Some("7".into()));
    }

    #[test]
    fn a_newer_checkpoint_has_a_greater_version() {
        let at_row = |seq, row: &str| Progress { seq, checkpoint: Some(row.into()), ..Progress::default() };
        let mut kept = Reported::new(NOW);
        let mut versions = Vec::new();
        let mut take = |kept: &mut Reported, seq, attempt| {
            assert!(kept.take(at_row(seq, "7"), attempt, NOW));
            versions.extend(kept.checkpoint.as_ref().map(|kept| kept.version));
        };
        for seq in [None, None, Some(0), Some(4), None] {
            take(&mut kept, seq, 1);
        }
        let mut next = kept.for_next_attempt().unwrap();
        for seq in [Some(1), Some(2)] {
            take(&mut next, seq, 2);
        }
        assert!(versions.is_sorted_by(|before, after| before < after), "{versions:?}");
    }

    #[test]
    fn reports_beyond_the_limits_are_refused() {
        check_refused(&Progress::default(), "percent");
        check_refused(&Progress::percent(101), "percent");
        let patch = |text: &str| Some(Params(text.into()));
        check_refused(&Progress { params: patch("{}"), ..Progress::default() }, "params");
        for wrong in ["[]", "7", "{"] {
            let params = patch(wrong);
            check_refused(&Progress { params, rebalance: true, ..Progress::default() }, "params");
        }
        assert_eq!(Progress { rebalance: true, ..Progress::default() }.check(), Ok(()));
        let long = "x".repeat(PROGRESS_MESSAGE_BYTES_MAX + 1);
        check_refused(&Progress { message: Some(long.into()), ..Progress::default() }, "message");
        let large = format!("\"{}\"", "x".repeat(CHECKPOINT_BYTES_MAX));
        for checkpoint in [&large, "{", "", "1 2"] {
            check_refused(
                &Progress { checkpoint: Some(checkpoint.into()), ..Progress::default() },
                "checkpoint",
            );
        }
        let fitting = format!("\"{}\"", "x".repeat(CHECKPOINT_BYTES_MAX - 2));
        assert_eq!(Progress { checkpoint: Some(fitting.into()), ..Progress::percent(100) }.check(), Ok(()));
    }
}
