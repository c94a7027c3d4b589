//! kill -9 of leaders and of workers, and SIGQUIT of the store, while attempts report: no stored checkpoint is lost, and no
//! attempt gets an older one (T-21, R106).
//!
//! Two kinds of runs report. A function waits until its worker hears that a checkpoint is stored. A client reports for a
//! process over REST, and is answered when the checkpoint is stored. `KILLS=50` kills each of the three 50 times.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use punctual_store::conformance::servers::postgres;
use punctual_tests::api::RUNS;
use punctual_tests::chance::{Throws, told};
use punctual_tests::checkpoints::Witness;
use punctual_tests::cluster::{NODES, SHARDS};
use punctual_tests::history::has_ended;
use punctual_tests::wait::{self, SOON, StopAtDrop};
use punctual_tests::{Answer, Api, Cluster, Scene, Worker};
use serde_json::{Value, json};

const KILLS: usize = 3;
/// Of each kind.
const RUNS_COUNT: usize = 2;
const LEASES: [&str; 4] = ["--shard-lease", "1s", "--attempt-lease", "2s"];
/// Between a report that was seen and the kill: the next reports are under way then.
const BEFORE_MAX: Duration = Duration::from_secs(1);
/// How long what was killed is away: less than a lease, or more.
const AWAY_MAX: Duration = Duration::from_millis(2500);
const PAUSE: Duration = Duration::from_millis(50);

/// Those who report for processes, over whichever node answers.
struct Clients {
    endpoints: Vec<Api>,
    witness: Mutex<Witness>,
    done: AtomicBool,
}

impl Clients {
    fn report_for(&self, run: &str) {
        for turn in 1.. {
            if self.done.load(Ordering::Relaxed) {
                return;
            }
            wait::pass(PAUSE);
            let _ = self.report(run, turn);
        }
    }

    /// Reports a checkpoint for the newest attempt. `None` means that nobody knows whether it is stored.
    fn report(&self, run: &str, turn: usize) -> Option<()> {
        let api = &self.endpoints[turn % NODES];
        let shown = api.get(&format!("{RUNS}/{run}")).filter(Answer::is_ok)?.json();
        let attempt = shown["attempts"].as_array()?.last()?;
        let body = json!({ "token": attempt["token"], "checkpoint": turn, "durable": true });
        api.post(&format!("{RUNS}/{run}/progress"), &body).filter(Answer::is_ok)?;
        let mut witness = self.witness.lock().unwrap_or_else(PoisonError::into_inner);
        witness.stored(run, attempt["number"].as_u64()?, turn as u64);
        Some(())
    }
}

struct Stage<'a> {
    store: &'a postgres::Server,
    cluster: Cluster,
    workers: BTreeMap<String, Worker>,
    /// Those of functions first, then those of processes.
    runs: Vec<String>,
    throws: Throws,
}

