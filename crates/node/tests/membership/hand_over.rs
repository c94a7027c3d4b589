//! Messages and attempts in flight while a shard moves from one node to another.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::attempt::{Order, Outcome, Report};
use punctual_core::command::{Answer, Command, Submit};
use punctual_core::ids::{RunId, SessionId, ShardId, Token, WorkerId};
use punctual_core::job::Definition;
use punctual_core::name::Namespace;
use punctual_core::queue::{Add, Ask, Body, NewMessage, QueueKey, Said, Take};
use punctual_core::run::Status;
use punctual_core::task::Task;
use punctual_core::time::Clock;
use punctual_engine::Ticket;
use punctual_node::Input;
use punctual_store::{Claim, Reads, RunFilter, Shards};

use crate::rig::{LANES, SHARDS, World};

/// A command that makes a run in a shard that satisfies the condition.
fn submit_to(is_meant: impl Fn(ShardId) -> bool) -> Command {
    let spread = (0..).find(|spread| is_meant(Submit::shard_of(*spread, SHARDS))).unwrap();
    let definition = Arc::new(Definition::of(Task::Noop));
    Command::Submit(Submit { namespace: Namespace::default(), definition, due: None, key: None, spread })
}

#[tokio::test]
async fn a_node_that_lost_a_queue_delivers_none_of_its_messages() {
    let mut world = World::of(1).await;
    let queue = QueueKey { namespace: Namespace::default(), name: "orders".parse().unwrap() };
    let message = NewMessage {
        body: Body::from(&b"body"[..]),
        delay: Duration::ZERO,
        retry: Duration::from_secs(60),
        ttl: Duration::from_secs(3600),
        priority: 0,
        max_len: None,
        key: None,
    };
    let add = Command::Queue(Ask::Add(Add { queue: queue.clone(), messages: vec![message] }));
    let lost = add.shard(SHARDS);
    world.give(0, Input::Command { ticket: Ticket(1), command: add }).await;
    assert!(world.nodes[0].answers[&Ticket(1)].is_ok());
    // A delivery is not written at once, so it waits only for the commit in flight in its lane.
    let beside = submit_to(|shard| shard != lost && shard.0 % LANES == lost.0 % LANES);
    let take = Command::Queue(Ask::Take(Take { queue, count: 1, waiter: None }));
    world.nodes[0].holds = |input| matches!(input, Input::Committed { .. });
    let moment = world.clock.moment();
    let driver = &mut world.nodes[0].driver;
    driver.step(Input::Command { ticket: Ticket(2), command: beside }, moment);
    driver.step(Input::Command { ticket: Ticket(3), command: take }, moment);
    driver.settle_down(moment);
    world.carry(0).await;
    assert!(!world.nodes[0].answers.contains_key(&Ticket(3)), "the answer waits for the commit");
    world.store.acquire(Some(SessionId(99)), &[Claim::any_epoch(lost)]).await.unwrap();
    world.pass(Duration::from_secs(1)).await;
    assert!(!world.led(0).contains(&lost.0), "the node knows that another node leads the shard");
    world.let_through(0).await;
    let answers = &world.nodes[0].answers;
    assert!(answers[&Ticket(2)].is_ok());
    let given = matches!(&answers[&Ticket(3)], Ok(Answer::Queue(Said::Taken(taken))) if !taken.is_empty());
    assert!(!given, "the new leader also gives the message to a consumer");
}

#[tokio::test]
async fn an_attempt_given_just_before_a_hand_over_is_not_given_twice() {
    let mut world = World::of(2).await;
    let theirs: Vec<u16> = world.led(1).into_iter().collect();
    // Not every shard of this node is loaded, so a joining worker has to wait.
    world.nodes[0].holds = |input| matches!(input, Input::Loaded { .. });
    let left = ShardId(theirs[0]);
    let lease = world.store.leases().await.unwrap().shards[usize::from(left.0)];
    world.store.release(&[(left, lease.epoch)], Some(world.nodes[0].session.id)).await.unwrap();
    world.give(0, Input::ClusterChanged).await;
    let worker = WorkerId::new("w", 1);
    world.employ(0, &worker).await;
    world.pass(Duration::from_secs(10)).await;
    // The other node admits the worker at once and gives it an attempt.
    world.employ(1, &worker).await;
    let submit = submit_to(|shard| Some(&shard.0) == theirs.last());
    world.give(1, Input::Command { ticket: Ticket(1), command: submit }).await;
    let Some(Order::Assign(assignment)) = world.nodes[1].orders.last().cloned() else {
        panic!("{:?}", world.nodes[1].orders)
    };
    world.give(1, Input::Stop).await;
    world.pass(Duration::from_secs(1)).await;
    world.let_through(0).await;
    world.pass(Duration::from_secs(3)).await;
    assert_eq!(world.led(0).len(), usize::from(SHARDS));
    let (run, token) = (assignment.run, assignment.token);
    assert!(
        is_offered(&world, (run, token)),
        "the attempt may not have reached its worker, so it is offered again"
    );
    let outcome = Outcome::succeeded(world.clock.now());
    world.give(0, Input::Reports { worker, reports: vec![Report::Finished { run, token, outcome }] }).await;
    let ended = world.store.runs(&RunFilter::default(), None, 10).await.unwrap();
    let ended: Vec<_> = ended.iter().map(|run| (run.status(), run.attempt, run.losses)).collect();
    assert_eq!(ended, [(Status::Succeeded, 1, 0)]);
}

