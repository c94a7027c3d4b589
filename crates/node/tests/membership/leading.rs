//! Which node leads which shard, and when.

use std::time::Duration;

use punctual_core::attempt::{Order, Outcome, Report};
use punctual_core::change::Want;
use punctual_core::command::{Answer, Command, Key, Submit};
use punctual_core::ids::{SessionId, ShardId, WorkerId};
use punctual_core::queue::{MessageStatus, Said};
use punctual_core::time::Clock;
use punctual_engine::Ticket;
use punctual_node::Failure;
use punctual_node::Input;
use punctual_store::{Claim, Reads, RunFilter, Session, Sessions, Shards};

use crate::rig::{SHARDS, STEP, World, add_with_delay, every_second, submit};

#[tokio::test]
async fn a_node_that_is_the_first_leads_everything_at_once() {
    let mut world = World::new();
    world.join();
    world.pass(STEP).await;
    assert_eq!(world.led(0).len(), usize::from(SHARDS));
    assert!(world.nodes[0].driver.is_ready());
}

#[tokio::test]
async fn nodes_that_come_later_get_their_share() {
    let world = World::of(3).await;
    world.check_spread();
    for index in 0..3 {
        assert!(!world.led(index).is_empty(), "node {index} leads nothing");
        assert!(world.nodes[index].driver.is_ready());
    }
}

#[tokio::test]
async fn shards_of_a_dead_node_have_leaders_within_a_lease_and_a_renewal() {
    let mut world = World::of(3).await;
    world.nodes[1].dead = true;
    world.pass(Duration::from_millis(3800)).await;
    world.check_spread();
}

#[tokio::test]
async fn every_second_has_one_run_when_a_node_dies() {
    let mut world = World::of(3).await;
    world.put_jobs(20).await;
    world.pass(Duration::from_secs(10)).await;
    world.nodes[0].dead = true;
    world.pass(Duration::from_secs(10)).await;
    let newcomer = world.join();
    world.pass(Duration::from_secs(10)).await;
    world.nodes[2].dead = true;
    world.pass(Duration::from_secs(10)).await;
    assert!(!world.led(newcomer).is_empty());
    // Forty fires of each of twenty jobs, the first one second after the job was put.
    assert_eq!(world.runs().await, 20 * 40);
}

#[tokio::test]
async fn a_node_that_leaves_hands_its_shards_over_without_a_pause() {
    let mut world = World::of(3).await;
    world.put_jobs(20).await;
    world.give(0, Input::Stop).await;
    world.pass(STEP * 2).await;
    assert!(world.nodes[0].driver.leads_nothing());
    world.nodes[0].dead = true;
    world.check_spread();
    world.pass(Duration::from_secs(5)).await;
    assert_eq!(world.runs().await, 20 * 5);
}

#[tokio::test]
async fn a_shard_being_acquired_by_a_stopping_node_is_passed_on() {
    check_passed_on(|input| matches!(input, Input::Acquired { .. })).await;
}

#[tokio::test]
async fn a_shard_being_loaded_by_a_stopping_node_is_passed_on() {
    check_passed_on(|input| matches!(input, Input::Loaded { .. })).await;
}

/// One of three nodes dies, and another is stopped while it takes over its part of the shards.
async fn check_passed_on(holds: fn(&Input) -> bool) {
    let mut world = World::of(3).await;
    world.nodes[0].dead = true;
    world.nodes[1].holds = holds;
    world.pass(Duration::from_secs(4)).await;
    let held = std::mem::take(&mut world.nodes[1].held);
    assert!(!held.is_empty(), "no result was held back");
    world.nodes[1].holds = |_| false;
    world.give(1, Input::Stop).await;
    for input in held {
        world.give(1, input).await;
    }
    assert!(world.nodes[1].driver.leads_nothing());
    world.pass(STEP).await;
    assert_eq!(world.led(2), (0..SHARDS).collect(), "the last node waited for its next renewal");
}

