//! Orders that every shard has to take: each is told, and the caller is answered when all of them have committed it.
//!
//! If some shards have missed an order, the caller repeats it: a repetition changes nothing where it was taken.

use punctual_core::Timestamp;
use punctual_core::command::{Answer, Command, Refusal};
use punctual_core::hold::{Hold, Scope};
use punctual_core::ids::ShardId;
use tokio::task::JoinSet;

use crate::failure::{Failure, stopped};
use crate::handle::Handle;

impl Handle {
    /// Begins a hold. After that, no attempt starts where it is in force.
    pub async fn hold(&self, hold: &Hold) -> Result<(), Failure> {
        hold.pause.check().map_err(Refusal::from)?;
        self.tell_shards(|shard| Command::Hold { shard, hold: Box::new(hold.clone()) }).await.map(|_| ())
    }

    /// Ends a hold. Returns whether it was in force.
    pub async fn release(&self, scope: &Scope, at: Timestamp) -> Result<bool, Failure> {
        let release = |shard| Command::Release { shard, scope: scope.clone(), at };
        let answers = self.tell_shards(release).await?;
        Ok(answers.contains(&Answer::Released(true)))
    }

    async fn tell_shards(&self, command: impl Fn(ShardId) -> Command) -> Result<Vec<Answer>, Failure> {
        let (mut asked, total) = (JoinSet::new(), self.store.shards());
        for shard in 0..total {
            let (handle, command) = (self.clone(), command(ShardId(shard)));
            asked.spawn(async move { handle.ask_about(&command).await });
        }
        let (mut answers, mut failed) = (Vec::with_capacity(usize::from(total)), None);
        while let Some(answer) = asked.join_next().await {
            match answer.unwrap_or_else(|_| Err(stopped())) {
                Ok(answer) => answers.push(answer),
                Err(failure) => failed = Some(failure),
            }
        }
        match failed {
            None => Ok(answers),
            Some(Failure::Refused(refusal)) if answers.is_empty() => Err(refusal.into()),
            Some(failure) => {
                let taken = answers.len();
                let message = format!("{taken} of {total} shards have taken the order, repeat it: {failure}");
                Err(Failure::Unavailable(message))
            }
        }
    }
}
