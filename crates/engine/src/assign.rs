//! Gives ready runs to workers.
//!
//! The pool chooses the run and the worker; here the run gets its token. A run created while a slot is free is
//! assigned in the same batch: its row is written once, as running.
//!
//! overlap ──ready──▶ assign ──assignment──▶ worker

use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::attempt::{Assignment, Order};
use punctual_core::hash;
use punctual_core::ids::{RunId, Token, WorkerId};
use punctual_core::job::Strategy;
use punctual_core::limits::GRACE;
use punctual_core::planted::{Fault, is_planted};
use punctual_core::run::{Assignee, Cause, Event, Lack, Origin, Reason, State, Wait};
use punctual_core::task::Params;
use punctual_core::time::Elapsed;

use crate::Shard;
use crate::deadline::Deadline;
use crate::event::Context;
use crate::memory::LiveRun;
use crate::pool::{Match, ReadyRun, Wish};

/// The wish of a run's route. `None` means that the least loaded worker that fits takes the run.
fn wish_of(live: &LiveRun, params: impl FnOnce() -> Params) -> Option<Wish> {
    let (run, route) = (&live.run, &live.definition.route);
    if let Some(origin) = live.definition.polled_origin() {
        let key = hash::stable(&[origin.as_bytes()]);
        return Some(Wish::new(Strategy::ConsistentHash, run.job(), key, Vec::new()));
    }
    let is_plain = matches!(route.strategy, Strategy::LeastLoaded | Strategy::Broadcast);
    // The children of a broadcast are pinned to one worker each, so they are not spread.
    let is_free = run.pinned_to().is_none();
    let parent = run.split_parent().filter(|_| is_free);
    let (left, to) = (run.left().filter(|_| is_free), run.move_to.clone().filter(|_| is_free));
    if is_plain && parent.is_none() && left.is_none() && to.is_none() {
        return None;
    }
    let key = if route.strategy.goes_by_key() { key_of(live, &params()) } else { 0 };
    let before = run.earlier.iter().map(|earlier| &earlier.assignee).chain(&run.assignee);
    let avoid =
        if route.strategy == Strategy::Failover { before.map(Assignee::name).collect() } else { Vec::new() };
    let mut wish = Wish::new(route.strategy, run.job(), key, avoid);
    (wish.parent, wish.left, wish.to) = (parent, left, to);
    Some(wish)
}

/// The hash that a keyed route uses: of the run's route key, else of its job, else of its own id.
fn key_of(live: &LiveRun, params: &Params) -> u64 {
    let run = &live.run;
    match (live.definition.route.key_for(params, run.due), run.job()) {
        (Some(key), _) => hash::stable(&[run.namespace.as_str().as_bytes(), key.as_bytes()]),
        (None, Some(job)) => hash::mix(job.0.unsigned_abs()),
        (None, None) => hash::mix(run.id.0.unsigned_abs()),
    }
}

/// Whether an assignment uses a credit up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offer {
    New,
    /// The worker may have received it before this shard was loaded.
    Again,
}

impl Shard {
    /// Puts a ready run into the queue of waiting runs and records why, if no worker fits it. A delivery needs no
    /// worker and is sent at once; a workflow needs none either. Under a hold, all of them wait for its end.
    pub(crate) fn enqueue(&mut self, run: RunId, since: Timestamp, cx: &mut Context<'_>) {
        if self.is_on_hold(run) {
            return self.holds.park(run);
        }
        if let Some(to) = self.runs.get(&run).and_then(LiveRun::destination) {
            return self.send_off(run, &to, cx);
        }
        let needs_worker = |live: &&LiveRun| live.definition.workflow().is_none() && !live.run.is_backfill();
        let Some(live) = self.runs.get(&run).filter(needs_worker) else { return };
        let wish = wish_of(live, || self.params_of(live));
        let (share_key, weight) = self.share_of(live).unzip();
        let Some(live) = self.runs.get_mut(&run) else { return };
        live.share_key = share_key;
        let ready_run = ReadyRun { weight: weight.unwrap_or(1), ..live.ready_run(since, wish) };
        let lack = cx.pool.enqueue(ready_run);
        let fits = lack.is_none();
        if let Some(lack) = lack {
            Arc::make_mut(&mut live.run).reason = Some(Reason::NoWorkerFits(lack));
        }
        self.note_presence(run, fits, cx);
    }

