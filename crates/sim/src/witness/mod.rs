//! The witness: it sees every commit, every answer and every order, and checks the promises.
//!
//! It uses only what was committed to the store. The memory of a node is no evidence.

mod seen;
mod runs;
mod jobs;
mod priority;
mod keys;
mod dead_letters;
mod incidents;
mod asks;
mod dated;
mod leaders;
mod messages;
mod moves;
mod deliveries;
mod late;
mod limits;
mod locks;
mod holds;
mod statistics;
mod steps;
mod topics;

use std::collections::BTreeSet;
use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::attempt::{Assignment, Order};
use punctual_core::change::Batch;
use punctual_core::command::{Answer, Command};
use punctual_core::ids::{RunId, Token};
use punctual_core::name::Name;
use punctual_core::run::Run;
use punctual_core::search;
use punctual_engine::Ticket;
use punctual_node::Failure;

pub use seen::Seen;

use asks::Asks;
use dated::Dated;
use dead_letters::DeadLetters;
pub(crate) use deliveries::{Deliveries, Scene};
use holds::Holds;
use incidents::Incidents;
use jobs::Jobs;
use keys::Keys;
use late::Late;
pub(crate) use leaders::{Leaders, Life};
use limits::Limits;
use locks::Locks;
use messages::Messages;
use runs::Runs;
pub(crate) use statistics::Statistics;
use steps::Steps;
use topics::Topics;

pub(crate) type Verdict = Result<(), String>;

#[derive(Debug, Default)]
pub(crate) struct Witness {
    pub(crate) runs: Runs,
    jobs: Jobs,
    keys: Keys,
    pub(crate) dead_letters: DeadLetters,
    pub(crate) incidents: Incidents,
    pub(crate) asks: Asks,
    dated: Dated,
    pub(crate) leaders: Leaders,
    messages: Messages,
    pub(crate) deliveries: Deliveries,
    pub(crate) late: Late,
    limits: Limits,
    pub(crate) locks: Locks,
    holds: Holds,
    pub(crate) statistics: Statistics,
    steps: Steps,
    topics: Topics,
    pub(crate) seen: Seen,
    /// There is a single worker, so every run is for it.
    has_one_worker: bool,
}

/// The time at which a batch is committed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    pub(crate) clock: Timestamp,
    /// The latest engine time of any node so far.
    pub(crate) reached: Timestamp,
    /// True time.
    pub(crate) time: u64,
}

impl Witness {
    pub(crate) fn of(workers: usize) -> Self {
        Witness { has_one_worker: workers == 1, ..Witness::default() }
    }

    /// A batch was committed.
    pub(crate) fn landed(&mut self, batch: &Batch, by: Life, now: Now) -> Verdict {
        self.leaders.wrote(by, batch.shard, batch.epoch)?;
        let seen = &mut self.seen;
        seen.commits += 1;
        let born = self.runs.landed(batch, seen)?;
        self.jobs.landed(batch, &self.runs, seen)?;
        self.limits.landed(batch, &self.jobs, &self.runs, seen)?;
        self.locks.landed(batch, now.time)?;
        self.holds.landed(batch, seen)?;
        self.keys.landed(batch, &born, &self.runs, seen)?;
        self.dead_letters.landed(batch, &self.jobs, |run| self.asks.may_be_decided(run), seen)?;
        self.asks.landed(batch, &born)?;
        self.dated.landed(batch, &born, seen)?;
        self.statistics.landed(batch, &born, seen);
        self.steps.landed(batch, &born, (&self.jobs, &self.runs, &self.asks), seen)?;
        self.topics.landed(batch, &born, seen)?;
        self.incidents.landed(batch, seen)?;
        self.late.landed(&born, &self.jobs, now.clock, seen)?;
        self.messages.landed(batch, now.reached, seen)?;
        self.deliveries.landed(batch, &self.messages, now.time);
        priority::check(batch, (&self.runs, &self.jobs, &self.steps), self.has_one_worker, seen)
    }

    /// The newest workflows that have ended.
    pub(crate) fn ended_workflows(&self, count: usize) -> Vec<RunId> {
        self.steps.newest_over(count)
    }

    pub(crate) fn running_workflows(&self, count: usize) -> Vec<RunId> {
        self.steps.newest_running(count)
    }