/// An attempt that node 1 has given to a worker, in a shard that node 0 leads since.
async fn handed_over(world: &mut World, worker: &WorkerId) -> (RunId, Token) {
    let left = ShardId(world.led(1).into_iter().next().expect("it leads some"));
    world.employ(1, worker).await;
    world.give(1, Input::Command { ticket: Ticket(1), command: submit_to(|shard| shard == left) }).await;
    let Some(Order::Assign(assignment)) = world.nodes[1].orders.last().cloned() else {
        panic!("{:?}", world.nodes[1].orders)
    };
    let lease = world.store.leases().await.unwrap().shards[usize::from(left.0)];
    world.store.release(&[(left, lease.epoch)], Some(world.nodes[0].session.id)).await.unwrap();
    world.give(0, Input::ClusterChanged).await;
    assert!(world.led(0).contains(&left.0));
    (assignment.run, assignment.token)
}

/// Whether node 0 has offered this attempt to its worker again.
fn is_offered(world: &World, (run, token): (RunId, Token)) -> bool {
    let is_it = |order: &Order| matches!(order, Order::Assign(again) if again.run == run && again.token == token && again.again);
    world.nodes[0].orders.iter().any(is_it)
}

#[tokio::test]
async fn a_worker_that_joins_after_a_hand_over_is_offered_its_attempts() {
    let mut world = World::of(2).await;
    let worker = WorkerId::new("w", 1);
    let attempt = handed_over(&mut world, &worker).await;
    assert!(!is_offered(&world, attempt));
    world.join_with(0, &worker, vec![attempt]).await;
    assert!(is_offered(&world, attempt), "its progress would go to the former leader for ever");
}

#[tokio::test]
async fn a_worker_that_was_silent_during_a_hand_over_is_offered_its_attempts() {
    let mut world = World::of(2).await;
    let worker = WorkerId::new("w", 1);
    world.employ(0, &worker).await;
    let led = world.led(0);
    let command = submit_to(|shard| led.contains(&shard.0));
    world.give(0, Input::Command { ticket: Ticket(1), command }).await;
    world.pass(Duration::from_secs(16)).await;
    assert!(!world.nodes[0].driver.pool().roster().is_present(&worker), "it has missed its lease");
    let attempt = handed_over(&mut world, &worker).await;
    assert!(!is_offered(&world, attempt));
    let alive = Report::Alive { attempts: vec![attempt] };
    world.give(0, Input::Reports { worker, reports: vec![alive] }).await;
    assert!(is_offered(&world, attempt));
}

#[tokio::test]
async fn a_worker_that_joins_its_leader_again_is_offered_nothing() {
    let mut world = World::of(1).await;
    let worker = WorkerId::new("w", 1);
    world.employ(0, &worker).await;
    world.give(0, Input::Command { ticket: Ticket(1), command: submit_to(|_| true) }).await;
    let Some(Order::Assign(assignment)) = world.nodes[0].orders.last().cloned() else {
        panic!("{:?}", world.nodes[0].orders)
    };
    let attempt = (assignment.run, assignment.token);
    world.join_with(0, &worker, vec![attempt]).await;
    assert!(!is_offered(&world, attempt), "only this leader can have given it the attempt");
}

#[tokio::test]
async fn a_late_report_takes_no_slot_back_from_a_joining_worker() {
    let mut world = World::of(2).await;
    // Not every shard of this node is loaded, so a joining worker has to wait.
    world.nodes[0].holds = |input| matches!(input, Input::Loaded { .. });
    let left = ShardId(world.led(1).into_iter().next().expect("it leads some"));
    let lease = world.store.leases().await.unwrap().shards[usize::from(left.0)];
    world.store.release(&[(left, lease.epoch)], Some(world.nodes[0].session.id)).await.unwrap();
    world.give(0, Input::ClusterChanged).await;
    let worker = WorkerId::new("w", 1);
    world.employ(0, &worker).await;
    world.give(0, Input::Reports { worker, reports: vec![Report::Lent { total: 1 }] }).await;
    world.let_through(0).await;
    world.pass(Duration::from_secs(3)).await;
    let led = world.led(0);
    for ticket in 1..=2 {
        let command = submit_to(|shard| led.contains(&shard.0));
        world.give(0, Input::Command { ticket: Ticket(ticket), command }).await;
    }
    let assigned = world.nodes[0].orders.iter().filter(|order| matches!(order, Order::Assign(_)));
    assert_eq!(assigned.count(), 2);
}
