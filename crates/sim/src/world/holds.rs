//! Operators who put everything on hold, and release it. They use random numbers of their own.
//!
//! Each shard is told by a command of its own, as a node does, and some of these commands are lost: then only a part of the
//! shards hold.

use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::command::Command;
use punctual_core::hold::{Fires, Hold, Scope};
use punctual_core::ids::ShardId;
use punctual_core::job::Pause;
use punctual_core::name::Namespace;
use punctual_store::Reads;

use super::events::Happening;
use super::{World, at_once, millis};
use crate::dice::Dice;

/// Maximum time between two orders, and maximum length of a hold, in milliseconds.
const GAP: u64 = 60_000;
const LENGTH: u64 = 12_000;
/// After the storm, holds are released until none is left.
const AGAIN: u64 = 2_000;

fn scope(dice: &mut Dice) -> Scope {
    if dice.one_in(2) { Scope::Everything } else { Scope::Namespace(Namespace::default()) }
}

impl World {
    pub(super) fn operators_hold(&mut self) {
        if !self.stormy {
            return self.release_all();
        }
        let next = 1_000 + self.operators.below(GAP);
        self.later(next, Happening::Hold);
        let scope = scope(&mut self.operators);
        let length = Duration::from_millis(1_000 + self.operators.below(LENGTH));
        if self.operators.one_in(4) {
            return self.tell_shards(|shard, now| Command::Release { shard, scope: scope.clone(), at: now });
        }
        let fires = if self.operators.one_in(2) { Fires::Keep } else { Fires::Skip };
        let ends = !self.operators.one_in(5);
        self.tell_shards(|shard, since| {
            let until = ends.then(|| since + length);
            let pause = Pause { reason: "a test".into(), by: Some("ops".into()), since, until };
            Command::Hold { shard, hold: Box::new(Hold { scope: scope.clone(), pause, fires }) }
        });
        if !ends {
            self.later(millis(length), Happening::Hold);
        }
    }

    fn tell_shards(&mut self, command: impl Fn(ShardId, Timestamp) -> Command) {
        let now = self.engine_time();
        for shard in 0..self.size.shards {
            self.ask(command(ShardId(shard), now));
        }
    }

    fn release_all(&mut self) {
        let rows = at_once(self.store.holds()).unwrap_or_default();
        if rows.iter().any(|row| row.is_in_force()) {
            self.later(AGAIN, Happening::Hold);
        }
        for scope in [Scope::Everything, Scope::Namespace(Namespace::default())] {
            self.tell_shards(|shard, now| Command::Release { shard, scope: scope.clone(), at: now });
        }
    }
}
