//! Takes the reports of workers about their attempts.
//!
//! A report is untrusted input: only the newest token is accepted, sizes are cut, times are clamped. A start or a
//! progress is written with the next batch; only an outcome causes a commit of its own.

use std::borrow::Cow;
use std::sync::Arc;

use punctual_core::attempt::{End, Order, Outcome, Report};
use punctual_core::cut::keep_end;
use punctual_core::ids::{RunId, Token, WorkerId};
use punctual_core::limits::{ERROR_BYTES_MAX, OUTPUT_BYTES_MAX};
use punctual_core::planted::{Fault, is_planted};
use punctual_core::progress::Progress;
use punctual_core::run::{Cause, Event, Run, State};

use crate::Shard;
use crate::deadline::{Deadline, LAZY_MAX};
use crate::event::{Context, Effect};

impl Shard {
    pub(crate) fn report(&mut self, worker: &WorkerId, report: Report, cx: &mut Context<'_>) {
        if self.is_of_another(worker, &report) {
            cx.pool.counts_mut().stale_reports += 1;
            match report {
                // Acknowledged, so that the worker stops sending it.
                Report::Finished { run, token, .. } => {
                    cx.order(worker.clone(), Order::Acknowledge { run, token });
                }
                Report::Progress { .. } => cx.pool.counts_mut().progress.outdated += 1,
                _ => {}
            }
            return;
        }
        match report {
            Report::Started { run, token, at } => {
                let now = cx.now;
                self.note(run, token, cx, |run| {
                    let State::Running { since, .. } = &run.state else { return };
                    run.started_at = Some(at.clamp((*since).min(now), now));
                });
            }
            Report::Progress { run, token, progress } => {
                let is_outdated = !self.runs_under(run, token);
                if is_outdated || !self.is_possible(run, &progress) {
                    let counts = cx.pool.counts_mut();
                    counts.stale_reports += 1;
                    counts.progress.outdated += u64::from(is_outdated);
                    counts.progress.invalid += u64::from(!is_outdated);
                    return;
                }
                let saved = progress.seq.filter(|_| progress.checkpoint.is_some());
                let once_stored = saved.map(|seq| {
                    let order = Order::Saved { run, token, seq };
                    Effect::Order { worker: worker.clone(), order }
                });
                let is_taken = self.take_progress(run, progress, |_| once_stored, cx);
                let counts = &mut cx.pool.counts_mut().progress;
                counts.accepted += u64::from(is_taken);
                counts.late += u64::from(!is_taken);
            }
            Report::Finished { run, token, outcome } => {
                cx.pool.attempt_ended(worker, run, token);
                let is_lost = self.forget_loss(run, token) && outcome.end != End::Succeeded;
                let event = if is_lost {
                    Event::Lost { token }
                } else {
                    Event::Reported { token, outcome: cut(outcome) }
                };
                if !self.transition(run, event, cx) {
                    cx.pool.counts_mut().stale_reports += 1;
                }
                cx.order(worker.clone(), Order::Acknowledge { run, token });
            }
            Report::Declined { run, token } => {
                if !self.transition(run, Event::Declined { token }, cx) {
                    cx.pool.counts_mut().stale_reports += 1;
                }
            }
            // The roster handles these: they concern the worker, not a shard.
            Report::Alive { .. }
            | Report::Lent { .. }
            | Report::Recall { .. }
            | Report::Load { .. }
            | Report::Draining { .. } => {}
        }
    }

    /// Whether the report names a run that another worker has.
    fn is_of_another(&self, worker: &WorkerId, report: &Report) -> bool {
        let live = report.run().and_then(|run| self.runs.get(&run));
        live.is_some_and(|live| {
            live.run.assignee.as_ref().is_some_and(|theirs| theirs.worker() != Some(worker))
        })
    }

    /// The worker of an attempt is considered dead. With an `overlap_grace` the attempt counts as running until that is
    /// over, or until its worker says that it has ended.
    pub(crate) fn lost(&mut self, run: RunId, token: Token, cx: &mut Context<'_>) {
        let grace = self.runs.get(&run).and_then(|live| live.definition.overlap_grace);
        let Some(grace) = grace else { return self.give_up(run, token, cx) };
        if self.runs_under(run, token) && self.losses.insert(run, token) != Some(token) {
            self.deadlines.insert(cx.elapsed + grace, Deadline::Lost(run, token));
            self.order_outdated(run, token, cx);
        }
    }

