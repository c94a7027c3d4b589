//! Holds: nothing in a namespace, or anywhere, starts.
//!
//! A run that would become ready waits instead (`overlap`), a ready run stays out of the queues of the pool (`assign`), a
//! workflow starts no step, and a queue hands no message to a job. A job that is due does not fire: its timer goes and its
//! row stays as it is, so a hold writes nothing for the jobs that it covers. When it ends, the timers are read again from
//! their beginning, and each job records the due times that it had.
//!
//! The surprise: the row of a hold stays after its end, until every job that was due has recorded that.
//!
//! command ──hold──▶ waiting runs ──release──▶ overlap

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::iter;
use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::backfill::Backfill;
use punctual_core::change::SkipReason;
use punctual_core::command::Answer;
use punctual_core::hold::{Fires, Hold, HoldRecord, Scope};
use punctual_core::ids::{JobId, RunId};
use punctual_core::job::{Invalid, Job};
use punctual_core::limits::{BACKFILL_MAX, HOLDS_MAX};
use punctual_core::name::Namespace;
use punctual_core::planted::{Fault, is_planted};
use punctual_core::run::{Event, Reason, State, Wait};
use punctual_core::workflow::ByHand;

use crate::Shard;
use crate::deadline::Deadline;
use crate::event::Context;
use crate::family::NEXT_BATCH;
use crate::fire::previous_before;
use crate::intake::Reply;
use crate::memory::LiveRun;
use crate::plan::TimerOwner;

/// An order that is older than this comes too late. Rows stay longer than this after their end, so an order that was
/// delayed on its way does not begin a hold that was released meanwhile.
const LATE: Duration = Duration::from_secs(60);
/// Jobs that were due under a hold and stay in memory until the next batch. With more of them, a batch is made for that.
const DUE_JOBS_MAX: usize = 1024;

/// The holds of a shard.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    rows: BTreeMap<i64, Arc<HoldRecord>>,
    /// Rows that the next batch writes. `None` means that the row is deleted.
    unwritten: Vec<(i64, Option<Arc<HoldRecord>>)>,
    /// Ready runs that are not in the queues of the pool.
    parked: BTreeSet<RunId>,
    /// Runs that no hold covers any more, and that are started over several batches.
    freed: VecDeque<RunId>,
    /// Whether there is a deadline to start the next of them.
    is_start_armed: bool,
    /// Jobs that were due under a hold since the last batch.
    due_jobs: usize,
    /// Whether there is a deadline to forget the rows of holds that have ended.
    is_end_armed: bool,
}

impl Holds {
    pub(crate) fn load(&mut self, rows: Vec<Arc<HoldRecord>>) {
        if !is_planted(Fault::HoldIsNotLoaded) {
            self.rows = rows.into_iter().map(|row| (row.number, row)).collect();
        }
    }

    /// Whether nothing in a namespace may start.
    pub(crate) fn covers(&self, namespace: &Namespace) -> bool {
        self.in_force().any(|row| row.hold.scope.covers(namespace))
    }

    fn in_force(&self) -> impl Iterator<Item = &Arc<HoldRecord>> {
        self.rows.values().filter(|row| row.is_in_force())
    }

    /// The hold that decides about a job of this namespace that was to fire at `wake`: one that is in force, else one that
    /// ended later than that. Of several, one that keeps the fires.
    pub(crate) fn over(&self, namespace: &Namespace, wake: Timestamp) -> Option<Arc<HoldRecord>> {
        let all = self.all_over(namespace, wake);
        all.max_by_key(|row| (row.is_in_force(), row.hold.fires, row.released_at)).cloned()
    }

    /// The same for a due time that is recorded now, although a hold may be in force, and until when that hold decides.
    pub(crate) fn over_until(
        &self,
        namespace: &Namespace,
        wake: Timestamp,
        now: Timestamp,
    ) -> Option<(Arc<HoldRecord>, Timestamp)> {
        let all = self.all_over(namespace, wake).map(|row| (row, row.released_at.unwrap_or(now)));
        let (row, end) = all.max_by_key(|(row, end)| (row.hold.fires, *end))?;
        Some((Arc::clone(row), end))
    }

