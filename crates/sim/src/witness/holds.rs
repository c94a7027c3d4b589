//! Holds: no attempt starts in a shard that has a hold in force, and due times that a hold keeps are made up for.

use std::collections::BTreeMap;
use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::change::{Batch, Change, Row, RowKey, SkipReason};
use punctual_core::hold::{Fires, HoldRecord};
use punctual_core::ids::{RunId, Token};
use punctual_core::run::State;
use rustc_hash::FxHashMap;

use super::{Seen, Verdict};

#[derive(Debug, Default)]
pub(super) struct Holds {
    rows: BTreeMap<i64, Arc<HoldRecord>>,
    /// The newest token of each run.
    tokens: FxHashMap<RunId, Token>,
}

impl Holds {
    pub(super) fn landed(&mut self, batch: &Batch, seen: &mut Seen) -> Verdict {
        let of_shard = |number: &i64| RunId(*number).shard() == batch.shard;
        let known: Vec<_> = self.rows.values().filter(|row| of_shard(&row.number)).cloned().collect();
        for (key, change) in batch.changes.iter() {
            match (key, change) {
                (_, Change::Insert(Row::Hold(row))) => {
                    seen.holds += u64::from(row.is_in_force());
                    self.rows.insert(row.number, Arc::clone(row));
                }
                (RowKey::Hold(number), Change::Delete) => _ = self.rows.remove(number),
                _ => {}
            }
        }
        // A hold that comes or goes in this batch may allow what starts in it.
        let is_still = |row: &&Arc<HoldRecord>| row.is_in_force() && self.rows.contains_key(&row.number);
        let hold = known.iter().find(is_still);
        for (_, change) in batch.changes.iter() {
            let (Change::Insert(Row::Run(run) | Row::History(run)) | Change::Update(Row::Run(run))) = change
            else {
                continue;
            };
            let before = self.tokens.insert(run.id, run.token).unwrap_or_default();
            if run.token > before
                && let Some(hold) = hold
            {
                return Err(format!(
                    "hold: run {} got attempt {} although {}",
                    run.id,
                    run.attempt,
                    hold.hold.told()
                ));
            }
            seen.held_runs += u64::from(hold.is_some() && matches!(run.state, State::Waiting { .. }));
        }
        let rows = known.iter().chain(self.rows.values().filter(|row| of_shard(&row.number)));
        if rows.clone().count() > 0 && rows.clone().all(|row| row.hold.fires == Fires::Keep) {
            self.are_made_up(batch, seen)?;
        }
        Ok(())
    }

    /// A hold decides the due times of each record, and every hold keeps them.
    fn are_made_up(&self, batch: &Batch, seen: &mut Seen) -> Verdict {
        let begun: Vec<Timestamp> = batch
            .changes
            .iter()
            .filter_map(|(_, change)| match change {
                Change::Insert(Row::Step(step)) => step.backfill.as_ref().map(|backfill| backfill.from),
                _ => None,
            })
            .collect();
        for (_, change) in batch.changes.iter() {
            let Change::Insert(Row::Skip(skip)) = change else { continue };
            if skip.reason != SkipReason::Held {
                continue;
            }
            seen.kept_fires += 1;
            if !begun.contains(&skip.from) {
                let (job, from) = (skip.job, skip.from);
                return Err(format!("hold: nothing makes up for the due times of job {job} from {from}"));
            }
        }
        Ok(())
    }
}
