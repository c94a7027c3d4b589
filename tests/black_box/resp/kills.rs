//! kill -9 under load: what was acknowledged is there, what was done stays done (P1, P10; R130).

use std::time::Duration;

use punctual_tests::Scene;
use punctual_tests::chance::{Throws, told};
use punctual_tests::messages::{self, AGAIN, Book, ONCE, Ways};
use punctual_tests::wait;

const KILLS: u32 = 5;

#[test]
fn killing_a_node_loses_no_message_and_brings_none_back() {
    let scene = Scene::new();
    let mut node = scene.node();
    node.start();
    let (ways, book) = (Ways::to(&[node.resp_port()]), Book::default());
    let mut busy = Vec::new();
    for number in 0..2 {
        let (again, once) = (format!("{AGAIN}-{number}"), format!("{ONCE}-{number}"));
        busy.push(messages::producer(&ways, &book, AGAIN, &again, &["RETRY", "1"]));
        busy.push(messages::producer(&ways, &book, ONCE, &once, &["RETRY", "0"]));
    }
    let consumers: Vec<_> = (0..2).map(|_| messages::consumer(&ways, &book, &[AGAIN, ONCE])).collect();
    let mut throws = Throws::new(told("SEED").unwrap_or(1));
    for _ in 0..told("KILLS").unwrap_or(KILLS) {
        wait::pass(Duration::from_millis(300) + throws.span_below(Duration::from_millis(500)));
        node.kill();
        node.start();
        ways.are(&[node.resp_port()]);
    }
    wait::pass(Duration::from_millis(300));
    busy.into_iter().for_each(messages::Busy::end);
    book.close(consumers);
}
