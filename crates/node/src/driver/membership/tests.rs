use std::sync::Arc;

use super::*;

const LEASE: Duration = Duration::from_secs(3);
const SHARDS: u16 = 64;

fn at(millis: i64) -> Elapsed {
    Elapsed::from_millis(millis)
}

fn session(id: i64) -> Session {
    Session {
        id: SessionId(id),
        node: Arc::from(format!("n{id}")),
        address: Some(Arc::from(format!("127.0.0.1:{id}"))),
        weight: 100,
        embedded: false,
        load: 0,
    }
}

fn steady(session: Session) -> Member {
    Member { session, age: Duration::from_secs(60) }
}

fn members(ids: impl IntoIterator<Item = i64>) -> Vec<Member> {
    ids.into_iter().map(|id| steady(session(id))).collect()
}

/// Every shard in epoch 1, led by the session that `owner` returns.
fn leases(owner: impl Fn(u16) -> Option<i64>) -> Leases {
    let lease = |shard| Lease {
        shard: ShardId(shard),
        epoch: Epoch(1),
        owner: owner(shard).map(SessionId),
        heir: None,
    };
    Leases { now: Timestamp::from_millis(0), shards: (0..SHARDS).map(lease).collect() }
}

/// A shard that this node leads in epoch 1, without running attempts.
fn led(shard: u16) -> Ours {
    Ours { shard: ShardId(shard), epoch: Some(Epoch(1)), is_under_way: false }
}

fn look(me: i64, view: View, ours: &[u16], elapsed: i64) -> Vec<Move> {
    let mut membership = Membership::new(session(me), LEASE, SHARDS, at(0));
    let ours: Vec<_> = ours.iter().copied().map(led).collect();
    assert!(membership.takes_turn(at(elapsed)));
    membership.look(view, &ours, at(elapsed))
}

fn claimed(moves: &[Move]) -> Vec<u16> {
    let claims = moves.iter().filter_map(|step| match step {
        Move::Claim(claim) => Some(claim.shard.0),
        _ => None,
    });
    claims.collect()
}

#[test]
fn a_leader_that_is_no_member_is_noticed() {
    let members = members([1, 2]);
    assert!(!View::has_unknown_leader(&members, &leases(|shard| (shard > 0).then_some(2))));
    assert!(View::has_unknown_leader(&members, &leases(|shard| Some(if shard == 1 { 3 } else { 2 }))));
}

#[test]
fn shards_without_a_leader_are_spread_over_live_nodes() {
    let view = View {
        members: Some(members([1, 2, 3])),
        leases: leases(|_| None),
        refusing: vec![],
        is_time_known: true,
    };
    let mut all = Vec::new();
    for me in [1, 2, 3] {
        let mine = claimed(&look(me, view.clone(), &[], 0));
        assert!((12..=32).contains(&mine.len()), "node {me} took {} of 64", mine.len());
        all.extend(mine);
    }
    all.sort_unstable();
    assert_eq!(all, (0..SHARDS).collect::<Vec<_>>(), "every shard is claimed by one node");
}

#[test]
fn a_node_of_twice_the_weight_leads_about_twice_as_much() {
    let mut list = members([1, 2, 3]);
    list[0].session.weight = 200;
    let mut membership = Membership::new(session(1), LEASE, 1024, at(0));
    membership.look(
        View { members: Some(list), leases: leases(|_| None), refusing: vec![], is_time_known: true },
        &[],
        at(0),
    );
    let first = |shard| membership.ranked(ShardId(shard))[0];
    let heavy = (0..1024).filter(|shard| first(*shard) == SessionId(1)).count();
    assert!((420..=600).contains(&heavy), "{heavy} of 1024");
}

#[test]
fn a_shard_of_the_dead_is_claimed_in_the_epoch_that_was_seen() {
    let view = View {
        members: Some(members([1])),
        leases: leases(|_| Some(9)),
        refusing: vec![],
        is_time_known: true,
    };
    let moves = look(1, view, &[], 0);
    assert_eq!(moves.len(), usize::from(SHARDS));
    assert_eq!(moves[0], Move::Claim(Claim { shard: ShardId(0), expected_epoch: Some(Epoch(1)) }));
}

#[test]
fn a_live_node_keeps_its_shards_until_it_releases_them() {
    let view = View {
        members: Some(members([1, 2])),
        leases: leases(|_| Some(2)),
        refusing: vec![],
        is_time_known: true,
    };
    assert_eq!(look(1, view, &[], 0), []);
}

#[test]
fn a_node_whose_address_refuses_is_dead_despite_its_session() {
    let view = View {
        members: Some(members([1, 2])),
        leases: leases(|_| Some(2)),
        refusing: vec![SessionId(2)],
        is_time_known: true,
    };
    assert_eq!(claimed(&look(1, view, &[], 0)).len(), usize::from(SHARDS));
}

