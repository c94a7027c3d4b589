//! The newest runs of many jobs, without children: two statements a job, one for live and one for ended runs, sent together.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use punctual_core::ids::{JobId, RunId};
use punctual_core::run::Run;

use super::connection::{Ask, Connection, ask};
use super::decode;
use super::queries::{history, runs};
use crate::listing::listed;
use crate::{Result, live_key};

pub(super) async fn read(c: &mut dyn Connection, jobs: &[JobId], limit: usize) -> Result<Vec<Arc<Run>>> {
    let both = |job: &JobId| {
        let (first, last) =
            (live_key::through(job.shard(), -1) + 1, live_key::through(job.shard(), i64::MAX));
        let live = ask!(runs::LAST_OF_JOB, first, last, job.0, limit);
        // The places of children are below 0.
        [live, ask!(history::WALK_OF_JOB[1], 0_i64, i64::MAX, limit, true, job.0)]
    };
    let asks: Vec<Ask<'static>> = jobs.iter().flat_map(both).collect();
    let mut newest: BTreeMap<JobId, BTreeMap<Reverse<RunId>, Arc<Run>>> = BTreeMap::new();
    c.query(&asks, &mut |index, row| {
        let run = listed(decode::run(row, if index % 2 == 0 { 0 } else { 5 })?);
        newest.entry(jobs[index / 2]).or_default().insert(Reverse(run.id), run);
        Ok(true)
    })
    .await?;
    Ok(newest.into_values().flat_map(|of_job| of_job.into_values().take(limit)).collect())
}