    fn all_over(&self, namespace: &Namespace, wake: Timestamp) -> impl Iterator<Item = &Arc<HoldRecord>> {
        let is_over = move |row: &&Arc<HoldRecord>| row.released_at.is_none_or(|end| wake <= end);
        self.rows.values().filter(is_over).filter(|row| row.hold.scope.covers(namespace))
    }

    /// When the next hold ends by itself.
    pub(crate) fn next_end(&self) -> Option<Timestamp> {
        self.in_force().filter_map(|row| row.hold.pause.until).min()
    }

    /// A hold that has ended by itself, and when.
    fn due(&self, now: Timestamp) -> Option<(Arc<HoldRecord>, Timestamp)> {
        let end_of = |row: &Arc<HoldRecord>| row.hold.pause.until.filter(|until| *until <= now);
        self.in_force().find_map(|row| Some((Arc::clone(row), end_of(row)?)))
    }

    fn add(&mut self, row: HoldRecord) {
        let row = Arc::new(row);
        self.unwritten.push((row.number, Some(Arc::clone(&row))));
        self.rows.insert(row.number, row);
    }

    fn remove(&mut self, number: i64) {
        self.rows.remove(&number);
        self.unwritten.push((number, None));
    }

    /// The rows to write. `None` means that the row is deleted.
    pub(crate) fn take_unwritten(&mut self) -> Vec<(i64, Option<Arc<HoldRecord>>)> {
        self.due_jobs = 0;
        std::mem::take(&mut self.unwritten)
    }

    pub(crate) fn dirty_rows(&self) -> usize {
        self.unwritten.len()
    }

    /// Whether the next batch is needed, if only to let jobs leave memory.
    pub(crate) fn is_dirty(&self) -> bool {
        !self.unwritten.is_empty() || self.due_jobs >= DUE_JOBS_MAX
    }

    /// Keeps a ready run out of the queues of the pool.
    pub(crate) fn park(&mut self, run: RunId) {
        self.parked.insert(run);
    }

    pub(crate) fn unpark(&mut self, run: RunId) {
        self.parked.remove(&run);
    }

    pub(crate) fn is_parked(&self, run: RunId) -> bool {
        self.parked.contains(&run)
    }
}

impl Shard {
    /// Begins a hold, or gives a present one another reason and end. Of two orders, the later one wins.
    pub(crate) fn begin_hold(&mut self, hold: Hold, cx: &mut Context<'_>) -> Reply {
        hold.pause.check()?;
        if cx.now.since(hold.pause.since) > LATE {
            let message = "the order took more than a minute to reach the shard; repeat it";
            return Err(Invalid::new("hold", message).into());
        }
        self.end_due_holds(cx);
        let same: Vec<_> = self.holds.rows.values().filter(|row| row.hold.scope == hold.scope).collect();
        let is_later = |row: &HoldRecord| row.hold.pause.since.max(row.released_at.unwrap_or(Timestamp::MIN));
        let is_done = |row: &HoldRecord| row.is_in_force() && hold.is_satisfied_by(&row.hold);
        if same.iter().any(|row| is_done(row) || is_later(row) > hold.pause.since) {
            return Ok(Answer::Noted);
        }
        match same.iter().find(|row| row.is_in_force()).map(|row| row.number) {
            Some(present) => self.holds.remove(present),
            None if self.holds.in_force().count() >= HOLDS_MAX => {
                let message = format!("at most {HOLDS_MAX} holds may be in force; release others first");
                return Err(Invalid::new("hold", message).into());
            }
            None => {}
        }
        let number = self.ids.next(cx.now);
        self.holds.add(HoldRecord { number, hold, released_at: None });
        self.park_ready(cx);
        Ok(Answer::Noted)
    }

    pub(crate) fn release_hold(&mut self, scope: &Scope, at: Timestamp, cx: &mut Context<'_>) -> Reply {
        self.end_due_holds(cx);
        let is_it = |row: &&Arc<HoldRecord>| row.hold.scope == *scope && row.hold.pause.since <= at;
        let Some(row) = self.holds.in_force().find(is_it).cloned() else {
            return Ok(Answer::Released(false));
        };
        self.end_hold(&row, at.max(cx.now), cx);
        Ok(Answer::Released(true))
    }

