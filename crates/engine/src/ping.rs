//! Records runs of programs outside Punctual, which report them by pings.
//!
//! A start makes a run that is running at once. It needs neither a worker nor a slot, and no hold refuses what has begun
//! elsewhere. The next success or failure ends that run. Without a start, it records a run that has ended.
//!
//! ping ──start──▶ running ──success, failure──▶ settle

use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::attempt::Outcome;
use punctual_core::command::{Answer, Ping, Refusal, Signal};
use punctual_core::ids::{JobId, RunId, Token};
use punctual_core::job::{Invalid, Overlap};
use punctual_core::run::{Assignee, Cause, Event, State, Trigger};

use crate::Shard;
use crate::event::Context;
use crate::intake::{Reply, room_for_one};
use crate::report::cut;

impl Shard {
    pub(crate) fn ping(&mut self, ping: Ping, cx: &mut Context<'_>) -> Reply {
        let id = self.known_job(&ping.namespace, &ping.name)?;
        self.end_pause(id, cx.now);
        let definition = self.jobs.get(&id).map(|live| Arc::clone(&live.job.definition));
        let Some(definition) = definition.filter(|definition| definition.ping().is_some()) else {
            return Err(Invalid::new("name", format!("job `{}` is not a ping", ping.name)).into());
        };
        let run = match (ping.signal, ping.run) {
            (Signal::Started, _) => {
                room_for_one(cx)?;
                if definition.overlap != Overlap::Allow {
                    self.end_begun(id, Cause::Replaced, cx);
                }
                self.begin_elsewhere(id, cx)
            }
            (_, Some(run)) if self.begun(id).any(|begun| begun == run) => run,
            (_, Some(run)) => {
                let record = self.record(&ping.namespace, run).filter(|record| record.run.job() == Some(id));
                return record.map(|record| Answer::Run(record.run)).ok_or(Refusal::NoSuchRun(run));
            }
            (_, None) => match self.begun(id).last() {
                Some(run) => run,
                None => {
                    room_for_one(cx)?;
                    self.begin_elsewhere(id, cx)
                }
            },
        };
        if ping.signal != Signal::Started {
            let of = |outcome| Outcome { exit_code: ping.exit_code, ..outcome };
            self.end_elsewhere(run, cx, |since| match ping.signal {
                Signal::Failed => of(Outcome::failed(since, ping.text)),
                _ => of(Outcome { output: ping.text, ..Outcome::succeeded(since) }),
            });
        }
        self.as_it_is(&ping.namespace, run)
    }

    /// The runs of a job that have begun elsewhere and have not ended, oldest first.
    fn begun(&self, job: JobId) -> impl Iterator<Item = RunId> {
        let active = self.jobs.get(&job).into_iter().flat_map(|live| &live.active).copied();
        active.filter(|run| self.attempt_elsewhere(*run).is_some())
    }

    /// The token and the start of a run that has begun elsewhere. `None` means that it has not.
    fn attempt_elsewhere(&self, run: RunId) -> Option<(Token, Timestamp)> {
        match &self.runs.get(&run)?.run.state {
            State::Running { assignee: Assignee::Ping(_), token, since, .. } => Some((*token, *since)),
            _ => None,
        }
    }

    /// Ends the runs of which no end was reported.
    pub(crate) fn end_begun(&mut self, job: JobId, cause: Cause, cx: &mut Context<'_>) {
        for run in self.begun(job).collect::<Vec<_>>() {
            self.stop(run, cause, cx);
        }
    }

    fn begin_elsewhere(&mut self, job: JobId, cx: &mut Context<'_>) -> RunId {
        let run = self.make_run(job, cx.now, Trigger::Ping, cx).expect("the job at hand is in memory");
        // A ready run whose task is a ping is running at once: see `enqueue`.
        self.transition(run, Event::Due, cx);
        if let Some(live) = self.runs.get_mut(&run) {
            Arc::make_mut(&mut live.run).started_at = Some(cx.now);
        }
        run
    }

    /// Ends a run that has begun elsewhere.
    pub(crate) fn end_elsewhere(
        &mut self,
        run: RunId,
        cx: &mut Context<'_>,
        outcome: impl FnOnce(Timestamp) -> Outcome,
    ) {
        let Some((token, since)) = self.attempt_elsewhere(run) else { return };
        self.transition(run, Event::Reported { token, outcome: cut(outcome(since)) }, cx);
    }
}
