//! A node that is too busy gives shards away, one at a time, by weighing less: its weight is in its session for all to
//! see, so everyone still draws the same conclusion about who leads what. When it has been idle for long, it takes them
//! back the same way.

use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::ids::ShardId;
use punctual_store::Session;

use super::rank::{score, unit};

/// And below which it may take more.
const COOL: u8 = 50;
const COOL_FOR: Duration = Duration::from_secs(60);
/// The smallest part of its own weight that a node comes down to.
const LIGHTEST: u32 = 10;
/// What it takes back at once is a part of its weight.
const STEP: u32 = 20;

/// From when on a node is too busy. Another node has to be less busy by a quarter of it: a cluster that is busy everywhere gains
/// nothing by moving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hot {
    /// Percent of the scheduling thread's time.
    pub percent: u8,
    /// For so long.
    pub span: Duration,
}

impl Default for Hot {
    fn default() -> Self {
        Hot { percent: 80, span: Duration::from_secs(10) }
    }
}

#[derive(Debug)]
pub(super) struct Burden {
    /// What this node weighs when it is not busy.
    own: u32,
    pub(super) hot: Hot,
    hot_since: Option<Timestamp>,
    cool_since: Option<Timestamp>,
}

impl Burden {
    pub(super) fn of(own: u32) -> Self {
        Burden { own, hot: Hot::default(), hot_since: None, cool_since: None }
    }

    /// What this node is to weigh from now on. `members` are those who may lead, `led` what this one leads.
    pub(super) fn weigh(
        &mut self,
        me: &Session,
        members: &[Session],
        led: &[ShardId],
        lived: Timestamp,
    ) -> u32 {
        let is_cooler =
            |other: &Session| other.id != me.id && other.load.saturating_add(self.hot.percent / 4) <= me.load;
        let is_hot = me.load >= self.hot.percent && members.iter().any(is_cooler);
        let is_cool = me.load < COOL && me.weight < self.own;
        if lasted(&mut self.hot_since, is_hot, self.hot.span, lived) {
            let lighter = without_one(me, members, led).unwrap_or(me.weight);
            return lighter.max(self.own / LIGHTEST).min(me.weight);
        }
        if lasted(&mut self.cool_since, is_cool, COOL_FOR, lived) {
            return (me.weight + (self.own / STEP).max(1)).min(self.own);
        }
        me.weight
    }
}

/// Whether it has been so for so long; if so, the count begins again.
fn lasted(since: &mut Option<Timestamp>, is_so: bool, span: Duration, lived: Timestamp) -> bool {
    if !is_so {
        *since = None;
        return false;
    }
    let has_lasted = lived.since(*since.get_or_insert(lived)) >= span;
    if has_lasted {
        *since = None;
    }
    has_lasted
}

/// The weight with which exactly one of the shards that this node leads goes to somebody else: the first to go is the
/// one whose next in the rank is nearest.
fn without_one(me: &Session, members: &[Session], led: &[ShardId]) -> Option<u32> {
    let others = || members.iter().filter(|other| other.id != me.id);
    let goes_below = led.iter().filter_map(|shard| {
        let next = others().map(|other| score(*shard, other)).max_by(f64::total_cmp)?;
        Some(-next * unit(*shard, me).ln())
    });
    let first = goes_below.filter(|weight| *weight <= f64::from(me.weight)).max_by(f64::total_cmp)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and a weight")]
    let below = first.floor() as u32;
    Some(below.saturating_sub(1).max(1))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use punctual_core::ids::SessionId;

    use super::*;

    const WEIGHT: u32 = 10_000;

    fn session(id: i64, load: u8) -> Session {
        let node = Arc::from(format!("n{id}"));
        Session { id: SessionId(id), node, address: None, weight: WEIGHT, embedded: false, load }
    }

    fn leads(members: &[Session], id: i64) -> Vec<ShardId> {
        let first = |shard: ShardId| {
            let ranked =
                members.iter().max_by(|one, other| score(shard, one).total_cmp(&score(shard, other)));
            ranked.is_some_and(|first| first.id == SessionId(id))
        };
        (0..64).map(ShardId).filter(|shard| first(*shard)).collect()
    }

    /// Looks once a second for so long, and moves as the others would see it.
    fn pass(burden: &mut Burden, members: &mut [Session], from: i64, seconds: i64) {
        for second in from..from + seconds {
            let led = leads(members, 1);
            let at = Timestamp::from_millis(second * 1000);
            members[0].weight = burden.weigh(&members[0].clone(), members, &led, at);
        }
    }

    #[test]
    fn a_node_that_is_too_busy_for_ten_seconds_gives_one_shard_away() {
        for cooler in 2..40 {
            let mut members = [session(1, 90), session(cooler, 30), session(cooler + 50, 85)];
            let before = leads(&members, 1);
            let mut burden = Burden::of(WEIGHT);
            pass(&mut burden, &mut members, 0, 10);
            assert_eq!(leads(&members, 1), before, "ten seconds are not over");
            pass(&mut burden, &mut members, 10, 1);
            let after = leads(&members, 1);
            assert_eq!(after.len() + 1, before.len(), "beside node {cooler}");
            assert!(after.iter().all(|shard| before.contains(shard)), "it took something, too");
        }
    }

    #[test]
    fn a_busy_spell_or_a_cluster_that_is_busy_everywhere_moves_nothing() {
        let mut members = [session(1, 90), session(2, 85)];
        let mut burden = Burden::of(WEIGHT);
        pass(&mut burden, &mut members, 0, 100);
        assert_eq!(members[0].weight, WEIGHT);
        members[1].load = 10;
        pass(&mut burden, &mut members, 100, 9);
        members[0].load = 60;
        pass(&mut burden, &mut members, 109, 1);
        members[0].load = 90;
        pass(&mut burden, &mut members, 110, 9);
        assert_eq!(members[0].weight, WEIGHT);
    }

    #[test]
    fn however_long_it_is_busy_it_keeps_something_and_takes_all_back_when_it_is_idle() {
        let mut members = [session(1, 100), session(2, 0), session(3, 0)];
        let before = leads(&members, 1);
        let mut burden = Burden::of(WEIGHT);
        pass(&mut burden, &mut members, 0, 3600);
        assert!(members[0].weight >= WEIGHT / LIGHTEST);
        assert!(leads(&members, 1).len() < before.len() / 2);
        members[0].load = 10;
        pass(&mut burden, &mut members, 3600, 3600);
        assert_eq!(members[0].weight, WEIGHT);
        assert_eq!(leads(&members, 1), before);
    }
}
