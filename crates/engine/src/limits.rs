//! Holds back the runs that a limit of their job does not allow yet.
//!
//! A run waits for the first limit that does not allow it, among the other runs with the same key of that limit. When the
//! key has room again, the run that was due first is tried; then another limit may hold it back. So a run never waits
//! behind runs with other keys.
//!
//! Places are counted from the runs in memory. What a rate has used up is stored as a unique key whose holder is `Nobody`,
//! until the rate is free again.
//!
//! overlap ──may start──▶ limits ──ready──▶ assign

pub(crate) mod counters;
pub(crate) mod rates;

use std::collections::BTreeSet;
use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::change::{Holder, RATE_PREFIX, UniqueKey};
use punctual_core::ids::{JobId, RunId};
use punctual_core::job::Definition;
use punctual_core::job::limit::Rate;
use punctual_core::planted::{Fault, is_planted};
use punctual_core::run::{Event, Reason, State, Wait};

use crate::Shard;
use crate::deadline::Deadline;
use crate::event::Context;
use crate::memory::{LiveJob, LiveRun, Stored};
use counters::{Counters, LimitKey, LimitedRun};
use rates::ROW_KEPT;

/// What holds a run back: the index of a limit, and when its rate allows the run.
struct Block {
    index: u8,
    until: Option<Timestamp>,
}

impl Shard {
    /// Evaluates the run's key for each limit of its job. A run whose parameters give no key has the empty key.
    pub(crate) fn set_limit_keys(&mut self, run: RunId) {
        let Some(live) = self.runs.get(&run) else { return };
        let Some(job) = live.run.job().and_then(|job| self.jobs.get(&job)) else { return };
        let limits = &job.job.definition.limits;
        if limits.is_empty() && live.limit_keys.is_empty() {
            return;
        }
        let (params, due) = (self.params_of(live), live.run.due);
        let keys = limits.iter().map(|limit| limit.key_for(&params, due).unwrap_or_default()).collect();
        if let Some(live) = self.runs.get_mut(&run) {
            live.limit_keys = keys;
        }
    }

    /// The first limit that does not allow the run now.
    fn blocked_by(&self, live: &LiveRun, job: &LiveJob, now: Timestamp) -> Option<Block> {
        let (of, counters) = (limited_run(&job.job.definition, live), &job.counters);
        of.counting_limits().find_map(|(key, limit)| {
            let is_behind = counters.is_behind(of, &key);
            let is_full = limit.running.is_some_and(|max| counters.placed(&key) >= max)
                && !is_planted(Fault::LimitForgotten);
            let until = limit.rate.map(|rate| rate.next_start(self.rates.used(&self.row_of(job, &key))));
            let until = until.filter(|until| *until > now && !is_planted(Fault::RateForgotten));
            (is_behind || is_full || until.is_some()).then_some(Block { index: key.0, until })
        })
    }

    /// The text of the row that stores what a rate has used up.
    fn row_of(&self, job: &LiveJob, (index, key): &LimitKey) -> Arc<str> {
        format!("{RATE_PREFIX}{}:{index}:{key}", job.job.id).into()
    }

    /// Makes a run ready if all limits of its job allow it. Returns false if one of them holds it back.
    pub(crate) fn pass_limits(&mut self, run: RunId, cx: &mut Context<'_>) -> bool {
        let Some(live) = self.runs.get(&run) else { return false };
        let Some(job) = live.run.job().and_then(|job| self.jobs.get(&job)) else { return true };
        if job.job.definition.limits.is_empty() {
            return true;
        }
        let id = job.job.id;
        self.forget_slower_rates(run, cx.now);
        let (Some(live), Some(job)) = (self.runs.get(&run), self.jobs.get(&id)) else { return false };
        match self.blocked_by(live, job, cx.now) {
            None => {
                self.use_rates(run, cx);
                true
            }
            Some(Block { index, until }) => {
                let key = (index, live.limit_keys.get(usize::from(index)).cloned().unwrap_or_default());
                let wait = Wait::Limit(index);
                if live.run.state != (State::Waiting { wait }) {
                    self.transition(run, Event::Held(wait), cx);
                }
                if let Some(until) = until {
                    self.wake_job_at(id, until, key, cx);
                }
                false
            }
        }
    }

