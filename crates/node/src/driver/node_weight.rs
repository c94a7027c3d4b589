//! Balances load: a node that is too busy gives shards away one at a time by lowering its weight. The weight is part of
//! its session, so all nodes compute the same leaders. After a long idle time the node raises its weight again.

use std::time::Duration;

use punctual_core::ids::ShardId;
use punctual_core::time::Elapsed;
use punctual_store::Session;

use super::rank::{score, unit};

/// The load in percent below which a node may take shards back, if it lasts for [`COOL_FOR`].
const COOL: u8 = 50;
const COOL_FOR: Duration = Duration::from_secs(60);
/// The weight never drops below this fraction (1/10) of the node's own weight.
const LIGHTEST: u32 = 10;
/// The weight is raised by this fraction (1/20) of the node's own weight at a time.
const STEP: u32 = 20;

/// When a node counts as too busy. It gives a shard away only if another node's load is lower by a quarter of
/// `percent`: moving shards does not help when all nodes are busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadLimit {
    /// Load in percent of the scheduling thread's time.
    pub percent: u8,
    /// How long the load has to last.
    pub span: Duration,
}

impl Default for LoadLimit {
    fn default() -> Self {
        LoadLimit { percent: 80, span: Duration::from_secs(10) }
    }
}

#[derive(Debug)]
pub(super) struct NodeWeight {
    /// This node's weight when it is not busy.
    own: u32,
    pub(super) load_limit: LoadLimit,
    over_since: Option<Elapsed>,
    under_since: Option<Elapsed>,
}

impl NodeWeight {
    pub(super) fn of(own: u32) -> Self {
        NodeWeight { own, load_limit: LoadLimit::default(), over_since: None, under_since: None }
    }

    /// This node's new weight. `members` are the nodes that may lead, `led` the shards that this node leads.
    pub(super) fn weigh(
        &mut self,
        me: &Session,
        members: &[Session],
        led: &[ShardId],
        lived: Elapsed,
    ) -> u32 {
        let is_less_loaded = |other: &Session| {
            other.id != me.id && other.load.saturating_add(self.load_limit.percent / 4) <= me.load
        };
        let is_over = me.load >= self.load_limit.percent && members.iter().any(is_less_loaded);
        let is_under = me.load < COOL && me.weight < self.own;
        if lasted(&mut self.over_since, is_over, self.load_limit.span, lived) {
            let lighter = without_one(me, members, led).unwrap_or(me.weight);
            return lighter.max(self.own / LIGHTEST).min(me.weight);
        }
        if lasted(&mut self.under_since, is_under, COOL_FOR, lived) {
            return (me.weight + (self.own / STEP).max(1)).min(self.own);
        }
        me.weight
    }
}

/// Whether a condition has lasted for `span`; if so, the count starts again.
fn lasted(since: &mut Option<Elapsed>, is_so: bool, span: Duration, lived: Elapsed) -> bool {
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

/// The highest weight at which this node loses exactly one of its shards: the one where the second in rank is closest.
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

    /// Evaluates the weight once a second and updates the session as other nodes would see it.
    fn pass(weight: &mut NodeWeight, members: &mut [Session], from: i64, seconds: i64) {
        for second in from..from + seconds {
            let led = leads(members, 1);
            let at = Elapsed::from_millis(second * 1000);
            members[0].weight = weight.weigh(&members[0].clone(), members, &led, at);
        }
    }

    #[test]
    fn a_node_that_is_too_busy_for_ten_seconds_gives_one_shard_away() {
        for cooler in 2..40 {
            let mut members = [session(1, 90), session(cooler, 30), session(cooler + 50, 85)];
            let before = leads(&members, 1);
            let mut weight = NodeWeight::of(WEIGHT);
            pass(&mut weight, &mut members, 0, 10);
            assert_eq!(leads(&members, 1), before, "ten seconds are not over");
            pass(&mut weight, &mut members, 10, 1);
            let after = leads(&members, 1);
            assert_eq!(after.len() + 1, before.len(), "node {cooler} is less busy");
            assert!(after.iter().all(|shard| before.contains(shard)), "it took a shard, too");
        }
    }

    #[test]
    fn a_busy_spell_or_a_cluster_that_is_busy_everywhere_moves_nothing() {
        let mut members = [session(1, 90), session(2, 85)];
        let mut weight = NodeWeight::of(WEIGHT);
        pass(&mut weight, &mut members, 0, 100);
        assert_eq!(members[0].weight, WEIGHT);
        members[1].load = 10;
        pass(&mut weight, &mut members, 100, 9);
        members[0].load = 60;
        pass(&mut weight, &mut members, 109, 1);
        members[0].load = 90;
        pass(&mut weight, &mut members, 110, 9);
        assert_eq!(members[0].weight, WEIGHT);
    }

    #[test]
    fn a_busy_node_keeps_a_shard_and_takes_all_back_when_idle() {
        let mut members = [session(1, 100), session(2, 0), session(3, 0)];
        let before = leads(&members, 1);
        let mut weight = NodeWeight::of(WEIGHT);
        pass(&mut weight, &mut members, 0, 3600);
        assert!(members[0].weight >= WEIGHT / LIGHTEST);
        assert!(leads(&members, 1).len() < before.len() / 2);
        members[0].load = 10;
        pass(&mut weight, &mut members, 3600, 3600);
        assert_eq!(members[0].weight, WEIGHT);
        assert_eq!(leads(&members, 1), before);
    }
}