impl<'a> Stage<'a> {
    fn new(scene: &Scene, store: &'a postgres::Server) -> Stage<'a> {
        let address = format!("{}?shards={SHARDS}&durability=full", store.database());
        let cluster = Cluster::start(scene, &address, &LEASES);
        cluster.put_jobs(NODES);
        let mut workers = BTreeMap::new();
        for name in ["f1", "f2"] {
            let token = cluster.worker_token(name);
            let worker = Worker::of_rows(&scene.path(name), name, &cluster.endpoints, Some(&token));
            workers.insert(name.to_owned(), worker);
        }
        for name in ["p1", "p2"] {
            let words = ["--token", &cluster.worker_token(name), "--slots", "8"];
            let mut worker = Worker::spawn(&scene.path(name), name, &cluster.servers(), &words);
            worker.wait_until_ready();
            workers.insert(name.to_owned(), worker);
        }
        let shell = format!(
            "cd '{}'; echo \"$PUNCTUAL_ATTEMPT $(cat \"$PUNCTUAL_CHECKPOINT\" || echo 0)\" >> $PUNCTUAL_RUN_ID; exec sleep 3600",
            scene.path("").display()
        );
        // It never ends by itself.
        let params = json!({ "rows": 1_000_000_000_000_u64, "chunk": 1000 });
        let functions = json!({ "task": { "function": "settle-rows" }, "params": params });
        let processes = json!({ "task": { "shell": shell } });
        let submit = |(number, body): (usize, &Value)| {
            let run = cluster.insist(number % NODES, |api| api.post(RUNS, body));
            run["id"].as_str().expect("a run has an id").to_owned()
        };
        let bodies = [&functions; RUNS_COUNT].into_iter().chain([&processes; RUNS_COUNT]);
        let runs = bodies.enumerate().map(submit).collect();
        let throws = Throws::new(told("SEED").unwrap_or(1));
        Stage { store, cluster, workers, runs, throws }
    }

    /// What is known to be stored of each run.
    fn newest(&self, clients: &Clients) -> Vec<u64> {
        let mut witness = clients.witness.lock().unwrap_or_else(PoisonError::into_inner);
        for worker in self.workers.values() {
            witness.read(&worker.printed());
        }
        self.runs.iter().map(|run| witness.newest(run)).collect()
    }

    /// Waits until every run has stored a newer checkpoint. So no run is lost three times without one.
    #[track_caller]
    fn wait_for_reports(&self, clients: &Clients) {
        let before = self.newest(clients);
        wait::until_so("every run stores a checkpoint", SOON, || {
            self.newest(clients).iter().zip(&before).all(|(now, before)| now > before)
        });
    }

    fn kill_something(&mut self, round: usize) {
        wait::pass(self.throws.span_below(BEFORE_MAX));
        let away = self.throws.span_below(AWAY_MAX);
        match round % 3 {
            0 => {
                let node = &mut self.cluster.nodes[self.throws.below(NODES)];
                node.kill();
                wait::pass(away);
                node.start();
            }
            1 => {
                let name = self.worker_of(round / 3 % self.runs.len());
                let worker = self.workers.get_mut(&name).expect("a run is on one of the workers");
                worker.kill();
                wait::pass(away);
                worker.start_again();
            }
            _ => {
                self.store.stop();
                wait::pass(away);
                self.store.start_again();
            }
        }
    }

    /// The name of the worker that has this run.
    #[track_caller]
    fn worker_of(&self, run: usize) -> String {
        wait::until("the run is on a worker", SOON, || {
            let run =
                self.cluster.api(0).get(&format!("{RUNS}/{}", self.runs[run])).filter(Answer::is_ok)?.json();
            Some(run["worker"].as_str()?.split('@').next()?.to_owned()).filter(|_| run["state"] == "running")
        })
    }

    /// Cancels every run, and waits until all have ended.
    fn end(&self) {
        for run in &self.runs {
            self.cluster.insist(0, |api| api.post(&format!("{RUNS}/{run}/cancel"), &json!({})));
        }
        for run in &self.runs {
            let run = wait::until("the run ends", SOON, || {
                let shown = self.cluster.api(0).get(&format!("{RUNS}/{run}")).filter(Answer::is_ok)?;
                Some(shown.json()).filter(has_ended)
            });
            assert_eq!(run["state"], "cancelled", "{run}");
        }
    }
}

#[test]
fn no_stored_checkpoint_is_lost_by_kills_around_reports() {
    let kills = told("KILLS").unwrap_or(KILLS);
    let scene = Scene::new();
    let store = postgres::Server::start(&[]);
    let mut stage = Stage::new(&scene, &store);
    let clients = Clients {
        endpoints: stage.cluster.endpoints(),
        witness: Mutex::default(),
        done: AtomicBool::new(false),
    };
    thread::scope(|scope| {
        for run in &stage.runs[RUNS_COUNT..] {
            let (clients, run) = (&clients, run.clone());
            scope.spawn(move || clients.report_for(&run));
        }
        let _stop = StopAtDrop(&clients.done);
        for round in 0..3 * kills {
            stage.wait_for_reports(&clients);
            stage.kill_something(round);
        }
        stage.wait_for_reports(&clients);
    });
    stage.end();
    let mut witness = clients.witness.into_inner().unwrap_or_else(PoisonError::into_inner);
    for run in &stage.runs[RUNS_COUNT..] {
        let starts = fs::read_to_string(scene.path(run)).expect("the process has started");
        for (attempt, checkpoint) in starts.lines().filter_map(|line| line.split_once(' ')) {
            let number = |text: &str| text.parse().expect("a number");
            witness.started(run, number(attempt), number(checkpoint));
        }
    }
    let followed = witness.check();
    assert!(followed >= kills, "{followed} attempts followed a checkpoint: the scene proves little");
    let export = stage.cluster.verified(&scene, 0, Duration::ZERO);
    assert!(export.resumes() >= followed, "{} attempts of {followed} are on record", export.resumes());
    println!("{} kills, {followed} attempts followed a stored checkpoint", 3 * kills);
}
