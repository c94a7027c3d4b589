//! Refuses a job that would start itself, directly or over other jobs.
//!
//! A job starts another one by a step of its workflow, or by its end. The first is in its own definition, the second in
//! that of the other job, which is therefore a listener of the first. So the walk goes from the saved job in the order in
//! which the jobs start each other.
//!
//! Two jobs that are saved at the same moment may make a cycle that neither save sees. Such a cycle ends with
//! `chain_too_long` when it runs.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use punctual_core::command::{Answer, Command, PutJob};
use punctual_core::job::{Definition, Invalid};
use punctual_core::limits::CYCLE_JOBS_MAX;
use punctual_core::name::Name;
use punctual_core::schedule::When;
use punctual_core::workflow::Workflow;

use crate::failure::Failure;
use crate::handle::Handle;

impl Handle {
    pub(crate) async fn refuse_cycle(&self, put: &PutJob) -> Result<(), Failure> {
        if upstream(&put.definition).next().is_none() && steps(&put.definition).is_empty() {
            return Ok(());
        }
        let mut walk = Walk { handle: self, put, started_by: HashMap::new(), definitions: HashMap::new() };
        match walk.last().await? {
            Some(last) => Err(Failure::Refused(walk.refusal(&last).into())),
            None => Ok(()),
        }
    }
}

struct Walk<'a> {
    handle: &'a Handle,
    put: &'a PutJob,
    /// The jobs that were reached, each with the job that starts it.
    started_by: HashMap<Name, Name>,
    /// The definitions that were read. `None` means that there is no such job.
    definitions: HashMap<Name, Option<Arc<Definition>>>,
}

impl Walk<'_> {
    /// The job that starts the saved one again. `None` means that there is no cycle.
    async fn last(&mut self) -> Result<Option<Name>, Failure> {
        let mut open = VecDeque::from([self.put.name.clone()]);
        while let Some(job) = open.pop_front() {
            let starts = self.started_by(&job).await?;
            if starts.contains(&self.put.name) {
                return Ok(Some(job));
            }
            for next in starts {
                if self.started_by.len() < CYCLE_JOBS_MAX && !self.started_by.contains_key(&next) {
                    self.started_by.insert(next.clone(), job.clone());
                    open.push_back(next);
                }
            }
        }
        Ok(None)
    }

    /// The jobs that a job starts, once the new definition is saved.
    async fn started_by(&mut self, job: &Name) -> Result<Vec<Name>, Failure> {
        let definition = self.definition(job).await?;
        let mut starts: Vec<Name> = definition.iter().flat_map(|definition| steps(definition)).collect();
        starts.extend(
            upstream(&self.put.definition).any(|before| before == job).then(|| self.put.name.clone()),
        );
        let ask = Command::Followers { namespace: self.put.namespace.clone(), name: job.clone() };
        let Answer::Followers(followers) = self.handle.ask_about(&ask).await? else { return Ok(starts) };
        for follower in followers.into_iter().filter(|follower| *follower != self.put.name) {
            let definition = self.definition(&follower).await?;
            if definition.is_some_and(|definition| upstream(&definition).any(|before| before == job)) {
                starts.push(follower);
            }
        }
        Ok(starts)
    }

    async fn definition(&mut self, job: &Name) -> Result<Option<Arc<Definition>>, Failure> {
        if *job == self.put.name {
            return Ok(Some(Arc::clone(&self.put.definition)));
        }
        if let Some(read) = self.definitions.get(job) {
            return Ok(read.clone());
        }
        let read = self.handle.reads().job(&self.put.namespace, job).await;
        let read = read.map_err(|error| Failure::Unavailable(error.to_string()))?;
        let read = read.map(|job| Arc::clone(&job.definition));
        self.definitions.insert(job.clone(), read.clone());
        Ok(read)
    }

    fn refusal(&self, last: &Name) -> Invalid {
        let first = &self.put.name;
        let mut path = vec![first, last];
        let mut at = last;
        while at != first
            && let Some(before) = self.started_by.get(at)
        {
            path.push(before);
            at = before;
        }
        path.reverse();
        let second = path.get(1).copied().unwrap_or(first);
        let path: Vec<&str> = path.into_iter().map(Name::as_str).collect();
        let workflow = self.put.definition.workflow();
        let step = workflow.and_then(|workflow| workflow.jobs().into_iter().find(|(_, job)| *job == second));
        let field = match step {
            Some((path, _)) => format!("task.workflow.{path}"),
            None => "schedule.after.job".to_owned(),
        };
        Invalid::new(field, format!("the jobs would start each other for ever: {}", path.join(" → ")))
    }
}

/// The jobs that the steps of a job start.
fn steps(definition: &Definition) -> Vec<Name> {
    let jobs = definition.workflow().map(Workflow::jobs).unwrap_or_default();
    jobs.into_iter().map(|(_, job)| job.clone()).collect()
}

/// The jobs whose ends start a job.
fn upstream(definition: &Definition) -> impl Iterator<Item = &Name> {
    definition.schedules.iter().filter_map(|schedule| match &schedule.when {
        When::After(after) => Some(&after.job),
        _ => None,
    })
}