    /// Ends the holds whose time is over.
    pub(crate) fn end_due_holds(&mut self, cx: &mut Context<'_>) {
        while let Some((row, until)) = self.holds.due(cx.now) {
            self.end_hold(&row, until, cx);
        }
    }

    fn end_hold(&mut self, row: &HoldRecord, at: Timestamp, cx: &mut Context<'_>) {
        self.holds.remove(row.number);
        let (number, hold) = (self.ids.next(cx.now), row.hold.clone());
        self.holds.add(HoldRecord { number, hold, released_at: Some(at) });
        self.expect_end_of_rows(cx);
        // The timers of jobs that were due have gone.
        self.plan.start_over();
        for (id, live) in &self.jobs {
            self.plan.arm(live.job.timer_at(), TimerOwner::Job(*id));
        }
        self.start_held(cx);
        self.due_flows.extend(self.flows.keys());
        let queues: Vec<_> = self.topics.queues().cloned().collect();
        for queue in queues {
            self.hand_out(&queue, cx);
        }
    }

    /// Lets the runs start that no hold covers any more, in the order of their due times.
    pub(crate) fn start_held(&mut self, cx: &mut Context<'_>) {
        let mut free: Vec<(Timestamp, RunId)> = self
            .runs
            .values()
            .filter(|live| self.is_freed(live))
            .map(|live| (live.run.due, live.run.id))
            .collect();
        free.sort_unstable();
        self.holds.freed = free.into_iter().map(|(_, run)| run).collect();
        self.start_freed(cx);
    }

    /// Whether a run waits for the end of a hold, and no hold covers it any more.
    fn is_freed(&self, live: &LiveRun) -> bool {
        let waits = live.run.state == State::Waiting { wait: Wait::Hold };
        (waits || self.holds.is_parked(live.run.id)) && !self.holds.covers(&live.run.namespace)
    }

    pub(crate) fn start_is_due(&mut self, cx: &mut Context<'_>) {
        self.holds.is_start_armed = false;
        self.start_freed(cx);
    }

    /// Starts the runs that holds have freed, as far as the next batch has room. What is left after a crash is found by
    /// the next load.
    fn start_freed(&mut self, cx: &mut Context<'_>) {
        while !self.is_batch_full()
            && let Some(run) = self.holds.freed.pop_front()
        {
            let Some(live) = self.runs.get(&run).filter(|live| self.is_freed(live)) else { continue };
            if let State::Ready { since } = live.run.state {
                self.holds.unpark(run);
                self.forget_lack(run, cx);
                self.enqueue(run, since, cx);
                self.split_soon(run, cx);
            } else {
                self.place(run, cx);
            }
        }
        if self.holds.freed.is_empty() {
            self.try_limited(cx);
        } else if !std::mem::replace(&mut self.holds.is_start_armed, true) {
            self.deadlines.insert(cx.elapsed + NEXT_BATCH, Deadline::Freed);
        }
    }

    /// Forgets why no worker fits a run: workers may have come during the hold.
    fn forget_lack(&mut self, run: RunId, cx: &Context<'_>) {
        let Some(live) = self.runs.get_mut(&run) else { return };
        if matches!(live.run.reason, Some(Reason::NoWorkerFits(_))) {
            Arc::make_mut(&mut live.run).reason = None;
            self.note_lazily(run, cx.elapsed);
        }
    }

    /// Takes the ready runs that a hold covers out of the queues of the pool.
    fn park_ready(&mut self, cx: &mut Context<'_>) {
        if is_planted(Fault::HoldLeavesReadyRuns) {
            return;
        }
        for live in self.runs.values() {
            if let State::Ready { since } = live.run.state
                && self.holds.covers(&live.run.namespace)
                && self.holds.parked.insert(live.run.id)
            {
                cx.pool.dequeue(live.ready_run(since, None));
                self.absent.remove(&live.run.id);
            }
        }
    }

    /// Whether a hold keeps a run from starting. What has begun outside Punctual is only recorded.
    pub(crate) fn is_on_hold(&self, run: RunId) -> bool {
        let covers = |live: &LiveRun| {
            let is_ignored = is_planted(Fault::RetryIgnoresHold) && live.run.attempt > 0;
            let is_recorded = live.definition.ping().is_some();
            !is_ignored && !is_recorded && self.holds.covers(&live.run.namespace)
        };
        self.runs.get(&run).is_some_and(covers)
    }

