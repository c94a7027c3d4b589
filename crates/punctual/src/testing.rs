//! Tests of schedules without waiting: a node whose clock the test moves.
//!
//! A [`TestNode`] is an embedded node on a [`ManualClock`]. It plans, fires, retries and times out as any node
//! does; only its time stands still until the test calls [`TestNode::advance`].
//! ```
//! use punctual::testing::{ManualClock, TestNode, hours};
//! use punctual::{Job, Node, Status};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let clock = ManualClock::at("2027-01-01T00:00:00Z".parse()?);
//! let app = Node::builder()
//!     .function("report", |_| async { Ok("sent".into()) })
//!     .job(Job::new("morning").function("report").cron("0 8 * * *"));
//! let node = TestNode::start(&clock, app).await?;
//!
//! node.advance(hours(8)).await?;
//!
//! let runs = node.runs("morning").await?;
//! assert_eq!(runs.len(), 1);
//! assert_eq!(runs[0].status(), Status::Succeeded);
//! # node.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! `attempts` knows which attempts of the node's worker can still move.

mod attempts;

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::command::{Command, Submit};
use punctual_core::job::Definition;
use punctual_core::limits::WORKER_SLOTS_MAX;
use punctual_core::name::{Name, Namespace};
use punctual_core::run::Run;
use punctual_core::task::Task;
use punctual_core::time::Clock;
pub use punctual_core::time::{ManualClock, Sleep};
use punctual_node::handle::Idle;
use punctual_store::RunFilter;
use punctual_wire::text::Span;

use crate::embed::{Builder, Node, NodeError, Replaced};
use crate::wiring::MEMORY;
use attempts::Attempts;

/// The resolution of the clock.
const MILLISECOND: Duration = Duration::from_millis(1);
/// How long a function may take in real time.
const FUNCTION_MAX: Duration = Duration::from_secs(60);
/// Longer than any test lets pass. The worker's heartbeats follow the real time, so no lease may end.
const LEASE: Duration = Duration::from_secs(100 * 366 * 24 * 3600);
/// The namespace of the run that shows that the worker has joined.
const OWN_NAMESPACE: &str = "test-node";
/// The most runs that [`TestNode::runs`] returns.
const RUNS_MAX: usize = 10_000;

pub fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

pub fn minutes(count: u64) -> Duration {
    seconds(count * 60)
}

pub fn hours(count: u64) -> Duration {
    minutes(count * 60)
}

/// A node on a clock that the test moves. It has every method of [`Node`].
///
/// A function runs in real time while the clock stands still, and every method of this type waits for it. A
/// function that should take time sleeps on the clock ([`ManualClock::sleep`]). If a timeout or a cancel
/// stops the function meanwhile, it is dropped at once.
#[derive(Debug)]
pub struct TestNode {
    node: Node,
    clock: ManualClock,
    attempts: Arc<Attempts>,
}

impl Deref for TestNode {
    type Target = Node;

    fn deref(&self) -> &Node {
        &self.node
    }
}

impl TestNode {
    /// Starts a node with the functions and jobs of a builder. Without a store it keeps its data in memory; an
    /// SQLite folder is possible, too. It has as many slots as a worker may have.
    pub async fn start(clock: &ManualClock, mut builder: Builder) -> Result<TestNode, NodeError> {
        let url = builder.overrides.store.url.get_or_insert_with(|| MEMORY.to_owned());
        if url != MEMORY && !url.starts_with("sqlite") {
            let message =
                format!("a test node keeps its data in memory or in an SQLite folder, not in {url}");
            return Err(NodeError::Invalid(message));
        }
        builder.overrides.slots = Some(WORKER_SLOTS_MAX as usize);
        builder.overrides.leases.attempt = Some(Span(LEASE));
        let attempts = Arc::new(Attempts::new(clock.clone()));
        let functions = &mut builder.functions.known;
        *functions = attempts.watch(std::mem::take(functions));
        let replaced = Replaced { clock: Arc::new(clock.clone()), observer: Arc::clone(&attempts) as Arc<_> };
        let node = builder.start_with(Some(replaced)).await?;
        let node = TestNode { node, clock: clock.clone(), attempts };
        node.await_worker().await?;
        Ok(node)
    }

