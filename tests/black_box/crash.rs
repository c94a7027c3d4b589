//! kill -9, as often as it takes (P1, P2, P5, P6, P10; T-03).

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use punctual_tests::api::RUNS;
use punctual_tests::chance::told;
use punctual_tests::history::has_ended;
use punctual_tests::wait::{self, SOON, StopAtDrop};
use punctual_tests::{Api, Export, Node, Scene};
use punctual_verify::Options;
use rustix::process::Signal;
use serde_json::{Value, json};

const KILLS: u32 = 30;
/// Fewer submits than this prove little.
const SUBMITS_MIN: usize = 500;
/// Each submits as fast as this allows, so that thirty kills leave thousands of runs and not a million.
const SUBMITTERS: usize = 3;
const PAUSE: Duration = Duration::from_millis(15);

/// The clients of a node that dies again and again: what was acknowledged to them, by key.
struct Clients {
    api: Mutex<Api>,
    acknowledged: Mutex<BTreeMap<String, String>>,
    done: AtomicBool,
}

impl Clients {
    /// Submits one key after the other; a key is asked for again until it is acknowledged.
    fn submit(&self, client: usize) {
        let mut number = 0;
        while !self.done.load(Ordering::Relaxed) {
            let key = format!("client-{client}-{number}");
            let task = if number % 10 == 0 { json!({ "shell": "true" }) } else { json!({ "noop": {} }) };
            let body = json!({ "task": task, "key": key });
            // The client is made anew with each process; a request never waits for one that is dead.
            let api = locked(&self.api).clone();
            match api.post(RUNS, &body) {
                Some(answer) if answer.is_ok() => {
                    let id = answer.json()["id"].as_str().expect("a run has an id").to_owned();
                    locked(&self.acknowledged).insert(key, id);
                    number += 1;
                }
                Some(answer) => assert!(answer.status >= 500, "a good submit is not refused: {answer:?}"),
                None => {}
            }
            thread::sleep(PAUSE);
        }
    }
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn apply_jobs(api: &Api) {
    let keep = json!({ "runs": 100_000 });
    let job = |every: &str, task: Value, overlap: &str, policy: &str| {
        // A short grace: what a kill delays is missed, and meets the policy.
        json!({ "schedule": { "every": every }, "task": task, "overlap": overlap, "keep": keep,
            "misfire": { "policy": policy, "grace": "50ms" } })
    };
    let (noop, shell) = (json!({ "noop": {} }), json!({ "shell": "sleep 0.1" }));
    api.put_job("fast", &job("100ms", noop.clone(), "allow", "all"));
    api.put_job("queued", &job("250ms", noop.clone(), "queue", "all"));
    api.put_job("latest", &job("300ms", noop, "skip", "once"));
    api.put_job("slow", &job("350ms", shell.clone(), "skip", "skip"));
    api.put_job("second", &job("1s", shell, "queue_one", "once"));
}

#[test]
fn thirty_kills_under_load_lose_nothing_and_double_nothing() {
    let scene = Scene::new();
    let mut node = scene.start();
    apply_jobs(node.api());
    let clients = Clients {
        api: Mutex::new(node.api().clone()),
        acknowledged: Mutex::default(),
        done: AtomicBool::new(false),
    };
    thread::scope(|scope| {
        for client in 0..SUBMITTERS {
            let clients = &clients;
            scope.spawn(move || clients.submit(client));
        }
        let _stop = StopAtDrop(&clients.done);
        for round in 0..told("KILLS").unwrap_or(KILLS) {
            let before = locked(&clients.acknowledged).len();
            wait::until_so("something is acknowledged", SOON, || {
                locked(&clients.acknowledged).len() > before + SUBMITS_MIN / KILLS as usize
            });
            // Spread over the second, so that a kill meets every part of a beat.
            wait::pass(Duration::from_millis(200 + u64::from(round * 277 % 900)));
            node.kill();
            // Now and then nobody is there for a while, and fires are missed.
            if round % 5 == 4 {
                wait::pass(Duration::from_millis(800));
            }
            node.start();
            *locked(&clients.api) = node.api().clone();
        }
    });
    check_everything(&scene, &node, &locked(&clients.acknowledged));
}

fn check_everything(scene: &Scene, node: &Node, acknowledged: &BTreeMap<String, String>) {
    let through = wait::wall_clock();
    let export = wait::until("everything that was due has ended", 4 * SOON, || {
        let export = Export::of(node);
        let due = |run: &Value| run["due_at"].as_str() <= Some(through.to_string().as_str());
        let all_ended = export.runs().values().filter(|run| due(run)).all(|run| has_ended(run));
        all_ended.then_some(export)
    });
    let runs = export.runs();
    let mut by_key: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (id, run) in &runs {
        if let Some(key) = run["key"].as_str() {
            by_key.entry(key).or_default().push(id);
        }
    }
    for (key, id) in acknowledged {
        let run =
            runs.get(id.as_str()).unwrap_or_else(|| panic!("run {id} ({key}) was acknowledged and is gone"));
        assert_eq!(run["state"], "succeeded", "{run}");
        assert_eq!(by_key[key.as_str()], [id.as_str()], "one key, one run");
    }
    for job in ["fast", "queued", "latest", "slow", "second"] {
        let fires = export.fires(job).len();
        assert!(fires >= 20, "{job} fired {fires} times only: the scene proves little");
    }
    for job in ["latest", "slow"] {
        assert!(!export.skips(job).is_empty(), "{job} missed nothing: the scene proves little");
    }
    assert!(
        acknowledged.len() >= SUBMITS_MIN,
        "{} submits only: the scene proves little",
        acknowledged.len()
    );
    let options =
        Options { fired_through: Some(through), ended_through: Some(through), ..Options::default() };
    export.verify(scene, node, &options);
}

#[test]
fn a_run_that_may_start_once_is_not_started_again_after_a_kill() {
    let scene = Scene::new();
    let mut node = scene.start();
    let traces = scene.path("traces");
    let shell = format!("echo $PUNCTUAL_RUN_ID >> {}; sleep 2", traces.display());
    let once = json!({ "task": { "shell": shell }, "at_most_once": true });
    let ids: Vec<String> = (0..3).map(|_| id_of(&node.api().submit(&once))).collect();
    let starts = |id: &str| {
        let text = fs::read_to_string(&traces).unwrap_or_default();
        text.lines().filter(|line| *line == id).count()
    };
    wait::until_so("one has started", SOON, || ids.iter().any(|id| starts(id) > 0));
    node.kill();
    node.start();
    for id in &ids {
        wait::until_so("it has ended, one way or the other", 2 * SOON, || has_ended(&node.api().run(id)));
    }
    for id in &ids {
        assert!(starts(id) <= 1, "run {id} may start once, and started {} times", starts(id));
    }
    Export::of(&node).verify(&scene, &node, &Options { may_be_empty: true, ..Options::default() });
}

#[test]
fn a_run_that_was_running_at_a_kill_is_run_again() {
    let scene = Scene::new();
    let mut node = scene.start();
    let traces = scene.path("traces");
    let shell = format!("echo started >> {}; sleep 1; echo ended >> {}", traces.display(), traces.display());
    let id = id_of(&node.api().submit(&json!({ "task": { "shell": shell } })));
    wait::until_so("it has started", SOON, || fs::read_to_string(&traces).is_ok_and(|text| !text.is_empty()));
    node.kill();
    node.start();
    let run = wait::until("it has ended", 2 * SOON, || Some(node.api().run(&id)).filter(has_ended));
    assert_eq!(run["state"], "succeeded", "{run}");
    Export::of(&node).verify(&scene, &node, &Options { may_be_empty: true, ..Options::default() });
}

#[test]
fn a_process_killed_while_it_starts_or_stops_starts_again() {
    let scene = Scene::new();
    let mut node = scene.node();
    // The first of them is killed while it makes its store.
    for delay in (0..60).step_by(3) {
        node.spawn();
        wait::pass(Duration::from_millis(delay));
        node.kill();
    }
    node.start();
    apply_jobs(node.api());
    let ids: Vec<String> =
        (0..20).map(|_| id_of(&node.api().submit(&json!({ "task": { "noop": {} } })))).collect();
    for delay in (0..60).step_by(3) {
        node.signal(Signal::TERM);
        wait::pass(Duration::from_millis(delay / 4));
        node.end();
        node.spawn();
        wait::pass(Duration::from_millis(delay));
        node.kill();
        node.start();
    }
    let export = Export::of(&node);
    for id in &ids {
        assert!(export.runs().contains_key(id.as_str()), "run {id} was acknowledged and is gone");
    }
    wait::until_so("the schedules go on", SOON, || {
        Export::of(&node).fires("fast").len() > export.fires("fast").len()
    });
    Export::of(&node).verify(&scene, &node, &Options::default());
}

fn id_of(run: &Value) -> String {
    run["id"].as_str().expect("a run has an id").to_owned()
}
