//! One key, one run: while a key is kept, no second run is made with it.

use std::sync::Arc;

use punctual_core::change::{Batch, Change, Holder, Row, UniqueKey};
use punctual_core::ids::ShardId;
use punctual_core::run::{Origin, Run, Trigger};
use rustc_hash::FxHashMap;

use super::runs::Runs;
use super::{Seen, Verdict};
use crate::workload::KEPT_MIN;

#[derive(Debug, Default)]
pub(super) struct Keys {
    rows: FxHashMap<(ShardId, Arc<str>), UniqueKey>,
}

impl Keys {
    pub(super) fn landed(
        &mut self,
        batch: &Batch,
        born: &[Arc<Run>],
        runs: &Runs,
        seen: &mut Seen,
    ) -> Verdict {
        for (_, change) in batch.changes.iter() {
            let (Change::Insert(Row::Unique(new)) | Change::Update(Row::Unique(new))) = change else {
                continue;
            };
            let Holder::Run(holder) = new.holder else { continue };
            seen.keys += 1;
            let Some(run) = runs.get(holder) else {
                return Err(format!("key `{}` names run {holder}, which does not exist", new.key));
            };
            if let Some(old) = self.rows.insert((batch.shard, Arc::clone(&new.key)), new.clone())
                && old.holder != new.holder
                && old.expires_at > run.created_at
            {
                return Err(format!(
                    "one key, one run: {:?} has key `{}` until {}, but run {} was made with it at {}",
                    old.holder, new.key, old.expires_at, run.id, run.created_at
                ));
            }
        }
        for run in born {
            let Some(text) = scope(run) else { continue };
            let bearer = self.rows.get(&(batch.shard, Arc::clone(&text))).and_then(|row| match row.holder {
                Holder::Run(holder) => runs.get(holder),
                Holder::Message(_) | Holder::Nobody(_) => None,
            });
            // In one batch a key can be used, expire and be used again.
            let given_again = |bearer: &Arc<Run>| bearer.created_at >= run.created_at + KEPT_MIN;
            if !bearer.is_some_and(|bearer| bearer.id == run.id || given_again(bearer)) {
                let bearer = bearer.map(|bearer| bearer.id);
                return Err(format!(
                    "one key, one run: run {} was made with `{text}`, which belongs to {bearer:?}",
                    run.id
                ));
            }
        }
        Ok(())
    }
}

/// The scope of a run's key: keys of different kinds of commands do not collide.
fn scope(run: &Run) -> Option<Arc<str>> {
    let (key, namespace) = (run.key.as_ref()?, &run.namespace);
    let text = match (run.trigger, &run.origin, run.retry_of) {
        (Trigger::Submit, ..) => format!("submit/{namespace}:{key}"),
        (Trigger::Manual, Origin::Job { name, .. }, _) => format!("job/{namespace}:{name}:{key}"),
        (Trigger::Retry, _, Some(of)) => format!("retry/{namespace}:{of}:{key}"),
        _ => return None,
    };
    Some(Arc::from(text))
}
