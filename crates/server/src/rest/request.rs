//! Extractors for the parts of a request: each gives a typed value or says which part is wrong.

use std::time::Duration;

use axum::extract::{FromRequestParts, MatchedPath, Path, Query, Request};
use axum::http::header::{self, HeaderMap};
use axum::http::request::Parts;
use punctual_core::command::{Expect, StepsAct};
use punctual_core::hold::Scope;
use punctual_core::ids::RunId;
use punctual_core::limits::PAGE_MAX;
use punctual_core::name::{Name, Namespace};
use punctual_core::queue::{MessageId, QueueKey};
use punctual_wire::resp::parse_id;
use punctual_wire::rest::{Code, NOT_AN_ID, Problem};
use punctual_wire::{Text, tree};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::problem::Failed;
use crate::routes::VALIDATE;
use crate::settings::Settings;

/// Rows on a page when the request names no limit.
const PAGE_DEFAULT: usize = 100;

/// The deadline for a request to arrive, head and body, so that a slow sender cannot hold a connection. The
/// accept loop attaches it to each request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    pub(crate) until: Instant,
    /// The whole time limit, for the error message.
    pub(crate) time: Duration,
}

impl Deadline {
    pub(crate) fn of(request: &Request) -> Deadline {
        let time = Settings::default().request_time;
        let default = || Deadline { until: Instant::now() + time, time };
        request.extensions().get().copied().unwrap_or_else(default)
    }
}

/// `/namespaces/{namespace}/…`
#[derive(Debug)]
pub(crate) struct In(pub(crate) Namespace);

/// `/namespaces/{namespace}/hold`, or `/hold` for everything
#[derive(Debug)]
pub(crate) struct HoldAt(pub(crate) Scope);

/// `/namespaces/{namespace}/jobs/{name}/…`, and calendars likewise.
#[derive(Debug)]
pub(crate) struct Named {
    pub(crate) namespace: Namespace,
    pub(crate) name: Name,
}

/// A page of a listing ordered by name.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ByName {
    pub(crate) limit: Option<Text<usize>>,
    pub(crate) after: Option<Name>,
}

/// `/namespaces/{namespace}/jobs/{name}/revisions/{revision}/…`
#[derive(Debug)]
pub(crate) struct RevisionAt {
    pub(crate) job: Named,
    pub(crate) revision: u32,
}

/// `/namespaces/{namespace}/runs/{id}/…`
#[derive(Debug)]
pub(crate) struct RunAt {
    pub(crate) namespace: Namespace,
    pub(crate) run: RunId,
}

/// `/namespaces/{namespace}/runs/{id}/steps/{step}/approve` and the like.
#[derive(Debug)]
pub(crate) struct StepAt {
    pub(crate) run: RunAt,
    /// The name of a step, or its path in a sub-workflow.
    pub(crate) step: String,
    pub(crate) act: fn(Name) -> StepsAct,
}

/// `/namespaces/{namespace}/queues/{queue}/…`
#[derive(Debug)]
pub(crate) struct QueueAt(pub(crate) QueueKey);

/// `/namespaces/{namespace}/messages/{message}/…`
#[derive(Debug)]
pub(crate) struct MessageAt {
    pub(crate) namespace: Namespace,
    /// The id as the client wrote it.
    pub(crate) text: String,
    /// `None` means that the text has the form of an id, but no node here made it.
    pub(crate) message: Option<MessageId>,
}

/// `/tokens/{name}`
#[derive(Debug)]
pub(crate) struct TokenAt(pub(crate) Name);

/// `/workers/{worker}/…`
#[derive(Debug)]
pub(crate) struct WorkerAt(pub(crate) String);

/// `/channels/{channel}/…`
#[derive(Debug)]
pub(crate) struct ChannelAt(pub(crate) Name);

/// `/assets/{file}`
#[derive(Debug)]
pub(crate) struct FileAt(pub(crate) String);

/// Path parameters by name.
struct Segments(Vec<(String, String)>);

