//! Brings a command to the node that leads its shard, wherever that is, within the caller's patience.
//!
//! ```text
//!  door ──command──▶ who leads its shard? ──here──▶ the loop
//!                      │       ▲          ──at──▶ peers ──▶ that node's loop; it never passes it on
//!                   nobody     │
//!                      └─ wait ┘
//! ```
//!
//! **Unknown is not failed.** A command that was sent and never answered is sent again only if doing it twice comes to
//! the same; and then a refusal says nothing, for it may be our own first try that it speaks of.

use std::time::Duration;

use punctual_core::command::{Answer, Command};
use punctual_failpoint::{Point, hit, midway};
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

use crate::handle::{Failure, Handle};
use crate::leaders::{self, Leader, Leaders};

/// After this long a peer is asked again, even if nobody said that anything has changed: it may know better.
const AGAIN: Duration = Duration::from_millis(200);

impl Handle {
    /// Asks the leader of the command's shard; the answer comes after its commit.
    pub async fn command(&self, command: Command) -> Result<Answer, Failure> {
        let shard = command.shard(self.store.shards());
        let mut leaders = self.leaders.clone();
        let until = Instant::now() + self.patience;
        let mut is_lost = false;
        loop {
            let leader = leaders.borrow_and_update().of(shard).clone();
            let is_led = leader != Leader::Nobody;
            let why = match self.ask(&leader, &command, until).await {
                Err(Failure::NotLed(why)) => why,
                Err(Failure::Unknown(why)) if command.is_repeatable() => {
                    is_lost = true;
                    why
                }
                Err(Failure::Refused(refusal)) if is_lost => return Err(unknown(&refusal.to_string())),
                answer => return answer,
            };
            // A node that has stopped will not hear of another leader.
            if self.asks.is_closed() || !wait(&mut leaders, is_led, until).await {
                return Err(if is_lost { unknown(&why) } else { Failure::Unavailable(why) });
            }
        }
    }

    /// Asks this node, and no other: for commands that were passed on to it.
    pub async fn command_here(&self, command: Command) -> Result<Answer, Failure> {
        let shard = command.shard(self.store.shards());
        if !self.leaders.borrow().is_here(shard) {
            return Err(Failure::NotLed(format!("shard {shard} is not led by this node")));
        }
        self.carry_out_for_peer(command).await
    }

    async fn ask(&self, leader: &Leader, command: &Command, until: Instant) -> Result<Answer, Failure> {
        match leader {
            Leader::Here => self.carry_out(command.clone()).await,
            Leader::At(address) => {
                hit(Point::NodeForwardBegun);
                let asked = self.peers.ask(address, command, until.saturating_duration_since(Instant::now()));
                let answer = midway(Point::NodeForwardUnderWay, asked).await;
                hit(Point::NodeForwardAnswered);
                answer
            }
            Leader::Nobody => Err(Failure::NotLed("its shard has no leader now; try again".to_owned())),
        }
    }
}

/// Waits for another leader, or for the same to be worth asking again; false: there is no time left for it.
async fn wait(leaders: &mut watch::Receiver<Leaders>, is_led: bool, until: Instant) -> bool {
    let changed = leaders::changed(leaders);
    let waited = async {
        if is_led {
            // Changed or not, it is time to ask again.
            drop(timeout(AGAIN, changed).await);
        } else {
            changed.await;
        }
    };
    timeout_at(until, waited).await.is_ok()
}

fn unknown(why: &str) -> Failure {
    Failure::Unknown(format!(
        "the answer of the node that leads its shard was lost, so it may have happened or not; asked again: {why}"
    ))
}
