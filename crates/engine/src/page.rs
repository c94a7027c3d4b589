//! Pages of timers: rows of the store that come into memory before they are due.
//!
//! store ──page──▶ page ──job, run, message──▶ plan

use punctual_core::Timestamp;
use punctual_core::change::{RunRecord, TimerPage, TimerPosition};
use punctual_core::time::Elapsed;

use crate::Shard;
use crate::event::Context;
use crate::memory::LiveRun;

impl Shard {
    /// The place after which the next page of timers starts, and its size. `None` means that enough timers are in
    /// memory. After `Some`, the caller must call `page` or `page_failed`.
    pub fn ask_page(&mut self, cx: &mut Context<'_>) -> Option<(TimerPosition, usize)> {
        let page = self.plan.ask_page(cx.now)?;
        self.revive_pinned(cx);
        Some(page)
    }

    /// Puts rows back into memory that left it and may not be committed when the page is read.
    fn revive_pinned(&mut self, cx: &mut Context<'_>) {
        let jobs: Vec<_> = self.pins.jobs.values().filter_map(|pin| pin.row.clone()).collect();
        for job in jobs.into_iter().filter(|job| job.timer_at().is_some()) {
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
        let timers = page.jobs.len() + page.runs.len() + page.messages.len();
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
        self.plan.page_came(timers, page.end);
        self.arm_messages();
    }

    /// The page could not be read: timers armed meanwhile stay armed, and the page is asked for again.
    pub fn page_failed(&mut self) {
        self.plan.page_failed();
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
        self.remember_run(LiveRun::new(run, definition, true), cx);
    }

    /// When the next timer is due.
    pub fn next_due(&self) -> Option<Timestamp> {
        let step = self.step_timers.first().map(|(at, _)| *at);
        let ends = self.holds.next_end().into_iter().chain(self.incidents.next());
        self.plan.next().into_iter().chain(step).chain(ends).min()
    }

    /// When the next deadline passes, in elapsed time.
    pub fn next_deadline(&self) -> Option<Elapsed> {
        self.deadlines.next().into_iter().chain(self.locks.next()).min()
    }
}
