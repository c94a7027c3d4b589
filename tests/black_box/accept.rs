//! Services that accept work and work on: HTTP (R67 to R69) with `examples/accepting.py`, gRPC (R70) with
//! `examples/executor.rs`.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use punctual_tests::api::RUNS;
use punctual_tests::history::has_ended;
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Api, Machine, Node, Scene, Worker, binary};
use serde_json::{Value, json};

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/accepting.py");
/// Work of ten seconds.
const LONG: u32 = 100;
/// A start is answered by then, however long the work takes.
const ANSWERED_MAX: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Over {
    Http,
    Grpc,
}

/// The service, in a process of its own.
struct Service {
    over: Over,
    child: Child,
    printed: PathBuf,
    port: String,
}

impl Service {
    #[track_caller]
    fn start(scene: &Scene, over: Over) -> Service {
        Service::start_on("0", scene, over)
    }

    #[track_caller]
    fn start_on(port: &str, scene: &Scene, over: Over) -> Service {
        let printed = scene.path("service.out");
        let file = File::create(&printed).expect("a file of the scene can be made");
        let mut command = match over {
            Over::Http => {
                let mut python = Command::new("python3");
                python.arg(PROGRAM);
                python
            }
            Over::Grpc => Command::new(binary::example("executor")),
        };
        command.arg(port).stdin(Stdio::null()).stdout(file).stderr(Stdio::null());
        let child = command.spawn().expect("it can be started; if not, install the package python3");
        let mut service = Service { over, child, printed, port: String::new() };
        service.port = wait::until("the service listens", SOON, || {
            service.printed().lines().find_map(|line| line.strip_prefix("port ").map(str::to_owned))
        });
        service
    }

    fn printed(&self) -> String {
        fs::read_to_string(&self.printed).unwrap_or_default()
    }

    /// How often it was told this about a run.
    fn told(&self, word: &str, run: &str) -> usize {
        self.printed().lines().filter(|line| *line == format!("{word} {run}")).count()
    }

