//! The client against a served node: every method, over a real connection.

use std::sync::Arc;
use std::time::Duration;

use punctual::client::{Client, DeadLetterQuery, Error, Hold, LogEvent, LogQuery, RunQuery};
use punctual::core::Timestamp;
use punctual::core::command::Expect;
use punctual::core::ids::RunId;
use punctual::core::name::{Name, Namespace};
use punctual::testing::ManualClock;
use punctual::wire::Text;
use punctual::wire::job_file::{JobFile, Noop, Task};
use punctual::wire::rest::{
    Action, Again, Cancel, Code, Decide, JobState, Made, PauseJob, Progress, Start, Submit,
};
use punctual::wire::text::Span;
use punctual_node::{Config, Node};
use punctual_server::{Endpoints, serve};
use punctual_store::memory::Memory;
use tokio::net::TcpListener;

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// A node without workers, and a client of it.
async fn scene() -> (Node, Client) {
    let clock = Arc::new(ManualClock::at(NOW));
    let node = Node::start(Config {
        store: Arc::new(Memory::new(4)),
        clock: clock.clone(),
        lanes: 1,
        attempt_lease: Duration::from_secs(15),
        records: true,
        shard_lease: Duration::from_secs(3),
        cluster: None,
        attempt_keys: None,
        channels: None,
    })
    .expect("a node can be started");
    assert!(node.handle().wait_until(|status| status.ready).await);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("it is bound").to_string();
    let endpoints = Endpoints::new(node.handle(), clock, "test", punctual_server::Settings::default());
    tokio::spawn(serve(listener, endpoints, std::future::pending()));
    (node, Client::new(&address, None).expect("a client can be made"))
}

fn noop() -> Task {
    Task { noop: Some(Noop {}), ..Task::default() }
}

fn code(error: &Error) -> Option<Code> {
    error.problem().map(|problem| problem.code)
}

#[tokio::test]
async fn jobs_can_be_put_listed_started_paused_and_deleted() {
    let (_node, client) = scene().await;
    let (namespace, name) = (Namespace::default(), "a".parse::<Name>().unwrap());
    let file = JobFile { task: Some(noop()), ..JobFile::default() };
    assert!(client.is_ready().await.unwrap());

    let put = client.put_job(&namespace, &name, &file, Expect::Absent).await.unwrap();
    assert_eq!((put.made, put.job.revision), (Made::Created, 1));
    let exists = client.put_job(&namespace, &name, &file, Expect::Absent).await.unwrap_err();
    assert_eq!(code(&exists), Some(Code::JobExists));
    let same = client.put_job(&namespace, &name, &file, Expect::Revision(1)).await.unwrap();
    assert_eq!(same.made, Made::Unchanged);

    assert_eq!(client.job(&namespace, &name).await.unwrap(), put.job);
    assert_eq!(client.jobs(&namespace, None, 10).await.unwrap().items.len(), 1);
    assert_eq!(client.jobs(&namespace, Some("a"), 10).await.unwrap().items, []);
    assert_eq!(client.next_fires(&namespace, &name, 3, None).await.unwrap().items, []);
    let run = client.run_job(&namespace, &name, &Start::default()).await.unwrap();
    assert_eq!(run.job, Some(name.clone()));
    assert_eq!(
        client.pause_job(&namespace, &name, &PauseJob::default()).await.unwrap().state,
        JobState::Paused
    );
    assert_eq!(client.resume_job(&namespace, &name).await.unwrap().state, JobState::Active);
    client.delete_job(&namespace, &name, Expect::Anything).await.unwrap();
    assert_eq!(code(&client.job(&namespace, &name).await.unwrap_err()), Some(Code::NoSuchJob));
}