#[tokio::test]
async fn a_node_that_was_stopped_past_its_lease_writes_nothing_and_steps_down() {
    let mut world = World::of(2).await;
    world.put_jobs(20).await;
    let before = world.led(0);
    world.nodes[0].stopped = true;
    world.pass(Duration::from_secs(8)).await;
    world.nodes[0].stopped = false;
    world.pass(Duration::from_secs(1)).await;
    assert!(world.led(0).is_disjoint(&before), "the node still leads its former shards");
    world.pass(Duration::from_secs(20)).await;
    world.check_spread();
    assert!(!world.led(0).is_empty(), "the node gets its share again");
    assert_eq!(world.runs().await, 20 * 29);
}

#[tokio::test]
async fn a_node_that_is_cut_off_answers_nothing_after_its_lease() {
    check_nothing_is_said(false).await;
}

/// The result of the commit is its first input after the pause: it must notice that it was paused.
#[tokio::test]
async fn a_node_that_was_paused_answers_nothing_after_its_lease() {
    check_nothing_is_said(true).await;
}

async fn check_nothing_is_said(is_stopped: bool) {
    let mut world = World::of(1).await;
    world.put_jobs(1).await;
    let worker = WorkerId::new("w", 1);
    world.employ(0, &worker).await;
    world.nodes[0].holds = |input| matches!(input, Input::Committed { .. });
    world.pass(Duration::from_secs(1)).await;
    world.nodes[0].cut = true;
    world.nodes[0].stopped = is_stopped;
    world.pass(Duration::from_secs(5)).await;
    world.nodes[0].stopped = false;
    world.nodes[0].holds = |_| false;
    let held = std::mem::take(&mut world.nodes[0].held);
    assert!(!held.is_empty());
    let orders = world.nodes[0].orders.len();
    for committed in held {
        world.give(0, committed).await;
    }
    assert_eq!(world.nodes[0].orders.len(), orders, "an outdated leader gave an order");
    assert!(!world.nodes[0].driver.is_ready());
}

/// A renewal without an answer is given up only after a lease; the status must say so before.
#[tokio::test]
async fn a_node_whose_renewal_hangs_reports_not_ready() {
    let mut world = World::of(1).await;
    world.nodes[0].cut = true;
    world.pass(Duration::from_secs(1)).await;
    let driver = &world.nodes[0].driver;
    assert!(driver.is_ready(), "the last renewal is recent");
    let wake = driver.next_wake().elapsed.expect("the status will change");
    let sleep = wake.saturating_sub(world.clock.elapsed());
    assert!(sleep <= Duration::from_secs(1), "the status changes only after {sleep:?}");
    world.pass(sleep).await;
    assert!(!world.nodes[0].driver.is_ready());
}

#[tokio::test]
async fn deleted_leases_cost_a_pause_and_no_double_run() {
    let mut world = World::of(3).await;
    world.put_jobs(20).await;
    world.pass(Duration::from_secs(5)).await;
    let leases = world.store.leases().await.unwrap();
    let all: Vec<_> = leases.shards.iter().map(|lease| (lease.shard, lease.epoch)).collect();
    world.store.release(&all, None).await.unwrap();
    world.pass(Duration::from_secs(25)).await;
    world.check_spread();
    assert_eq!(world.runs().await, 20 * 30);
}

#[tokio::test]
async fn a_dead_session_that_looks_newer_gets_no_shard() {
    let mut world = World::of(2).await;
    let third = world.join();
    world.pass(Duration::from_secs(1)).await;
    // As after the store's clock was set back: the dead session is listed for long, and seems to have begun a moment ago.
    let dead = Session { id: SessionId(77), ..world.nodes[third].session.clone() };
    world.store.renew(&dead, Duration::from_secs(60)).await.unwrap();
    world.pass(Duration::from_secs(20)).await;
    world.check_spread();
    assert!(!world.led(third).is_empty(), "the third node counts as dead");
    let lives = world.store.renew(&world.nodes[0].session, Duration::from_secs(3)).await.unwrap();
    assert!(lives.iter().all(|member| member.session.id != dead.id));
}

