//! Saves a job that listens to topics: refuses cycles of jobs, and makes it a listener before the caller is answered.
//!
//! The topics may belong to other shards than the job. First each is asked to take the listener, which it refuses if it
//! has too many. After the job is saved, each is asked again, because a notice that met no job in between has removed
//! the listener. Should this node fail in between, the notices that were saved with the job do the same.

use std::collections::{HashMap, HashSet};

use punctual_core::command::{Answer, Command, PutJob};
use punctual_core::job::{Definition, Invalid};
use punctual_core::name::{Name, Namespace};
use punctual_core::schedule::{Schedule, When};
use punctual_core::topic::{Listener, TopicKey};

use crate::failure::Failure;
use crate::handle::Handle;

/// How many jobs a check for cycles looks at. A longer cycle ends with `chain_too_long` when it runs.
const LOOKED_AT_MAX: usize = 1_000;

impl Handle {
    /// Saves a job that listens to topics.
    pub(crate) async fn save_listener(&self, put: PutJob) -> Result<Answer, Failure> {
        self.refuse_cycle(&put).await?;
        let listens = listens(&put);
        for listen in &listens {
            self.ask_about(listen).await?;
        }
        let answer = self.ask_about(&Command::PutJob(put)).await?;
        for listen in &listens {
            self.ask_about(listen).await?;
        }
        Ok(answer)
    }

    async fn refuse_cycle(&self, put: &PutJob) -> Result<(), Failure> {
        let mut downstream: HashMap<Name, Name> = HashMap::new();
        let mut seen: HashSet<Name> = HashSet::new();
        let mut open = vec![(put.name.clone(), upstream_of(&put.definition))];
        while let Some((job, upstream)) = open.pop() {
            for before in upstream {
                if before == put.name {
                    return Err(Failure::Refused(cycle(&before, &job, &downstream).into()));
                }
                if seen.len() < LOOKED_AT_MAX && seen.insert(before.clone()) {
                    downstream.insert(before.clone(), job.clone());
                    open.push((before.clone(), self.upstream(&put.namespace, &before).await?));
                }
            }
        }
        Ok(())
    }

    async fn upstream(&self, namespace: &Namespace, job: &Name) -> Result<Vec<Name>, Failure> {
        let job = self.reads().job(namespace, job).await;
        let job = job.map_err(|error| Failure::Unavailable(error.to_string()))?;
        Ok(job.map_or_else(Vec::new, |job| upstream_of(&job.definition)))
    }
}

/// Whether a job listens to a topic.
pub(crate) fn is_listener(definition: &Definition) -> bool {
    definition.schedules.iter().any(|schedule| schedule.topic().is_some())
}

fn listens(put: &PutJob) -> Vec<Command> {
    let topics = put.definition.schedules.iter().filter_map(Schedule::topic);
    let listen = topics.map(|topic| Command::Listen {
        topic: TopicKey { namespace: put.namespace.clone(), topic },
        listener: Listener::Job(put.name.clone()),
        key: None,
    });
    listen.collect()
}

/// The jobs whose ends start a job.
fn upstream_of(definition: &Definition) -> Vec<Name> {
    let after = definition.schedules.iter().filter_map(|schedule| match &schedule.when {
        When::After(after) => Some(after.job.clone()),
        _ => None,
    });
    after.collect()
}

/// `first` starts again when `last` ends.
fn cycle(first: &Name, last: &Name, downstream: &HashMap<Name, Name>) -> Invalid {
    let mut path = format!("{first} → {last}");
    let mut at = last;
    while let Some(next) = downstream.get(at) {
        path.push_str(&format!(" → {next}"));
        at = next;
    }
    Invalid::new("schedule.after.job", format!("the jobs would start each other for ever: {path}"))
}
