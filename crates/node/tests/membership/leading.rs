//! Who leads what, and when.

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
async fn what_a_dead_node_led_is_led_by_the_others_within_a_lease_and_a_look() {
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
    // From one second after it was made: forty fires of each of twenty jobs.
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
async fn what_a_node_is_acquiring_when_it_stops_goes_on_to_the_next_one() {
    check_passed_on(|input| matches!(input, Input::Acquired { .. })).await;
}

#[tokio::test]
async fn what_a_node_is_loading_when_it_stops_goes_on_to_the_next_one() {
    check_passed_on(|input| matches!(input, Input::Loaded { .. })).await;
}

/// One of three dies, and another is stopped while it takes its part of what the first one led.
async fn check_passed_on(holds: fn(&Input) -> bool) {
    let mut world = World::of(3).await;
    world.nodes[0].dead = true;
    world.nodes[1].holds = holds;
    world.pass(Duration::from_secs(4)).await;
    let held = std::mem::take(&mut world.nodes[1].held);
    assert!(!held.is_empty(), "nothing was on its way");
    world.nodes[1].holds = |_| false;
    world.give(1, Input::Stop).await;
    for input in held {
        world.give(1, input).await;
    }
    assert!(world.nodes[1].driver.leads_nothing());
    world.pass(STEP).await;
    assert_eq!(world.led(2), (0..SHARDS).collect(), "the last one waited for its next look");
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
    assert!(world.led(0).is_disjoint(&before), "it still believes that it leads");
    world.pass(Duration::from_secs(20)).await;
    world.check_spread();
    assert!(!world.led(0).is_empty(), "it gets its share again");
    assert_eq!(world.runs().await, 20 * 29);
}

#[tokio::test]
async fn a_node_that_is_cut_off_says_nothing_after_its_lease_although_it_is_durable() {
    check_nothing_is_said(false).await;
}

/// The commit's word is the first thing it hears: it must know that it slept.
#[tokio::test]
async fn a_node_that_was_stopped_says_nothing_after_its_lease_although_it_is_durable() {
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

/// A look that is swallowed is given up only when a lease has passed; whoever asks hears of it before.
#[tokio::test]
async fn a_node_whose_look_does_not_come_back_wakes_to_say_so() {
    let mut world = World::of(1).await;
    world.nodes[0].cut = true;
    world.pass(Duration::from_secs(1)).await;
    let driver = &world.nodes[0].driver;
    assert!(driver.is_ready(), "the last look is not old yet");
    let wake = driver.next_wake().elapsed.expect("there is something to say");
    let sleep = wake.saturating_sub(world.clock.elapsed());
    assert!(sleep <= Duration::from_secs(1), "it says so after {sleep:?} more");
    world.pass(sleep).await;
    assert!(!world.nodes[0].driver.is_ready());
}

#[tokio::test]
async fn emptied_leases_cost_a_pause_and_no_run_twice() {
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
async fn a_dead_session_that_looks_younger_than_its_successor_is_left_nothing() {
    let mut world = World::of(2).await;
    let third = world.join();
    world.pass(Duration::from_secs(1)).await;
    // As after a step back of the store's clock: it stands for long, and seems to have begun a moment ago.
    let dead = Session { id: SessionId(77), ..world.nodes[third].session.clone() };
    world.store.renew(&dead, Duration::from_secs(60)).await.unwrap();
    world.pass(Duration::from_secs(20)).await;
    world.check_spread();
    assert!(!world.led(third).is_empty(), "it was taken for dead");
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
async fn what_is_durable_and_was_not_said_in_time_is_not_called_undone() {
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
    assert!(matches!(answer, Err(Failure::Unavailable(_))), "whoever hears {answer:?} asks another node");
}

#[tokio::test]
async fn time_stands_still_for_a_node_that_cannot_read_the_stores() {
    let mut world = World::of(1).await;
    world.put_jobs(1).await;
    world.nodes[0].cut = true;
    let cut_at = world.clock.now();
    world.pass(Duration::from_secs(10)).await;
    let driver = &world.nodes[0].driver;
    assert!(driver.now() <= cut_at + Duration::from_secs(3), "its own clock may be anywhere by now");
    assert_eq!(driver.next_wake().due, None, "nothing is due for whoever does not know the time");
    world.nodes[0].cut = false;
    let lost = punctual_store::Error::Unreachable("no route".to_owned());
    world.give(0, Input::Renewed { result: Err(lost) }).await;
    world.pass(Duration::from_secs(5)).await;
    assert_eq!(world.nodes[0].driver.now(), world.clock.now());
    assert_eq!(world.runs().await, 15, "and nothing is lost");
}

/// The store is away for longer than the lease, and a command comes before the first renewal after it.
#[tokio::test]
async fn a_command_after_an_outage_has_its_own_time() {
    let mut world = World::of(1).await;
    world.lose_store(Duration::from_secs(10)).await;
    let sent = world.clock.now();
    world.give(0, Input::Command { ticket: Ticket(1), command: submit() }).await;
    world.give(0, Input::Command { ticket: Ticket(2), command: add_with_delay() }).await;
    assert!(world.nodes[0].answers.is_empty(), "it does not know the time yet");
    world.find_store().await;
    let Ok(Answer::Run(run)) = &world.nodes[0].answers[&Ticket(1)] else { panic!("it was not made") };
    assert!(run.created_at >= sent, "sent at {sent}, recorded at {}", run.created_at);
    let Ok(Answer::Queue(Said::Added(added))) = &world.nodes[0].answers[&Ticket(2)] else {
        panic!("it was not added")
    };
    let id = added[0].as_ref().unwrap().id;
    let wants = vec![(id.shard(), Want::Message(id))];
    let row = &world.store.fetch(wants).await.unwrap().messages[0];
    assert!(row.created_at >= sent, "sent at {sent}, recorded at {}", row.created_at);
    assert!(matches!(row.status, MessageStatus::Delayed { until } if until >= sent + Duration::from_secs(4)));
}

#[tokio::test]
async fn an_attempt_that_ends_in_an_outage_ends_when_it_is_heard() {
    let mut world = World::of(1).await;
    let worker = WorkerId::new("w", 1);
    world.employ(0, &worker).await;
    world.give(0, Input::Command { ticket: Ticket(1), command: submit() }).await;
    let given = world.nodes[0].orders.iter().find_map(|order| match order {
        Order::Assign(assignment) => Some((assignment.run, assignment.token)),
        _ => None,
    });
    let (run, token) = given.expect("it was given to the worker");
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
    let wake = world.nodes[0].driver.next_wake().elapsed.expect("it is to be told");
    let sleep = wake.saturating_sub(world.clock.elapsed());
    assert!(sleep > Duration::ZERO, "a node that waits must not spin");
    world.pass(Duration::from_secs(6)).await;
    assert!(matches!(world.nodes[0].answers[&Ticket(1)], Err(Failure::Unavailable(_))));
    world.find_store().await;
    assert_eq!(world.runs().await, 0, "it was told that nothing was changed");
}

/// As when somebody stops waiting at a queue: else its place would be kept for nobody.
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
    let Some(Input::Fetched { read, .. }) = world.nodes[0].held.pop() else { panic!("it reads the key") };
    let result = Err(punctual_store::Error::Unreachable("no route".to_owned()));
    world.give(0, Input::Fetched { read, result }).await;
    assert!(matches!(world.nodes[0].answers[&Ticket(1)], Err(Failure::Unavailable(_))));
    assert!(world.nodes[0].answers[&Ticket(2)].is_ok());
}

#[tokio::test]
async fn a_leader_that_was_fenced_off_forgets_what_its_workers_have_in_hand() {
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
