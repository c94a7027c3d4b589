//! What becomes of attempts when workers, streams and nodes go (P8, P12; T-04, T-05, T-08, T-19).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use punctual::core::run::Status;
use punctual::wire::rest::Submit;
use punctual_store::memory::Memory;

use crate::scene::{Center, DEADLINE, Setting, Wanted, Worker, attempts, shell, within};

const LEASE: Duration = Duration::from_secs(2);

/// A program that ends when it is told to.
struct Waiting {
    name: &'static str,
    told: PathBuf,
    process: PathBuf,
}

impl Waiting {
    fn new(folder: &Path, name: &'static str) -> Waiting {
        Waiting { name, told: folder.join(name), process: folder.join(format!("{name}.pid")) }
    }

    fn job(&self) -> Submit {
        let (told, process) = (self.told.display(), self.process.display());
        let wait =
            format!("echo $$ > {process}; until test -e {told}; do sleep 0.05; done; echo {}", self.name);
        attempts(shell(&wait), 1)
    }

    /// Returns when its process is gone.
    async fn end(&self) {
        within("the program begins", until(|| self.process().is_some())).await;
        std::fs::write(&self.told, "").unwrap();
        within("the program ends", until(|| !self.process().is_some_and(|process| process.exists()))).await;
    }

    /// Where the system shows it, as soon as it has said who it is.
    fn process(&self) -> Option<PathBuf> {
        let said = std::fs::read_to_string(&self.process).ok()?;
        said.ends_with('\n').then(|| Path::new("/proc").join(said.trim()))
    }
}

async fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn short() -> Setting {
    Setting { lease: LEASE, ..Setting::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_worker_vanished_is_tried_again_under_a_higher_token() {
    let center = Center::start(short()).await;
    let mut first = Worker::start(&[&center.address], Wanted { name: "first", ..Wanted::default() });
    first.works_for(1).await;
    let run =
        center.submit(shell("echo $PUNCTUAL_ATTEMPT_TOKEN; test $PUNCTUAL_ATTEMPT = 2 || sleep 1000")).await;
    let before = center.running(run).await;
    assert_eq!(before.attempt, 1);
    let mut second = Worker::start(&[&center.address], Wanted { name: "second", ..Wanted::default() });
    second.works_for(1).await;
    first.vanish().await;
    let ended = center.ended(run).await;
    assert_eq!((ended.state.0, ended.attempt), (Status::Succeeded, 2));
    assert!(ended.worker.unwrap().starts_with("second"));
    let tokens: Vec<u64> = center.printed(run).await.lines().map(|line| line.parse().unwrap()).collect();
    assert!(tokens.len() == 2 && tokens[1] > tokens[0], "{tokens:?}");
    second.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_says_good_bye_is_not_waited_for() {
    // A lease of minutes: waiting for its end would time the test out.
    let center = Center::start(Setting { lease: Duration::from_secs(600), ..Setting::default() }).await;
    let mut first = Worker::start(&[&center.address], Wanted { name: "first", ..Wanted::default() });
    first.works_for(1).await;
    let run = center.submit(shell("test $PUNCTUAL_ATTEMPT = 2 || sleep 1000")).await;
    center.running(run).await;
    let mut second = Worker::start(&[&center.address], Wanted { name: "second", ..Wanted::default() });
    second.works_for(1).await;
    first.stop().await.unwrap();
    let ended = center.ended(run).await;
    assert_eq!((ended.state.0, ended.attempt), (Status::Succeeded, 2));
    second.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_node_came_back_is_adopted_and_its_outcome_taken() {
    let store = Arc::new(Memory::new(4));
    // Nothing here waits for its end.
    let lease = DEADLINE;
    let center = Center::start(Setting { store: store.clone(), lease, ..Setting::default() }).await;
    let mut worker = Worker::start(&[&center.address], Wanted::default());
    worker.works_for(1).await;
    let folder = tempfile::tempdir().unwrap();
    // One ends while the node is down, the other after the node is back.
    let [early, late] = ["early", "late"].map(|name| Waiting::new(folder.path(), name));
    let [early_run, late_run] = [center.submit(early.job()).await, center.submit(late.job()).await];
    for run in [early_run, late_run] {
        center.running(run).await;
    }
    let address = center.address.clone();
    center.shut_down().await;
    worker.works_for(0).await;
    early.end().await;
    let center = Center::start(Setting { store, lease, address, ..Setting::default() }).await;
    worker.works_for(1).await;
    late.end().await;
    for (run, output) in [(early_run, "early"), (late_run, "late")] {
        let ended = center.ended(run).await;
        assert_eq!((ended.state.0, ended.attempt), (Status::Succeeded, 1));
        assert_eq!(ended.output.as_deref(), Some(output));
    }
    assert_eq!(center.printed(late_run).await, "late\n");
    // The worker repeats an outcome if it joins before the node has acknowledged it. The repetition is refused.
    assert!(center.node.handle().status().stale_reports <= 1);
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_cut_off_stops_its_programs_when_its_lease_ends() {
    let mut center = Center::start(short()).await;
    let mut worker = Worker::start(&[&center.address], Wanted::default());
    worker.works_for(1).await;
    let folder = tempfile::tempdir().unwrap();
    let book = folder.path().join("book");
    let text = format!("trap '' TERM; while true; do echo x >> {}; sleep 0.05; done", book.display());
    let run = center.submit(attempts(shell(&text), 5)).await;
    center.running(run).await;
    let length = || std::fs::metadata(&book).map_or(0, |found| found.len());
    within("the program prints", until(|| length() > 0)).await;
    // The node lives and hears nobody any more.
    center.close().await;
    within("the program is gone", async {
        let mut before = length();
        loop {
            tokio::time::sleep(Duration::from_millis(500)).await;
            if length() == before {
                return;
            }
            before = length();
        }
    })
    .await;
    // It gave the attempt up as well, and waits for a worker.
    let handle = center.node.handle();
    assert!(within("the run waits", handle.wait_until(|status| status.running_runs == 0)).await);
    worker.stop().await.unwrap();
}