    /// Workers came or left: `lack` says why no worker fits a waiting run; `None` means that one fits.
    pub(crate) fn note_fit(&mut self, run: RunId, lack: Option<Lack>, cx: &mut Context<'_>) {
        let Some(live) = self.runs.get_mut(&run) else { return };
        let (fits, said_so) = (lack.is_none(), matches!(live.run.reason, Some(Reason::NoWorkerFits(_))));
        if !matches!(live.run.state, State::Ready { .. }) || (fits && !said_so) {
            return;
        }
        Arc::make_mut(&mut live.run).reason = lack.map(Reason::NoWorkerFits);
        self.note_lazily(run, cx.elapsed);
        if said_so == fits {
            self.note_presence(run, fits, cx);
        }
        if fits {
            self.split_soon(run, cx);
        }
    }

    pub(crate) fn assign(&mut self, given: Match, cx: &mut Context<'_>) {
        let Match { run, worker, passed_over } = given;
        if self.runs.get(&run).is_some_and(|live| live.workflow().is_some()) {
            return self.split_soon(run, cx);
        }
        if passed_over {
            self.transition(run, Event::PassedOver, cx);
        }
        let Some(live) = self.runs.get(&run) else { return };
        let token = live.run.token.next(self.epoch);
        if self.transition(run, Event::Assigned { worker: worker.clone(), token }, cx) {
            self.send(run, worker, token, Offer::New, cx);
        }
    }

    /// Whether this token is the run's newest and its attempt is running.
    pub fn runs_under(&self, run: RunId, token: Token) -> bool {
        let state = self.runs.get(&run).map(|live| &live.run.state);
        matches!(state, Some(State::Running { token: newest, .. }) if *newest == token)
    }

    /// When a former leader of the shard gave this attempt to this worker. `None` means that it did not, or that the
    /// attempt is over.
    pub fn given_by_former_leader(&self, (run, token): (RunId, Token), to: &WorkerId) -> Option<Timestamp> {
        let state = &self.runs.get(&run)?.run.state;
        let State::Running { assignee, token: newest, since, .. } = state else { return None };
        let is_it = assignee.worker() == Some(to) && *newest == token && token.epoch() < self.epoch;
        is_it.then_some(*since)
    }

    /// Offers a running attempt of a former leader to its worker again, which may never have received it, or reports to
    /// the former leader. A worker that gets it twice starts it once.
    pub(crate) fn offer_again(&mut self, run: RunId, cx: &mut Context<'_>) {
        let Some(live) = self.runs.get(&run) else { return };
        let State::Running { assignee, token, .. } = live.run.state.clone() else { return };
        let Assignee::Worker(worker) = assignee else {
            return self.deliver_again(&assignee, run, token, cx);
        };
        if !cx.pool.roster().is_present(&worker) {
            return;
        }
        cx.pool.offer_again(&worker, run, token);
        self.send(run, worker, token, Offer::Again, cx);
    }

    fn send(&self, run: RunId, worker: WorkerId, token: Token, offer: Offer, cx: &mut Context<'_>) {
        if let Some(assignment) = self.assignment(run, token, offer) {
            cx.order(worker.clone(), Order::Assign(assignment));
        }
        // The worker may not know yet that the attempt is to be stopped.
        if let Some(cause) = self.runs.get(&run).and_then(|live| live.run.cancelling()) {
            cx.order(worker, Order::Cancel { run, token, cause });
        }
    }

    pub(crate) fn assignment(&self, run: RunId, token: Token, offer: Offer) -> Option<Assignment> {
        let live = self.runs.get(&run)?;
        let (job, revision) = match &live.run.origin {
            Origin::Job { name, revision, .. } => (Some(name.clone()), Some(*revision)),
            Origin::AdHoc(_) => (None, None),
        };
        Some(Assignment {
            run,
            token,
            attempt: live.run.attempt,
            namespace: live.run.namespace.clone(),
            job,
            revision,
            trigger: live.run.trigger,
            key: live.run.key.clone(),
            due: live.run.due,
            late_from: self.whole_of(live).run.late_from(),
            definition: Arc::clone(&live.definition),
            params: self.params_of(live),
            checkpoint: live.run.checkpoint().map(|checkpoint| Arc::clone(&checkpoint.value)),
            // The node adds it: shards hold no secrets.
            attempt_key: None,
            part: live.run.part(),
            step: self.step_values(live),
            lease: self.settings.attempt_lease,
            grace: live.definition.grace,
            again: offer == Offer::Again,
        })
    }

