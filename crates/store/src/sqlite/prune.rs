//! Prunes rows past their retention: a reader finds them, the writer removes them in small transactions.
//!
//! Jobs are visited in a circular walk, a few at a time, and the position is kept between calls: a limit reached at one
//! job does not starve the later ones. The result is 0 only after a full walk that found nothing.

use punctual_core::Timestamp;
use punctual_core::ids::RunId;

use super::Sqlite;
use super::old::{Doomed, Found, VISITS_MAX};
use super::reader::Reader;
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
        Places { history: circle::START, revisions: circle::START, logs: circle::START }
    }
}

impl Sqlite {
    pub(super) async fn prune_all(&self, policy: &PrunePolicy, limit: usize) -> Result<usize> {
        let mut gone = self.prune_at_hand(policy, limit).await?;
        gone += self.prune_history(policy, limit - gone).await?;
        gone += self.prune_revisions(policy, limit - gone).await?;
        gone += self.prune_logs(limit - gone).await?;
        Ok(gone)
    }

    async fn prune_at_hand(&self, policy: &PrunePolicy, limit: usize) -> Result<usize> {
        let mut gone = 0;
        while gone < limit {
            let (policy, bite) = (policy.clone(), BITE_MAX.min(limit - gone));
            let now = policy.now;
            let find = move |reader: &mut Reader| reader.read(|snapshot| snapshot.old_at_hand(&policy, bite));
            let removed = self.remove(self.doors.ask(find).await?, now).await?;
            gone += removed;
            if removed == 0 {
                break;
            }
        }
        Ok(gone)
    }

    async fn prune_history(&self, policy: &PrunePolicy, limit: usize) -> Result<usize> {
        let mut circle = Circle::from(self.pruned.lock().history);
        let mut gone = 0;
        while gone < limit {
            let (at, bite, policy) = (circle.at(), BITE_MAX.min(limit - gone), policy.clone());
            let now = policy.now;
            let find =
                move |reader: &mut Reader| reader.read(|snapshot| snapshot.old_history(at, &policy, bite));
            let Found { doomed, next } = self.doors.ask(find).await?;
            gone += self.remove(doomed, now).await?;
            let goes_on = circle.go_on(next);
            self.pruned.lock().history = circle.at();
            if !goes_on {
                break;
            }
        }
        Ok(gone)
    }

    async fn prune_revisions(&self, policy: &PrunePolicy, limit: usize) -> Result<usize> {
        let mut circle = Circle::from(self.pruned.lock().revisions);
        let mut gone = 0;
        while gone < limit {
            let (at, bite) = (circle.at(), BITE_MAX.min(limit - gone));
            let find = move |reader: &mut Reader| reader.read(|snapshot| snapshot.old_revisions(at, bite));
            let Found { doomed, next } = self.doors.ask(find).await?;
            gone += self.remove(doomed, policy.now).await?;
            let goes_on = circle.go_on(next);
            self.pruned.lock().revisions = circle.at();
            if !goes_on {
                break;
            }
        }
        Ok(gone)
    }

    /// Prunes output whose run is gone. Output is in another file, so the run of each has to be looked up.
    async fn prune_logs(&self, limit: usize) -> Result<usize> {
        let mut circle = Circle::from(self.pruned.lock().logs);
        let mut gone = 0;
        while gone < limit {
            let (at, bite) = (circle.at(), BITE_MAX.min(limit - gone));
            let find = move |reader: &mut Reader| {
                reader.read(|snapshot| snapshot.logged_runs(RunId(at), VISITS_MAX))
            };
            let logged = self.log_reader.ask(find).await?;
            let next = logged.last().map(|run| run.0).filter(|_| logged.len() == VISITS_MAX);
            let without_run =
                move |reader: &mut Reader| reader.read(|snapshot| snapshot.without_run(&logged));
            let doomed = self.doors.ask(without_run).await?;
            if !doomed.is_empty() {
                let removed = self.log_writer.ask(move |writer| writer.remove(&doomed, bite)).await?;
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

    async fn remove(&self, doomed: Doomed, now: Timestamp) -> Result<usize> {
        if doomed.is_empty() {
            return Ok(0);
        }
        self.writer.ask(move |writer| writer.remove(&doomed, now)).await
    }
}
