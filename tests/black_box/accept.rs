//! HTTP tasks that accept and work on (R67 to R69), with the service of `examples/accepting.py`.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use punctual_tests::api::RUNS;
use punctual_tests::history::has_ended;
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Api, Machine, Node, Scene, Worker};
use serde_json::{Value, json};

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/accepting.py");
/// Work of ten seconds.
const LONG: u32 = 100;
/// A start is answered by then, however long the work takes.
const ANSWERED_MAX: Duration = Duration::from_secs(1);

/// The service, in a process of its own.
struct Service {
    child: Child,
    printed: PathBuf,
    port: String,
}

impl Service {
    #[track_caller]
    fn start(scene: &Scene) -> Service {
        let printed = scene.path("service.out");
        let file = File::create(&printed).expect("a file of the scene can be made");
        let mut command = Command::new("python3");
        command.args([PROGRAM, "0"]).stdin(Stdio::null()).stdout(file).stderr(Stdio::null());
        let child = command.spawn().expect("python3 can be started; install the package python3");
        let mut service = Service { child, printed, port: String::new() };
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
        let origin = format!("http://127.0.0.1:{}", self.port);
        let run = api.submit(&json!({ "task": { "http": {
            "url": format!("{origin}/settle/{{{{ run.id }}}}"),
            "body": { "rows": rows },
            "accept": { "poll": "200ms", "all": format!("{origin}/all") },
        } } }));
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

#[test]
fn a_service_accepts_work_and_its_progress_is_seen() {
    let scene = Scene::new();
    let (node, service, machine) = (scene.start(), Service::start(&scene), Machine::watched());
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
fn a_cancelled_run_cancels_the_work_at_the_service() {
    let scene = Scene::new();
    let (node, service) = (scene.start(), Service::start(&scene));
    let id = service.submit(node.api(), 100 * LONG);
    until_progress(node.api(), &id);
    node.api().post(&format!("{RUNS}/{id}/cancel"), &json!({})).expect("the node answers").ok();
    let run = ended(node.api(), &id);
    assert_eq!(run["state"], json!("cancelled"), "{run}");
    assert_eq!(service.told("cancel", &id), 1, "{}", service.printed());
}

#[test]
fn a_cancel_after_a_lost_worker_cancels_the_work_at_the_service() {
    let scene = Scene::new();
    let (node, service) = (scene.start_center("2s"), Service::start(&scene));
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
fn work_goes_on_while_its_polling_worker_is_killed() {
    let scene = Scene::new();
    let (node, service) = (scene.start_center("2s"), Service::start(&scene));
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