    #[track_caller]
    fn submit(&self, api: &Api, rows: u32) -> String {
        let address = format!("127.0.0.1:{}", self.port);
        let task = match self.over {
            Over::Http => json!({ "http": {
                "url": format!("http://{address}/settle/{{{{ run.id }}}}"),
                "body": { "rows": rows },
                "accept": { "poll": "200ms", "all": format!("http://{address}/all") },
            } }),
            Over::Grpc => {
                json!({ "grpc": { "address": address, "message": { "rows": rows }, "accept": {} } })
            }
        };
        let retry = json!({ "attempts": 2, "delay": "1h" });
        let run = api.submit(&json!({ "task": task, "retry": retry }));
        run["id"].as_str().expect("a run has an id").to_owned()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[track_caller]
fn ended(api: &Api, id: &str) -> Value {
    wait::until("the run ends", SOON, || Some(api.run(id)).filter(has_ended))
}

#[track_caller]
fn until_progress(api: &Api, id: &str) -> Value {
    wait::until("progress is seen", SOON, || {
        Some(api.run(id)).filter(|run| run["progress"].as_u64().is_some_and(|percent| percent > 0))
    })
}

#[track_caller]
fn worker(scene: &Scene, node: &Node, name: &str) -> Worker {
    let settings = scene.write("worker.toml", "[egress]\nallow = [\"loopback\"]\n");
    let words = ["--config", settings.to_str().expect("a path is text")];
    let mut worker = Worker::spawn(&scene.path(name), name, node.api().address(), &words);
    worker.wait_until_ready();
    worker
}

#[track_caller]
fn check_progress(over: Over) {
    let scene = Scene::new();
    let (node, service, machine) = (scene.start(), Service::start(&scene, over), Machine::watched());
    let asked = wait::now();
    let id = service.submit(node.api(), 20);
    assert!(asked.elapsed() < ANSWERED_MAX + machine.taken(), "{:?}", asked.elapsed());
    let seen = until_progress(node.api(), &id);
    assert_eq!(seen["state"], json!("running"), "{seen}");
    assert!(seen["progress_message"].as_str().is_some_and(|message| message.starts_with("row ")), "{seen}");
    let run = ended(node.api(), &id);
    assert_eq!((&run["state"], &run["output"]), (&json!("succeeded"), &json!("20 rows")), "{run}");
    assert_eq!((&run["progress"], service.told("start", &id)), (&json!(100), 1), "{run}");
}

#[test]
fn a_service_accepts_work_and_its_progress_is_seen() {
    check_progress(Over::Http);
}

#[test]
fn an_executor_accepts_work_and_its_progress_is_seen() {
    check_progress(Over::Grpc);
}

#[track_caller]
fn check_cancel(over: Over) {
    let scene = Scene::new();
    let (node, service) = (scene.start(), Service::start(&scene, over));
    let id = service.submit(node.api(), 100 * LONG);
    until_progress(node.api(), &id);
    node.api().post(&format!("{RUNS}/{id}/cancel"), &json!({})).expect("the node answers").ok();
    let run = ended(node.api(), &id);
    assert_eq!(run["state"], json!("cancelled"), "{run}");
    assert_eq!(service.told("cancel", &id), 1, "{}", service.printed());
}

#[test]
fn a_cancelled_run_cancels_the_work_at_the_service() {
    check_cancel(Over::Http);
}

#[test]
fn a_cancelled_run_cancels_the_work_at_the_executor() {
    check_cancel(Over::Grpc);
}

#[track_caller]
fn check_cancel_after_a_lost_worker(over: Over) {
    let scene = Scene::new();
    let (node, service) = (scene.start_center("2s"), Service::start(&scene, over));
    let mut first = worker(&scene, &node, "a");
    let id = service.submit(node.api(), 100 * LONG);
    until_progress(node.api(), &id);
    first.kill();
    wait::until_so("no worker has the run", SOON, || node.api().run(&id)["state"] == "ready");
    assert!(node.cli(["run", "cancel", &id]).ok().starts_with("cancelling "));
    assert!(node.cli(["run", "why", &id]).ok().contains("told the service to stop the work"));
    let _second = worker(&scene, &node, "b");
    let run = ended(node.api(), &id);
    assert_eq!((&run["state"], &run["attempt"]), (&json!("cancelled"), &json!(2)), "{run}");
    assert_eq!((service.told("start", &id), service.told("cancel", &id)), (1, 1), "{}", service.printed());
}

#[test]
fn a_cancel_after_a_lost_worker_cancels_the_work_at_the_service() {
    check_cancel_after_a_lost_worker(Over::Http);
}

#[test]
fn a_cancel_after_a_lost_worker_cancels_the_work_at_the_executor() {
    check_cancel_after_a_lost_worker(Over::Grpc);
}

#[test]
fn a_cancel_after_failed_polls_cancels_the_work_at_the_service() {
    let scene = Scene::new();
    let (node, service) = (scene.start(), Service::start(&scene, Over::Http));
    let port = service.port.clone();
    let id = service.submit(node.api(), 100 * LONG);
    until_progress(node.api(), &id);
    drop(service);
    wait::until_so("the attempt fails", SOON, || node.api().run(&id)["state"] == "waiting");
    let service = Service::start_on(&port, &scene, Over::Http);
    assert!(node.cli(["run", "cancel", &id]).ok().starts_with("cancelling "));
    let run = ended(node.api(), &id);
    assert_eq!((&run["state"], &run["attempt"]), (&json!("cancelled"), &json!(2)), "{run}");
    assert_eq!((service.told("start", &id), service.told("cancel", &id)), (0, 1), "{}", service.printed());
}

#[track_caller]
fn check_a_killed_worker(over: Over) {
    let scene = Scene::new();
    let (node, service) = (scene.start_center("2s"), Service::start(&scene, over));
    let mut workers = [worker(&scene, &node, "a"), worker(&scene, &node, "b")];
    let id = service.submit(node.api(), LONG);
    let run = until_progress(node.api(), &id);
    let polls_it = |name: &str| run["worker"].as_str().is_some_and(|worker| worker.starts_with(name));
    workers[usize::from(!polls_it("a"))].kill();
    let run = ended(node.api(), &id);
    assert_eq!((&run["state"], &run["attempt"]), (&json!("succeeded"), &json!(2)), "{run}");
    assert_eq!((&run["output"], service.told("start", &id)), (&json!("100 rows"), 1), "{run}");
    assert_eq!(service.told("cancel", &id), 0, "{}", service.printed());
}

#[test]
fn work_goes_on_while_its_polling_worker_is_killed() {
    check_a_killed_worker(Over::Http);
}

#[test]
fn work_of_an_executor_goes_on_while_its_worker_is_killed() {
    check_a_killed_worker(Over::Grpc);
}

#[test]
fn the_runs_of_one_executor_share_one_stream_of_one_worker() {
    let scene = Scene::new();
    let (node, service) = (scene.start_center("10s"), Service::start(&scene, Over::Grpc));
    let _workers = [worker(&scene, &node, "a"), worker(&scene, &node, "b"), worker(&scene, &node, "c")];
    // Long work first: the stream is open while the others come and go.
    let ids = [LONG, 5, 10, 15].map(|rows| service.submit(node.api(), rows));
    let runs = ids.map(|id| ended(node.api(), &id));
    assert!(runs.iter().all(|run| run["worker"] == runs[0]["worker"]), "{runs:?}");
    assert_eq!(service.printed().matches("watch\n").count(), 1, "{}", service.printed());
}