    /// Stops a run: at once if no attempt is running, else its worker is told and the run ends with the attempt.
    pub(crate) fn stop(&mut self, run: RunId, cause: Cause, cx: &mut Context<'_>) {
        let Some(live) = self.runs.get(&run) else { return };
        let attempt = match &live.run.state {
            State::Running { assignee, token, .. } => Some((assignee.clone(), *token)),
            _ => None,
        };
        if self.transition(run, Event::CancelAsked(cause), cx) {
            match attempt {
                Some((Assignee::Worker(worker), token)) => self.order_stop(worker, (run, token), cause, cx),
                Some((elsewhere, token)) => self.take_back(&elsewhere, run, token, cx),
                None => self.place_cancelled(run, cx),
            }
        }
        self.stop_steps(run, cause, cx);
    }

    /// Places a cancelled run that needs one more attempt to cancel its work: it does not wait for the delay of its retry,
    /// and nothing releases it if its job is gone.
    fn place_cancelled(&mut self, run: RunId, cx: &mut Context<'_>) {
        let Some(live) = self.runs.get(&run).filter(|live| live.run.cancelling().is_some()) else { return };
        let is_waiting = match live.run.state {
            State::Waiting { wait: Wait::Backoff(_) } => true,
            State::Waiting { .. } => live.run.job().is_some_and(|job| !self.jobs.contains_key(&job)),
            _ => false,
        };
        if is_waiting {
            self.place(run, cx);
        }
    }

    /// Stops the running attempt so that the run goes to another worker, or to the named one. Does nothing if the run
    /// cannot be moved.
    pub(crate) fn move_away(&mut self, run: RunId, to: Option<Arc<str>>, cx: &mut Context<'_>) {
        let Some(live) = self.runs.get(&run) else { return };
        let State::Running { assignee: Assignee::Worker(worker), token, .. } = live.run.state.clone() else {
            return;
        };
        if live.run.pinned_to().is_none() && self.transition(run, Event::MoveAsked { to }, cx) {
            self.order_stop(worker, (run, token), Cause::Moved, cx);
            if is_planted(Fault::MoveDoesNotWait) {
                self.transition(run, Event::Lost { token }, cx);
            }
        }
    }

    fn order_stop(
        &mut self,
        worker: WorkerId,
        (run, token): (RunId, Token),
        cause: Cause,
        cx: &mut Context<'_>,
    ) {
        cx.order(worker, Order::Cancel { run, token, cause });
        self.expect_stop(run, token, cause, cx.elapsed);
    }

    /// A worker has the grace period and a lease to stop an attempt.
    pub(crate) fn expect_stop(&mut self, run: RunId, token: Token, cause: Cause, now: Elapsed) {
        let Some(live) = self.runs.get(&run) else { return };
        let grace = if cause == Cause::UserNow { None } else { live.definition.grace.or(Some(GRACE)) };
        let until = now + grace.unwrap_or_default() + self.settings.attempt_lease;
        self.deadlines.insert(until, Deadline::Overdue(run, token));
    }

    /// Ends a run whose worker does not stop its attempt. The worker gets no more work until it says that the attempt
    /// has ended.
    pub(crate) fn give_up_overdue(&mut self, run: RunId, token: Token, cx: &mut Context<'_>) {
        if self.losses.get(&run) == Some(&token) {
            return; // It was lost meanwhile, and its `overlap_grace` ends it.
        }
        let state = self.runs.get(&run).map(|live| live.run.state.clone());
        if let Some(State::Running { assignee: Assignee::Worker(worker), .. }) = state
            && self.transition(run, Event::NotStopped { token }, cx)
        {
            cx.pool.distrust(&worker, run, token);
        }
    }
}
