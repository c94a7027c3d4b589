//! Bounded lateness: once all faults have healed, every due time gets its run soon.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::run::{Run, Trigger};

use super::jobs::Jobs;
use super::{Seen, Verdict};

/// Maximum time in a healthy cluster from a due time to the commit of its run.
const EPSILON: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Late {
    /// Since when lateness is checked. `None` means it is not checked yet.
    healed: Option<Timestamp>,
    worst: Duration,
}

impl Late {
    pub(crate) fn healed(&mut self, from: Timestamp) {
        self.healed = Some(from);
    }

    /// The largest delay of a fire since the last call.
    pub(crate) fn take_worst(&mut self) -> Duration {
        std::mem::take(&mut self.worst)
    }

    pub(super) fn landed(
        &mut self,
        born: &[Arc<Run>],
        jobs: &Jobs,
        now: Timestamp,
        seen: &mut Seen,
    ) -> Verdict {
        for run in born.iter().filter(|run| matches!(run.trigger, Trigger::Schedule | Trigger::Misfire)) {
            let schedules = jobs.definition_of(run).map(|definition| &definition.schedules);
            let jitter = schedules.into_iter().flatten().map(|schedule| schedule.jitter).max();
            let late = now.since(run.due + jitter.unwrap_or_default());
            self.worst = self.worst.max(late);
            if self.healed.is_none_or(|healed| run.due < healed) {
                continue;
            }
            seen.timely += 1;
            if late > EPSILON {
                return Err(format!(
                    "bounded lateness: run {} was due at {} and made at {now}, although all faults had healed",
                    run.id, run.due
                ));
            }
        }
        Ok(())
    }
}