    /// The rates that a run needs, with the texts of their rows.
    fn rates_of(&self, run: RunId) -> Vec<(Arc<str>, Rate)> {
        let Some(live) = self.runs.get(&run) else { return Vec::new() };
        let Some(job) = live.run.job().and_then(|job| self.jobs.get(&job)) else { return Vec::new() };
        limited_run(&job.job.definition, live)
            .counting_limits()
            .filter_map(|(key, limit)| Some((self.row_of(job, &key), limit.rate?)))
            .collect()
    }

    /// After an edit to a faster rate, the starts under the slower one count no more than the new one allows.
    fn forget_slower_rates(&mut self, run: RunId, now: Timestamp) {
        for (row, rate) in self.rates_of(run) {
            self.forget_slower_rate(row, rate, now);
        }
    }

    pub(crate) fn forget_slower_rate(&mut self, row: Arc<str>, rate: Rate, now: Timestamp) {
        if self.rates.used(&row) > rate.used_at_most(now) {
            self.rates.note(row, rate.used_at_most(now));
        }
    }

    /// Notes the start of a run in the rates of its job.
    fn use_rates(&mut self, run: RunId, cx: &mut Context<'_>) {
        for (row, rate) in self.rates_of(run) {
            self.use_rate(row, rate, cx);
        }
        self.expect_free_rates(cx);
    }

    /// Notes a start, and has the row of its rate written.
    pub(crate) fn use_rate(&mut self, row: Arc<str>, rate: Rate, cx: &Context<'_>) {
        let used = rate.start(self.rates.used(&row), cx.now);
        let was_used = self.rates.note(Arc::clone(&row), used);
        let unique = UniqueKey {
            key: Arc::clone(&row),
            holder: Holder::Nobody(self.id),
            expires_at: used.ends_at() + ROW_KEPT,
        };
        let unwritten = self.dirty.uniques.get(&row).map(|(_, stored)| *stored);
        let stored = unwritten.unwrap_or(if was_used { Stored::Yes } else { Stored::No });
        self.dirty.uniques.insert(row, (Some(unique), stored));
    }

    pub(crate) fn expect_free_rates(&mut self, cx: &Context<'_>) {
        if let Some((at, _)) = self.rates.ends.first()
            && self.rates.expected.is_none_or(|expected| *at < expected)
        {
            self.rates.expected = Some(*at);
            self.deadlines.insert(cx.elapsed_at(*at), Deadline::RatesFree(*at));
        }
    }

    /// Deletes the rows of rates that are free again.
    pub(crate) fn forget_free_rates(&mut self, expected: Timestamp, cx: &mut Context<'_>) {
        if self.rates.expected != Some(expected) {
            return;
        }
        self.rates.expected = None;
        while let Some(row) = self.rates.pop_free(cx.now) {
            match self.dirty.uniques.get_mut(&row) {
                Some((unique, _)) => *unique = None,
                None => drop(self.dirty.uniques.insert(row, (None, Stored::Yes))),
            }
        }
        self.expect_free_rates(cx);
    }

    fn wake_job_at(&mut self, job: JobId, at: Timestamp, key: LimitKey, cx: &Context<'_>) {
        let Some(live) = self.jobs.get_mut(&job) else { return };
        live.counters.wake_at(at, key);
        self.expect_wake(job, cx);
    }

    fn expect_wake(&mut self, job: JobId, cx: &Context<'_>) {
        if let Some(at) = self.jobs.get_mut(&job).and_then(|live| live.counters.expect_wake()) {
            self.deadlines.insert(cx.elapsed_at(at), Deadline::RateAllows(job, at));
        }
    }

