//! Saves a job. If it listens to topics, it is a listener of each before the caller is answered.
//!
//! The topics may belong to other shards than the job. First each is asked to take the listener, which it refuses if it
//! has too many. After the job is saved, each is asked again, because a notice that met no job in between has removed
//! the listener. Should this node fail in between, the notices that were saved with the job do the same.

use punctual_core::command::{Answer, Command, PutJob};
use punctual_core::schedule::Schedule;
use punctual_core::topic::{Listener, TopicKey};

use crate::failure::Failure;
use crate::handle::Handle;

impl Handle {
    pub(crate) async fn save_job(&self, put: PutJob) -> Result<Answer, Failure> {
        self.refuse_cycle(&put).await?;
        self.refuse_too_many_pings(&put).await?;
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
