//! Extractors for the bodies of requests: JSON, and YAML where a file is sent.

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{FromRequest, Request};
use axum::http::header;
use futures_util::StreamExt;
use punctual_core::schedule::format_duration;
use punctual_wire::rest::{Code, Problem};
use punctual_wire::tree;
use serde::de::DeserializeOwned;

use super::problem::Failed;
use super::request::Deadline;
use crate::limits::{BODY_BYTES_MAX, MESSAGES_BODY_BYTES_MAX};

/// A JSON body.
#[derive(Debug)]
pub(crate) struct Json<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Failed;

    async fn from_request(request: Request, _: &S) -> Result<Self, Failed> {
        match read(request).await? {
            Some(Document::Json(bytes)) => Ok(Json(tree::from_json(&bytes)?)),
            Some(Document::Yaml(_) | Document::Patch(_)) => Err(unsupported("application/json")),
            None => Err(Problem::new(Code::Malformed, "the request needs a body in JSON").into()),
        }
    }
}

/// A JSON body with messages, which may be larger.
#[derive(Debug)]
pub(crate) struct LongJson<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for LongJson<T> {
    type Rejection = Failed;

    async fn from_request(request: Request, _: &S) -> Result<Self, Failed> {
        match read_up_to(request, MESSAGES_BODY_BYTES_MAX).await? {
            Some(Document::Json(bytes)) => Ok(LongJson(tree::from_json(&bytes)?)),
            Some(Document::Yaml(_) | Document::Patch(_)) => Err(unsupported("application/json")),
            None => Err(Problem::new(Code::Malformed, "the request needs a body in JSON").into()),
        }
    }
}

/// An optional JSON body.
#[derive(Debug)]
pub(crate) struct MaybeJson<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Default> FromRequest<S> for MaybeJson<T> {
    type Rejection = Failed;

    async fn from_request(request: Request, _: &S) -> Result<Self, Failed> {
        match read(request).await? {
            Some(Document::Json(bytes)) => Ok(MaybeJson(tree::from_json(&bytes)?)),
            Some(Document::Yaml(_) | Document::Patch(_)) => Err(unsupported("application/json")),
            None => Ok(MaybeJson(T::default())),
        }
    }
}

/// A job or a calendar as a body: JSON or YAML.
#[derive(Debug)]
pub(crate) struct FileBody {
    pub(crate) node: tree::Node,
    pub(crate) source: Source,
}

/// The text of a body, which tells where a field is.
#[derive(Debug)]
pub(crate) struct Source(Bytes);

impl Source {
    /// Adds the position of the field in the body, also to a refusal of a node that knows only the field. The text is read
    /// again for that, because a body that is accepted needs no lines.
    pub(crate) fn located(&self, failed: Failed) -> Failed {
        let Failed(problem) = failed;
        if problem.code != Code::Invalid || problem.line.is_some() {
            return Failed(problem);
        }
        let document = str::from_utf8(&self.0).ok().and_then(|text| tree::Node::from_yaml(text).ok());
        let field = problem.field.as_deref().unwrap_or_default();
        let place = document.and_then(|nodes| nodes.first()?.place_of(field));
        Failed(problem.at(place))
    }
}

impl<S: Send + Sync> FromRequest<S> for FileBody {
    type Rejection = Failed;

    async fn from_request(request: Request, _: &S) -> Result<Self, Failed> {
        let needed = || Problem::new(Code::Malformed, "the request needs one document as its body");
        match read(request).await? {
            Some(Document::Json(bytes)) => {
                Ok(FileBody { node: tree::Node::from_json(&bytes)?, source: Source(bytes) })
            }
            Some(Document::Yaml(bytes)) => {
                let text = str::from_utf8(&bytes).map_err(|_| needed())?;
                let [node] =
                    <[tree::Node; 1]>::try_from(tree::Node::from_yaml(text)?).map_err(|_| needed())?;
                Ok(FileBody { node, source: Source(bytes) })
            }
            Some(Document::Patch(_)) => Err(unsupported("application/json")),
            None => Err(needed().into()),
        }
    }
}

/// A body with the fields of a job to change.
#[derive(Debug)]
pub(crate) struct PatchBody(pub(crate) tree::Node);

impl<S: Send + Sync> FromRequest<S> for PatchBody {
    type Rejection = Failed;

    async fn from_request(request: Request, _: &S) -> Result<Self, Failed> {
        match read(request).await? {
            Some(Document::Json(bytes) | Document::Patch(bytes)) => {
                Ok(PatchBody(tree::Node::from_json(&bytes)?))
            }
            Some(Document::Yaml(_)) => Err(unsupported("application/merge-patch+json")),
            None => {
                Err(Problem::new(Code::Malformed, "the request needs a patch in JSON as its body").into())
            }
        }
    }
}

enum Document {
    Json(Bytes),
    Patch(Bytes),
    Yaml(Bytes),
}

/// Reads a body within its limits. `None` means that it is empty.
async fn read(request: Request) -> Result<Option<Document>, Failed> {
    read_up_to(request, BODY_BYTES_MAX).await
}

async fn read_up_to(request: Request, max: usize) -> Result<Option<Document>, Failed> {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.map(|kind| kind.split(';').next().unwrap_or("").trim().to_ascii_lowercase());
    let body = bytes(request, max).await?;
    if body.is_empty() {
        return Ok(None);
    }
    match kind.as_deref() {
        Some("application/json") => Ok(Some(Document::Json(body))),
        Some("application/merge-patch+json") => Ok(Some(Document::Patch(body))),
        Some("application/yaml" | "application/x-yaml" | "text/yaml") => Ok(Some(Document::Yaml(body))),
        _ => Err(unsupported("application/json")),
    }
}

/// A body of any type, as text.
pub(crate) async fn text(request: Request) -> Result<String, Failed> {
    let body = bytes(request, BODY_BYTES_MAX).await?;
    Ok(String::from_utf8_lossy(&body).into_owned())
}

async fn bytes(request: Request, max: usize) -> Result<Bytes, Failed> {
    // Refuse by the announced length, without waiting for the body.
    if request.body().size_hint().lower() > max as u64 {
        return Err(too_large(max));
    }
    let Deadline { until, time } = Deadline::of(&request);
    tokio::time::timeout_at(until, collect(request.into_body(), max)).await.map_err(|_| {
        let message = format!("the request did not arrive within {}; send it again", format_duration(time));
        Problem::new(Code::TooSlow, message)
    })?
}

async fn collect(body: Body, max: usize) -> Result<Bytes, Failed> {
    let mut stream = body.into_data_stream();
    let mut bytes = Vec::new();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk
            .map_err(|_| Problem::new(Code::Malformed, "the body ended early; send the request again"))?;
        if bytes.len() + chunk.len() > max {
            return Err(too_large(max));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes.into())
}

fn too_large(max: usize) -> Failed {
    Problem::new(Code::BodyTooLarge, format!("the body has more than {max} bytes, the most that is allowed"))
        .into()
}

fn unsupported(wanted: &str) -> Failed {
    let message = format!("send the body as {wanted}");
    Problem::new(Code::UnsupportedMediaType, message).about("Content-Type").into()
}
