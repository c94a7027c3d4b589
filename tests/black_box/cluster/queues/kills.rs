//! kill -9 of the leader under load, on three nodes: every acknowledged message is delivered (R130 to R132).
//!
//! `KILLS=n` kills more often, `SEED=n` at other moments.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual_tests::chance::{Throws, told};
use punctual_tests::cluster::{ADMIN, NODES};
use punctual_tests::messages::{self, Book, Fate, Ways};
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Cluster, Node, Scene};

use super::{leader_of, say, start};

const KILLS: u32 = 4;
/// When a message that nobody acknowledged comes again.
const RETRY: Duration = Duration::from_secs(1);
/// Between a restart and the next kill.
const BETWEEN: Duration = Duration::from_secs(1);

#[test]
fn killing_the_leader_of_a_queue_loses_no_message_and_brings_none_back() {
    let scene = Scene::new();
    let mut cluster = start(&scene);
    let ports = |cluster: &Cluster| cluster.nodes.iter().map(Node::resp_port).collect::<Vec<u16>>();
    let (ways, book) = (Ways::to(&ports(&cluster)).with_secret(ADMIN), Book::default());
    let (mut busy, mut consumers) = (Vec::new(), Vec::new());
    for node in 0..NODES {
        let ways = ways.beginning_with(node);
        let (again, once) = (format!("again-{node}"), format!("once-{node}"));
        busy.push(messages::producer(&ways, &book, "again", &again, &["RETRY", "1", "REPLICATE", "1"]));
        busy.push(messages::producer(&ways, &book, "once", &once, &["RETRY", "0", "REPLICATE", "1"]));
        consumers.push(messages::consumer(&ways, &book, &["again", "once"]));
    }
    let mut throws = Throws::new(told("SEED").unwrap_or(1));
    for kill in 0..told("KILLS").unwrap_or(KILLS) {
        wait::pass(BETWEEN + throws.span_below(Duration::from_millis(500)));
        let queue = if kill % 2 == 0 { "again" } else { "once" };
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
    let owed = |fates: &BTreeMap<String, Fate>| {
        let is_owed =
            |(body, fate): &(&String, &Fate)| body.starts_with("again") && fate.added && fate.deliveries == 0;
        fates.iter().filter(is_owed).count()
    };
    wait::until_so("all that was promised has come", 2 * SOON, || owed(&book.all()) == 0);
    // Whatever was delivered and not done comes once more, and what was done does not.
    wait::pass(2 * RETRY);
    consumers.into_iter().for_each(messages::Busy::end);

    let fates = book.all();
    let (mut doubled, mut lost) = (0, 0);
    for (body, fate) in &fates {
        assert!(!fate.came_back, "{body} was acknowledged and came back: {fate:?}");
        if body.starts_with("once") {
            assert!(fate.deliveries <= 1, "{body} was to be delivered once at most: {fate:?}");
            lost += usize::from(fate.added && fate.deliveries == 0);
        } else {
            assert!(!fate.added || fate.deliveries >= 1, "{body} was promised and never came: {fate:?}");
            doubled += usize::from(fate.deliveries > 1);
        }
    }
    println!("{} messages; {doubled} came again, {lost} of RETRY 0 never", fates.len());
    let once = fates.iter().filter(|(body, fate)| body.starts_with("once") && fate.deliveries == 1).count();
    assert!(once > 0, "nothing was delivered once: the scene proves little");
}
