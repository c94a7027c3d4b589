//! A process that lives until it comes by its point, again and again.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use punctual_tests::cluster::shards_of;
use punctual_tests::fault::failpoint::{ABORTED, Death, VARIABLE, Walk};
use punctual_tests::{Api, Machine, Node, Worker, wait};
use rustix::process::Signal;

/// A life that takes longer does not come by its point; on a busy machine it may take twice as long.
const LIFE_MAX: Duration = Duration::from_secs(15);

/// What the walk needs of a process.
pub(crate) trait Lives {
    fn begin(&mut self, death: &Death);
    fn is_running(&mut self) -> bool;
    /// Whether it is in the midst of its work.
    fn is_at_work(&self) -> bool;
    fn ask_to_end(&self);
    /// Ends it if it has not ended by itself.
    fn end(&mut self) -> ExitStatus;
    /// What this life has printed.
    fn printed(&self) -> String;
}

/// Lives one life after the other, until every death was died.
pub(crate) fn walk(walk: &Walk, process: &mut dyn Lives) {
    while let Some(death) = walk.next() {
        if dies(process, &death) { println!("died at {}", death.point) } else { walk.missed(death) }
    }
}

#[track_caller]
pub(crate) fn dies(process: &mut dyn Lives, death: &Death) -> bool {
    process.begin(death);
    let (began, machine) = (wait::now(), Machine::watched());
    let mut is_asked = false;
    while process.is_running() && began.elapsed() < LIFE_MAX + machine.taken().min(LIFE_MAX) {
        if death.is_at_leaving() && !is_asked && process.is_at_work() {
            process.ask_to_end();
            is_asked = true;
        }
        wait::pass(Duration::from_millis(20));
    }
    let status = process.end();
    if status.signal() != Some(ABORTED) {
        // It was asked to end and did so before it came there, or did not come there at all.
        assert!(status.success() || status.signal() == Some(9), "{}: {status}", death.point);
        return false;
    }
    let words = process.printed();
    assert!(words.contains(&death.last_words()), "it died of something else:\n{words}");
    true
}

/// A node and the way to it.
pub(crate) struct Server<'a> {
    node: &'a mut Node,
    endpoint: Api,
    /// How much was printed before this life.
    before: usize,
}

impl Server<'_> {
    pub(crate) fn new(node: &mut Node, endpoint: Api) -> Server<'_> {
        Server { node, endpoint, before: 0 }
    }
}

impl Lives for Server<'_> {
    fn begin(&mut self, death: &Death) {
        self.before = self.node.printed().len();
        self.node.set_env(VARIABLE, Some(&death.plan()));
        self.node.spawn();
    }

    fn is_running(&mut self) -> bool {
        self.node.is_running()
    }

    fn is_at_work(&self) -> bool {
        shards_of(&self.endpoint) > 0
    }

    fn ask_to_end(&self) {
        self.node.signal(Signal::TERM);
    }

    fn end(&mut self) -> ExitStatus {
        if self.node.is_running() {
            self.node.signal(Signal::KILL);
        }
        self.node.wait_for_end()
    }

    fn printed(&self) -> String {
        self.node.printed().split_off(self.before)
    }
}

/// A worker of a cluster.
pub(crate) struct Labourer {
    pub(crate) name: &'static str,
    pub(crate) folder: PathBuf,
    pub(crate) servers: String,
    pub(crate) token: String,
    pub(crate) worker: Option<Worker>,
}

impl Labourer {
    pub(crate) fn start(&mut self, env: &[(&str, &str)]) {
        let words = ["--token", &self.token, "--slots", "4"];
        self.worker = Some(Worker::spawn_in(&self.folder, self.name, &self.servers, &words, env));
    }
}

impl Lives for Labourer {
    fn begin(&mut self, death: &Death) {
        // Only what this life prints is looked at.
        let _ = fs::remove_file(self.folder.join("worker.log"));
        self.start(&[(VARIABLE, &death.plan())]);
    }

    fn is_running(&mut self) -> bool {
        self.worker.as_mut().is_some_and(Worker::is_running)
    }

    fn is_at_work(&self) -> bool {
        self.printed().contains("takes up to")
    }

    fn ask_to_end(&self) {
        if let Some(worker) = &self.worker {
            worker.signal(Signal::TERM);
        }
    }

    fn end(&mut self) -> ExitStatus {
        let worker = self.worker.as_mut().expect("it was started");
        if worker.is_running() {
            worker.signal(Signal::KILL);
        }
        worker.wait_for_end()
    }

    fn printed(&self) -> String {
        fs::read_to_string(self.folder.join("worker.log")).unwrap_or_default()
    }
}