#[tokio::test]
async fn a_command_for_a_shard_that_is_led_elsewhere_is_turned_away_at_once() {
    let mut world = World::of(2).await;
    let theirs = (0..100).map(|job| every_second(job, world.clock.now()));
    let command = theirs.into_iter().find(|command| world.led(1).contains(&command.shard(SHARDS).0)).unwrap();
    world.give(0, Input::Command { ticket: Ticket(1), command }).await;
    assert!(matches!(world.nodes[0].answers[&Ticket(1)], Err(Failure::NotLed(_))));
}

#[tokio::test]
async fn a_commit_answered_after_the_lease_is_unknown_not_failed() {
    let mut world = World::of(2).await;
    let ours = (0..100).map(|job| every_second(job, world.clock.now()));
    let command = ours.into_iter().find(|command| world.led(0).contains(&command.shard(SHARDS).0)).unwrap();
    world.nodes[0].holds = |input| matches!(input, Input::Committed { .. });
    world.give(0, Input::Command { ticket: Ticket(1), command }).await;
    world.nodes[0].stopped = true;
    world.pass(Duration::from_secs(8)).await;
    world.nodes[0].stopped = false;
    world.let_through(0).await;
    world.pass(Duration::from_secs(1)).await;
    let answer = &world.nodes[0].answers[&Ticket(1)];
    assert!(
        matches!(answer, Err(Failure::Unavailable(_))),
        "a client that gets {answer:?} asks another node"
    );
}

#[tokio::test]
async fn engine_time_stops_while_the_stores_clock_is_unknown() {
    let mut world = World::of(1).await;
    world.put_jobs(1).await;
    world.nodes[0].cut = true;
    let cut_at = world.clock.now();
    world.pass(Duration::from_secs(10)).await;
    let driver = &world.nodes[0].driver;
    assert!(driver.now() <= cut_at + Duration::from_secs(3), "the node must not use its own clock");
    assert_eq!(driver.next_wake().due, None, "nothing is due while the time is unknown");
    world.nodes[0].cut = false;
    let lost = punctual_store::Error::Unreachable("no route".to_owned());
    world.give(0, Input::Renewed { result: Err(lost) }).await;
    world.pass(Duration::from_secs(5)).await;
    assert_eq!(world.nodes[0].driver.now(), world.clock.now());
    assert_eq!(world.runs().await, 15, "no fire is lost");
}

/// The store is unreachable for longer than the lease, and a command arrives before the next renewal.
#[tokio::test]
async fn a_command_after_an_outage_is_not_dated_back() {
    let mut world = World::of(1).await;
    world.lose_store(Duration::from_secs(10)).await;
    let sent = world.clock.now();
    world.give(0, Input::Command { ticket: Ticket(1), command: submit() }).await;
    world.give(0, Input::Command { ticket: Ticket(2), command: add_with_delay() }).await;
    assert!(world.nodes[0].answers.is_empty(), "the time is still unknown");
    world.find_store().await;
    let Ok(Answer::Run(run)) = &world.nodes[0].answers[&Ticket(1)] else { panic!("the run was not made") };
    assert!(run.created_at >= sent, "sent at {sent}, recorded at {}", run.created_at);
    let Ok(Answer::Queue(Said::Added(added))) = &world.nodes[0].answers[&Ticket(2)] else {
        panic!("the message was not added")
    };
    let id = added[0].as_ref().unwrap().id;
    let wants = vec![(id.shard(), Want::Message(id))];
    let row = &world.store.fetch(wants).await.unwrap().messages[0];
    assert!(row.created_at >= sent, "sent at {sent}, recorded at {}", row.created_at);
    assert!(matches!(row.status, MessageStatus::Delayed { until } if until >= sent + Duration::from_secs(4)));
}

