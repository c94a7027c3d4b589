//! The timers of jobs, waiting runs and messages, as far as they are in memory.
//!
//! All timers up to the horizon are in memory; those beyond it are rows of the store, read page by page. The horizon
//! moves when a page is *asked for*: from then on every new timer is armed directly, so that none is lost between the
//! read of the page and a row written a moment later. A tree, because both ends are used: the first timer fires, the
//! last ones leave memory. The deadlines of attempts, which only expire, are in the wheel.
//!
//! A message is armed only if its timer is near, because there are many messages and most end before their timer. When
//! a page arrives, the messages in memory are checked again.
//!
//! intake ──job, run──▶ plan ──due──▶ fire

use std::collections::BTreeMap;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::change::{RunRecord, TimerPage, TimerPosition};
use punctual_core::ids::{JobId, RunId};
use punctual_core::time::Elapsed;

use crate::Shard;
use crate::event::Context;
use crate::memory::LiveRun;

/// How long before the horizon the next page is asked for. A horizon farther off needs no page, however few timers are
/// armed before it.
const AHEAD: Duration = Duration::from_secs(10);

/// What a timer belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimerOwner {
    Job(JobId),
    Run(RunId),
    /// The number of a message.
    Message(i64),
}

impl TimerOwner {
    /// The place of its timer in the order of all timers.
    fn at(self, at: Timestamp) -> TimerPosition {
        let id = match self {
            TimerOwner::Job(job) => job.0,
            TimerOwner::Run(run) => run.0,
            TimerOwner::Message(number) => number,
        };
        TimerPosition { at, id }
    }
}

#[derive(Debug)]
pub(crate) struct Plan {
    armed: BTreeMap<TimerPosition, TimerOwner>,
    horizon: Horizon,
    paging: bool,
    /// Timers on one page. With fewer than a quarter of it armed, the next page is asked for; with more than
    /// twice as many armed, the farthest leave memory.
    page: usize,
    /// The last page was not full, so the next one is likely to be the last.
    was_short: bool,
    /// The latest time seen by `look`.
    seen: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Horizon {
    /// Every timer up to here is in memory.
    Through(TimerPosition),
    /// All timers of the shard are in memory.
    Everything,
}

impl Plan {
    pub(crate) fn new(page: usize) -> Self {
        let (armed, horizon) = (BTreeMap::new(), Horizon::Through(TimerPosition::START));
        Plan { armed, horizon, paging: false, page, was_short: false, seen: Timestamp::MIN }
    }

    pub(crate) fn arm(&mut self, at: Option<Timestamp>, owner: TimerOwner) {
        if let Some(at) = at {
            self.armed.insert(owner.at(at), owner);
        }
    }

    pub(crate) fn disarm(&mut self, at: Option<Timestamp>, owner: TimerOwner) {
        if let Some(at) = at {
            self.armed.remove(&owner.at(at));
        }
    }

    /// Whether this timer has to stay in memory.
    pub(crate) fn is_near(&self, at: Timestamp, owner: TimerOwner) -> bool {
        match self.horizon {
            _ if self.paging => true,
            Horizon::Everything => true,
            Horizon::Through(end) => owner.at(at) <= end,
        }
    }

    /// Takes the next timer that is due.
    pub(crate) fn pop(&mut self, now: Timestamp) -> Option<TimerOwner> {
        self.armed.first_key_value().filter(|(place, _)| place.at <= now)?;
        self.armed.pop_first().map(|(_, owner)| owner)
    }

