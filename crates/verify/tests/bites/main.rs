//! The checks bite: a random story that core and a small scheduler tell holds; the same story with one fault
//! in it is found out by the check that is there for it. In a story a job fires, fails, is missed, split, edited, paused
//! and resumed, its schedule may keep to a calendar, and another job follows its failures or is started by a step of it.

mod faults;
mod story;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use punctual_core::job::Overlap;
use punctual_core::run::Run;
use punctual_verify::Check;

use faults::FAULTS;
use story::story;

/// Stories in which a fault is tried for each check: few are fit for all of them.
const STORIES_MAX: usize = 1000;

proptest! {
    #[test]
    fn a_story_without_faults_holds(story in story()) {
        let report = story.check();
        prop_assert!(report.is_ok(), "{}", report);
    }

    #[test]
    fn every_fault_is_found_by_the_check_that_is_there_for_it(story in story(), place: Index) {
        for (name, fault) in FAULTS {
            let mut story = story.clone();
            let Some(check) = fault(&mut story, place) else { continue };
            let report = story.check();
            prop_assert!(report.of(check).next().is_some(), "{}: {} saw nothing\n{}", name, check, report);
        }
    }

    /// What is allowed to overlap is not called a fault.
    #[test]
    fn runs_side_by_side_are_fine_where_the_job_says_so(mut story in story()) {
        Arc::make_mut(&mut story.job.definition).overlap = Overlap::Allow;
        let is_plain = |run: &&mut Run| run.parent().is_none() && !run.has_begun_steps();
        for run in story.runs.iter_mut().filter(is_plain) {
            let end = run.entries.last().map(|entry| entry.at + Duration::from_secs(3600));
            run.finished_at = end;
            if let (Some(last), Some(end)) = (run.entries.last_mut(), end) {
                last.at = end;
            }
        }
        let report = story.check();
        prop_assert!(report.is_ok(), "{}", report);
    }
}

/// No check is there for nothing.
#[test]
fn every_check_has_a_fault_that_it_finds() {
    let mut runner = TestRunner::deterministic();
    let mut bitten = BTreeSet::new();
    for _ in 0..STORIES_MAX {
        let (story, place) = (story(), any::<Index>()).new_tree(&mut runner).unwrap().current();
        for (_, fault) in FAULTS {
            let mut story = story.clone();
            bitten.extend(fault(&mut story, place).filter(|check| story.check().of(*check).next().is_some()));
        }
        if bitten.len() == Check::ALL.len() {
            return;
        }
    }
    assert_eq!(bitten, BTreeSet::from(Check::ALL));
}