    /// Lets a run that would become ready wait for the end of a hold. A run that waits for a limit goes on waiting for it.
    pub(crate) fn wait_for_hold(&mut self, run: RunId, cx: &mut Context<'_>) {
        let state = self.runs.get(&run).map(|live| &live.run.state);
        if !matches!(state, Some(State::Waiting { wait: Wait::Hold | Wait::Limit(_) })) {
            self.transition(run, Event::Held(Wait::Hold), cx);
        }
    }

    /// A job is due under a hold: its timer is gone until the hold ends, and the job may leave memory.
    pub(crate) fn leave_due(&mut self, job: JobId) {
        self.dirty.quieter.insert(job);
        self.holds.due_jobs += 1;
    }

    /// Decides the due times of a job up to `end` by a hold: they are recorded as skipped, and perhaps made up for.
    pub(crate) fn record_held(&mut self, id: JobId, hold: &Hold, end: Timestamp, cx: &mut Context<'_>) {
        let Some(mut job) = self.jobs.get(&id).map(|live| (*live.job).clone()) else { return };
        let Some(first) = job.cursor.next_due.filter(|first| *first <= end) else { return };
        let last = job.previous_due(end).unwrap_or(first).max(first);
        self.skip_excluded(&job, last, cx.now);
        if !is_planted(Fault::HeldFireIsNotRecorded) {
            self.skip(&job, first, last, SkipReason::Held, cx.now);
        }
        let kept = (hold.fires == Fires::Keep).then(|| kept_dues(&job, first, last));
        job.cursor.fired_through = last;
        job.plan_after(last);
        self.edit_job(id, |stored| *stored = job);
        if !self.has_fires(id) {
            // No run will end, so the next due time of `after_finish` counts from here.
            self.plan_after_finish(id, cx);
        }
        if let Some(dues) = kept.filter(|_| !is_planted(Fault::KeptFireIsLost)) {
            let to = last + Duration::from_millis(1);
            let backfill = Backfill { from: first, to, dues: dues.into(), running: None };
            let by_hand =
                ByHand { by: hold.pause.by.clone(), at: cx.now, comment: hold.pause.reason.clone() };
            self.begin_backfill(id, backfill, None, by_hand, cx);
        }
    }

    fn expect_end_of_rows(&mut self, cx: &Context<'_>) {
        if !std::mem::replace(&mut self.holds.is_end_armed, true) {
            self.deadlines.insert(cx.elapsed + LATE, Deadline::HoldsEnded);
        }
    }

    /// Deletes the rows of holds that ended long ago, if no job is left that was due under one.
    pub(crate) fn forget_ended_holds(&mut self, cx: &Context<'_>) {
        self.holds.is_end_armed = false;
        let ended = self.holds.rows.values().filter_map(|row| Some((Arc::clone(row), row.released_at?)));
        let ended: Vec<(Arc<HoldRecord>, Timestamp)> = ended.collect();
        let mut is_one_left = false;
        for (row, end) in ended {
            // A hold in force keeps jobs from recording what they were due for under an earlier one.
            let is_free = !self.holds.in_force().any(|other| other.hold.scope.overlaps(&row.hold.scope));
            if is_free && cx.now.since(end) > LATE && self.plan.is_past(end) {
                self.holds.remove(row.number);
            } else {
                is_one_left = true;
            }
        }
        if is_one_left {
            self.expect_end_of_rows(cx);
        }
    }

    /// After a load: ends what has ended meanwhile, and starts the runs that no hold covers any more.
    pub(crate) fn take_up_holds(&mut self, cx: &mut Context<'_>) {
        self.end_due_holds(cx);
        self.start_held(cx);
        if self.holds.rows.values().any(|row| !row.is_in_force()) {
            self.expect_end_of_rows(cx);
        }
    }
}

/// The due times that a backfill makes up for: the newest, if there are too many.
fn kept_dues(job: &Job, first: Timestamp, last: Timestamp) -> Vec<Timestamp> {
    let newest_first = iter::successors(Some(last), |due| previous_before(job, *due));
    let mut dues: Vec<Timestamp> = newest_first.take_while(|due| *due >= first).take(BACKFILL_MAX).collect();
    dues.reverse();
    dues
}
