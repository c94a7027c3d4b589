//! kill -9 of the leader under load, on three nodes: every acknowledged message is delivered (R130 to R132).
//!
//! `KILLS=n` kills more often, `SEED=n` at other moments.

use std::time::Duration;

use punctual_tests::chance::{Throws, told};
use punctual_tests::cluster::{ADMIN, NODES};
use punctual_tests::messages::{self, AGAIN, Book, ONCE, Ways};
use punctual_tests::wait;
use punctual_tests::{Cluster, Node, Scene};

use super::{leader_of, say, start};

const KILLS: u32 = 4;
/// Between a restart and the next kill.
const BETWEEN: Duration = Duration::from_secs(1);

#[test]
fn killing_the_leader_of_a_queue_loses_and_revives_no_message() {
    let scene = Scene::new();
    let mut cluster = start(&scene);
    let ports = |cluster: &Cluster| cluster.nodes.iter().map(Node::resp_port).collect::<Vec<u16>>();
    let (ways, book) = (Ways::to(&ports(&cluster)).with_secret(ADMIN), Book::default());
    let (mut busy, mut consumers) = (Vec::new(), Vec::new());
    for node in 0..NODES {
        let ways = ways.beginning_with(node);
        let (again, once) = (format!("{AGAIN}-{node}"), format!("{ONCE}-{node}"));
        busy.push(messages::producer(&ways, &book, AGAIN, &again, &["RETRY", "1", "REPLICATE", "1"]));
        busy.push(messages::producer(&ways, &book, ONCE, &once, &["RETRY", "0", "REPLICATE", "1"]));
        consumers.push(messages::consumer(&ways, &book, &[AGAIN, ONCE]));
    }
    let mut throws = Throws::new(told("SEED").unwrap_or(1));
    for kill in 0..told("KILLS").unwrap_or(KILLS) {
        wait::pass(BETWEEN + throws.span_below(Duration::from_millis(500)));
        let queue = if kill % 2 == 0 { AGAIN } else { ONCE };
        // It is asked for later than the scene lasts: nobody takes it meanwhile.
        let line = format!("ADDJOB {queue} marker 0 REPLICATE 1 DELAY 80000");
        let marker: String = say(&mut cluster.queues(throws.below(NODES)), &line);
        let leader = leader_of(&cluster, throws.below(NODES), &marker);
        cluster.nodes[leader].kill();
        // It is away for longer than a lease, or comes back before anybody missed it.
        wait::pass(throws.span_below(Duration::from_millis(2500)));
        cluster.nodes[leader].start();
        ways.are(&ports(&cluster));
    }
    wait::pass(BETWEEN);
    busy.into_iter().for_each(messages::Busy::end);
    book.close(consumers);
}