impl Segments {
    async fn of<S: Send + Sync>(parts: &mut Parts, state: &S) -> Result<Self, Failed> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(segments)) => Ok(Segments(segments).completed(parts)),
            Err(_) => Err(Problem::parameter("path", "the path must be UTF-8").into()),
        }
    }

    /// Adds the name of the job `validate`: its path is a literal without a name parameter.
    fn completed(mut self, parts: &Parts) -> Segments {
        let matched = parts.extensions.get::<MatchedPath>().map(MatchedPath::as_str);
        if matched == Some(VALIDATE) {
            self.0.push(("name".to_owned(), "validate".to_owned()));
        }
        self
    }

    fn read<T, E: std::fmt::Display>(
        &self,
        segment: &'static str,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Result<T, Failed> {
        let text = self.0.iter().find(|(name, _)| name == segment).map_or("", |(_, text)| text.as_str());
        parse(text).map_err(|error| Problem::parameter(segment, error.to_string()).into())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for In {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failed> {
        Segments::of(parts, state).await?.read("namespace", Namespace::from_dotted).map(In)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for HoldAt {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failed> {
        let segments = Segments::of(parts, state).await?;
        if segments.0.is_empty() {
            return Ok(HoldAt(Scope::Everything));
        }
        segments
            .read("namespace", Namespace::from_dotted)
            .map(|namespace| HoldAt(Scope::Namespace(namespace)))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failed> {
        let segments = Segments::of(parts, state).await?;
        let namespace = segments.read("namespace", Namespace::from_dotted)?;
        Ok(Named { namespace, name: segments.read("name", str::parse)? })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for TokenAt {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failed> {
        Segments::of(parts, state).await?.read("name", str::parse).map(TokenAt)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for ChannelAt {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failed> {
        Segments::of(parts, state).await?.read("channel", str::parse).map(ChannelAt)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for WorkerAt {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failed> {
        Segments::of(parts, state).await?.read("worker", any).map(WorkerAt)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for FileAt {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failed> {
        Segments::of(parts, state).await?.read("file", any).map(FileAt)
    }
}

fn any(text: &str) -> Result<String, std::convert::Infallible> {
    Ok(text.to_owned())
}

impl<S: Send + Sync> FromRequestParts<S> for RevisionAt {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failed> {
        let job = Named::from_request_parts(parts, state).await?;
        let number = |text: &str| text.parse().map_err(|_| "a revision is a number, from 1");
        let revision = Segments::of(parts, state).await?.read("revision", number)?;
        Ok(RevisionAt { job, revision })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for RunAt {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failed> {
        let segments = Segments::of(parts, state).await?;
        let namespace = segments.read("namespace", Namespace::from_dotted)?;
        Ok(RunAt { namespace, run: segments.read("id", str::parse)? })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for StepAt {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failed> {
        let run = RunAt::from_request_parts(parts, state).await?;
        let step = Segments::of(parts, state).await?.read("step", any)?;
        let act = match parts.uri.path().rsplit('/').next() {
            Some("approve") => StepsAct::Approve,
            Some("reject") => StepsAct::Reject,
            Some("skip") => StepsAct::Skip,
            _ => StepsAct::Cancel,
        };
        Ok(StepAt { run, step, act })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for QueueAt {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failed> {
        let segments = Segments::of(parts, state).await?;
        let namespace = segments.read("namespace", Namespace::from_dotted)?;
        Ok(QueueAt(QueueKey { namespace, name: segments.read("queue", str::parse)? }))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for MessageAt {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failed> {
        let segments = Segments::of(parts, state).await?;
        let namespace = segments.read("namespace", Namespace::from_dotted)?;
        let id = |text: &str| {
            let message = parse_id(text.as_bytes()).map_err(|_| NOT_AN_ID)?;
            Ok::<_, &str>((text.to_owned(), message))
        };
        let (text, message) = segments.read("message", id)?;
        Ok(MessageAt { namespace, text, message })
    }
}

/// Parameters that may be given several times, where a route takes several.
const REPEATED: [&str; 3] = ["job", "label", "state"];

/// The query. An unknown parameter is refused: with a misspelt filter the request would list everything.
#[derive(Debug)]
pub(crate) struct Asked<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Asked<T> {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failed> {
        let pairs = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri).map_err(|_| {
            Problem::parameter("query", "the query cannot be parsed; percent-encode its values")
        })?;
        tree::Node::from_pairs(pairs.0, &REPEATED)
            .and_then(|node| node.to())
            .map(Asked)
            .map_err(|error| Problem::parameter(error.field, error.message).into())
    }
}

/// A namespace in the query: `payments/clearing`, or `payments.clearing` as in a path.
pub(crate) fn namespace(text: &str) -> Result<Namespace, Failed> {
    Namespace::from_dotted(text).map_err(|error| Problem::parameter("namespace", error.to_string()).into())
}

/// The number of rows of a page.
pub(crate) fn page_limit(limit: Option<Text<usize>>) -> Result<usize, Failed> {
    match limit {
        None => Ok(PAGE_DEFAULT),
        Some(Text(limit)) if (1..=PAGE_MAX).contains(&limit) => Ok(limit),
        Some(_) => Err(Problem::parameter("limit", format!("must be 1 to {PAGE_MAX}")).into()),
    }
}

/// What must be true of a job, a calendar or a descriptor for an edit, from `If-None-Match` and `If-Match`.
#[derive(Debug)]
pub(crate) struct Expected(pub(crate) Expect);

impl<S: Send + Sync> FromRequestParts<S> for Expected {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failed> {
        let text = |name| header_text(&parts.headers, &name);
        match (text(header::IF_NONE_MATCH)?, text(header::IF_MATCH)?) {
            (None, None) => Ok(Expected(Expect::Anything)),
            (Some("*"), None) => Ok(Expected(Expect::Absent)),
            (Some(_), None) => Err(Problem::parameter("If-None-Match", "must be `*`").into()),
            (None, Some(tag)) => match tag.trim_matches('"').parse() {
                Ok(revision) if tag.starts_with('"') => Ok(Expected(Expect::Revision(revision))),
                _ => Err(Problem::parameter(
                    "If-Match",
                    "write the number of the revision or version in quotes, like \"3\"",
                )
                .into()),
            },
            // A job cannot be absent and have a revision.
            _ => {
                let message = "If-Match and If-None-Match exclude each other; send one of them";
                let path = parts.extensions.get::<MatchedPath>();
                let has_version = path.is_some_and(|path| {
                    ["/calendars/", "/descriptors/"].iter().any(|part| path.as_str().contains(part))
                });
                let code = if has_version { Code::WrongVersion } else { Code::WrongRevision };
                Err(Problem::new(code, message).about("If-Match").into())
            }
        }
    }
}

/// The idempotency key of a request.
#[derive(Debug)]
pub(crate) struct IdempotencyKey(pub(crate) Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failed> {
        let name = header::HeaderName::from_static("idempotency-key");
        header_text(&parts.headers, &name).map(|key| IdempotencyKey(key.map(str::to_owned)))
    }
}

fn header_text<'a>(headers: &'a HeaderMap, name: &header::HeaderName) -> Result<Option<&'a str>, Failed> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    match (value.to_str(), values.next()) {
        (Ok(text), None) => Ok(Some(text)),
        (Ok(_), Some(_)) => Err(Problem::parameter(name.as_str(), "is given twice").into()),
        (Err(_), _) => Err(Problem::parameter(name.as_str(), "must be printable ASCII").into()),
    }
}
