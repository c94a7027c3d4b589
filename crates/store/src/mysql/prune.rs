//! Prunes rows past their retention, in small transactions.
//!
//! Jobs are visited in a circular walk, a few at a time, and the position is kept between calls: a limit reached at one
//! job does not starve the later ones. The result is 0 only after a full walk that found nothing.
//!
//! Several nodes may prune at once. They may find the same rows; each counts only the rows that it deleted.

use std::collections::BTreeMap;

use punctual_core::Timestamp;
use punctual_core::ids::{RunId, ShardId};

use super::failure::Failure;
use super::link::Held;
use super::old::{Doomed, Found, VISITS_MAX};
use super::script::{Script, int, put};
use super::{Mysql, queries, statements};
use crate::circle::{self, Circle};
use crate::{PrunePolicy, Result};

/// Rows removed in one transaction: few enough not to delay the next commit.
const BITE_MAX: usize = 200;

/// The positions of the circular walks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Places {
    history: i64,
    revisions: i64,
    logs: i64,
}

impl Default for Places {
    fn default() -> Self {
        let start = circle::START;
        Places { history: start, revisions: start, logs: start }
    }
}

/// The walks that remove rows of the state.
#[derive(Debug, Clone, Copy)]
enum Round {
    History,
    Revisions,
}

impl Places {
    fn of(&mut self, round: Round) -> &mut i64 {
        match round {
            Round::History => &mut self.history,
            Round::Revisions => &mut self.revisions,
        }
    }
}

impl Mysql {
    pub(super) async fn prune_all(&self, policy: &PrunePolicy, limit: usize) -> Result<usize> {
        let mut gone = self.prune_at_hand(policy, limit).await?;
        for round in [Round::History, Round::Revisions] {
            gone += self.prune_round(round, policy, limit - gone).await?;
        }
        gone += self.prune_logs(limit - gone).await?;
        Ok(gone)
    }

    async fn prune_at_hand(&self, policy: &PrunePolicy, limit: usize) -> Result<usize> {
        let mut gone = 0;
        while gone < limit {
            let doomed = self.old_at_hand(policy, BITE_MAX.min(limit - gone)).await?;
            let removed = self.remove(&doomed, policy.now).await?;
            gone += removed;
            if removed == 0 {
                break;
            }
        }
        Ok(gone)
    }

    async fn prune_round(&self, round: Round, policy: &PrunePolicy, limit: usize) -> Result<usize> {
        let mut circle = Circle::from(*self.pruned.lock().of(round));
        let mut gone = 0;
        while gone < limit {
            let (at, bite) = (circle.at(), BITE_MAX.min(limit - gone));
            let Found { doomed, next } = match round {
                Round::History => self.old_history(at, policy, bite).await?,
                Round::Revisions => self.old_revisions(at, bite).await?,
            };
            gone += self.remove(&doomed, policy.now).await?;
            let goes_on = circle.go_on(next);
            *self.pruned.lock().of(round) = circle.at();
            if !goes_on {
                break;
            }
        }
        Ok(gone)
    }

    /// Prunes output whose run is gone.
    async fn prune_logs(&self, limit: usize) -> Result<usize> {
        let mut circle = Circle::from(self.pruned.lock().logs);
        let mut gone = 0;
        while gone < limit {
            let (at, bite) = (circle.at(), BITE_MAX.min(limit - gone));
            let logged = self.logged_runs(RunId(at), VISITS_MAX).await?;
            let next = logged.last().map(|run| run.0).filter(|_| logged.len() == VISITS_MAX);
            let doomed = self.without_run(&logged).await?;
            if !doomed.is_empty() {
                let removed = self.remove_chunks(&doomed, bite).await?;
                gone += removed;
                if removed == bite {
                    // These runs may have more output.
                    continue;
                }
            }
            let goes_on = circle.go_on(next);
            self.pruned.lock().logs = circle.at();
            if !goes_on {
                break;
            }
        }
        Ok(gone)
    }

    /// Removes the rows that were found. Rows that changed since are left alone.
    async fn remove(&self, doomed: &Doomed, now: Timestamp) -> Result<usize> {
        if doomed.is_empty() {
            return Ok(0);
        }
        let mut held = self.pruner.take().await?;
        let removed = remove(&mut held, doomed, now).await;
        held.commit(removed).await
    }
}

async fn remove(held: &mut Held<'_>, doomed: &Doomed, now: Timestamp) -> Result<usize, Failure> {
    held.step("START TRANSACTION").await?;
    let mut gone = 0;
    let mut of_shards: BTreeMap<ShardId, Vec<RunId>> = BTreeMap::new();
    doomed.history.iter().for_each(|run| of_shards.entry(run.shard()).or_default().push(*run));
    for (shard, mut runs) in of_shards {
        runs.sort_unstable();
        let ids: Vec<i64> = runs.iter().map(|run| run.0).collect();
        let mut sql = Vec::new();
        put(&mut sql, "DELETE t FROM (");
        for (index, id) in ids.iter().enumerate() {
            put(&mut sql, if index == 0 { "SELECT " } else { " UNION ALL SELECT " });
            int(&mut sql, *id);
            put(&mut sql, " AS id");
        }
        put(&mut sql, ") AS f STRAIGHT_JOIN history AS t ON t.id = f.id");
        held.text(sql).await?;
        let rows = held.conn().affected_rows();
        let mut marks = Script::default();
        statements::delete_marks(&mut marks, &ids)?;
        marks.play(held).await?;
        held.execute(queries::pruned::ADD, (rows, shard.0)).await?;
        gone += rows;
    }
    for (shard, key) in &doomed.uniques {
        gone += held.execute(queries::uniques::DELETE_EXPIRED, (shard, key, now.as_millis())).await?;
    }
    for skip in &doomed.skips {
        gone += held.execute(queries::skips::DELETE, *skip).await?;
    }
    for revision in &doomed.revisions {
        gone += held.execute(queries::revisions::DELETE, *revision).await?;
    }
    for job in &doomed.deleted_jobs {
        held.execute(queries::deleted_jobs::DELETE, (job,)).await?;
    }
    Ok(usize::try_from(gone).unwrap_or(usize::MAX))
}
