//! A consumer that waits is woken within milliseconds, wherever it waits (R133).

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use punctual_tests::cluster::{ADMIN, NODES};
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Cluster, Machine, Scene, messages};
use redis::Value;

use super::{Job, leader_of, one_led_by_each, say, start};

/// On a machine that has much else to do.
const WOKEN_MAX: Duration = Duration::from_millis(500);

/// A consumer that waits at a node for a message of any of these queues, and returns which came and when.
fn waiter(cluster: &Cluster, node: usize, queues: &str) -> JoinHandle<(Vec<Job>, Instant)> {
    let mut connection = messages::dial(cluster.nodes[node].resp_port(), Some(ADMIN)).expect("it is there");
    connection.set_read_timeout(Some(SOON)).expect("a socket can be told to wait");
    let line = format!("GETJOB TIMEOUT 25000 FROM {queues}");
    thread::spawn(move || (say(&mut connection, &line), wait::now()))
}

/// Waits until this many consumers wait at a queue, as its leader reports.
#[track_caller]
fn wait_until_waited_for(cluster: &Cluster, by: usize, queue: &str, count: i64) {
    let mut connection = cluster.queues(by);
    wait::until_so("a consumer waits", SOON, || {
        let row: Option<Vec<Value>> = say(&mut connection, &format!("QSTAT {queue}"));
        let row = row.unwrap_or_default();
        let blocked = row.iter().position(|word| *word == Value::BulkString(b"blocked".to_vec()));
        blocked.and_then(|at| row.get(at + 1)) == Some(&Value::Int(count))
    });
}

/// Adds a message at a node, and says how long it took to wake the waiter, less what others took of the machine.
#[track_caller]
fn wake(cluster: &Cluster, at: usize, queue: &str, waiter: JoinHandle<(Vec<Job>, Instant)>) -> Duration {
    let mut connection = cluster.queues(at);
    let (added, machine) = (wait::now(), Machine::watched());
    let id: String = say(&mut connection, &format!("ADDJOB {queue} now 0"));
    let (taken, woken) = waiter.join().expect("it is served");
    assert_eq!((taken[0].0.as_str(), &taken[0].1[10..]), (queue, &id[10..]));
    assert_eq!(say::<usize>(&mut connection, &format!("ACKJOB {id}")), 1);
    woken.saturating_duration_since(added).saturating_sub(machine.taken())
}

#[track_caller]
fn check(what: &str, mut took: Vec<Duration>) {
    took.sort();
    println!(
        "{what}: {} times, median {:?}, longest {:?}",
        took.len(),
        took[took.len() / 2],
        took[took.len() - 1]
    );
    assert!(took[took.len() - 1] < WOKEN_MAX, "{what}: {took:?}");
}

#[test]
fn a_consumer_at_another_node_is_woken_by_an_add() {
    let scene = Scene::new();
    let cluster = start(&scene);
    cluster.wait_until_settled();
    let queues = one_led_by_each(&cluster, "q");
    let mut took = Vec::new();
    for turn in 0..18 {
        // The one that waits, the one that is added to and the one that leads, in every order.
        let (leader, waits, adds) = (turn % NODES, (turn + 1) % NODES, (turn + 1 + turn / NODES % 2) % NODES);
        let waiter = waiter(&cluster, waits, &queues[leader]);
        wait_until_waited_for(&cluster, adds, &queues[leader], 1);
        took.push(wake(&cluster, adds, &queues[leader], waiter));
    }
    check("woken through another node", took);
}

#[test]
fn a_consumer_of_several_queues_is_woken_by_any_leader() {
    let scene = Scene::new();
    let cluster = start(&scene);
    cluster.wait_until_settled();
    let queues = one_led_by_each(&cluster, "q");
    let mut took = Vec::new();
    for turn in 0..9 {
        let (waits, leader) = (turn % NODES, turn / NODES);
        let waiter = waiter(&cluster, waits, &queues.join(" "));
        for queue in &queues {
            wait_until_waited_for(&cluster, waits, queue, 1);
        }
        took.push(wake(&cluster, (turn + 1) % NODES, &queues[leader], waiter));
        for queue in &queues {
            wait_until_waited_for(&cluster, waits, queue, 0);
        }
    }
    check("woken by one of three leaders", took);
}

#[test]
fn a_consumer_waits_on_when_the_leader_is_killed() {
    let scene = Scene::new();
    let mut cluster = start(&scene);
    let mut took = Vec::new();
    for turn in 0..3 {
        cluster.wait_until_settled();
        let queue = &one_led_by_each(&cluster, &format!("turn-{turn}"))[turn];
        let others: Vec<usize> = (0..NODES).filter(|node| *node != turn).collect();
        let waiters: Vec<_> = others.iter().map(|node| waiter(&cluster, *node, queue)).collect();
        wait_until_waited_for(&cluster, others[0], queue, 2);
        cluster.nodes[turn].kill();
        wait_until_waited_for(&cluster, others[1], queue, 2);
        let mut connection = cluster.queues(others[0]);
        let ids: Vec<String> =
            (0..2).map(|_| say(&mut connection, &format!("ADDJOB {queue} now 0"))).collect();
        // The queue may move once more between the two that are left, and then it takes a moment to add something.
        let (added, machine) = (wait::now(), Machine::watched());
        assert_ne!(leader_of(&cluster, others[1], &ids[0]), turn);
        for waiter in waiters {
            let (taken, woken) = waiter.join().expect("it is served");
            assert_eq!(taken[0].0, *queue);
            took.push(woken.saturating_duration_since(added).saturating_sub(machine.taken()));
        }
        assert_eq!(say::<usize>(&mut connection, &format!("ACKJOB {}", ids.join(" "))), 2);
        cluster.nodes[turn].start();
    }
    check("woken by the next leader", took);
}