#[test]
fn a_newer_session_at_an_address_replaces_the_older() {
    let mut list = members([1, 2]);
    let again = Session { address: list[1].session.address.clone(), ..session(9) };
    list.push(Member { session: again, age: Duration::from_millis(200) });
    let view =
        View { members: Some(list), leases: leases(|_| Some(2)), refusing: vec![], is_time_known: true };
    assert_eq!(claimed(&look(1, view, &[], 0)).len(), usize::from(SHARDS));
}

#[test]
fn shards_go_to_a_newcomer_one_at_a_time_and_by_name() {
    let view = View {
        members: Some(members([1, 2])),
        leases: leases(|_| Some(1)),
        refusing: vec![],
        is_time_known: true,
    };
    let all: Vec<u16> = (0..SHARDS).collect();
    let moves = look(1, view, &all, 0);
    assert!(matches!(moves[..], [Move::Release { heir: SessionId(2), .. }]), "{moves:?}");
}

/// One of two embedded nodes, which leads every shard although the other should lead some of them.
struct EmbeddedPair {
    membership: Membership,
    view: View,
}

impl EmbeddedPair {
    fn new() -> Self {
        let mut list = members([1, 2]);
        for member in &mut list {
            member.session = Session { address: None, embedded: true, ..member.session.clone() };
        }
        let me = list[0].session.clone();
        let leases = leases(|_| Some(1));
        let view = View { members: Some(list), leases, refusing: vec![], is_time_known: true };
        EmbeddedPair { membership: Membership::new(me, LEASE, SHARDS, at(0)), view }
    }

    fn releases(&mut self, is_under_way: impl Fn(u16) -> bool, elapsed: i64) -> Vec<u16> {
        let ours = (0..SHARDS).map(|shard| Ours { is_under_way: is_under_way(shard), ..led(shard) });
        let moves = self.membership.look(self.view.clone(), &ours.collect::<Vec<_>>(), at(elapsed));
        let released = moves.into_iter().map(|step| match step {
            Move::Release { shard, .. } => shard.0,
            other => panic!("{other:?}"),
        });
        released.collect()
    }
}

#[test]
fn an_embedded_node_gives_idle_shards_away_first() {
    let mut scene = EmbeddedPair::new();
    let [first] = scene.releases(|_| false, 0)[..] else { panic!("one at a time") };
    assert!(scene.releases(|shard| shard == first, 600).iter().all(|shard| *shard > first));
    assert_eq!(scene.releases(|_| true, 1_200), [0; 0]);
    assert_eq!(scene.releases(|_| false, 1_800), [first], "its attempts have ended");
}

#[test]
fn an_embedded_node_gives_busy_shards_away_after_a_while() {
    let mut scene = EmbeddedPair::new();
    let limit = i64::try_from(PUT_OFF_MAX.as_millis()).unwrap();
    assert_eq!(scene.releases(|_| true, 0), [0; 0]);
    assert_eq!(scene.releases(|_| true, limit - 1), [0; 0]);
    assert_eq!(scene.releases(|_| true, limit).len(), 1);
}

#[test]
fn a_center_node_is_given_busy_shards_at_once() {
    let mut scene = EmbeddedPair::new();
    scene.view.members.as_mut().unwrap()[1] = steady(session(2));
    assert_eq!(scene.releases(|_| true, 0), [0]);
}

#[test]
fn a_new_node_counts_only_after_a_while() {
    let mut list = members([1]);
    list.push(Member { session: session(2), age: Duration::from_secs(4) });
    let all: Vec<u16> = (0..SHARDS).collect();
    let view = View {
        members: Some(list.clone()),
        leases: leases(|_| Some(1)),
        refusing: vec![],
        is_time_known: true,
    };
    assert_eq!(look(1, view, &all, 0), []);
    list[1].age = Duration::from_secs(5);
    let view =
        View { members: Some(list), leases: leases(|_| Some(1)), refusing: vec![], is_time_known: true };
    assert_eq!(look(1, view, &all, 0).len(), 1);
}

#[test]
fn embedded_nodes_lead_nothing_while_a_center_lives() {
    let mut list = members([1, 2]);
    list[0].session.embedded = true;
    let view =
        View { members: Some(list.clone()), leases: leases(|_| None), refusing: vec![], is_time_known: true };
    assert_eq!(look(1, view.clone(), &[], 0), []);
    assert_eq!(claimed(&look(2, view, &[], 0)).len(), usize::from(SHARDS));
    list.pop();
    let view = View { members: Some(list), leases: leases(|_| None), refusing: vec![], is_time_known: true };
    assert_eq!(claimed(&look(1, view, &[], 0)).len(), usize::from(SHARDS), "the last center is gone");
}

