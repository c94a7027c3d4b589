//! Steps that wait for an approval. Each has a row of its own, so that people find what they have to decide.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::limits::APPROVALS_MAX;
use punctual_core::workflow::{Approval, ApprovalKey, State, StepKey, StepReason, StepRecord, Work};

use super::index;
use crate::Shard;
use crate::event::Context;

impl Shard {
    /// Lets an approval begin, unless too many of them wait in its namespace.
    pub(super) fn start_approval(&mut self, key: StepKey, within: Option<Duration>, cx: &mut Context<'_>) {
        let until = within.map(|within| cx.now + within);
        let mut record = StepRecord { until, ..StepRecord::active(key, cx.now) };
        let Some(approval) = self.approval(&record) else { return };
        let namespace = &approval.key.namespace;
        if cx.pool.approvals(namespace) >= APPROVALS_MAX {
            let reason = StepReason::TooManyApprovals;
            record.end(State::Failed, Some(reason), cx.now);
            record.error = format!("{reason}: {APPROVALS_MAX} approvals wait in `{namespace}`").into();
            self.write_step(record);
            return self.count_end(key, State::Failed, cx);
        }
        cx.pool.approval_began(namespace, self.id);
        self.write_step(record);
        self.step_timers.extend(until.map(|until| (until, key)));
        self.dirty.approvals.push((Arc::clone(&approval.key), Some(approval)));
    }

    /// The row of a step that waits for an approval.
    fn approval(&self, step: &StepRecord) -> Option<Approval> {
        let live = self.runs.get(&step.key.run)?;
        let key = self.approval_key(step.key)?;
        let name = live.workflow()?.step(index(step.key.step))?.name.clone();
        let job = live.run.job_name().cloned();
        Some(Approval { key: Arc::new(key), job, step: name, since: step.decided_at, until: step.until })
    }

    /// `None` means that the step is not an approval.
    fn approval_key(&self, key: StepKey) -> Option<ApprovalKey> {
        let live = self.runs.get(&key.run)?;
        let step = live.workflow()?.step(index(key.step))?;
        let namespace = live.run.namespace.clone();
        matches!(step.work, Work::Approve(_)).then_some(ApprovalKey {
            namespace,
            run: key.run,
            step: key.step,
        })
    }

    /// Deletes the row of an approval that has ended. Any other step has none.
    pub(super) fn forget_approval(&mut self, key: StepKey) {
        self.dirty.approvals.extend(self.approval_key(key).map(|key| (Arc::new(key), None)));
    }

    /// Counts the approvals that wait, after a load.
    pub(crate) fn count_approvals(&self, cx: &mut Context<'_>) {
        let rows = self.flows.values().flat_map(|flow| flow.rows.values());
        let waiting = rows.filter(|row| row.state == State::Active && row.key.item.is_none());
        for key in waiting.filter_map(|row| self.approval_key(row.key)) {
            cx.pool.approval_began(&key.namespace, self.id);
        }
    }
}