#[tokio::test]
async fn jobs_can_be_patched_checked_compared_and_looked_into() {
    let (_node, client) = scene().await;
    let (namespace, name) = (Namespace::default(), "a".parse::<Name>().unwrap());
    let file = JobFile { name: Some(name.clone()), task: Some(noop()), ..JobFile::default() };
    let checked = client.validate_job(&namespace, &file).await.unwrap();
    assert_eq!((checked.next, checked.warnings.len()), (Vec::new(), 1));
    assert_eq!(code(&client.job(&namespace, &name).await.unwrap_err()), Some(Code::NoSuchJob));

    client.put_job(&namespace, &name, &file, Expect::Absent).await.unwrap();
    let patch = serde_json::json!({ "priority": 7 });
    let patch = patch.as_object().unwrap();
    let put = client.patch_job(&namespace, &name, patch, Expect::Revision(1)).await.unwrap();
    assert_eq!((put.made, put.job.revision, put.job.file.priority), (Made::Changed, 2, Some(7)));
    let outdated = client.patch_job(&namespace, &name, patch, Expect::Revision(1)).await.unwrap_err();
    assert_eq!(code(&outdated), Some(Code::WrongRevision));

    let page = client.revisions(&namespace, &name, None, 1).await.unwrap();
    assert_eq!((page.items[0].revision, page.next.as_deref()), (2, Some("2")));
    let rest = client.revisions(&namespace, &name, page.next.as_deref(), 1).await.unwrap();
    assert_eq!((rest.items[0].revision, rest.next), (1, None));
    assert_eq!(client.revision(&namespace, &name, 1).await.unwrap().file.priority, Some(5));
    let diff = client.revision_diff(&namespace, &name, None, 2).await.unwrap();
    assert_eq!((diff.from, diff.changes[0].path.as_str()), (1, "priority"));
    assert_eq!(client.revision_diff(&namespace, &name, Some(2), 1).await.unwrap().to, 1);

    client.run_job(&namespace, &name, &Start::default()).await.unwrap();
    let log = client.job_log(&namespace, &name, None, 10).await.unwrap();
    assert_eq!((log.items[0].job_name.as_ref(), log.items[0].command.as_str()), (Some(&name), "noop"));
    let outdated = client.delete_job(&namespace, &name, Expect::Revision(1)).await.unwrap_err();
    assert_eq!(code(&outdated), Some(Code::WrongRevision));
}

#[tokio::test]
async fn dead_letters_and_progress_are_read_and_decided() {
    let (_node, client) = scene().await;
    let (namespace, nobody) = (Namespace::default(), RunId(17));
    let missing = client.dead_letter(&namespace, nobody).await.unwrap_err();
    assert_eq!(code(&missing), Some(Code::NoSuchDeadLetter));
    let decide = Decide { ids: Some(vec![Text(nobody)]), ..Decide::of(Action::Discard) };
    let decisions = client.decide(&namespace, &decide).await.unwrap();
    let [decision] = decisions.items.as_slice() else { panic!("{decisions:?}") };
    assert_eq!(decision.problem.as_ref().map(|problem| problem.code), Some(Code::NoSuchRun));
    let progress = Progress {
        token: Some(Text(1)),
        percent: Some(5),
        message: None,
        checkpoint: None,
        seq: None,
        rebalance: false,
        params: None,
        durable: false,
    };
    let refused = client.progress(&namespace, nobody, &progress).await.unwrap_err();
    assert_eq!(code(&refused), Some(Code::NoSuchRun));
}

