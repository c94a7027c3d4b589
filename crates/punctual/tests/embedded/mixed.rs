//! Instances of a program and a server on one store: R26.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, ChildStdout, Command, Stdio};

use punctual::Submit;
use punctual::client::Client;
use punctual::core::name::Namespace;
use punctual::core::run::Reason;
use punctual::wire::job_file::Task;
use punctual::wire::{Text, rest};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::scene::{Book, instance, leads, shared_store, succeeded, tick, until};

const TOKEN: &str = "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0";

/// A `punctual server` on a store.
struct Server {
    child: Child,
    client: Client,
    /// Kept open: a server that can no longer print stops.
    _stdout: BufReader<ChildStdout>,
    _folder: TempDir,
}

impl Server {
    fn start(store: &str) -> Server {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
        command.args(["server", "--http", "127.0.0.1:0", "--store", store, "--shard-lease", "1s"]);
        let token = folder.path().join("token");
        let mut file =
            std::fs::OpenOptions::new().create_new(true).write(true).mode(0o600).open(&token).unwrap();
        file.write_all(TOKEN.as_bytes()).unwrap();
        command.args(["--attempt-lease", "2s", "--data"]).arg(folder.path());
        command.arg("--bootstrap-token-file").arg(token);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut said = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut said).unwrap();
        let address = said.split_once("http://").and_then(|(_, rest)| rest.split(',').next());
        let client =
            Client::new(address.unwrap_or_else(|| panic!("{said}")), Some(TOKEN.to_owned())).unwrap();
        Server { child, client, _stdout: stdout, _folder: folder }
    }

    fn end(mut self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_server_lives_an_instance_only_works() {
    let (store, book) = (shared_store(), Book::default());
    let app = instance(&store, "app", &book).job(tick()).function("greet", |_| async { Ok("hello".into()) });
    let app = app.start().await.unwrap();
    leads(&app, |shards| shards == 8).await;
    book.has(2).await;

    let server = Server::start(&store);
    leads(&app, |shards| shards == 0).await;
    let seen = book.all().len();
    book.has(seen + 3).await;
    let id = app.submit(Submit::function("greet")).await.unwrap();
    let run = succeeded(&app, id).await;
    assert_eq!(&*run.output, "hello", "the server gave it to us");

    // The last server goes, with and without a word: the instance leads again.
    server.end(Signal::TERM);
    leads(&app, |shards| shards == 8).await;
    let seen = book.all().len();
    book.has(seen + 2).await;
    let server = Server::start(&store);
    leads(&app, |shards| shards == 0).await;
    server.end(Signal::KILL);
    leads(&app, |shards| shards == 8).await;
    let seen = book.all().len();
    book.has(seen + 2).await;
    book.has_every_second().await;
    app.stop().await;
    book.assert_nothing_twice();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_asks_the_instance_that_leads_a_shard() {
    let (store, book) = (shared_store(), Book::default());
    let app = instance(&store, "app", &book).start().await.unwrap();
    leads(&app, |shards| shards == 8).await;
    let server = Server::start(&store);
    // The shards change hands one after the other: until then the instance decides.
    for number in 0..16 {
        let (key, task) =
            (format!("key-{number}"), Task { function: Some("note".parse().unwrap()), ..Task::default() });
        let submit = rest::Submit { task: Some(task), key: Some(key.clone()), ..rest::Submit::default() };
        let Text(id) = server.client.submit(&Namespace::default(), &submit).await.unwrap().id;
        assert_eq!(app.submit(Submit::function("note").key(key)).await.unwrap(), id);
        succeeded(&app, id).await;
    }
    assert_eq!(book.all().len(), 16, "each once");
    app.stop().await;
    drop(server);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_instance_can_do_waits_for_one_that_can() {
    let (store, book) = (shared_store(), Book::default());
    let server = Server::start(&store);
    let other = instance(&store, "other", &book).start().await.unwrap();
    let id = other.submit(Submit::function("rare")).await.unwrap();
    let run = other.run(id).await.unwrap().unwrap();
    assert!(matches!(run.reason, Some(Reason::NoWorkerFits(_))), "{:?}", run.reason);
    let rare = instance(&store, "rare", &book).function("rare", |_| async { Ok("done".into()) });
    let rare = rare.start().await.unwrap();
    assert_eq!(&*succeeded(&other, id).await.output, "done");
    until("nobody else was asked", || book.all().is_empty()).await;
    rare.stop().await;
    other.stop().await;
    drop(server);
}
