//! kill -9 under load: what was acknowledged is there, what was done stays done (P1, P10; R130).

use std::collections::BTreeMap;
use std::time::Duration;

use punctual_tests::Scene;
use punctual_tests::chance::{Throws, told};
use punctual_tests::messages::{self, Book, Fate, Ways};
use punctual_tests::wait::{self, SOON};

const KILLS: u32 = 5;
/// When a message that nobody acknowledged comes again.
const RETRY: Duration = Duration::from_secs(1);

#[test]
fn killing_a_node_loses_no_message_and_brings_none_back() {
    let scene = Scene::new();
    let mut node = scene.node();
    node.start();
    let (ways, book) = (Ways::to(&[node.resp_port()]), Book::default());
    let mut busy = Vec::new();
    for number in 0..2 {
        let (again, once) = (format!("again-{number}"), format!("once-{number}"));
        busy.push(messages::producer(&ways, &book, "again", &again, &["RETRY", "1"]));
        busy.push(messages::producer(&ways, &book, "once", &once, &["RETRY", "0"]));
    }
    let consumers: Vec<_> = (0..2).map(|_| messages::consumer(&ways, &book, &["again", "once"])).collect();
    let mut throws = Throws::new(told("SEED").unwrap_or(1));
    for _ in 0..told("KILLS").unwrap_or(KILLS) {
        wait::pass(Duration::from_millis(300) + throws.span_below(Duration::from_millis(500)));
        node.kill();
        node.start();
        ways.are(&[node.resp_port()]);
    }
    wait::pass(Duration::from_millis(300));
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
    println!("{} messages", fates.len());
    for (body, fate) in &fates {
        assert!(!fate.came_back, "{body} was acknowledged and came back: {fate:?}");
        if body.starts_with("once") {
            assert!(fate.deliveries <= 1, "{body} was to be delivered once at most: {fate:?}");
        } else {
            assert!(!fate.added || fate.deliveries >= 1, "{body} was promised and never came: {fate:?}");
        }
    }
    let once = fates.iter().filter(|(body, fate)| body.starts_with("once") && fate.deliveries == 1).count();
    assert!(once > 0, "nothing was delivered once: the scene proves little");
}
