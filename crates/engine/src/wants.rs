//! The rows that a command needs, and how they get into memory.
//!
//! `wants` names the rows that neither memory nor a pin has, `supply` takes the rows read, `supplied` drops them again.

use std::sync::Arc;

use punctual_core::change::{DueSpan, Found, Want};
use punctual_core::command::{ActOnSteps, BackfillJob, Command, Ping, RetryRun, RunJob};
use punctual_core::ids::RunId;
use punctual_core::job::Job;
use punctual_core::name::{Name, Namespace};
use punctual_core::topic::Listener;

use crate::Shard;
use crate::intake::keys;
use crate::topics;

impl Shard {
    /// The rows that a command needs and that neither memory nor a pin has. A row that was read may make another one
    /// necessary: the caller asks again after `supply`, and leaves out the rows it has already asked for.
    pub fn wants(&self, command: &Command) -> Vec<Want> {
        let mut wants = Vec::new();
        match command {
            Command::PutJob(put) => self.want_job(&put.namespace, &put.name, &mut wants),
            Command::ReplanJob { namespace, name, .. }
            | Command::DeleteJob { namespace, name, .. }
            | Command::PauseJob { namespace, name, .. }
            | Command::ResumeJob { namespace, name } => self.want_job(namespace, name, &mut wants),
            Command::RunJob(RunJob { namespace, name, key, params, .. }) => {
                self.want_job(namespace, name, &mut wants);
                // Without a key in the command, the job's `unique` is the key, known once the job is in memory.
                let unique = self.peek_job(namespace, name).and_then(|job| {
                    // A template that cannot be evaluated is refused by intake.
                    keys::unique_of(&job.definition, params.as_ref()).ok().flatten()
                });
                if let Some(key) = key.clone().or(unique) {
                    self.want_unique(&keys::job_run_key(namespace, name, &key.text), &mut wants);
                }
            }
            Command::Ping(Ping { namespace, name, run, .. }) => {
                self.want_job(namespace, name, &mut wants);
                if let Some(run) = run {
                    self.want_run(*run, &mut wants);
                }
            }
            Command::Backfill(BackfillJob { namespace, name, from, to, .. }) => {
                self.want_job(namespace, name, &mut wants);
                let span =
                    self.peek_job(namespace, name).map(|job| DueSpan { job: job.id, from: *from, to: *to });
                wants.extend(span.map(Want::DueRuns));
            }
            Command::Submit(submit) => {
                if let Ok(Some(key)) = keys::given_key(submit) {
                    self.want_unique(&keys::submit_key(&submit.namespace, &key.text), &mut wants);
                }
            }
            Command::CancelRun { run, .. }
            | Command::MoveRun { run, .. }
            | Command::ActOnSteps(ActOnSteps { run, .. })
            | Command::DiscardDeadLetter { run, .. }
            | Command::Progress { run, .. } => {
                self.want_run(*run, &mut wants);
            }
            Command::RetryRun(RetryRun { namespace, run, key, from, .. }) => {
                self.want_run(*run, &mut wants);
                if from.is_some() && !self.pins.steps.contains_key(run) {
                    wants.push(Want::Steps(*run));
                }
                if let Some(key) = key {
                    self.want_unique(&keys::retry_key(namespace, *run, &key.text), &mut wants);
                }
            }
            Command::CancelCall(ask) => self.want_called(ask, &mut wants),
            Command::Wake(wake) => {
                if let Listener::Job(job) = &wake.listener {
                    self.want_job(&wake.topic.namespace, job, &mut wants);
                    self.want_unique(&topics::start_key(job, wake), &mut wants);
                }
            }
            Command::SendEvent { namespace, name, event } => {
                if let Some(key) = &event.key {
                    self.want_unique(&topics::event_key(namespace, name, key), &mut wants);
                }
            }
            Command::Listen { listener: Listener::Step(step), .. } | Command::StopListening { step, .. } => {
                self.want_unique(&topics::heard_key(*step), &mut wants);
            }
            Command::Listen { .. } | Command::Unlisten { .. } | Command::Followers { .. } => {}
            // A running attempt and a step that waits are always in memory.
            Command::Tell { .. } | Command::StepListens { .. } => {}
            // Every held lock is in memory.
            Command::Lock(_) => {}
            Command::Hold { .. } | Command::Release { .. } => {}
            // Incidents are always in memory.
            Command::ActOnIncident(_) | Command::NoteChannel(_) => {}
            Command::Queue(ask) => self.want_messages(ask, &mut wants),
        }
        wants
    }

    fn peek_job(&self, namespace: &Namespace, name: &Name) -> Option<&Arc<Job>> {
        let key = (namespace.clone(), name.clone());
        let pinned = || self.pins.jobs.get(&key).and_then(|pin| pin.row.as_ref());
        self.names.get(&key).and_then(|id| self.jobs.get(id)).map(|live| &live.job).or_else(pinned)
    }

    fn want_job(&self, namespace: &Namespace, name: &Name, wants: &mut Vec<Want>) {
        let key = (namespace.clone(), name.clone());
        if !self.names.contains_key(&key) && !self.pins.jobs.contains_key(&key) {
            wants.push(Want::Job(key.0, key.1));
        }
    }

    pub(crate) fn want_run(&self, run: RunId, wants: &mut Vec<Want>) {
        if !self.runs.contains_key(&run) && !self.pins.runs.contains_key(&run) {
            wants.push(Want::Run(run));
        }
    }

    pub(crate) fn want_unique(&self, key: &Arc<str>, wants: &mut Vec<Want>) {
        if !self.dirty.uniques.contains_key(key) && !self.pins.uniques.contains_key(key) {
            wants.push(Want::Unique(Arc::clone(key)));
        }
    }

    /// Takes rows read for the next commands. Where memory or a pin has the row, the read one is ignored.
    pub fn supply(&mut self, mut found: Found) {
        self.supply_messages(std::mem::take(&mut found.messages));
        for job in self.fetched.take(found) {
            let key = (job.namespace.clone(), job.name.clone());
            if job.shard() == self.id && !self.names.contains_key(&key) && !self.pins.jobs.contains_key(&key)
            {
                self.fetched.jobs.insert(job.id);
                self.remember_job(job, true);
            }
        }
    }

    /// Drops rows that were read for commands and that nothing keeps in memory.
    pub fn supplied(&mut self) {
        self.forget_messages();
        self.fetched.runs.clear();
        self.fetched.steps.clear();
        self.fetched.uniques.clear();
        self.fetched.due_runs.clear();
        for id in std::mem::take(&mut self.fetched.jobs) {
            // A dirty job leaves memory when its batch is sealed.
            if !self.dirty.jobs.contains(&id) {
                self.drop_if_far(id, None);
            }
        }
    }
}
