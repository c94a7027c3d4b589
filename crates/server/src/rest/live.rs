//! Live changes of runs, jobs, queues, workers and nodes, as server-sent events.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use futures_util::stream;
use punctual_node::{LiveFollower, Topic, Wanted};
use punctual_store::Error;
use punctual_wire::Text;
use punctual_wire::rest::{LiveChanges, LiveHello, Problem};
use serde::Deserialize;
use tokio::time::{Instant, timeout_at};

use super::events::{Frames, STILL_THERE, answer, cannot_follow};
use super::problem::Failed;
use super::request::{Asked, namespace};
use crate::Endpoints;

/// The longest silence on an open stream: proxies close quiet connections.
const QUIET_MAX: Duration = Duration::from_secs(15);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Query {
    /// Only changes in this namespace.
    namespace: Option<String>,
    /// Topics, separated by commas.
    topics: String,
}

pub(crate) async fn follow(
    State(endpoints): State<Endpoints>,
    Asked(query): Asked<Query>,
) -> Result<Response, Failed> {
    let wanted = Wanted {
        namespace: query.namespace.as_deref().map(namespace).transpose()?,
        topics: query.topics.split(',').map(topic).collect::<Result<_, _>>()?,
    };
    let follower = endpoints.handle.follow_changes(wanted).map_err(cannot_follow)?;
    let mut hello = Frames::default();
    hello.add("hello", None, &LiveHello { node: endpoints.node.as_ref().to_owned() });
    let page = Page { follower, hello: Some(hello), quiet_at: Instant::now() + QUIET_MAX };
    let events = stream::unfold(page, |mut page| async move {
        page.next().await.map(|frames| (Ok::<_, Error>(frames), page))
    });
    Ok(answer(events))
}

fn topic(word: &str) -> Result<Topic, Failed> {
    Topic::parse(word).ok_or_else(|| {
        let known = Topic::ALL.map(Topic::as_str).join(", ");
        Problem::parameter("topics", format!("`{word}` is not a topic; known are {known}")).into()
    })
}

/// A page that follows.
struct Page {
    follower: LiveFollower,
    /// The first event.
    hello: Option<Frames>,
    /// When a keep-alive is due.
    quiet_at: Instant,
}

impl Page {
    /// What to send next. `None` means that the node stops.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(hello) = self.hello.take() {
            return Some(hello.into_bytes());
        }
        let changes = timeout_at(self.quiet_at, self.follower.next()).await;
        self.quiet_at = Instant::now() + QUIET_MAX;
        let Ok(changes) = changes else { return Some(STILL_THERE) };
        let changes = changes?;
        let mut frames = Frames::default();
        let changes = LiveChanges {
            runs: changes.runs.into_iter().map(Text).collect(),
            jobs: changes.jobs.into_iter().collect(),
            queues: changes.queues.iter().map(ToString::to_string).collect(),
            workers: changes.workers,
            nodes: changes.nodes,
            more: changes.more,
        };
        frames.add("change", None, &changes);
        Some(frames.into_bytes())
    }
}
