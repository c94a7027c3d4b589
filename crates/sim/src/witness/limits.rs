//! Limits of jobs: at no moment are more runs of a key at work than its limit allows, and none starts before its rate does.
//!
//! Only jobs that were never edited are checked: an edit stops no run.

use std::collections::BTreeMap;
use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::change::{Batch, Change, Row};
use punctual_core::ids::{JobId, RunId};
use punctual_core::job::{Definition, Limit};
use punctual_core::run::{Run, State, Wait, What};
use punctual_core::task::Params;
use rustc_hash::FxHashMap;

use super::jobs::Jobs;
use super::runs::Runs;
use super::{Seen, Verdict};

/// A job, the index of a limit, and a key.
type LimitKey = (JobId, usize, Arc<str>);

#[derive(Debug, Default)]
pub(super) struct Limits {
    /// The starts that a rate counts, in the order in which they were committed.
    starts: BTreeMap<LimitKey, Vec<Timestamp>>,
    /// How many starts of a run are among them.
    noted: FxHashMap<RunId, usize>,
}

impl Limits {
    pub(super) fn landed(&mut self, batch: &Batch, jobs: &Jobs, runs: &Runs, seen: &mut Seen) -> Verdict {
        for (_, change) in batch.changes.iter() {
            let (Change::Insert(Row::Run(run) | Row::History(run)) | Change::Update(Row::Run(run))) = change
            else {
                continue;
            };
            if matches!(run.state, State::Waiting { wait: Wait::Limit(_) }) {
                seen.limited += 1;
            }
            let Some((job, definition)) = jobs.unedited(run) else { continue };
            let starts: Vec<Timestamp> =
                run.entries.iter().filter(|entry| entry.what == What::Due).map(|entry| entry.at).collect();
            let noted = self.noted.insert(run.id, starts.len()).unwrap_or_default();
            for start in starts.into_iter().skip(noted) {
                for (index, limit, key) in counted(run, definition, runs) {
                    self.started((job, index, key), limit, start, seen)?;
                }
            }
        }
        Ok(())
    }

    fn started(&mut self, key: LimitKey, limit: &Limit, at: Timestamp, seen: &mut Seen) -> Verdict {
        let Some(rate) = &limit.rate else { return Ok(()) };
        seen.rated += 1;
        let starts = self.starts.entry(key.clone()).or_default();
        starts.push(at);
        let recent = starts.iter().filter(|start| at.since(**start) < rate.span && **start <= at).count();
        let most = usize::try_from(rate.count + rate.burst - 1).unwrap_or(usize::MAX);
        if recent > most {
            let (job, index, key) = key;
            return Err(format!(
                "rate: {recent} runs of job {job} with key `{key}` started within {:?} up to {at}; limit {index} allows {most}",
                rate.span
            ));
        }
        Ok(())
    }

    /// More runs of a key than its limit allows are ready or running.
    pub(super) fn at_once(jobs: &Jobs, runs: &Runs) -> Verdict {
        let mut counts: FxHashMap<LimitKey, u32> = FxHashMap::default();
        for run in runs.live().filter(|run| matches!(run.state, State::Ready { .. } | State::Running { .. }))
        {
            let Some((job, definition)) = jobs.unedited(run) else { continue };
            for (index, limit, key) in counted(run, definition, runs) {
                let count = counts.entry((job, index, Arc::clone(&key))).or_default();
                *count += 1;
                if limit.running.is_some_and(|max| *count > max) {
                    return Err(format!(
                        "limit: {count} runs of job {job} with key `{key}` are at work, among them {}; limit {index} allows fewer",
                        run.id
                    ));
                }
            }
        }
        Ok(())
    }
}

/// The limits that count a run, each with its key.
fn counted<'a>(
    run: &'a Run,
    definition: &'a Definition,
    runs: &'a Runs,
) -> impl Iterator<Item = (usize, &'a Limit, Arc<str>)> {
    let is_child = run.parent().is_some() && !run.is_backfilled();
    let counts = is_child || !(run.is_backfill() || definition.has_children());
    let params = params_of(run, runs).unwrap_or(&definition.params);
    let limits = definition.limits.iter().enumerate().filter(move |_| counts);
    limits.map(|(index, limit)| (index, limit, limit.key_for(params, run.due).unwrap_or_default()))
}

/// A child run without parameters has those of its parent.
fn params_of<'a>(run: &'a Run, runs: &'a Runs) -> Option<&'a Params> {
    let mut of = run;
    while of.params.is_none() {
        of = runs.get(of.parent()?)?;
    }
    of.params.as_ref()
}
