//! The checks, one promise per file.
//!
//! Each is a function over the whole history that records on its [`Sheet`] what it looked at and what was broken. The
//! checks are independent, and none stops at its first finding, because one broken promise often explains the next.

mod never_twice;
mod never_early;
mod never_lost;
mod on_schedule;
mod legal_states;
mod one_result;
mod at_most_once;
mod checkpoint;
mod overlap;
mod family;
mod workflow;
mod links;
mod ended;
mod accounted;
mod not_vacuous;

use std::fmt;
use std::time::Duration;

use punctual_core::ids::JobId;
use serde::Serialize;

use crate::history::{History, JobRecord, RunRecord};
use crate::options::Options;
use crate::report::{About, Checked, Finding, Report};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    NeverTwice,
    NeverEarly,
    NeverLost,
    OnSchedule,
    LegalStates,
    OneResult,
    AtMostOnce,
    Checkpoint,
    Overlap,
    Family,
    Workflow,
    Links,
    Ended,
    Accounted,
    NotVacuous,
}

/// What happens has the instant at which it was decided, and is stored a commit later. Commits take less than this.
const COMMIT_MAX: Duration = Duration::from_secs(30);

/// A check, its name, the unit that it counts, and its function.
type Entry = (Check, &'static str, &'static str, fn(&mut Sheet<'_>));

const CHECKS: [Entry; 15] = [
    (Check::NeverTwice, "never twice", "fires", never_twice::check),
    (Check::NeverEarly, "never early", "starts", never_early::check),
    (Check::NeverLost, "never lost", "due times", never_lost::check),
    (Check::OnSchedule, "on schedule", "fires", on_schedule::check),
    (Check::LegalStates, "legal states", "events", legal_states::check),
    (Check::OneResult, "one result", "results", one_result::check),
    (Check::AtMostOnce, "at most once", "runs that may start once", at_most_once::check),
    (Check::Checkpoint, "checkpoint", "attempts after a checkpoint", checkpoint::check),
    (Check::Overlap, "overlap", "attempts of jobs that limit them", overlap::check),
    (Check::Family, "family", "child runs", family::check),
    (Check::Workflow, "workflow", "steps", workflow::check),
    (Check::Links, "links", "links between runs", links::check),
    (Check::Ended, "ended", "runs that had to end", ended::check),
    (Check::Accounted, "accounted", "runs", accounted::check),
    (Check::NotVacuous, "not vacuous", "runs", not_vacuous::check),
];

impl Check {
    pub const ALL: [Check; 15] = [
        Check::NeverTwice,
        Check::NeverEarly,
        Check::NeverLost,
        Check::OnSchedule,
        Check::LegalStates,
        Check::OneResult,
        Check::AtMostOnce,
        Check::Checkpoint,
        Check::Overlap,
        Check::Family,
        Check::Workflow,
        Check::Links,
        Check::Ended,
        Check::Accounted,
        Check::NotVacuous,
    ];

    pub fn as_str(self) -> &'static str {
        self.entry().1
    }

    pub(crate) fn unit(self) -> &'static str {
        self.entry().2
    }

    fn entry(self) -> &'static Entry {
        &CHECKS[self as usize]
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

pub(crate) fn all(history: &History, options: &Options) -> Report {
    let mut report = Report { counted: history.counted(), ..Report::default() };
    for (check, _, _, look) in CHECKS {
        let mut sheet = Sheet { check, history, options, looked_at: 0, findings: Vec::new() };
        look(&mut sheet);
        let Sheet { looked_at, findings, .. } = sheet;
        report.checked.push(Checked { check, looked_at, findings: findings.len() });
        report.findings.extend(findings);
    }
    report
}

/// The input of one check, and its findings.
pub(crate) struct Sheet<'a> {
    check: Check,
    pub(crate) history: &'a History,
    pub(crate) options: &'a Options,
    looked_at: usize,
    findings: Vec<Finding>,
}

impl Sheet<'_> {
    fn saw(&mut self, count: usize) {
        self.looked_at += count;
    }

    fn broken_run(&mut self, run: &RunRecord, message: String) {
        self.broken(About::Run(run.id), message);
    }

    fn broken_job(&mut self, job: &JobRecord, message: String) {
        self.broken(About::Job { namespace: job.namespace.clone(), name: job.name.clone() }, message);
    }

    fn broken(&mut self, about: About, message: String) {
        self.findings.push(Finding { check: self.check, about, message });
    }
}

/// All runs whose job is in the history, with the job's id.
fn runs_with_jobs(history: &History) -> impl Iterator<Item = (JobId, &RunRecord)> {
    history.runs.values().filter_map(|run| Some((history.job_of(run)?.id, run)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_finds_its_own_entry() {
        for ((check, name, ..), listed) in CHECKS.into_iter().zip(Check::ALL) {
            assert_eq!((check, check.as_str()), (listed, name));
        }
    }
}
