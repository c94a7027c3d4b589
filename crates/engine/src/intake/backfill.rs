//! Makes up for the due times of a job in a span of time that have no run.
//!
//! A backfill is a run that begins in the batch of its command, with the list of its due times. `workflow` makes its child
//! runs page by page, as for a split run.
//!
//! The surprise: a due time has a run also if that run has not been made yet, because another backfill is about to make it,
//! or the schedule is.

use std::collections::BTreeMap;
use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::backfill::Backfill;
use punctual_core::change::DueSpan;
use punctual_core::command::{Answer, BackfillJob, Backfilled, LeftOut};
use punctual_core::ids::{JobId, RunId};
use punctual_core::job::{Invalid, Job};
use punctual_core::run::{Event, Run, Trigger};
use punctual_core::task::Params;
use punctual_core::workflow::{ByHand, StepKey, StepRecord};

use super::Reply;
use super::launch::{check_limit_keys, room_for_one};
use crate::Shard;
use crate::event::Context;
use crate::memory::Stored;

impl Shard {
    pub(super) fn backfill(&mut self, ask: BackfillJob, cx: &mut Context<'_>) -> Reply {
        let id = self.known_job(&ask.namespace, &ask.name)?;
        let job = self.jobs.get(&id).map(|live| Arc::clone(&live.job));
        let job = job.expect("the job at hand is in memory");
        let dues = due_times(&job, &ask, cx.now)?;
        if let Some(first) = dues.first() {
            check_limit_keys(&job.definition, ask.params.as_ref(), *first)?;
        }
        if !ask.dry_run {
            room_for_one(cx)?;
            // What is due now belongs to the schedule.
            self.fire_due(id, cx);
        }
        let (mut dues, left_out) = self.without_runs(id, (ask.from, ask.to), dues);
        let total = u32::try_from(dues.len()).unwrap_or(u32::MAX);
        let (first, last) = (dues.first().copied(), dues.last().copied());
        let mut told = Backfilled { run: None, total, first, last, left_out };
        if !ask.dry_run && total > 0 {
            if ask.newest_first {
                dues.reverse();
            }
            let backfill = Backfill { from: ask.from, to: ask.to, dues: dues.into(), running: ask.running };
            let by_hand = ByHand { by: ask.by, at: cx.now, comment: Box::default() };
            told.run = self.begin_backfill(id, backfill, ask.params, by_hand, cx);
        }
        Ok(Answer::Backfill(Box::new(told)))
    }

    /// The due times without a run, and the others.
    fn without_runs(
        &self,
        job: JobId,
        (from, to): (Timestamp, Timestamp),
        dues: Vec<Timestamp>,
    ) -> (Vec<Timestamp>, Vec<LeftOut>) {
        let runs = self.due_runs(DueSpan { job, from, to });
        let next = self.jobs.get(&job).and_then(|live| live.job.cursor.next_due);
        let (mut kept, mut left_out) = (Vec::with_capacity(dues.len()), Vec::new());
        for due in dues {
            match runs.get(&due) {
                Some(run) => left_out.push(LeftOut { due, run: Some(*run) }),
                None if next.is_some_and(|next| due >= next) => left_out.push(LeftOut { due, run: None }),
                None => kept.push(due),
            }
        }
        (kept, left_out)
    }

    /// The runs of a job by their due times: in memory, among those that have just ended, and in the store. A due time that
    /// a backfill has not started yet has the backfill.
    fn due_runs(&self, span: DueSpan) -> BTreeMap<Timestamp, RunId> {
        let live = self.runs.values().map(|live| &live.run);
        let ended = self.pins.runs.values().map(|pinned| &pinned.row.run);
        let found = live.chain(ended).filter_map(|run| span.due_of(run));
        let found = found.chain(self.fetched.due_runs.iter().copied().filter(|found| found.job == span.job));
        let mut runs: BTreeMap<Timestamp, RunId> = BTreeMap::new();
        for run in self.open_backfills(span.job) {
            let dues = self.backfill_of(run).map_or(&[][..], |backfill| &backfill.dues);
            runs.extend(dues.iter().map(|due| (*due, run)));
        }
        runs.extend(found.map(|found| (found.due, found.run)));
        runs
    }

    /// The backfills of a job that still start child runs.
    fn open_backfills(&self, job: JobId) -> impl Iterator<Item = RunId> {
        let backfills = self.jobs.get(&job).into_iter().flat_map(|live| live.backfills.iter().copied());
        backfills.filter(|run| self.runs.get(run).is_some_and(|live| live.run.cancelling().is_none()))
    }

    /// Makes the run of a backfill. It begins at once: no overlap policy and no limit holds it.
    pub(crate) fn begin_backfill(
        &mut self,
        job: JobId,
        backfill: Backfill,
        params: Option<Params>,
        by_hand: ByHand,
        cx: &mut Context<'_>,
    ) -> Option<Arc<Run>> {
        let run = self.make_run(job, cx.now, Trigger::Backfill, cx)?;
        let made = Arc::make_mut(&mut self.runs.get_mut(&run)?.run);
        made.params = params;
        made.asked_by(by_hand);
        self.transition(run, Event::Due, cx);
        let whole = Arc::new(StepRecord::of_backfill(run, backfill, cx.now));
        if self.begin_steps(run, vec![Arc::clone(&whole)], cx) {
            self.dirty.steps.insert(whole.key, (whole, Stored::No));
        }
        self.runs.get(&run).map(|live| Arc::clone(&live.run))
    }

    /// What a backfill is to do. `None` means that the run is none, or has not begun.
    pub(crate) fn backfill_of(&self, run: RunId) -> Option<&Backfill> {
        self.flows.get(&run)?.whole_of_parts()?.backfill.as_deref()
    }

    /// The due time of an item of a backfill. `None` means that the run is none.
    pub(crate) fn due_of_item(&self, key: StepKey) -> Option<Timestamp> {
        let item = usize::try_from(key.item?).ok()?;
        self.backfill_of(key.run)?.dues.get(item).copied()
    }
}

/// All due times of the span, or why there is no such span.
fn due_times(job: &Job, ask: &BackfillJob, now: Timestamp) -> Result<Vec<Timestamp>, Invalid> {
    let BackfillJob { from, to, .. } = *ask;
    if from >= to {
        return Err(Invalid::new("from", "must be before `to`"));
    }
    if to > now {
        return Err(Invalid::new(
            "to",
            "lies in the future: the schedule starts the runs from now on by itself",
        ));
    }
    if ask.running == Some(0) {
        return Err(Invalid::new("limits.running", "must be at least 1"));
    }
    let dues = job.due_times(from, to)?;
    if dues.is_empty() {
        return Err(Invalid::new("from", format!("the job has no due time from {from} to {to}")));
    }
    Ok(dues)
}
