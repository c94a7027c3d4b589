//! Priority: a free slot goes to the ready run with the highest priority; among equals, to the one that has waited longest.
//!
//! Checked only within a shard, where the order is exact: runs of another shard may not be in memory yet. With several
//! workers, a run that fits only one of them may be overtaken by runs for the other workers.

use punctual_core::Timestamp;
use punctual_core::change::{Batch, Change, Row};
use punctual_core::job::Strategy;
use punctual_core::run::{Entry, Run, State, What};

use super::jobs::Jobs;
use super::runs::Runs;
use super::steps::Steps;
use super::{Seen, Verdict};

pub(super) fn check(
    batch: &Batch,
    (runs, jobs, steps): (&Runs, &Jobs, &Steps),
    has_one_worker: bool,
    seen: &mut Seen,
) -> Verdict {
    for (_, change) in batch.changes.iter() {
        let (Change::Insert(Row::Run(run)) | Change::Update(Row::Run(run))) = change else { continue };
        let Some((since, assigned)) = chosen(run) else { continue };
        let mut alone = true;
        for other in runs.live_of(batch.shard) {
            let State::Ready { since: waits_since } = other.state else { continue };
            // A broadcast without workers waits for workers, not for a slot.
            let route = jobs.definition_of(other).map(|definition| &definition.route);
            let splits = steps.has_steps(other.id);
            let is_sticky = route.is_none_or(|route| route.strategy == Strategy::Sticky);
            let belongs = !has_one_worker && (is_sticky || other.pinned_to().is_some());
            if waits_since >= assigned || splits || belongs {
                continue;
            }
            alone = false;
            if other.priority > run.priority || (other.priority == run.priority && waits_since < since) {
                return Err(format!(
                    "priority: run {} ({}, ready since {since}) was chosen at {assigned} while run {} ({}, ready since \
                     {waits_since}) waited",
                    run.id, run.priority, other.id, other.priority
                ));
            }
        }
        seen.choices += u64::from(!alone);
    }
    Ok(())
}

/// When a run became ready and when it was chosen. `None` means being chosen is not its last event, or that it needs no slot.
fn chosen(run: &Run) -> Option<(Timestamp, Timestamp)> {
    run.assignee.as_ref()?.worker()?;
    let (Entry { what: What::Assigned, at, .. }, before) = run.entries.split_last()? else { return None };
    // The event that its preferred worker was full has the time of the choice.
    let ready = before.iter().rev().find(|entry| entry.what != What::PassedOver)?;
    Some((ready.at, *at))
}