#[test]
fn a_node_of_no_weight_leads_nothing() {
    let mut list = members([1, 2]);
    list[0].session.weight = 0;
    let view = View { members: Some(list), leases: leases(|_| None), refusing: vec![], is_time_known: true };
    assert_eq!(look(1, view, &[], 0), []);
}

#[test]
fn an_heir_claims_its_shard_and_other_nodes_wait() {
    let mut left = leases(|_| Some(1));
    left.shards[5].owner = None;
    left.shards[5].heir = Some(SessionId(2));
    let view =
        View { members: Some(members([1, 2, 3])), leases: left, refusing: vec![], is_time_known: true };
    assert_eq!(claimed(&look(2, view.clone(), &[], 0)), [5]);
    assert_eq!(claimed(&look(3, view, &[], 0)), [0_u16; 0]);
}

#[test]
fn without_the_session_service_only_an_heir_claims() {
    let mut left = leases(|shard| (shard % 2 == 0).then_some(2));
    for lease in &mut left.shards[..4] {
        lease.heir = Some(SessionId(if lease.shard.0 == 3 { 2 } else { 1 }));
    }
    let view = View { members: None, leases: left, refusing: Vec::new(), is_time_known: true };
    // Shards 0 and 2 have a leader, and shard 3 was released to node 2: only shard 1 is for node 1.
    assert_eq!(
        look(1, view.clone(), &[], 0),
        [Move::Claim(Claim { shard: ShardId(1), expected_epoch: Some(Epoch(1)) })]
    );
    assert_eq!(look(1, view, &[1], 0), []);
}

#[test]
fn a_shard_that_the_first_node_does_not_claim_goes_to_the_next() {
    let view = View {
        members: Some(members([1, 2])),
        leases: leases(|_| None),
        refusing: vec![],
        is_time_known: true,
    };
    let mut membership = Membership::new(session(1), LEASE, SHARDS, at(0));
    let first = claimed(&membership.look(view.clone(), &[], at(0))).len();
    assert!(first < usize::from(SHARDS));
    assert_eq!(claimed(&membership.look(view, &[], at(2000))).len(), usize::from(SHARDS));
}

#[test]
fn a_newer_epoch_than_ours_means_that_we_were_outdated() {
    let mut newer = leases(|_| Some(2));
    newer.shards[3].epoch = Epoch(2);
    let view = View { members: Some(members([1, 2])), leases: newer, refusing: vec![], is_time_known: true };
    let moves = look(1, view, &[3], 0);
    assert_eq!(moves, [Move::Lost(ShardId(3))]);
}

#[test]
fn a_lease_counts_from_when_its_renewal_was_sent() {
    let mut membership = Membership::new(session(1), LEASE, SHARDS, at(0));
    assert!(!membership.holds(at(0)), "before the first renewal nothing is held");
    assert!(membership.takes_turn(at(1000)));
    let view =
        View { members: Some(members([1])), leases: leases(|_| None), refusing: vec![], is_time_known: true };
    membership.look(view, &[], at(2500));
    assert!(membership.holds(at(3999)) && !membership.holds(at(4000)));
    assert_eq!(membership.next_renewal(), Some(at(1600)), "a slow renewal does not put the next one off");
}

#[test]
fn a_change_during_a_renewal_causes_another_renewal() {
    let mut membership = Membership::new(session(1), LEASE, SHARDS, at(0));
    let view = || View {
        members: Some(members([1, 2])),
        leases: leases(|_| Some(2)),
        refusing: vec![],
        is_time_known: true,
    };
    assert!(membership.takes_turn(at(0)));
    // A shard is released to this node while a renewal is in flight, perhaps after the renewal has read the shard's row.
    membership.look_now(at(1));
    membership.look(view(), &[], at(5));
    assert_eq!(membership.next_renewal(), Some(at(5)));
    assert!(membership.takes_turn(at(5)));
    membership.look(view(), &[], at(9));
    assert!(membership.next_renewal() > Some(at(9)), "one more renewal is enough");
}

#[test]
fn an_earlier_session_at_our_address_is_ended_once() {
    let ghost = Session { address: session(1).address, ..session(9) };
    let view = || View {
        members: Some(vec![
            steady(session(1)),
            steady(session(2)),
            Member { session: ghost.clone(), age: Duration::ZERO },
        ]),
        leases: leases(|_| Some(2)),
        refusing: vec![],
        is_time_known: true,
    };
    let mut membership = Membership::new(session(1), LEASE, SHARDS, at(0));
    assert_eq!(membership.look(view(), &[], at(0)), [Move::End(SessionId(9))]);
    assert_eq!(membership.look(view(), &[], at(600)), [], "a session that comes back is alive");
    let all: Vec<u16> = (0..SHARDS).collect();
    assert_eq!(look(2, view(), &all, 0), [], "only the newer process at this address ends the session");
    let nowhere = |id| Session { address: None, ..session(id) };
    let view = View { members: Some(vec![steady(nowhere(1)), steady(nowhere(2))]), ..view() };
    let mut membership = Membership::new(nowhere(1), LEASE, SHARDS, at(0));
    assert_eq!(membership.look(view, &[], at(0)), [], "nodes without an address share none");
}

