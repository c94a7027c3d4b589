//! Prunes rows past their retention, in small transactions.
//!
//! Jobs are visited in a circular walk, a few at a time, and the position is kept between calls: a limit reached at one
//! job does not starve the later ones. The result is 0 only after a full walk that found nothing. Deletes do not wait
//! for a disk: rows that come back after a crash are removed again.

use punctual_core::ids::first_id_at;
use tokio_postgres::Row;

use super::doors::rows_max;
use super::link::{Ask, ask};
use super::queries::prune;
use super::{Postgres, rows};
use crate::circle::{self, Circle};
use crate::keep::Kept;
use crate::{PrunePolicy, Result};

/// Rows removed in one transaction.
const BITE_MAX: usize = 500;
/// Jobs, or runs with output, that one statement examines.
const VISITS_MAX: usize = 256;
const DAY_MILLIS: i64 = 24 * 3600 * 1000;

/// The positions of the circular walks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Places {
    history: i64,
    revisions: i64,
    logs: i64,
}

impl Default for Places {
    fn default() -> Self {
        Places { history: circle::START, revisions: circle::START, logs: circle::START }
    }
}

impl Postgres {
    pub(super) async fn prune_all(&self, policy: &PrunePolicy, limit: usize) -> Result<usize> {
        let mut gone = self.prune_at_hand(policy, limit).await?;
        gone += self.prune_history(policy, limit - gone).await?;
        gone += self.prune_revisions(limit - gone).await?;
        gone += self.prune_logs(limit - gone).await?;
        Ok(gone)
    }

    /// Prunes old rows that an index finds directly, without a walk.
    async fn prune_at_hand(&self, policy: &PrunePolicy, limit: usize) -> Result<usize> {
        let mut gone = 0;
        while gone < limit {
            let mut bite = BITE_MAX.min(limit - gone);
            let before = gone;
            let since = policy.now.before(policy.ad_hoc_kept).as_millis();
            let old = self.find(ask!(prune::OLD_AD_HOC, since, rows_max(bite))).await?;
            let removed = self.remove_history(&old).await?;
            (gone, bite) = (gone + removed, bite - removed);
            let removed = self.remove(ask!(prune::UNIQUES, policy.now.as_millis(), rows_max(bite))).await?;
            (gone, bite) = (gone + removed, bite - removed);
            gone += self.remove(old_skips(policy, bite)).await?;
            if gone == before {
                break;
            }
        }
        Ok(gone)
    }

    async fn prune_history(&self, policy: &PrunePolicy, limit: usize) -> Result<usize> {
        let mut circle = Circle::from(self.pruned.lock().history);
        let mut gone = 0;
        while gone < limit {
            let bite = BITE_MAX.min(limit - gone);
            let jobs = self.find(ask!(prune::NEXT_JOBS, circle.at(), rows_max(VISITS_MAX))).await?;
            let old = self.find(old_of_jobs(&jobs, policy, bite)?).await?;
            let removed = self.remove_history(&old).await?;
            gone += removed;
            if old.len() == bite && removed > 0 {
                // These jobs may have more.
                continue;
            }
            let goes_on = circle.go_on(next(&jobs)?);
            self.pruned.lock().history = circle.at();
            if !goes_on {
                break;
            }
        }
        Ok(gone)
    }

    /// Prunes revisions of deleted jobs that no run needs.
    async fn prune_revisions(&self, limit: usize) -> Result<usize> {
        let mut circle = Circle::from(self.pruned.lock().revisions);
        let mut gone = 0;
        while gone < limit {
            let bite = BITE_MAX.min(limit - gone);
            let jobs = self.find(ask!(prune::DELETED_JOBS, circle.at(), rows_max(VISITS_MAX))).await?;
            let doomed = keys_of_true(&jobs)?;
            if !doomed.is_empty() {
                let removed = self.remove(ask!(prune::REVISIONS, doomed.clone(), rows_max(bite))).await?;
                gone += removed;
                if removed == bite {
                    // These jobs may have more.
                    continue;
                }
                self.remove(ask!(prune::FORGET_JOBS, doomed)).await?;
            }
            let goes_on = circle.go_on(next(&jobs)?);
            self.pruned.lock().revisions = circle.at();
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
            let bite = BITE_MAX.min(limit - gone);
            let runs = self.find(ask!(prune::LOGGED_RUNS, circle.at(), rows_max(VISITS_MAX))).await?;
            let doomed = keys_of_true(&runs)?;
            if !doomed.is_empty() {
                let removed = self.remove(ask!(prune::CHUNKS, doomed, rows_max(bite))).await?;
                gone += removed;
                if removed == bite {
                    // These runs may have more output.
                    continue;
                }
            }
            let goes_on = circle.go_on(next(&runs)?);
            self.pruned.lock().logs = circle.at();
            if !goes_on {
                break;
            }
        }
        Ok(gone)
    }

    async fn find(&self, ask: Ask) -> Result<Vec<Row>> {
        self.doors.take().await?.read(ask).await
    }

    async fn remove(&self, ask: Ask) -> Result<usize> {
        let answers = self.log.take().await?.write(vec![ask]).await?;
        Ok(answers.iter().map(|answer| usize::try_from(answer.hits).unwrap_or(usize::MAX)).sum())
    }

    async fn remove_history(&self, old: &[Row]) -> Result<usize> {
        if old.is_empty() {
            return Ok(0);
        }
        let ids = old.iter().map(|row| rows::get(row, 0)).collect::<Result<Vec<i64>>>()?;
        let answers = self.log.take().await?.write(vec![ask!(prune::HISTORY, ids)]).await?;
        let counted = answers.first().and_then(|answer| answer.rows.first());
        counted.map_or(Ok(0), |row| rows::number(row, 0))
    }
}

fn old_of_jobs(jobs: &[Row], policy: &PrunePolicy, limit: usize) -> Result<Ask> {
    let (mut ids, mut runs, mut since, mut newest) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for row in jobs {
        let keep = match rows::get::<Option<i64>>(row, 1)? {
            Some(_) => Some((rows::number(row, 1)?, rows::number(row, 2)?)),
            None => None,
        };
        let kept = Kept::of(keep, policy);
        ids.push(rows::get::<i64>(row, 0)?);
        runs.push(i64::from(kept.runs));
        since.push(kept.since.as_millis());
        newest.push(first_id_at(kept.since));
    }
    Ok(ask!(prune::OLD_OF_JOBS, ids, runs, since, newest, rows_max(limit)))
}

fn old_skips(policy: &PrunePolicy, limit: usize) -> Ask {
    let ad_hoc = i64::try_from(policy.ad_hoc_kept.as_millis()).unwrap_or(i64::MAX);
    // Every record is kept for at least a day or `ad_hoc_kept`, whichever is shorter.
    let newest = policy.now.as_millis().saturating_sub(ad_hoc.min(DAY_MILLIS));
    ask!(prune::SKIPS, policy.now.as_millis(), ad_hoc, newest, rows_max(limit))
}

/// The key after which the walk continues. `None` means these were the last.
fn next(visited: &[Row]) -> Result<Option<i64>> {
    let last = visited.last().filter(|_| visited.len() == VISITS_MAX);
    last.map(|row| rows::get(row, 0)).transpose()
}

fn keys_of_true(visited: &[Row]) -> Result<Vec<i64>> {
    let mut keys = Vec::new();
    for row in visited {
        if rows::get(row, 1)? {
            keys.push(rows::get(row, 0)?);
        }
    }
    Ok(keys)
}