    /// The events that steps wait for, by name and key.
    pub(crate) fn awaited_events(&self) -> Vec<(Name, Arc<str>)> {
        self.topics.awaited()
    }

    pub(crate) fn paused_workflows(&self) -> Vec<RunId> {
        self.runs.live().filter(|run| run.paused_by().is_some()).map(|run| run.id).collect()
    }

    /// All batches of a transaction were committed.
    pub(crate) fn settled(&self) -> Verdict {
        self.jobs.overlap(&self.runs)?;
        Limits::at_once(&self.jobs, &self.runs)?;
        self.jobs.held(&self.runs)
    }

    /// A leader accepts a command.
    pub(crate) fn asked(&mut self, ticket: Ticket, command: &Command, scene: Scene) {
        if let Command::Queue(ask) = command {
            self.deliveries.asked(ticket, ask, &mut self.messages, scene);
        }
        self.asks.asked(ticket, command);
        self.dated.asked(ticket, command, scene.earliest);
    }

    /// The store's clock was set back: the next leader may record earlier times than the leader before it.
    pub(crate) fn clock_went_back(&mut self) {
        self.dated.forget_times();
    }

    /// A node is told that an attempt has succeeded.
    pub(crate) fn heard(&mut self, run: RunId, token: Token, earliest: Timestamp) {
        self.dated.heard(run, token, earliest);
    }

    /// A leader sends an answer.
    pub(crate) fn answered(
        &mut self,
        ticket: Ticket,
        answer: &Result<Answer, Failure>,
        scene: Scene,
    ) -> Verdict {
        match answer {
            Ok(answer) => {
                self.seen.answers += 1;
                self.jobs.answered(answer)?;
                self.runs.answered(answer)?;
                self.dated.answered(ticket, answer, &mut self.seen)?;
                self.asks.answered(ticket, answer, &self.runs, &self.dead_letters, &mut self.seen)?;
                let Answer::Queue(said) = answer else { return Ok(()) };
                self.deliveries.answered(ticket, said, &mut self.messages, scene, &mut self.seen)
            }
            Err(Failure::Refused(refusal)) => {
                self.seen.refusals += 1;
                self.asks.refused(ticket, refusal)
            }
            Err(_) => {
                self.seen.unanswered += 1;
                self.asks.unanswered(ticket);
                self.deliveries.unanswered(ticket);
                Ok(())
            }
        }
    }

    /// A leader sends an order to a worker. The order must be committed, unless another node has taken the shard over.
    pub(crate) fn ordered(&self, order: &Order, is_outdated: bool) -> Verdict {
        if is_outdated { Ok(()) } else { self.runs.ordered(order) }
    }

    /// A worker starts an attempt.
    pub(crate) fn started(&mut self, assignment: &Assignment, now: Timestamp) -> Verdict {
        self.seen.starts += 1;
        self.seen.offered_again += u64::from(assignment.again);
        self.runs.started(assignment, now)
    }

    /// Whether a move of this attempt was asked for less than a second before the same node recorded its end: too soon for
    /// the end of its worker's lease.
    pub(crate) fn was_just_moved(&self, run: RunId, token: Token) -> bool {
        self.runs.get(run).is_some_and(|run| runs::was_just_moved(run, token))
    }

    /// A worker was told that the checkpoint of this step is stored.
    pub(crate) fn saved(&mut self, run: RunId, step: u64) {
        self.seen.checkpoints += 1;
        self.runs.saved(run, step);
    }

    /// The number of waiting messages in queues that are consumed.
    pub(crate) fn queued(&self) -> usize {
        self.messages.to_be_taken().filter(|message| message.is_queued()).count()
    }

    /// The terms by which a run must be found. `None` means that its definition is not known.
    pub(crate) fn terms_of(&self, run: &Run) -> Option<BTreeSet<Arc<str>>> {
        Some(search::terms_of(run, self.jobs.definition_of(run)?))
    }

    /// Nothing is in flight any more: every acknowledged run and message must have ended.
    pub(crate) fn at_rest(&self, reached: Timestamp) -> Verdict {
        self.messages.at_rest()?;
        self.locks.at_rest()?;
        self.deliveries.at_rest(&self.messages, reached)?;
        self.runs.all_ended()?;
        self.topics.at_rest(reached, |job| self.jobs.is_paused(job))?;
        self.incidents.at_rest(reached)?;
        self.asks.cancels_held(&self.runs)
    }
}
