//! Clients that submit runs without a pause, at every node in turn.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use punctual_tests::api::RUNS;
use punctual_tests::history::has_ended;
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Api, Export};
use serde_json::{Value, json};

/// Between two asks.
const PACE: Duration = Duration::from_millis(15);
/// Fewer asks than this prove little.
const ASKS_MIN: usize = 40;
/// Several who ask at once: one of them may have to wait for a leader.
const CLIENTS: usize = 3;

/// Asking under way.
#[derive(Debug, Default)]
pub(crate) struct Asking {
    stop: AtomicBool,
    taken: AtomicUsize,
}

impl Asking {
    /// Stops the clients; first waits for enough submits, if a node is left to answer them.
    pub(crate) fn stop(&self, is_answered: bool) {
        if is_answered {
            wait::until_so("enough is asked", SOON, || self.taken.load(Ordering::Relaxed) >= ASKS_MIN);
        }
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Ends it when this is dropped, also when a test fails in between.
    pub(crate) fn at_most(&self) -> Over<'_> {
        Over(self)
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

pub(crate) struct Over<'a>(&'a Asking);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

/// Asks one node after the other until it is told to stop. What was acknowledged: the key and the run.
pub(crate) fn ask_on(endpoints: &[Api], asking: &Asking) -> BTreeMap<String, String> {
    thread::scope(|scope| {
        let clients: Vec<_> =
            (0..CLIENTS).map(|client| scope.spawn(move || ask(client, endpoints, asking))).collect();
        clients.into_iter().flat_map(|client| client.join().expect("asking does not fail")).collect()
    })
}

fn ask(client: usize, endpoints: &[Api], asking: &Asking) -> BTreeMap<String, String> {
    let mut acknowledged = BTreeMap::new();
    let mut number = client;
    while !asking.is_over() {
        number += CLIENTS;
        let key = format!("key-{number}");
        let task =
            if number.is_multiple_of(2) { json!({ "noop": {} }) } else { json!({ "shell": "echo hi" }) };
        let body = json!({ "task": task, "key": key });
        if let Some(run) = insist(endpoints, number, &body, asking) {
            acknowledged.insert(key, run);
            asking.taken.fetch_add(1, Ordering::Relaxed);
        }
        wait::pass(PACE);
    }
    acknowledged
}

/// Asks until it is taken, with the same key; none: it is time to stop.
fn insist(endpoints: &[Api], number: usize, body: &Value, asking: &Asking) -> Option<String> {
    let mut turn = number;
    while !asking.is_over() {
        turn += 1;
        let Some(answer) = endpoints[turn % endpoints.len()].post(RUNS, body) else {
            wait::pass(PACE);
            continue;
        };
        assert!(answer.is_ok() || answer.status == 503, "{answer:?}");
        if answer.is_ok() {
            return Some(answer.json()["id"].as_str()?.to_owned());
        }
    }
    None
}

/// Checks that every acknowledged run exists, has succeeded, and is the only one of its key.
#[track_caller]
pub(crate) fn check_kept(export: &Export, acknowledged: &BTreeMap<String, String>) {
    assert!(acknowledged.len() >= ASKS_MIN, "{} asks prove little", acknowledged.len());
    let mut of_key: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (id, run) in export.runs() {
        if let Some(key) = run["key"].as_str() {
            of_key.entry(key).or_default().push(id);
        }
    }
    for (key, id) in acknowledged {
        assert_eq!(of_key.get(key.as_str()), Some(&vec![id.as_str()]), "{key} was acknowledged as {id}");
        let run = export.runs()[id.as_str()];
        assert!(has_ended(run), "{run}");
    }
}
