//! Descriptor sets: put, show, list and delete.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use punctual_core::command::Made;
use punctual_wire::rest::{self, Descriptor, Page, PutDescriptor};

use super::body::LongJson;
use super::problem::Failed;
use super::request::{Asked, ByName, Expected, In, Named, page_limit};
use crate::Endpoints;

pub(crate) async fn list(
    State(endpoints): State<Endpoints>,
    In(namespace): In,
    Asked(listing): Asked<ByName>,
) -> Result<Json<Page<Descriptor>>, Failed> {
    let limit = page_limit(listing.limit)?;
    let found = endpoints.handle.descriptors(&namespace, listing.after.as_ref(), limit + 1).await?;
    let page = Page::cut(found, limit, |about| about.name.to_string());
    Ok(Json(Page { items: page.items.into_iter().map(Descriptor::from).collect(), next: page.next }))
}

pub(crate) async fn put(
    State(endpoints): State<Endpoints>,
    Named { namespace, name }: Named,
    Expected(expect): Expected,
    LongJson(body): LongJson<PutDescriptor>,
) -> Result<Response, Failed> {
    let (about, made) = endpoints.handle.put_descriptor(namespace, name, body.set()?, expect).await?;
    let status = if made == Made::Created { StatusCode::CREATED } else { StatusCode::OK };
    let made = [(rest::MADE_HEADER, rest::Made::from(made).as_str())];
    Ok((status, made, tagged(Descriptor::from(about))).into_response())
}

pub(crate) async fn show(
    State(endpoints): State<Endpoints>,
    Named { namespace, name }: Named,
) -> Result<Response, Failed> {
    Ok(tagged(Descriptor::from(endpoints.handle.descriptor(namespace, name).await?)))
}

pub(crate) async fn delete(
    State(endpoints): State<Endpoints>,
    Named { namespace, name }: Named,
    Expected(expect): Expected,
) -> Result<StatusCode, Failed> {
    endpoints.handle.delete_descriptor(namespace, name, expect).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A descriptor set with its version as the ETag that `If-Match` accepts.
fn tagged(descriptor: Descriptor) -> Response {
    let tag = format!("\"{}\"", descriptor.version);
    ([(header::ETAG, tag)], Json(descriptor)).into_response()
}