/// A view of nodes 1 and 2, in which `owner` leads every shard.
fn two(owner: Option<i64>, refusing: Vec<SessionId>, seconds: i64) -> View {
    let leases = Leases { now: Timestamp::from_millis(seconds * 1000), ..leases(move |_| owner) };
    View { members: Some(members([1, 2])), leases, refusing, is_time_known: true }
}

fn names_lost(membership: &Membership) -> Vec<&str> {
    membership.lost().iter().map(|lost| &*lost.session.node).collect()
}

#[test]
fn a_node_that_died_is_lost_for_an_hour() {
    let mut membership = Membership::new(session(1), LEASE, SHARDS, at(0));
    membership.look(two(Some(2), vec![], 0), &[], at(0));
    assert!(names_lost(&membership).is_empty());
    membership.look(two(Some(2), vec![SessionId(2)], 1), &[], at(1000));
    assert_eq!(names_lost(&membership), ["n2"]);
    assert_eq!(membership.taken_from(ShardId(7)), Some((Arc::from("n2"), at(1000))));
    // Node 1 leads its shards now. Its session is still listed, and no node probes its address any more.
    membership.look(two(Some(1), vec![], 2), &[], at(2000));
    assert_eq!(names_lost(&membership), ["n2"]);
    let alone = |seconds: i64| View { members: Some(members([1])), ..two(Some(1), vec![], seconds) };
    membership.look(alone(1800), &[], at(1_800_000));
    assert_eq!(names_lost(&membership), ["n2"]);
    membership.look(alone(3601), &[], at(3_601_000));
    assert!(names_lost(&membership).is_empty());
}

#[test]
fn a_node_that_came_back_is_not_lost() {
    let lost = || {
        let mut membership = Membership::new(session(1), LEASE, SHARDS, at(0));
        membership.look(two(Some(2), vec![], 0), &[], at(0));
        membership.look(two(Some(2), vec![SessionId(2)], 1), &[], at(1000));
        membership
    };
    // The same process continues: it was only paused.
    let mut stopped = lost();
    stopped.look(two(Some(1), vec![], 10), &[], at(10_000));
    assert!(names_lost(&stopped).is_empty());
    // A new process was started with the same name.
    let mut restarted = lost();
    let again = Session { node: Arc::from("n2"), ..session(3) };
    let list = members([1]).into_iter().chain([steady(again)]).collect();
    restarted.look(View { members: Some(list), ..two(Some(1), vec![], 2) }, &[], at(2000));
    assert!(names_lost(&restarted).is_empty());
}

#[test]
fn a_node_that_stopped_is_not_lost() {
    let mut membership = Membership::new(session(1), LEASE, SHARDS, at(0));
    membership.look(two(Some(2), vec![], 0), &[], at(0));
    let gone = View { members: Some(members([1])), ..two(None, vec![], 1) };
    membership.look(gone, &[], at(1000));
    assert!(names_lost(&membership).is_empty());
}

#[test]
fn a_node_that_was_started_again_is_listed_once() {
    let mut restarted = session(3);
    restarted.node = session(2).node;
    let restarted = Member { session: restarted, age: Duration::from_secs(1) };
    let view = View {
        members: Some([vec![restarted.clone()], members([1, 2])].concat()),
        leases: leases(|_| Some(1)),
        refusing: vec![],
        is_time_known: true,
    };
    let mut membership = Membership::new(session(1), LEASE, SHARDS, at(0));
    assert!(membership.takes_turn(at(0)));
    membership.look(view, &[], at(0));
    assert_eq!(membership.nodes(), [session(1), restarted.session]);
}

#[test]
fn embedded_nodes_of_one_name_are_all_listed() {
    let embedded =
        |id| steady(Session { node: session(1).node, address: None, embedded: true, ..session(id) });
    let view = View {
        members: Some(vec![embedded(1), embedded(2)]),
        leases: leases(|_| Some(1)),
        refusing: vec![],
        is_time_known: true,
    };
    let mut membership = Membership::new(embedded(1).session, LEASE, SHARDS, at(0));
    assert!(membership.takes_turn(at(0)));
    membership.look(view, &[], at(0));
    assert_eq!(membership.nodes().len(), 2);
}