    /// When the next timer is due or the next page must be asked for.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        let page = match self.horizon {
            Horizon::Through(end) if !self.paging => Some(end.at.before(AHEAD)).filter(|at| *at > self.seen),
            _ => None,
        };
        self.armed.first_key_value().map(|(place, _)| place.at).into_iter().chain(page).min()
    }

    pub(crate) fn look(&mut self, now: Timestamp) {
        self.seen = self.seen.max(now);
    }

    /// Moves the horizon nearer when too many timers are armed; returns the timers that are now beyond it.
    pub(crate) fn shrink(&mut self) -> Vec<TimerOwner> {
        if self.paging || self.armed.len() <= 2 * self.page {
            return Vec::new();
        }
        let Some(end) = self.armed.keys().nth(self.page).copied() else { return Vec::new() };
        if self.horizon == Horizon::Everything || matches!(self.horizon, Horizon::Through(far) if far > end) {
            self.horizon = Horizon::Through(end);
            self.was_short = false;
        }
        self.armed.values().skip(self.page + 1).copied().collect()
    }

    fn wants_page(&self, now: Timestamp) -> Option<TimerPosition> {
        match self.horizon {
            Horizon::Through(end) if !self.paging && (self.was_short || end.at <= now + AHEAD) => {
                let enough = self.armed.keys().nth(self.page / 4).is_some_and(|place| *place <= end);
                (!enough).then_some(end)
            }
            _ => None,
        }
    }
}

impl Shard {
    /// The place after which the next page of timers starts, and its size. `None` means that enough timers are in
    /// memory. After `Some`, the caller must call `page` or `page_failed`.
    pub fn ask_page(&mut self, cx: &mut Context<'_>) -> Option<(TimerPosition, usize)> {
        let after = self.plan.wants_page(cx.now)?;
        self.plan.paging = true;
        self.revive_pinned(cx);
        Some((after, self.plan.page))
    }

    /// Puts rows back into memory that left it and may not be committed when the page is read.
    fn revive_pinned(&mut self, cx: &mut Context<'_>) {
        let jobs: Vec<_> = self.pins.jobs.values().filter_map(|pin| pin.row.clone()).collect();
        for job in jobs.into_iter().filter(|job| job.cursor.wake_at.is_some()) {
            if !self.jobs.contains_key(&job.id)
                && !self.names.contains_key(&(job.namespace.clone(), job.name.clone()))
            {
                self.remember_job(job, true);
            }
        }
        let runs: Vec<_> = self.pins.runs.values().filter(|pin| pin.row.run.wake_at().is_some()).collect();
        let runs: Vec<RunRecord> = runs.into_iter().map(|pin| pin.row.clone()).collect();
        for record in runs {
            self.take_waiting(record, cx);
        }
        self.revive_messages(|_| true);
    }

    /// Takes the page that was asked for. Where page and memory have the same row, memory wins.
    pub fn page(&mut self, page: TimerPage, cx: &mut Context<'_>) {
        self.plan.was_short = page.jobs.len() + page.runs.len() + page.messages.len() < self.plan.page;
        for job in page.jobs {
            let key = (job.namespace.clone(), job.name.clone());
            if !self.names.contains_key(&key) && !self.pins.jobs.contains_key(&key) {
                self.remember_job(job, true);
            }
        }
        for record in page.runs {
            if !self.pins.runs.contains_key(&record.run.id) {
                self.take_waiting(record, cx);
            }
        }
        self.page_of_messages(page.messages, cx);
        self.plan.paging = false;
        self.plan.horizon = match page.end {
            Some(end) => Horizon::Through(end),
            None => Horizon::Everything,
        };
        self.arm_messages();
    }

    /// The page could not be read: timers armed meanwhile stay armed, and the page is asked for again.
    pub fn page_failed(&mut self) {
        self.plan.paging = false;
    }

    /// Puts a run that waits for its due time into memory, with its job.
    pub(crate) fn take_waiting(&mut self, record: RunRecord, cx: &mut Context<'_>) {
        let RunRecord { run, definition, job, .. } = record;
        if self.runs.contains_key(&run.id) {
            return;
        }
        if let Some(job) = job {
            let key = (job.namespace.clone(), job.name.clone());
            let known = self.find_job(&key.0, &key.1);
            if known.is_none() && !self.pins.jobs.contains_key(&key) {
                self.remember_job(job, true);
            }
        }
        self.remember_run(LiveRun { run, definition, stored: true }, cx);
    }

    /// When the next timer is due.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.plan.next()
    }

    /// When the next deadline passes, in elapsed time.
    pub fn next_deadline(&self) -> Option<Elapsed> {
        self.deadlines.next()
    }
}
