//! `docs/guides/long-work.md`, followed exactly: every job is applied, every command typed, and what it does is seen.
//!
//! The commands are typed in the environment of an attempt that runs. The ids and the key in the guide stand for those of
//! its run.

use std::fs;
use std::path::Path;

use punctual_tests::guide::{self, Block};
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Api, Cli, Node, Scene, Worker};
use serde_json::{Value, json};

const GUIDE: &str = include_str!("../../docs/guides/long-work.md");

#[track_caller]
fn worker(scene: &Scene, node: &Node, name: &str) -> Worker {
    let settings = scene.write("worker.toml", "[egress]\nallow = [\"loopback\"]\n");
    let words = ["--config", settings.to_str().expect("a path is text"), "--drain", "1s"];
    let mut worker = Worker::spawn(&scene.path(name), name, node.api().address(), &words);
    worker.wait_until_ready();
    worker
}

/// A run that goes on until the test is over.
struct Attempt {
    run: String,
    env: Vec<(String, String)>,
}

impl Attempt {
    #[track_caller]
    fn start(scene: &Scene, api: &Api) -> Attempt {
        let file = scene.path("env");
        let shell = format!("env > {0}.new; mv {0}.new {0}; exec sleep 600", file.display());
        let run =
            api.submit(&json!({ "task": { "shell": shell } }))["id"].as_str().expect("an id").to_owned();
        let text = wait::until("the attempt starts", SOON, || fs::read_to_string(&file).ok());
        let own = text.lines().filter(|line| line.starts_with("PUNCTUAL_"));
        let env = own
            .filter_map(|line| line.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        Attempt { run, env: env.collect() }
    }

    fn key(&self) -> &str {
        let key = self.env.iter().find(|(name, _)| name == "PUNCTUAL_ATTEMPT_KEY");
        key.map(|(_, value)| value.as_str()).expect("it has a key")
    }

    /// Types a command of the guide.
    fn type_in(&self, typed: &str, folder: &Path, node: &Node) -> Cli {
        let typed = typed.replace("pck_7301_…", self.key());
        let typed = typed.replace("4683711365120", &self.run).replace("7301", &self.run);
        let mut shell = guide::shell(&typed, folder, node);
        shell.envs(self.env.iter().map(|(name, value)| (name, value)));
        shell.env("PUNCTUAL_SERVER", node.api().address()).env("SERVER", node.api().address());
        // curl then fails when the server refuses.
        shell.env("KEY", self.key()).env("CURL_HOME", folder);
        Cli::run(&mut shell)
    }
}

/// The commands of a block, each on one line.
fn commands(block: &Block) -> Vec<String> {
    block.text.replace("\\\n", " ").lines().map(str::to_owned).collect()
}

/// What a report says is done, in percent.
fn percent(typed: &str) -> Option<u64> {
    let after = |word: &str| typed.split_once(word).map(|(_, rest)| rest.trim_start());
    let rest = after("--percent").or_else(|| after("\"percent\":")).or_else(|| after("\"progress\":"))?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Sets another progress than any that the guide reports.
#[track_caller]
fn forget_progress(api: &Api, run: &str) {
    let report = json!({ "execution_id": run, "progress": 1, "durable": true });
    api.post("/api/v1/task_progress", &report).expect("the node answers").ok();
    assert_eq!(api.run(run)["progress"], json!(1));
}

#[track_caller]
fn until_on(api: &Api, run: &str, worker: &str) {
    wait::until_so("the run is on its worker", SOON, || {
        let seen = api.run(run);
        let is_there = seen["worker"].as_str().is_some_and(|name| name.starts_with(worker));
        seen["state"] == "running" && seen["cancelling"].is_null() && is_there
    });
}

/// Checks that a command of the guide has done what it is for.
#[track_caller]
fn check(typed: &str, said: &Cli, api: &Api, run: &str, attempts: &Value) {
    if let Some(percent) = percent(typed) {
        wait::until_so(typed, SOON, || api.run(run)["progress"] == json!(percent));
    } else if typed.contains("@state.json") {
        wait::until_so(typed, SOON, || api.run(run)["checkpoint"]["value"] == json!({ "row": 7 }));
    } else if typed.contains("run move") {
        wait::until_so(typed, SOON, || api.run(run)["attempt"].as_u64() > attempts.as_u64());
        until_on(api, run, if typed.contains("--to w2") { "w2@" } else { "w" });
    } else if typed.contains("node drain") {
        assert_eq!(said.out.trim(), "w1 is drained");
        until_on(api, run, "w2@");
    } else if typed.contains("node resume") {
        wait::until_so(typed, SOON, || {
            let workers = api.get("/api/v1/workers").expect("the node answers").text;
            !workers.contains("\"draining\":true")
        });
    } else {
        panic!("the test does not know what `{typed}` is for");
    }
}

#[test]
fn the_commands_of_the_guide_do_what_it_says() {
    let scene = Scene::new();
    let node = scene.start_center("10s");
    let api = node.api();
    let _workers = ["w1", "w2"].map(|name| worker(&scene, &node, name));
    let folder = scene.path("guide");
    fs::create_dir(&folder).expect("a folder of the scene can be made");
    scene.write("guide/state.json", "{\"row\": 7}");
    scene.write("guide/.curlrc", "silent\nfail-with-body\n");
    let attempt = Attempt::start(&scene, api);
    let mut typed = 0;
    for block in guide::blocks(GUIDE).iter().filter(|block| block.language == "sh") {
        for command in commands(block) {
            if percent(&command).is_some() {
                forget_progress(api, &attempt.run);
            }
            if command.contains("node drain") {
                node.cli(["run", "move", &attempt.run, "--to", "w1"]).ok();
                until_on(api, &attempt.run, "w1@");
            }
            let attempts = api.run(&attempt.run)["attempt"].clone();
            let said = attempt.type_in(&command, &folder, &node);
            assert!(said.status.success(), "long-work.md, line {}: `{command}`: {said:?}", block.line);
            check(&command, &said, api, &attempt.run, &attempts);
            typed += 1;
        }
    }
    assert!(typed >= 9, "only {typed} commands were found");
}

#[test]
fn the_jobs_of_the_guide_are_taken_and_the_first_one_ends() {
    let scene = Scene::new();
    let node = scene.start();
    let jobs = guide::blocks(GUIDE).into_iter().filter(|block| block.language == "yaml").map(|block| {
        let file = scene.write(&format!("line-{}.yaml", block.line), &block.text);
        node.cli(["job", "apply", file.to_str().expect("a path is text")]).ok();
        file
    });
    let jobs: Vec<_> = jobs.collect();
    assert_eq!(jobs.len(), 3);
    node.cli(["job", "apply", jobs[0].to_str().expect("a path is text")]).ok();
    node.cli(["job", "run", "settle", "--wait"]).ok();
    let run = &node.api().runs_of("settle")[0];
    assert_eq!((&run["state"], &run["progress"]), (&json!("succeeded"), &json!(100)), "{run}");
}