#[tokio::test]
async fn an_attempt_that_ends_in_an_outage_is_dated_when_reported() {
    let mut world = World::of(1).await;
    let worker = WorkerId::new("w", 1);
    world.employ(0, &worker).await;
    world.give(0, Input::Command { ticket: Ticket(1), command: submit() }).await;
    let given = world.nodes[0].orders.iter().find_map(|order| match order {
        Order::Assign(assignment) => Some((assignment.run, assignment.token)),
        _ => None,
    });
    let (run, token) = given.expect("the worker has the attempt");
    world.lose_store(Duration::from_secs(10)).await;
    let ended = world.clock.now();
    let report = Report::Finished { run, token, outcome: Outcome::succeeded(ended) };
    world.give(0, Input::Reports { worker, reports: vec![report] }).await;
    world.find_store().await;
    let runs = world.store.runs(&RunFilter::default(), None, 10).await.unwrap();
    assert!(runs[0].finished_at.is_some_and(|at| at >= ended), "{:?}", runs[0].finished_at);
}

#[tokio::test]
async fn a_command_does_not_wait_forever_for_the_time() {
    let mut world = World::of(1).await;
    world.lose_store(Duration::from_secs(10)).await;
    world.give(0, Input::Command { ticket: Ticket(1), command: submit() }).await;
    let wake = world.nodes[0].driver.next_wake().elapsed.expect("the caller gets an answer");
    let sleep = wake.saturating_sub(world.clock.elapsed());
    assert!(sleep > Duration::ZERO, "a node that waits must not spin");
    world.pass(Duration::from_secs(6)).await;
    assert!(matches!(world.nodes[0].answers[&Ticket(1)], Err(Failure::Unavailable(_))));
    world.find_store().await;
    assert_eq!(world.runs().await, 0, "the answer says that nothing was changed");
}

/// For example the command that removes a waiting consumer: else the queue would keep a consumer that has gone.
#[tokio::test]
async fn a_command_that_needs_no_rows_does_not_fail_with_one_that_does() {
    let mut world = World::of(1).await;
    world.nodes[0].holds = |input| matches!(input, Input::Fetched { .. });
    let Command::Submit(submitted) = submit() else { panic!("it submits") };
    let key = Some(Key { text: "key".into(), kept: Duration::from_secs(60) });
    let keyed = Command::Submit(Submit { key, ..submitted });
    let now = world.clock.moment();
    world.nodes[0].driver.step(Input::Command { ticket: Ticket(1), command: keyed }, now);
    world.give(0, Input::Command { ticket: Ticket(2), command: submit() }).await;
    let Some(Input::Fetched { read, .. }) = world.nodes[0].held.pop() else { panic!("the key is not read") };
    let result = Err(punctual_store::Error::Unreachable("no route".to_owned()));
    world.give(0, Input::Fetched { read, result }).await;
    assert!(matches!(world.nodes[0].answers[&Ticket(1)], Err(Failure::Unavailable(_))));
    assert!(world.nodes[0].answers[&Ticket(2)].is_ok());
}

#[tokio::test]
async fn a_fenced_leader_forgets_the_attempts_of_its_workers() {
    let mut world = World::of(1).await;
    world.put_jobs(5).await;
    let worker = WorkerId::new("w", 1);
    world.employ(0, &worker).await;
    world.pass(Duration::from_secs(2)).await;
    assert!(world.nodes[0].driver.pool().roster().attempts_held() > 0);
    world.nodes[0].cut = true;
    let claims: Vec<_> = (0..SHARDS).map(|shard| Claim::any_epoch(ShardId(shard))).collect();
    world.store.acquire(Some(SessionId(99)), &claims).await.unwrap();
    world.pass(Duration::from_millis(1500)).await;
    assert_eq!(world.nodes[0].driver.pool().roster().attempts_held(), 0);
}