    /// Removes an attempt from the lost ones that still count as running. Returns whether it was one of them.
    pub(crate) fn forget_loss(&mut self, run: RunId, token: Token) -> bool {
        let is_lost = self.losses.get(&run) == Some(&token);
        if is_lost {
            self.losses.remove(&run);
        }
        is_lost
    }

    /// The run of a lost attempt goes on without it.
    pub(crate) fn give_up(&mut self, run: RunId, token: Token, cx: &mut Context<'_>) {
        self.order_outdated(run, token, cx);
        self.transition(run, Event::Lost { token }, cx);
    }

    /// Tells the worker of a lost attempt to stop it, if the worker is connected.
    fn order_outdated(&self, run: RunId, token: Token, cx: &mut Context<'_>) {
        let Some(live) = self.runs.get(&run).filter(|_| self.runs_under(run, token)) else { return };
        let worker = live.run.assignee.as_ref().and_then(|assignee| assignee.worker().cloned());
        if let Some(worker) = worker.filter(|worker| cx.pool.roster().is_present(worker)) {
            cx.order(worker, Order::Cancel { run, token, cause: Cause::Outdated });
        }
    }

    /// Keeps what the running attempt reports, and returns whether it was in time. It is written with the next batch, at
    /// the latest after [`LAZY_MAX`]. The effect of `once_stored`, which is told whether the report was in time, is
    /// released with that batch; to have it soon, a run causes a batch of its own, but not more often than every
    /// [`LAZY_MAX`].
    pub(crate) fn take_progress(
        &mut self,
        run: RunId,
        progress: Progress,
        once_stored: impl FnOnce(bool) -> Option<Effect>,
        cx: &mut Context<'_>,
    ) -> bool {
        let rebalance = progress.rebalance;
        let params = self.runs.get(&run).map(|live| self.params_of(live));
        let merged = params.zip(progress.params.as_ref()).and_then(|(own, patch)| own.merged(patch).ok());
        let Some(live) = self.runs.get_mut(&run) else { return false };
        let noted = Arc::make_mut(&mut live.run);
        let is_taken = noted.report(progress, cx.now);
        let once_stored = once_stored(is_taken);
        if is_taken && merged.is_some() {
            noted.params = merged;
        }
        let is_urgent =
            once_stored.is_some() && live.saved_at.is_none_or(|before| cx.elapsed.since(before) >= LAZY_MAX);
        if is_urgent {
            live.saved_at = Some(cx.elapsed);
        }
        self.note_lazily(run, cx.elapsed);
        if is_planted(Fault::CheckpointIsConfirmedEarly) {
            cx.effects.extend(once_stored.map(|effect| (cx.shard, effect)));
            return is_taken;
        }
        self.dirty.once_stored.extend(once_stored);
        if is_urgent {
            self.lazy_is_due();
        }
        if rebalance && is_taken {
            self.move_away(run, None, cx);
        }
        is_taken
    }

    /// Whether a worker may report this: it is untrusted input.
    fn is_possible(&self, run: RunId, progress: &Progress) -> bool {
        let Some(live) = self.runs.get(&run) else { return false };
        let fits = || progress.params.as_ref().is_none_or(|patch| self.params_of(live).merged(patch).is_ok());
        progress.check().is_ok() && fits()
    }

    pub(crate) fn note(
        &mut self,
        run: RunId,
        token: Token,
        cx: &mut Context<'_>,
        note: impl FnOnce(&mut Run),
    ) {
        match self.runs.get_mut(&run) {
            Some(live) if matches!(live.run.state, State::Running { token: newest, .. } if newest == token) =>
            {
                note(Arc::make_mut(&mut live.run));
                self.note_lazily(run, cx.elapsed);
            }
            _ => cx.pool.counts_mut().stale_reports += 1,
        }
    }
}

/// Cuts output and error that are too long, keeping their end.
pub(crate) fn cut(mut outcome: Outcome) -> Outcome {
    if let Cow::Owned(end) = keep_end(&outcome.output, OUTPUT_BYTES_MAX) {
        outcome.output = end.into();
    }
    if let Cow::Owned(end) = keep_end(&outcome.error, ERROR_BYTES_MAX) {
        outcome.error = end.into();
    }
    outcome
}
