//! The findings of the checks, and how much they checked.

use std::fmt;

use punctual_core::ids::RunId;
use punctual_core::name::{Name, Namespace};
use serde::{Serialize, Serializer};

use crate::checks::Check;

/// Maximum number of findings shown per check; the rest is only counted.
const FINDINGS_SHOWN_MAX: usize = 20;

#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Report {
    /// Empty means every promise was kept.
    pub findings: Vec<Finding>,
    pub counted: Counted,
    /// One entry per check, in order.
    pub checked: Vec<Checked>,
}

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub check: Check,
    pub about: About,
    /// What it means for the user.
    pub message: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum About {
    Run(#[serde(serialize_with = "as_text")] RunId),
    Job { namespace: Namespace, name: Name },
    History,
}

/// Ids are written as text in every external format.
fn as_text<S: Serializer>(id: &RunId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(id)
}

/// Counts of what the history contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Counted {
    pub runs: usize,
    /// Runs made by a schedule.
    pub fires: usize,
    pub events: usize,
    /// Attempts that started.
    pub starts: usize,
    pub skips: usize,
    pub jobs: usize,
}

/// How much one check looked at: a check without data proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Checked {
    pub check: Check,
    pub looked_at: usize,
    pub findings: usize,
}

impl Report {
    pub fn is_ok(&self) -> bool {
        self.findings.is_empty()
    }

    pub fn of(&self, check: Check) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(move |finding| finding.check == check)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.counted)?;
        for checked in &self.checked {
            writeln!(f, "{checked}")?;
        }
        for checked in &self.checked {
            for finding in self.of(checked.check).take(FINDINGS_SHOWN_MAX) {
                writeln!(f, "{finding}")?;
            }
            if let more @ 1.. = checked.findings.saturating_sub(FINDINGS_SHOWN_MAX) {
                writeln!(f, "{}: and {more} more", checked.check)?;
            }
        }
        match self.findings.len() {
            0 => f.write_str("every promise held"),
            1 => f.write_str("1 broken promise"),
            broken => write!(f, "{broken} broken promises"),
        }
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counted { runs, fires, events, starts, skips, jobs } = self;
        write!(
            f,
            "{runs} runs ({fires} fired by a schedule) with {events} events and {starts} starts, {skips} skip \
             records, {jobs} jobs"
        )
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.findings {
            0 if self.looked_at == 0 => "nothing to look at".to_owned(),
            0 => "ok".to_owned(),
            findings => format!("BROKEN {findings} times"),
        };
        let (check, looked_at) = (self.check.as_str(), self.looked_at);
        write!(f, "  {check:<14} {verdict:<18} {looked_at:>9} {}", self.check.unit())
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.check)?;
        match &self.about {
            About::Run(run) => write!(f, "run {run}: ")?,
            About::Job { namespace, name } => write!(f, "job {namespace}/{name}: ")?,
            About::History => {}
        }
        f.write_str(&self.message)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::checks::Check;
    use crate::fixture::Story;

    #[test]
    fn a_report_says_what_was_checked_how_much_and_what_broke() {
        let mut story = Story::every_ten_seconds();
        story.fire(10).fire(20);
        let report = story.history().check(&Story::options()).to_string();
        assert!(report.starts_with(
            "2 runs (2 fired by a schedule) with 8 events and 2 starts, 0 skip records, 1 jobs"
        ));
        assert!(report.contains("\n  never twice    ok                         2 fires\n"), "{report}");
        assert!(report.ends_with("every promise held"), "{report}");

        story.fire(20);
        let report = story.history().check(&Story::options()).to_string();
        assert!(report.contains("\n  never twice    BROKEN 1 times             3 fires\n"), "{report}");
        assert!(report.contains(
            "\nnever twice: run 102: the fire due 1970-01-01T00:00:20.000Z had its run 101 already"
        ));
        assert!(report.ends_with("broken promises"), "{report}");
    }

    #[test]
    fn many_findings_of_one_kind_are_counted_rather_than_listed() {
        let mut story = Story::every_ten_seconds();
        for _ in 0..50 {
            story.fire(10);
        }
        let report = story.history().check(&Story::options()).to_string();
        assert!(report.contains("\nnever twice: and 29 more\n"), "{report}");
    }

    #[test]
    fn a_report_can_be_written_for_machines() {
        let mut story = Story::every_ten_seconds();
        story.fire(10).fire(30);
        let report = serde_json::to_value(story.history().check(&Story::options())).unwrap();
        assert_eq!(report["counted"]["runs"], 2);
        assert_eq!(report["findings"][0]["check"], "never_lost");
        assert_eq!(
            report["findings"][0]["about"],
            json!({ "job": { "namespace": "default", "name": "beat" } })
        );
        assert_eq!(report["checked"].as_array().map(Vec::len), Some(Check::ALL.len()));
    }
}
