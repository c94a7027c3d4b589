//! What the embedded nodes of these tests do, and how long they may take.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual::{Builder, Context, Job, Node, NodeError, Run, RunId, Status, Submit};
use punctual_store::conformance::servers::postgres;

/// Nothing here takes long; what takes this long has failed.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);
pub(crate) const LEASE: Duration = Duration::from_secs(1);

/// The address of an empty store that several may share.
pub(crate) fn shared_store() -> String {
    format!("{}?shards=8&durability=relaxed", postgres::Server::shared().database())
}

/// Who ran what, in the order in which it was run: the instance and the due time in milliseconds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Book(Arc<Mutex<Vec<(String, i64)>>>);

impl Book {
    pub(crate) fn note(&self, who: &str, cx: &Context) {
        self.0.lock().unwrap().push((who.to_owned(), cx.due().as_millis()));
    }

    pub(crate) fn all(&self) -> Vec<(String, i64)> {
        self.0.lock().unwrap().clone()
    }

    /// How often each due time was run.
    pub(crate) fn fires(&self) -> BTreeMap<i64, usize> {
        let mut fires = BTreeMap::new();
        for (_, due) in self.all() {
            *fires.entry(due).or_default() += 1;
        }
        fires
    }

    pub(crate) async fn has(&self, count: usize) {
        until("so many runs", || self.all().len() >= count).await;
    }

    /// Waits until every second from the first to the last has been run: what was lost with its node is tried again later
    /// than what came after it.
    pub(crate) async fn has_every_second(&self) {
        let is_whole = || {
            let fires = self.fires();
            let (first, last) = (fires.keys().next().unwrap(), fires.keys().next_back().unwrap());
            fires.len() == usize::try_from((last - first) / 1000).unwrap() + 1
        };
        until("every second is run", is_whole).await;
    }

    pub(crate) fn assert_nothing_twice(&self) {
        let fires = self.fires();
        assert!(fires.values().all(|times| *times == 1), "{fires:?}");
    }
}

/// A job that is due every second and calls `note`. A fire that is late does not make the next one be skipped: what these
/// tests ask is whether a fire was made, not how fast.
pub(crate) fn tick() -> Job {
    Job::new("tick").function("note").every(Duration::from_secs(1)).set("overlap", "allow".into())
}

/// An instance with a function `note` that writes its name into the book.
pub(crate) fn instance(store: &str, name: &str, book: &Book) -> Builder {
    let (who, book) = (name.to_owned(), book.clone());
    let builder = Node::builder().store(store).name(name).shard_lease(LEASE).attempt_lease(2 * LEASE);
    builder.function("note", move |cx: Context| {
        let (who, book) = (who.clone(), book.clone());
        async move {
            book.note(&who, &cx);
            Ok(who.into())
        }
    })
}

/// Submits as a program does that means it: what came to nothing because a shard changed hands is tried again. The key
/// makes it one run however often.
pub(crate) async fn submitted(node: &Node, submit: impl Fn() -> Submit) -> RunId {
    let mut said = String::new();
    for _ in 0..100 {
        match node.submit(submit()).await {
            Ok(run) => return run,
            Err(NodeError::Unavailable(why)) => said = why,
            Err(other) => panic!("{other}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("it is still refused: {said}");
}

pub(crate) async fn ended(node: &Node, run: RunId) -> Arc<Run> {
    within("the run ends", node.finished(run)).await.unwrap()
}

pub(crate) async fn succeeded(node: &Node, run: RunId) -> Arc<Run> {
    let run = ended(node, run).await;
    assert_eq!(run.status(), Status::Succeeded, "{run:?}");
    run
}

/// Waits until a node leads so many shards.
pub(crate) async fn leads(node: &Node, is_enough: impl Fn(usize) -> bool) {
    let leading = node.handle().wait_until(|status| status.ready && is_enough(status.shards_led));
    assert!(within("it leads its share", leading).await);
}

pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future).await.unwrap_or_else(|_| panic!("waited in vain for: {what}"))
}

pub(crate) async fn until(what: &str, is_so: impl Fn() -> bool) {
    within(what, async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}
