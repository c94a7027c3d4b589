//! Runs the store calls of the loop. The result of each call comes back to the loop as an input.

use std::sync::Arc;
use std::task::{Context, Waker};

use punctual_core::change::Batch;
use punctual_core::ids::{SessionId, WorkerId};
use punctual_failpoint::{Point, hit};
use punctual_store::{Error, Session, Store};
use tracing::warn;

use super::EventLoop;
use crate::driver::{Input, Output};
use crate::metrics::Metrics;

impl EventLoop {
    pub(super) fn end_earlier_session(&self, session: SessionId) {
        let Some(cluster) = self.cluster.clone() else { return };
        self.runtime.spawn(async move {
            if let Err(error) = cluster.sessions.leave(session).await {
                warn!(%error, "the session of an earlier process of this node could not be ended: it expires by itself");
            }
        });
    }

    /// Tells the other nodes of a worker that does not stop its attempts. Said again with every heartbeat, so that a node
    /// that joins meanwhile or missed it hears it too.
    pub(super) fn warn_peers(&self, worker: &WorkerId) {
        let Some(cluster) = self.cluster.clone() else { return };
        let attempts = self.driver.pool().roster().unstopped(worker);
        if attempts.is_empty() {
            return;
        }
        let (worker, members) = (worker.clone(), self.driver.members().to_vec());
        self.runtime.spawn(async move { cluster.distrust(&members, &worker, &attempts).await });
    }

    pub(super) fn call(&mut self, output: Output) {
        let (store, results) = (Arc::clone(&self.store), self.results_in.clone());
        let followers = Arc::clone(&self.followers);
        let metrics = Arc::clone(&self.metrics);
        let watched = Arc::clone(&self.watched);
        if matches!(output, Output::Commit { .. } | Output::Release { .. }) {
            self.in_flight += 1;
        }
        let cluster = self.cluster.clone();
        let heir = self.heir(&output);
        let news = Arc::clone(&self.cluster_news);
        let Some((begun, done)) = ends_of(&output) else { return };
        self.calls += 1;
        let is_local = store.is_local() && !matches!(output, Output::Renew { .. } | Output::Release { .. });
        let call = async move {
            hit(begun);
            let input = match output {
                Output::Acquire { by, claims } => {
                    let result = store.acquire(by, &claims).await;
                    Input::Acquired { claims, result }
                }
                Output::Renew { session, ttl } => {
                    let Some(cluster) = cluster else { return };
                    Input::Renewed { result: cluster.look(&*store, &session, ttl).await }
                }
                Output::Release { shards, heir: to } => {
                    if let Err(error) = store.release(&shards, to).await {
                        warn!(%error, "shards could not be released: other nodes take them over when this node's session expires");
                    } else if let (Some(cluster), Some((heir, members))) = (cluster, heir) {
                        hit(Point::NodeReleaseReleased);
                        if !cluster.wake_heir(&heir, &members).await {
                            news.notify_one();
                        }
                    }
                    Input::Released
                }
                Output::Load { shard, epoch } => {
                    Input::Loaded { shard, result: store.load(shard, epoch).await }
                }
                Output::Commit { lane, batches } => {
                    let result = commit(&*store, Arc::clone(&batches), &metrics).await;
                    if result.is_ok() {
                        followers.wake_changed(&batches);
                    }
                    // A commit that failed may be stored nevertheless, so messages may wait after it too.
                    watched.committed(&batches);
                    Input::Committed { lane, result }
                }
                Output::Fetch { read, wants } => Input::Fetched { read, result: store.fetch(wants).await },
                Output::Page { read, shard, after, limit } => {
                    Input::Paged { read, shard, result: store.due(shard, after, limit).await }
                }
                Output::ReadMessages { read, shard, queue, after, limit } => {
                    let result = store.backlog(shard, queue, after, limit).await;
                    Input::MessagesRead { read, shard, result }
                }
                Output::EndSession { .. }
                | Output::Answer { .. }
                | Output::Order { .. }
                | Output::CrossShard(_)
                | Output::Refuse { .. }
                | Output::Fail { .. } => return,
            };
            hit(done);
            // If the loop has ended, the result is no longer needed.
            drop(results.send(input));
        };
        if is_local {
            begin_here(call);
        } else {
            self.runtime.spawn(call);
        }
    }

    /// The node that the shards are released to, and all members, to be woken if that node cannot be reached.
    fn heir(&self, output: &Output) -> Option<(Session, Vec<Session>)> {
        let Output::Release { heir: Some(heir), .. } = output else { return None };
        let members = self.driver.members();
        let heir = members.iter().find(|member| member.id == *heir)?;
        Some((heir.clone(), members.to_vec()))
    }
}

/// The failpoints before a store call and before its result is received. `None` means the output is not a store call.
fn ends_of(output: &Output) -> Option<(Point, Point)> {
    match output {
        Output::Acquire { .. } => Some((Point::NodeAcquireBegun, Point::NodeAcquireDone)),
        Output::Renew { .. } => Some((Point::NodeRenewBegun, Point::NodeRenewDone)),
        Output::Release { .. } => Some((Point::NodeReleaseBegun, Point::NodeReleaseDone)),
        Output::Load { .. } => Some((Point::NodeLoadBegun, Point::NodeLoadDone)),
        Output::Commit { .. } => Some((Point::NodeCommitBegun, Point::NodeCommitDone)),
        Output::Fetch { .. } => Some((Point::NodeFetchBegun, Point::NodeFetchDone)),
        Output::Page { .. } | Output::ReadMessages { .. } => {
            Some((Point::NodePageBegun, Point::NodePageDone))
        }
        Output::EndSession { .. }
        | Output::Answer { .. }
        | Output::Order { .. }
        | Output::CrossShard(_)
        | Output::Refuse { .. }
        | Output::Fail { .. } => None,
    }
}

/// Polls a call at once and finishes it on the loop's own thread. Passing a local commit through other threads would
/// take as long as making it durable.
fn begin_here(call: impl Future<Output = ()> + Send + 'static) {
    let mut call = Box::pin(call);
    if call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
        tokio::spawn(call);
    }
}

/// Commits, and updates the metrics on success.
async fn commit(store: &dyn Store, batches: Arc<Vec<Batch>>, metrics: &Metrics) -> Result<(), Error> {
    let sent = tokio::time::Instant::now();
    let result = store.commit(Arc::clone(&batches)).await;
    if result.is_ok() {
        metrics.committed(&batches, sent.elapsed());
    }
    result
}
