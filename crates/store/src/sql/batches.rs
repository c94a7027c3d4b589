//! The rows of batches in the order in which a commit sends them, and the fence before them.

use punctual_core::change::Batch;

use super::tables::{Values, WRITES, WriteId, write_of};
use super::value::Value;
use crate::Result;
use crate::row_counts::RowCounts;

/// The rows of several batches, at most one batch of each shard, by the write they need.
#[derive(Debug)]
pub(crate) struct Sorted<'b> {
    rows: [Rows<'b>; WRITES.len()],
}

/// Rows of equal length, one after the other.
#[derive(Debug)]
struct Rows<'b> {
    columns: usize,
    values: Values<'b>,
}

impl Default for Sorted<'_> {
    fn default() -> Self {
        Sorted { rows: [const { Rows { columns: 0, values: Vec::new() } }; WRITES.len()] }
    }
}

impl<'b> Sorted<'b> {
    /// Only one row, which `write_of` or `edited_job` has made.
    pub(crate) fn one(write: WriteId, values: Values<'b>) -> Self {
        Sorted::of(write, values.len(), values)
    }

    pub(crate) fn of(write: WriteId, columns: usize, values: Values<'b>) -> Self {
        let mut sorted = Sorted::default();
        sorted.rows[write] = Rows { columns, values };
        sorted
    }

    pub(crate) fn add_batch(&mut self, batch: &'b Batch) -> Result<()> {
        let mut row = Values::new();
        for (key, change) in batch.changes.iter() {
            let rows = &mut self.rows[write_of(batch, key, change, &mut row)?];
            rows.columns = row.len();
            rows.values.append(&mut row);
        }
        Ok(())
    }

    /// The rows of each write that has any, in the order in which they are sent.
    pub(crate) fn writes(&self) -> impl Iterator<Item = (WriteId, Vec<&[Value<'b>]>)> {
        (0..WRITES.len()).map(|write| (write, self.rows(write))).filter(|(_, rows)| !rows.is_empty())
    }

    pub(crate) fn rows(&self, write: WriteId) -> Vec<&[Value<'b>]> {
        let Rows { columns, values } = &self.rows[write];
        values.chunks_exact((*columns).max(1)).collect()
    }
}

/// Batches of different shards are written together, batches of one shard one after the other.
pub(crate) fn in_groups(batches: &[Batch]) -> Result<Vec<(Vec<&Batch>, Sorted<'_>)>> {
    let mut groups: Vec<(Vec<&Batch>, Sorted<'_>)> = Vec::new();
    let mut left: Vec<&Batch> = batches.iter().collect();
    while !left.is_empty() {
        let (mut group, mut later): (Vec<&Batch>, Vec<&Batch>) = (Vec::new(), Vec::new());
        for batch in left {
            let is_taken = group.iter().any(|other| other.shard == batch.shard);
            if is_taken { later.push(batch) } else { group.push(batch) }
        }
        // Every transaction takes locks in shard order, so there is no deadlock.
        group.sort_unstable_by_key(|batch| batch.shard);
        let mut sorted = Sorted::default();
        group.iter().try_for_each(|batch| sorted.add_batch(batch))?;
        groups.push((group, sorted));
        left = later;
    }
    Ok(groups)
}

/// The columns of a shard's row that a fence compares or changes.
pub(crate) const FENCE: [&str; 8] =
    ["shard", "epoch", "commit_no", "last_id", "jobs", "live_runs", "history_runs", "dead_letters"];

/// Their values: what the row must have, its new last id, and what is added to its counts.
pub(crate) fn fence_of(batch: &Batch) -> Values<'static> {
    let RowCounts { jobs, live_runs, history_runs, dead_letters } = RowCounts::of(&batch.changes);
    let (shard, epoch, commit, last_id) = (batch.shard.0, batch.epoch.0, batch.commit, batch.last_id);
    let added = [jobs, live_runs, history_runs, dead_letters].map(Value::from);
    [shard.into(), epoch.into(), commit.into(), last_id.into()].into_iter().chain(added).collect()
}
