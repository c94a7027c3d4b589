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
use punctual_core::change::TimerPosition;
use punctual_core::ids::{JobId, RunId};

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
    /// The page that was asked for is read before the timers are read from their beginning.
    starts_over: bool,
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
        Plan {
            armed,
            horizon,
            paging: false,
            page,
            was_short: false,
            starts_over: false,
            seen: Timestamp::MIN,
        }
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

    /// The place after which the next page starts, and its size. `None` means that enough timers are in memory. After
    /// `Some`, the caller must call `page_came` or `page_failed`.
    pub(crate) fn ask_page(&mut self, now: Timestamp) -> Option<(TimerPosition, usize)> {
        let after = self.wants_page(now)?;
        self.paging = true;
        Some((after, self.page))
    }

    /// Moves the horizon to the end of a page with this many timers. `None` means that it was the last page.
    pub(crate) fn page_came(&mut self, timers: usize, end: Option<TimerPosition>) {
        self.was_short = timers < self.page;
        self.paging = false;
        self.horizon = end.map_or(Horizon::Everything, Horizon::Through);
        if std::mem::take(&mut self.starts_over) {
            self.start_over();
        }
    }

    /// Reads all timers again: some were dropped before they had their effect.
    pub(crate) fn start_over(&mut self) {
        if self.paging {
            self.starts_over = true;
        } else {
            (self.horizon, self.was_short) = (Horizon::Through(TimerPosition::START), false);
        }
    }

    /// Whether all timers up to this instant have had their effect.
    pub(crate) fn is_past(&self, at: Timestamp) -> bool {
        let is_read = match self.horizon {
            _ if self.paging => false,
            Horizon::Everything => true,
            Horizon::Through(end) => end.at > at,
        };
        is_read && self.armed.first_key_value().is_none_or(|(place, _)| place.at > at)
    }

    /// The page could not be read: timers armed meanwhile stay armed.
    pub(crate) fn page_failed(&mut self) {
        self.paging = false;
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