    /// Lets time pass, from one due time to the next, and waits at each of them until the node has settled.
    pub async fn advance(&self, span: Duration) -> Result<(), NodeError> {
        let end = self.clock.elapsed() + span;
        let mut next = self.settle().await?;
        loop {
            let left = end.saturating_sub(self.clock.elapsed());
            if left < MILLISECOND {
                return Ok(());
            }
            self.clock.advance(next.map_or(left, |next| next.max(MILLISECOND).min(left)));
            self.node.clock_was_set();
            next = self.settle().await?;
        }
    }

    /// Sets the clock at once, as if the machine had been asleep until then: what was due meanwhile is late, and
    /// the misfire policy of its job applies.
    pub async fn jump(&self, to: Timestamp) -> Result<(), NodeError> {
        self.settle().await?;
        self.clock.set(to);
        self.node.clock_was_set();
        self.settle().await.map(drop)
    }

    /// The runs of a job, oldest first.
    pub async fn runs(&self, job: &str) -> Result<Vec<Arc<Run>>, NodeError> {
        self.settle().await?;
        let name: Name = job.parse().map_err(|error| NodeError::Invalid(format!("{error}")))?;
        let (store, namespace) = (self.node.handle().reads(), self.node.namespace());
        let Some(job) = store.job(namespace, &name).await? else {
            return Err(NodeError::Invalid(format!("there is no job `{name}`")));
        };
        let filter = RunFilter { jobs: vec![job.id], oldest_first: true, ..RunFilter::default() };
        Ok(store.runs(&filter, None, RUNS_MAX).await?)
    }

    /// Waits until no run can move before time passes: every function has ended or sleeps on the clock, every
    /// change is committed, and nothing is due. Returns the time until the node has something to do; `None` means
    /// that it waits for nothing.
    pub async fn settle(&self) -> Result<Option<Duration>, NodeError> {
        loop {
            let changed = self.attempts.changed();
            let Some(Idle { wake, orders }) = self.node.handle().idle().await else {
                return Err(stopped(&self.node));
            };
            if self.attempts.are_settled(orders) {
                let due = wake.due.map(|due| due.since(self.clock.now()));
                let elapsed = wake.elapsed.map(|at| at.saturating_sub(self.clock.elapsed()));
                return Ok(due.into_iter().chain(elapsed).chain(self.clock.next_wake()).min());
            }
            within(changed).await?;
        }
    }

    /// See [`Node::stop`].
    pub async fn stop(self) {
        self.node.stop().await;
    }

    /// Waits until the worker has joined and gets assignments.
    async fn await_worker(&self) -> Result<(), NodeError> {
        let handle = self.node.handle();
        let namespace: Namespace =
            OWN_NAMESPACE.parse().map_err(|error| NodeError::Invalid(format!("{error}")))?;
        let definition = Arc::new(Definition::of(Task::Noop));
        handle
            .command(Command::Submit(Submit {
                namespace,
                definition,
                due: None,
                key: None,
                spread: handle.spread(),
            }))
            .await?;
        loop {
            let changed = self.attempts.changed();
            if self.attempts.have_begun() {
                return self.settle().await.map(drop);
            }
            within(changed).await?;
        }
    }
}

async fn within(changed: impl Future<Output = ()>) -> Result<(), NodeError> {
    tokio::time::timeout(FUNCTION_MAX, changed).await.map_err(|_| {
        let message = "a function has not ended within a minute; a function that should take time sleeps on the \
                       `ManualClock`";
        NodeError::Unavailable(message.to_owned())
    })
}

fn stopped(node: &Node) -> NodeError {
    let failed = node.handle().status().failed;
    NodeError::Unavailable(failed.unwrap_or_else(|| "the node has stopped".to_owned()))
}