#[tokio::test]
async fn runs_can_be_submitted_listed_cancelled_and_retried() {
    let (_node, client) = scene().await;
    let namespace = Namespace::default();
    let delay = Some(Span(Duration::from_secs(3600)));
    let submit = Submit { task: Some(noop()), delay, key: Some("k".to_owned()), ..Submit::default() };
    let run = client.submit(&namespace, &submit).await.unwrap();
    assert_eq!(client.submit(&namespace, &submit).await.unwrap().id, run.id);

    let list = async |query: RunQuery| client.runs(&namespace, &query).await.unwrap().items.len();
    assert_eq!(list(RunQuery::default()).await, 1);
    assert_eq!(list(RunQuery { state: Some("failed".to_owned()), ..RunQuery::default() }).await, 0);
    assert_eq!(
        list(RunQuery { since: Some(run.created_at), limit: Some(1), ..RunQuery::default() }).await,
        1
    );

    assert_eq!(
        client.run(&namespace, run.id.0, true).await.unwrap().events.map(|events| events.len()),
        Some(1)
    );
    let mut logs = client.logs(&namespace, run.id.0, LogQuery::default()).await.unwrap();
    assert!(matches!(logs.next().await.unwrap(), LogEvent::End(end) if end.run == run.id));
    assert_eq!(
        client.cancel_run(&namespace, run.id.0, &Cancel::default()).await.unwrap().state.to_string(),
        "cancelled"
    );
    let again = client.retry_run(&namespace, run.id.0, &Again::default()).await.unwrap();
    assert_eq!(again.retry_of, Some(run.id));

    assert_eq!(client.dead_letters(&namespace, &DeadLetterQuery::default()).await.unwrap().items, []);
    let none = client.replay(&namespace, RunId(1), &Again::default()).await.unwrap_err();
    assert_eq!(code(&none), Some(Code::NoSuchRun));
    let none = client.discard(&namespace, run.id.0).await.unwrap_err();
    assert_eq!(code(&none), Some(Code::NotADeadLetter));
}

#[tokio::test]
async fn nodes_workers_and_the_history_can_be_read() {
    let (_node, client) = scene().await;
    client.submit(&Namespace::default(), &Submit { task: Some(noop()), ..Submit::default() }).await.unwrap();
    assert_eq!(client.nodes().await.unwrap().items[0].name, "test");
    assert_eq!(client.workers().await.unwrap().items, []);
    let mut export = client.export(Some(Timestamp::MIN), None).await.unwrap();
    let mut text = Vec::new();
    while let Some(chunk) = export.next().await.unwrap() {
        text.extend(chunk);
    }
    let text = String::from_utf8(text).unwrap();
    assert_eq!(text.lines().filter(|line| line.contains(r#""type":"run""#)).count(), 1);
}

#[tokio::test]
async fn a_missing_server_and_a_foreign_one_are_told_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let strange = tokio::spawn(async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let (mut connection, _) = listener.accept().await.unwrap();
        let _ = connection.read(&mut [0; 1024]).await.unwrap();
        connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nhey!").await.unwrap();
    });
    let client = Client::new(&address, None).unwrap();
    assert!(matches!(client.nodes().await, Err(Error::Strange { status: 200, .. })));
    strange.await.unwrap();
    assert!(matches!(client.nodes().await, Err(Error::Unreachable { .. })));
}

#[tokio::test]
async fn a_lock_is_held_by_one_client_at_a_time() {
    let (node, client) = scene().await;
    let (namespace, name) = (Namespace::default(), "backup".parse::<Name>().unwrap());
    let first = client.lock(&namespace, &name, Hold::by("first")).await.unwrap();
    let no_wait = Hold { wait: Duration::ZERO, ..Hold::by("second") };
    let refused = client.lock(&namespace, &name, no_wait.clone()).await.unwrap_err();
    assert_eq!(code(&refused), Some(Code::Locked));
    let shown = client.show_lock(&namespace, &name).await.unwrap();
    assert_eq!((shown.owner.as_str(), shown.fence.0), ("first", first.fence()));
    assert_eq!(client.locks(&namespace, None, 10).await.unwrap().items.len(), 1);
    let renewed = client.renew_lock(&namespace, &name, first.fence()).await.unwrap();
    assert_eq!(renewed.fence, shown.fence);
    first.release().await;
    let second = client.lock(&namespace, &name, no_wait).await.unwrap();
    assert!(second.fence() > shown.fence.0);

    client.release_lock(&namespace, &name, second.fence()).await.unwrap();
    let outdated = client.renew_lock(&namespace, &name, second.fence()).await.unwrap_err();
    assert_eq!(code(&outdated), Some(Code::OutdatedFence));
    let free = client.show_lock(&namespace, &name).await.unwrap_err();
    assert_eq!(code(&free), Some(Code::NoSuchLock));
    drop(node);
}
