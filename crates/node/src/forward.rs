//! Sends a command to the node that leads its shard, within the caller's patience.
//!
//! ```text
//!  endpoint ──command──▶ leader of its shard? ──here──▶ the loop
//!                          │       ▲          ──at──▶ peers ──▶ that node's loop, which never forwards
//!                       unknown    │
//!                          └─ wait ┘
//! ```
//!
//! **Unknown is not failed.** A command whose answer was lost is sent again only if it is idempotent. After that a
//! refusal proves nothing, because it may be caused by our own first try.

use std::time::Duration;

use punctual_core::command::{Answer, Command};
use punctual_failpoint::{Point, hit, midway};
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

use crate::failure::{Failure, no_leader};
use crate::handle::Handle;
use crate::leaders::{self, Leader, Leaders};

/// After this time a peer is asked again even if the leaders have not changed here: the peer may have newer
/// information.
const AGAIN: Duration = Duration::from_millis(200);

impl Handle {
    /// Sends a command to the leader of its shard; the answer comes after the commit.
    pub async fn command(&self, command: Command) -> Result<Answer, Failure> {
        match command {
            // In a box, so that the future of every other command stays small.
            Command::PutJob(put) => Box::pin(self.save_job(put)).await,
            command => self.ask_about(&command).await,
        }
    }

    pub(crate) async fn ask_about(&self, command: &Command) -> Result<Answer, Failure> {
        self.ask_leader(command).await.map_err(|failure| failure.about(&command.subject()))
    }

    async fn ask_leader(&self, command: &Command) -> Result<Answer, Failure> {
        let shard = command.shard(self.store.shards());
        let mut leaders = self.leaders.clone();
        let until = Instant::now() + self.patience;
        let mut is_lost = false;
        loop {
            let leader = leaders.borrow_and_update().of(shard).clone();
            let is_led = leader != Leader::Nobody;
            let why = match self.ask(&leader, command, until).await {
                Err(Failure::NotLed(why)) => why,
                Err(Failure::Unknown(why)) if command.is_repeatable() => {
                    is_lost = true;
                    why
                }
                Err(Failure::Refused(refusal)) if is_lost => return Err(unknown(&refusal.to_string())),
                answer => return answer,
            };
            // A node that has stopped gets no news about leaders.
            if self.asks.is_closed() || !wait(&mut leaders, is_led, until).await {
                return Err(if is_lost { unknown(&why) } else { Failure::Unavailable(why) });
            }
        }
    }

    /// Carries out a command only on this node: for commands that another node forwarded.
    pub async fn command_here(&self, command: Command) -> Result<Answer, Failure> {
        let shard = command.shard(self.store.shards());
        if !self.leaders.borrow().is_here(shard) {
            return Err(Failure::NotLed(format!("this node does not lead shard {shard}; ask its leader")));
        }
        self.carry_out_for_peer(command).await
    }

    pub(crate) async fn ask(
        &self,
        leader: &Leader,
        command: &Command,
        until: Instant,
    ) -> Result<Answer, Failure> {
        match leader {
            Leader::Here => self.carry_out(command.clone()).await,
            Leader::At(address) => {
                hit(Point::NodeForwardBegun);
                let asked = self.peers.ask(address, command, until.saturating_duration_since(Instant::now()));
                let answer = midway(Point::NodeForwardUnderWay, asked).await;
                hit(Point::NodeForwardAnswered);
                answer
            }
            Leader::Nobody => Err(no_leader()),
        }
    }
}

/// Waits for another leader, or until it is time to ask the same one again. False means the deadline has passed.
pub(crate) async fn wait(leaders: &mut watch::Receiver<Leaders>, is_led: bool, until: Instant) -> bool {
    let changed = leaders::changed(leaders);
    let waited = async {
        if is_led {
            drop(timeout(AGAIN, changed).await);
        } else {
            changed.await;
        }
    };
    timeout_at(until, waited).await.is_ok()
}

fn unknown(why: &str) -> Failure {
    Failure::Unknown(format!(
        "the answer of the node that leads its shard was lost, so the command may have taken effect; check before you try \
         again (second try: {why})"
    ))
}