    /// A rate of the job may allow further runs.
    pub(crate) fn rate_allows(&mut self, job: JobId, expected: Timestamp, cx: &mut Context<'_>) {
        let Some(live) = self.jobs.get_mut(&job) else { return };
        if !live.counters.meet(expected) {
            return;
        }
        while let Some(key) = self.jobs.get_mut(&job).and_then(|live| live.counters.pop_wake(cx.now)) {
            self.release_key(job, &key, cx);
        }
        // Engine time may be behind the time that has elapsed.
        self.expect_wake(job, cx);
    }

    /// Starts runs that waited for the places that were returned.
    pub(crate) fn release_limited(&mut self, job: JobId, cx: &mut Context<'_>) {
        while let Some(key) = self.jobs.get_mut(&job).and_then(|live| live.counters.pop_freed()) {
            self.release_key(job, &key, cx);
        }
    }

    fn release_key(&mut self, job: JobId, key: &LimitKey, cx: &mut Context<'_>) {
        while let Some(next) = self.jobs.get(&job).and_then(|live| live.counters.first_blocked(key)) {
            self.place(next, cx);
            let is_first = |live: &LiveJob| live.counters.first_blocked(key) == Some(next);
            if self.jobs.get(&job).is_none_or(is_first) {
                return;
            }
        }
    }

    /// Counts all runs of a job again and tries those that wait for a limit, after an edit and after a load.
    pub(crate) fn recount(&mut self, job: JobId, cx: &mut Context<'_>) {
        let theirs = self.runs.values().filter(|live| live.run.job() == Some(job));
        let mut theirs: Vec<_> = theirs.map(|live| (live.run.due, live.run.id)).collect();
        theirs.sort_unstable();
        if let Some(live) = self.jobs.get_mut(&job) {
            live.counters = Counters::default();
        }
        let mut limited = Vec::new();
        for (_, run) in theirs {
            self.set_limit_keys(run);
            let (Some(live), Some(job)) = (self.runs.get(&run), self.jobs.get_mut(&job)) else { continue };
            job.counters.enter(limited_run(&job.job.definition, live));
            limited.extend(matches!(live.run.state, State::Waiting { wait: Wait::Limit(_) }).then_some(run));
        }
        for run in limited {
            self.place(run, cx);
        }
    }

    /// Tries the runs that wait for a limit, after a load.
    pub(crate) fn try_limited(&mut self, cx: &mut Context<'_>) {
        let waits = |live: &&LiveRun| matches!(live.run.state, State::Waiting { wait: Wait::Limit(_) });
        let jobs: BTreeSet<JobId> =
            self.runs.values().filter(waits).filter_map(|live| live.run.job()).collect();
        for job in jobs {
            self.recount(job, cx);
        }
        self.expect_free_rates(cx);
    }

    /// Skips runs if more of them wait than a limit allows, now that this run waits too.
    pub(crate) fn shed(&mut self, run: RunId, cx: &mut Context<'_>) {
        while let Some(victim) = self.too_many_beside(run) {
            if !self.transition(victim, Event::Skipped(Reason::HeldTooMany), cx) {
                return;
            }
        }
    }

    fn too_many_beside(&self, run: RunId) -> Option<RunId> {
        let live = self.runs.get(&run).filter(|live| {
            matches!(live.run.state, State::Waiting { wait: Wait::Overlap | Wait::Hold | Wait::Limit(_) })
        })?;
        let job = self.jobs.get(&live.run.job()?)?;
        job.counters.one_too_many(limited_run(&job.job.definition, live))
    }
}

fn limited_run<'a>(definition: &'a Definition, live: &'a LiveRun) -> LimitedRun<'a> {
    LimitedRun { definition, own: &live.definition, run: &live.run, keys: &live.limit_keys }
}
